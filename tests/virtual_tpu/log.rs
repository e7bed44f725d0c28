//! The compile log of a client.

use tpu_parity::pjrt::{CompileOptions, Program};
use tpu_parity::virtual_tpu::compile_log::{self, LogOutcome};

use crate::common::{affine, client};
use crate::compile::kernel;

#[test]
fn every_compilation_is_a_line_and_other_shapes_are_recompiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compile.jsonl");
    let client = client(&[
        ("compile_log", path.to_str().unwrap()),
        ("numerics", "exact"),
    ]);
    let options = CompileOptions::new();
    for program in [
        affine(8),
        affine(16),
        affine(8),
        kernel(),
        Program::mlir("nonsense"),
    ] {
        let _ = client.compile(&program, &options);
    }
    let log = compile_log::read(&path).unwrap();
    let outcomes: Vec<LogOutcome> = log.records.iter().map(|record| record.outcome).collect();
    assert_eq!(
        outcomes,
        [
            LogOutcome::Compiled,
            LogOutcome::Compiled,
            LogOutcome::Compiled,
            LogOutcome::NotExecutable,
            LogOutcome::Error
        ]
    );
    let first = &log.records[0];
    assert_eq!(first.target, "vtpu-v6e:1x1");
    assert_eq!(first.numerics, "exact");
    assert_eq!(first.function.as_deref(), Some("f"));
    assert_eq!(first.inputs.as_deref(), Some(&["f32[8]".to_owned()][..]));
    assert_eq!(first.program, log.records[2].program);
    assert_ne!(first.program, log.records[1].program);
    assert!(first.total_ms >= first.libtpu_ms.unwrap() + first.cpu_ms.unwrap());
    assert!(first.code_size.unwrap() > 0 && first.estimate.unwrap().seconds.unwrap() > 0.0);
    // Two additions an element.
    assert_eq!(first.flops, Some(16.0));
    // The kernel compiled for the TPU all the same.
    let kernel = &log.records[3];
    assert!(kernel.code_size.unwrap() > 0);
    assert!(kernel.message.as_ref().unwrap().contains("Mosaic kernel"));

    let recompiles = log.recompiles();
    assert_eq!(recompiles.len(), 1);
    assert_eq!(recompiles[0].function, "f");
    assert_eq!(
        (recompiles[0].compilations(), recompiles[0].recompiles()),
        (3, 1)
    );
}
