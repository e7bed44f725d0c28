//! `tpu-parity show` as a user runs it; no plug-in is loaded.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

fn show(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("tpu-parity").unwrap();
    command
        .arg("show")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("TPU_PARITY_ROOT");
    command
}

#[test]
fn a_case_is_shown_without_any_run() {
    let store = tempfile::tempdir().unwrap();
    show(&["stablehlo/dot_general/f32/matmul/default"])
        .env("TPU_PARITY_STORE", store.path())
        .assert()
        .success()
        .stdout(contains("declared at suites/stablehlo/contraction.toml:"))
        .stdout(contains("\"stablehlo.dot_general\""))
        .stdout(contains("\ninputs\n  0: f32["))
        .stdout(contains("\nreference, computed by xla-cpu "))
        .stdout(contains("products in f32, matrix unit at default"))
        .stdout(contains("\nrun ").not());
}

#[test]
fn a_case_that_is_not_there_names_its_neighbours() {
    show(&["stablehlo/add/f32/vectors"])
        .assert()
        .code(2)
        .stderr(contains(
            "no case 'stablehlo/add/f32/vectors'; there are stablehlo/add/",
        ));
    show(&["nothing"])
        .assert()
        .code(2)
        .stderr(contains("tpu-parity list"));
    show(&[]).assert().code(2).stderr(contains("<CASE>"));
}

#[test]
fn a_compile_log_becomes_a_table_of_recompiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let line = |shape: &str, ms: f64| {
        serde_json::json!({
            "schema": "tpu-parity/compile/1", "time": "2026-11-30T12:00:00Z", "process": 1,
            "target": "vtpu-v6e:1x1", "numerics": "mxu", "program": "00", "function": "jit_step",
            "caller": "train.py:12", "inputs": [shape], "replicas": 1, "partitions": 1,
            "outcome": "compiled", "total_ms": ms,
        })
    };
    let text = format!("{}\n{}\n", line("f32[8]", 1000.0), line("f32[16]", 2000.0));
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    show(&["--compile-log", path])
        .assert()
        .success()
        .stdout(contains("jit_step at train.py:12"))
        .stdout(contains("f32[16]"))
        .stdout(contains("2.00 s"));
    std::fs::write(path, "nonsense\n").unwrap();
    show(&["--compile-log", path])
        .assert()
        .code(2)
        .stderr(contains("log.jsonl:1:"));
}
