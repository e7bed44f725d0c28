//! The subcommands that judge runs, from outside: exit codes, one-line errors, files written.

use std::path::Path;

use assert_cmd::Command;
use predicates::str::contains;
use tempfile::TempDir;
use tpu_parity::outcome::OutcomeKind::{self, Error, Fail, Pass};
use tpu_parity::outcome::{Evidence, Metrics, Outcome, Stage};
use tpu_parity::store::{Environment, RunRecord, Store};

const CASES: [&str; 2] = ["stablehlo/add/f32", "stablehlo/dot/s64"];

/// A project without suites, with a store of two runs labelled `good` and `bad`.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scene = Self { dir };
        std::fs::create_dir_all(scene.path("suites/expectations")).unwrap();
        std::fs::create_dir_all(scene.path("ci")).unwrap();
        let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/plugins.toml");
        std::fs::copy(pins, scene.path("ci/plugins.toml")).unwrap();
        scene.add_run("20261129-000000-0001", "good", [Some(Pass), Some(Error)]);
        scene.add_run("20261130-000000-0002", "bad", [Some(Fail), Some(Error)]);
        scene
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn add_run(&self, id: &str, label: &str, outcomes: [Option<OutcomeKind>; 2]) {
        let target = "aot-v6e".parse().unwrap();
        let select = vec!["**".to_owned()];
        let mut record = RunRecord::new(Environment::here(), vec![target], select);
        record.id = id.to_owned();
        record.label = Some(label.to_owned());
        let planned: Vec<_> = CASES.iter().map(|case| case.parse().unwrap()).collect();
        let writer = Store::open(self.path("store"))
            .create(record, &planned)
            .unwrap();
        for (case, outcome) in planned.into_iter().zip(outcomes) {
            let Some(outcome) = outcome else { continue };
            let line = Outcome {
                case,
                target: "aot-v6e".to_owned(),
                evidence: Evidence::Compile,
                outcome,
                stage: Stage::Compile,
                message: (outcome != Pass).then(|| "a message".to_owned()),
                code: None,
                metrics: Metrics::default(),
                attempts: vec![outcome],
            };
            writer.journal().append(&line).unwrap();
        }
        if outcomes.iter().all(Option::is_some) {
            writer.seal().unwrap();
        }
    }

    fn expect(&self, text: &str) {
        std::fs::write(self.path("suites/expectations/aot.toml"), text).unwrap();
    }

    fn tool(&self, arguments: &str) -> assert_cmd::assert::Assert {
        let mut command = Command::cargo_bin("tpu-parity").unwrap();
        command
            .env("TPU_PARITY_ROOT", self.dir.path())
            .env("TPU_PARITY_STORE", self.path("store"))
            .env_remove("NO_COLOR")
            .current_dir(self.dir.path())
            .args(arguments.split_whitespace())
            .assert()
    }
}

const DOT: &str = "[[expect]]\ncases = \"stablehlo/dot/**\"\ntargets = \"aot-*\"\noutcome = \"error\"\n\
                   reason = \"s64 is refused\"\nsince = \"2026-11-30\"\n";

#[test]
fn the_gate_fails_on_what_got_worse() {
    let scene = Scene::new();
    scene
        .tool("gate --baseline good --run bad")
        .code(1)
        .stdout(contains(
            "regressed (1):\n  stablehlo/add/f32 [fail] on aot-v6e (evidence: compile)",
        ))
        .stdout(contains("gate FAILED"));
    scene
        .tool("gate --baseline good --run good --strict")
        .code(0)
        .stdout(contains("strict gate passed"));
    scene
        .tool("gate --run good")
        .code(1)
        .stdout(contains("new-failure (1)"));
    scene.expect(DOT);
    scene.tool("gate --run good").code(0);
    // The scene's suites have no such case: the entry is unused.
    scene
        .tool("gate --run good --strict")
        .code(1)
        .stdout(contains("unused: `stablehlo/dot/**` matches no case"));
}

#[test]
fn a_fixed_case_fails_a_strict_gate_only() {
    let scene = Scene::new();
    scene.expect(&DOT.replace("dot", "*"));
    scene
        .tool("gate --baseline good --run good")
        .code(0)
        .stdout(contains("1 case passed against an expectation"));
    scene
        .tool("gate --baseline good --run good --strict")
        .code(1)
        .stdout(contains("fixed (1)"));
}

#[test]
fn a_missing_case_fails_the_gate() {
    let scene = Scene::new();
    scene.add_run("20261130-000000-0003", "cut", [Some(Pass), None]);
    scene
        .tool("gate --baseline good --run cut")
        .code(1)
        .stdout(contains("missing (1)"));
}

#[test]
fn a_run_that_is_not_there_is_wrong_use() {
    let scene = Scene::new();
    for arguments in [
        "gate --baseline none --run bad",
        "gate --baseline good --run none",
        "diff none bad",
        "report none",
        "report latest~7",
        "issues status --run none",
    ] {
        let output = scene.tool(arguments).code(2).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: there is no run '") && stderr.lines().count() == 1,
            "{stderr}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn bad_expectations_and_issues_name_file_and_line() {
    let scene = Scene::new();
    for (text, message) in [
        (
            DOT.replace("error", "eror"),
            "aot.toml:4: there is no outcome \"eror\"",
        ),
        (
            DOT.replace("since", "sinse"),
            "aot.toml:6: unknown field `sinse`",
        ),
        (
            format!("{DOT}issue = \"a/b#1\"\n"),
            "aot.toml:1: issue a/b#1 is not in the ledger",
        ),
    ] {
        scene.expect(&text);
        for arguments in ["gate --run bad", "report bad", "issues status"] {
            let output = scene.tool(arguments).code(2).get_output().clone();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(
                stderr.contains(message) && stderr.lines().count() == 1,
                "{stderr}"
            );
        }
    }
    scene.expect("");
    std::fs::write(
        scene.path("suites/expectations/issues.toml"),
        "[[issue]]\nnumber = 1\n",
    )
    .unwrap();
    scene
        .tool("issues status")
        .code(2)
        .stderr(contains("issues.toml:1: missing field `repository`"));
}

#[test]
fn diff_shows_what_changed() {
    let scene = Scene::new();
    scene
        .tool("diff good bad")
        .code(0)
        .stdout(contains("aot-v6e — evidence: compile\n  newly failing (1)\n    stablehlo/add/f32: pass → fail: a message"));
    scene
        .tool("diff good good")
        .code(0)
        .stdout(contains("no difference"));
    let json = scene
        .tool("diff good bad --format json")
        .code(0)
        .get_output()
        .stdout
        .clone();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["targets"][0]["newly_failing"][0]["case"], CASES[0]);
}

#[test]
fn reports_go_to_standard_output_a_file_or_a_folder() {
    let scene = Scene::new();
    let plain = scene
        .tool("report good")
        .code(0)
        .get_output()
        .stdout
        .clone();
    assert!(
        !plain.contains(&0x1b),
        "no colours where there is no terminal"
    );
    scene
        .tool("report good bad --format markdown --out deep/er/r.md")
        .code(0)
        .stdout("");
    let markdown = std::fs::read_to_string(scene.path("deep/er/r.md")).unwrap();
    assert_eq!(markdown.matches("# Compatibility report").count(), 2);
    scene
        .tool("report good bad --format json")
        .code(2)
        .stderr(contains("--format json takes one run"));
    scene
        .tool("report --format pdf")
        .code(2)
        .stderr(contains("terminal, markdown, junit, json"));
    scene.tool("report bad --publish reports").code(0);
    for file in [
        "latest/report.md",
        "latest/report.json",
        "latest/junit.xml",
        "history.json",
    ] {
        assert!(scene.path("reports").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure_of_the_harness() {
    let scene = Scene::new();
    std::fs::write(scene.path("file"), "").unwrap();
    for arguments in [
        "report good --out file/r.md",
        "report good --publish file/reports",
    ] {
        let output = scene.tool(arguments).code(3).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: cannot write ") && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}

#[test]
fn issues_status_has_the_announcements_headline() {
    let scene = Scene::new();
    scene.expect(DOT);
    scene
        .tool("issues status --run good")
        .code(0)
        .stdout(contains("aot-v6e — evidence: compile\n  50.0% of the 2 tests that run pass; 0 issues reported, 0 fixed"))
        .stdout(contains("so are untracked: 1"));
    let json = scene
        .tool("issues status --format json")
        .code(0)
        .get_output()
        .stdout
        .clone();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["schema"], "tpu-parity/issues/1");
    assert_eq!(value["untracked"][0]["blocks"][0]["cases"][0], CASES[1]);
}
