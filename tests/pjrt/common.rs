use std::path::Path;
use std::process::Command;

use tpu_parity::pjrt::{Client, NamedValue, Plugin};
use tpu_parity::project::{Project, ResolvedPlugin};
use tpu_parity::target::Target;

pub fn project() -> Project {
    Project::discover(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the project's own root")
}

/// A pinned plug-in; the error of one that is missing names `ci/setup`.
pub fn resolve(name: &str) -> ResolvedPlugin {
    match project().resolve(&Target::Plugin(name.to_owned())) {
        Ok(resolved) => resolved,
        Err(error) => panic!("{error}"),
    }
}

pub fn load(name: &str) -> Plugin {
    Plugin::load(&resolve(name).path).unwrap()
}

/// A client of two devices.
pub fn client(name: &str) -> Client {
    load(name)
        .create_client(&[NamedValue::new("cpu_device_count", 2i64)])
        .unwrap()
}

/// Runs `body` in a child whose environment is libtpu's on a machine without a TPU. `test` is the name of the calling
/// test, as libtest prints it.
pub fn in_child(test: &str, body: fn()) {
    const CHILD: &str = "TPU_PARITY_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("TPU_SKIP_MDS_QUERY", "1")
        .env("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{}\n{stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
