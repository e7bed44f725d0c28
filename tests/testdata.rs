//! `--suite stablehlo-testdata:DIR` as a user meets it: every file ends with an outcome, whatever is in it, and a directory that
//! cannot serve is exit code 2 with the remedy. The files are this project's own, in the form of openxla/stablehlo's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tpu_parity::outcome::{OutcomeKind, Stage};
use tpu_parity::store::{Run, Store};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn suite() -> String {
    format!("stablehlo-testdata:{}", testdata().display())
}

fn testdata() -> PathBuf {
    root().join("tests/data/testdata")
}

fn tpu_parity(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tpu-parity"))
        .args(arguments)
        .env("TPU_PARITY_ROOT", root())
        .env_remove("TPU_PARITY_TARGET")
        .output()
        .unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = tpu_parity(arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in parts {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn list_names_a_case_for_every_file_and_every_test_in_it() {
    let output = tpu_parity(&["list", "--suite", &suite(), "--format", "ids"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "stablehlo-testdata/cut_off/float32_2\n\
         stablehlo-testdata/abs/dynamic/dynamic\n\
         stablehlo-testdata/multiply/float32_2_3_float32_2_3\n\
         stablehlo-testdata/negate/int32_2\n\
         stablehlo-testdata/subtract/quantized/qi8/subtract_i8\n\
         stablehlo-testdata/subtract/quantized/qi8/subtract_bf16\n"
    );
}

#[test]
fn every_file_ends_with_an_outcome_on_cpu() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().to_str().unwrap();
    let output = tpu_parity(&[
        "run",
        "--suite",
        &suite(),
        "--target",
        "cpu",
        "--store",
        path,
    ]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let store = Store::open(store.path());
    let run = Run::load(&store.resolve("latest").unwrap()).unwrap();
    assert_eq!(run.record.suites, [suite()]);
    let mut outcomes: Vec<_> = run
        .outcomes
        .iter()
        .map(|o| (o.case.as_str(), o.outcome, o.stage))
        .collect();
    outcomes.sort();
    use OutcomeKind::{Error, Fail, Pass};
    assert_eq!(
        outcomes,
        [
            (
                "stablehlo-testdata/abs/dynamic/dynamic",
                Error,
                Stage::Compile
            ),
            ("stablehlo-testdata/cut_off/float32_2", Error, Stage::Load),
            (
                "stablehlo-testdata/multiply/float32_2_3_float32_2_3",
                Pass,
                Stage::Compare
            ),
            ("stablehlo-testdata/negate/int32_2", Fail, Stage::Compare),
            (
                "stablehlo-testdata/subtract/quantized/qi8/subtract_bf16",
                Pass,
                Stage::Compare
            ),
            (
                "stablehlo-testdata/subtract/quantized/qi8/subtract_i8",
                Pass,
                Stage::Compare
            ),
        ]
    );
    let message = |case: &str| {
        let outcome = run.outcomes.iter().find(|o| o.case.as_str() == case);
        outcome.unwrap().message.clone().unwrap()
    };
    assert!(message("stablehlo-testdata/negate/int32_2").contains("first at [1]: 6, expected -6"));
    let cut = message("stablehlo-testdata/cut_off/float32_2");
    assert!(
        cut.contains("cut_off_float32_2.mlir:1: ") && cut.contains("do not close"),
        "{cut}"
    );
}

#[test]
fn a_suite_of_the_project_is_named_by_itself() {
    let output = tpu_parity(&[
        "list",
        "stablehlo/abs/f32/*",
        "--suite",
        "stablehlo",
        "--format",
        "ids",
    ]);
    let ids = String::from_utf8(output.stdout).unwrap();
    assert!(
        ids.lines().count() > 0 && ids.lines().all(|id| id.starts_with("stablehlo/abs/f32/")),
        "{ids}"
    );
}

#[test]
fn what_names_no_suite_is_wrong_use() {
    let empty = tempfile::tempdir().unwrap();
    let dir = |path: &Path| format!("stablehlo-testdata:{}", path.display());
    let list = |suite: &str, parts: &[&str]| refused(&["list", "--suite", suite], parts);
    list(
        &dir(empty.path()),
        &["holds no .mlir file", "checkout of openxla/stablehlo"],
    );
    list(
        &dir(&empty.path().join("gone")),
        &["cannot read", "checkout of openxla/stablehlo"],
    );
    list("onnx:tests", &["'onnx'", "stablehlo-testdata:DIR"]);
    list("stablehlo-testdata", &["stablehlo-testdata:DIR"]);
    list("stablehlo-testdata:", &["stablehlo-testdata:DIR"]);
    list("stablehol", &["no suite 'stablehol'", "stablehlo"]);
    let twice = dir(&testdata().join("../testdata"));
    refused(
        &["list", "--suite", &suite(), "--suite", &twice],
        &["is in two of the suites"],
    );
    refused(
        &["run", "--resume", "latest", "--suite", "stablehlo"],
        &["cannot be used with"],
    );
}
