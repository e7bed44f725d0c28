//! The same over the older XLA CPU plug-ins, whose tables are shorter.

use std::path::Path;

use tpu_parity::pjrt::CompileOptions;
use tpu_parity::project::Project;
use tpu_parity::target::Target;

use crate::common::{affine, client, in_child, plugin, run};
use crate::f32::{as_f32s, f32s};

fn over(name: &str, test: &str, body: fn()) {
    let project = Project::discover(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let resolved = project.resolve(&Target::Plugin(name.to_owned())).unwrap();
    in_child(test, &[("TPU_PARITY_CPU_PLUGIN", &resolved.path)], body);
}

fn compiles_runs_and_serializes() {
    let client = client(&[]);
    assert_eq!(client.platform_name().unwrap(), "tpu");
    let executable = client.compile(&affine(4), &CompileOptions::new()).unwrap();
    let input = f32s(&[4], &[1.0; 4]);
    assert_eq!(
        as_f32s(&run(&client, &executable, std::slice::from_ref(&input))[0]),
        [3.0; 4]
    );
    let serialized = executable.executable().unwrap().serialize().unwrap();
    let again = client.deserialize(&serialized).unwrap();
    assert_eq!(as_f32s(&run(&client, &again, &[input])[0]), [3.0; 4]);
    let memory = executable.executable().unwrap().memory_stats().unwrap();
    assert_eq!(memory["argument"], 512);
}

#[test]
fn over_xla_cpu_0_106() {
    over("xla-cpu-0.106", "older::over_xla_cpu_0_106", || {
        assert_eq!(plugin().api_version(), (0, 106));
        compiles_runs_and_serializes();
    });
}

#[test]
fn over_xla_cpu_0_81() {
    over("xla-cpu-0.81", "older::over_xla_cpu_0_81", || {
        assert_eq!(plugin().api_version(), (0, 81));
        compiles_runs_and_serializes();
    });
}
