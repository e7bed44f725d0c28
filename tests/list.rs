//! `tpu-parity list` as a user meets it: what it prints, and exit code 2 with one line for a mistake.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;

const SUITE: &str = r#"
suite = "s"
family = "f"
[[op]]
name = "negate"
t = ["f32", "i32"]
tolerance = "exact"
program = '''
func.func @main(%x: {{ tensor([2], t) }}) -> {{ tensor([2], t) }} {
  %0 = stablehlo.negate %x : {{ tensor([2], t) }}
  return %0 : {{ tensor([2], t) }}
}
'''
[[op.inputs]]
shape = [2]
[op.variant.vector]
"#;

fn list(suite: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("suites/s");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::create_dir_all(root.path().join("ci")).unwrap();
    std::fs::write(dir.join("f.toml"), suite).unwrap();
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/plugins.toml");
    std::fs::copy(pins, root.path().join("ci/plugins.toml")).unwrap();
    Command::cargo_bin("tpu-parity")
        .unwrap()
        .env("TPU_PARITY_ROOT", root.path())
        .arg("list")
        .args(arguments)
        .assert()
}

#[test]
fn ids_are_one_a_line() {
    list(SUITE, &["--format", "ids"])
        .success()
        .stdout("s/negate/f32/vector\ns/negate/i32/vector\n");
    list(SUITE, &["s/**", "--exclude", "**/f32/*", "--format", "ids"])
        .success()
        .stdout("s/negate/i32/vector\n");
}

#[test]
fn json_names_its_schema() {
    list(SUITE, &["--format", "json"])
        .success()
        .stdout(predicate::str::contains(
            "\"schema\": \"tpu-parity/cases/1\"",
        ));
}

#[test]
fn a_glob_that_selects_nothing_is_wrong_use() {
    list(SUITE, &["s/negat/**"])
        .code(2)
        .stderr("error: 's/negat/**' selects no case; `tpu-parity list --format ids` prints the ids there are\n");
}

#[test]
fn a_mistake_in_a_suite_is_wrong_use() {
    list(&SUITE.replace("[[op.inputs]]\nshape = [2]", ""), &[])
        .code(2)
        .stderr(predicate::str::starts_with(
            "error: suites/s/f.toml:4: case s/negate/f32/vector: 0 inputs for a program of 1 parameters; ",
        ))
        .stderr(predicate::str::contains("(and so 1 more case)"));
}
