//! `tpu-parity power` as a user meets it, with the plug-in that `ci/setup` installs for `cpu`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

fn power(args: &[&str]) -> Output {
    let plugins = std::env::var_os("TPU_PARITY_PLUGINS")
        .map_or_else(|| Path::new(MANIFEST).join("plugins"), PathBuf::from);
    Command::new(env!("CARGO_BIN_EXE_tpu-parity"))
        .arg("power")
        .args(args)
        .current_dir(MANIFEST)
        .env("TPU_PARITY_PLUGINS", plugins)
        .output()
        .unwrap()
}

/// A dot product of 16 terms at highest precision, and a sum of 16: each loses a term and is summed in bf16, and all is caught.
#[test]
fn faults_in_sums_are_injected_and_caught() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("power.md");
    let output = power(&[
        "stablehlo/dot_general/f32/matmul/highest",
        "stablehlo/reduce/add/f32/rows",
        "--output",
        file.to_str().unwrap(),
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let report = std::fs::read_to_string(file).unwrap();
    for wanted in [
        "## cpu — evidence: hardware\n",
        "2 of 2 cases pass, with 2 results",
        // One fault in each of the two results.
        "| accumulated in bf16 | 2 | 2 | 0 | 100.00% | 0 (0.00%) |",
        // Four draws in each.
        "| one term of the sums dropped | 8 | 8 | 0 | 100.00% | 0 (0.00%) |",
        "| axes swapped | 1 | 1 | 0 | 100.00% | 0 (0.00%) | 100.00% | 0.00% |",
    ] {
        assert!(report.contains(wanted), "{wanted:?} is not in\n{report}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("cpu — evidence: hardware: 2 results of 2 passing cases\n"),
        "{text}"
    );
}

#[test]
fn a_target_that_runs_nothing_is_wrong_use() {
    let output = power(&["stablehlo/add/f32/vector", "--target", "aot-v6e"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("aot-v6e runs no programs"));
}
