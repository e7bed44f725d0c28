//! `cargo test --test conformance` as a user meets it: real suites, the real CPU plug-in, and cargo-nextest where it is
//! installed.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

const PASSING: [&str; 2] = ["stablehlo/add/f32/vector", "stablehlo/add/i32/vector"];

/// An exact entry of `suites/expectations/cpu.toml`.
const KNOWN: &str = "stablehlo/rng/uniform/u8/bounds";

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("TPU_PARITY_TARGET")
        .env_remove("TPU_PARITY_ROOT");
    command
}

/// The options with which this test itself was built: with others cargo would build everything again.
fn profile() -> &'static [&'static str] {
    if cfg!(debug_assertions) {
        &["--locked"]
    } else {
        &["--locked", "--release"]
    }
}

/// What `cargo test --test conformance` runs, as cargo names it.
fn conformance() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let output = cargo()
            .args([
                "test",
                "--test",
                "conformance",
                "--no-run",
                "--message-format=json",
            ])
            .args(profile())
            .output()
            .unwrap();
        let messages = String::from_utf8(output.stdout).unwrap();
        messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["target"]["name"] == "conformance")
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    });
    let mut command = Command::new(program);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("TPU_PARITY_TARGET")
        .env_remove("TPU_PARITY_ROOT")
        .env("NO_COLOR", "1");
    command
}

fn run(args: &[&str]) -> (Output, String) {
    let output = conformance().args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn a_listing_has_each_case_with_its_target() {
    let (output, text) = run(&["--list", "--format", "terse"]);
    assert!(output.status.success());
    assert!(text.lines().count() > 1500);
    for id in [PASSING[0], KNOWN] {
        let line = format!("[cpu] {id}: test");
        assert_eq!(text.lines().filter(|l| *l == line).count(), 1, "{line}");
    }
    let (_, ignored) = run(&["--list", "--format", "terse", "--ignored"]);
    assert!(ignored.contains(KNOWN) && !ignored.contains(PASSING[0]));
}

#[test]
fn filters_and_exact_names_choose_cases() {
    let (output, text) = run(&["stablehlo/add/f32/"]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(PASSING[0]) && !text.contains(PASSING[1]));
    for name in [PASSING[0].to_owned(), format!("[cpu] {}", PASSING[0])] {
        let (output, text) = run(&["--exact", &name]);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("1 passed; 0 failed; 0 ignored"), "{text}");
    }
    let (_, text) = run(&["--exact", "stablehlo/add"]);
    assert!(text.contains("running 0 tests"), "{text}");
}

#[test]
fn a_known_failure_is_ignored_and_run_on_demand_only() {
    let (output, text) = run(&[KNOWN]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("0 passed; 0 failed; 1 ignored"), "{text}");
    assert!(!text.contains("known crash"), "it was not run\n{text}");
    let (output, text) = run(&["--ignored", KNOWN]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("0 passed; 0 failed; 1 ignored"), "{text}");
    assert!(
        text.contains("known crash: rng uniform on u8 aborts the process"),
        "{text}"
    );
}

#[test]
fn an_unknown_target_is_one_line() {
    let output = conformance()
        .env("TPU_PARITY_TARGET", "nonsense")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("error: TPU_PARITY_TARGET: ") && stderr.contains("nonsense"),
        "{stderr}"
    );
}

#[test]
fn a_missing_plugin_fails_each_case_and_names_the_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let output = conformance()
        .env("TPU_PARITY_PLUGINS", empty.path())
        .env_remove("TPU_PARITY_CPU_PLUGIN")
        .arg("stablehlo/add/f32/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(text.contains("ci/setup"), "{text}");
    assert!(text.contains(" 0 passed"), "{text}");
}

#[test]
fn nextest_runs_cases_as_tests_of_their_own() {
    let installed = cargo().args(["nextest", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        println!("not tested: cargo-nextest is not installed");
        return;
    }
    let filter = PASSING.map(|id| format!("test(=[cpu] {id})"));
    let output = cargo()
        .args(["nextest", "run", "--color=never", "--test", "conformance"])
        .args(profile())
        .args(["-E", &filter.join(" | ")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("2 tests run: 2 passed"), "{text}");
    for id in PASSING {
        let line = text.lines().find(|l| l.contains("PASS") && l.contains(id));
        assert!(line.is_some(), "{id}\n{text}");
    }
}
