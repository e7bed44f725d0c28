//! `tpu-parity exhaustive` as a user meets it: with the plug-in that `ci/setup` installs for `cpu`, and with one that misbehaves
//! (`examples/hostile_plugin.rs`), which gives back its operand and so does what `chlo.conj` asks of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// A project whose only suite holds these operators: name, element types, tolerance, and the line that computes `%0`.
    fn new(operators: &[(&str, &str, &str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("suites/stablehlo")).unwrap();
        fs::create_dir_all(root.join("ci")).unwrap();
        fs::copy(
            Path::new(MANIFEST).join("ci/plugins.toml"),
            root.join("ci/plugins.toml"),
        )
        .unwrap();
        let mut suite = "suite = \"stablehlo\"\nfamily = \"elementwise\"\n".to_owned();
        for (name, types, tolerance, line) in operators {
            suite.push_str(&format!(
                "[[op]]\nname = \"{name}\"\nt = {types}\ntolerance = {tolerance}\nsource = \"rounding\"\nreference = \"native\"\nprogram = '''
func.func @main(%x: {{{{ tensor(shape, t) }}}}) -> {{{{ tensor(shape, t) }}}} {{
  {line}
  return %0 : {{{{ tensor(shape, t) }}}}
}}
'''\ninputs = [{{}}]\n[op.variant.vector]\nshape = [3]\n"
            ));
        }
        fs::write(root.join("suites/stablehlo/elementwise.toml"), suite).unwrap();
        Self { dir }
    }

    fn expect(&self, text: &str) {
        let dir = self.dir.path().join("suites/expectations");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("known.toml"), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let plugins = std::env::var_os("TPU_PARITY_PLUGINS")
            .map_or_else(|| Path::new(MANIFEST).join("plugins"), PathBuf::from);
        Command::new(env!("CARGO_BIN_EXE_tpu-parity"))
            .arg("exhaustive")
            .args(args)
            .current_dir(self.dir.path())
            .env("TPU_PARITY_ROOT", self.dir.path())
            .env("TPU_PARITY_PLUGINS", plugins)
            .output()
            .unwrap()
    }

    /// The exit code, and the rows of the JSON report's first target.
    fn rows(&self, args: &[&str]) -> (i32, Vec<Value>) {
        let file = self.dir.path().join("report.json");
        let mut all = vec!["--json", file.to_str().unwrap()];
        all.extend(args);
        let output = self.run(&all);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(file.is_file(), "{stderr}");
        let report: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let rows = report["targets"][0]["rows"].as_array().unwrap().clone();
        (output.status.code().unwrap(), rows)
    }
}

const LOGISTIC: &str = "%0 = stablehlo.logistic %x : {{ tensor(shape, t) }}";
const TANH: &str = "%0 = stablehlo.tanh %x : {{ tensor(shape, t) }}";
const SMALL: &str = "[\"f8e4m3fn\", \"f8e5m2\"]";

fn hostile(misdeed: &str) -> String {
    format!("// hostile: {misdeed}\n  %0 = chlo.conj %x : {{{{ tensor(shape, t) }}}}")
}

fn hostile_target() -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_tpu-parity"));
    let library = bin.parent().unwrap().join("examples/libhostile_plugin.so");
    assert!(
        library.exists(),
        "cargo build --examples makes {}",
        library.display()
    );
    format!("plugin:{}", library.display())
}

#[test]
fn right_operators_pass_on_all_their_values() {
    let project = Project::new(&[
        ("logistic", SMALL, "{ ulp = 1 }", LOGISTIC),
        ("tanh", SMALL, "{ ulp = 1 }", TANH),
    ]);
    let (code, rows) = project.rows(&[]);
    assert_eq!(code, 0, "{rows:#?}");
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "exhaustive/logistic/f8e4m3fn",
            "exhaustive/logistic/f8e5m2",
            "exhaustive/tanh/f8e4m3fn",
            "exhaustive/tanh/f8e5m2"
        ]
    );
    for row in &rows {
        assert_eq!(row["measure"]["values"], 256);
        // Rounded once from f32, give or take f32's own error.
        assert!(row["worst_ulp"].as_f64().unwrap() < 0.51, "{row:#}");
    }
}

#[test]
fn a_wrong_program_is_caught_and_an_expectation_makes_it_known() {
    let project = Project::new(&[("logistic", SMALL, "{ ulp = 1 }", TANH)]);
    let (code, rows) = project.rows(&["logistic/f8e4m3fn"]);
    assert_eq!((code, rows.len()), (1, 1));
    assert_eq!(rows[0]["outcome"], "fail");
    assert_eq!(rows[0]["verdict"], "new-failure");
    // tanh 0 is 0 where logistic is a half.
    let faults = &rows[0]["measure"]["faults"];
    assert!(
        faults["inaccurate"]["count"].as_u64().unwrap() > 100,
        "{faults:#}"
    );
    let message = rows[0]["message"].as_str().unwrap();
    assert!(message.contains("of 256 values"), "{message}");
    project.expect(
        "[[expect]]\ncases = \"exhaustive/logistic/*\"\ntargets = \"cpu\"\noutcome = \"fail\"\nreason = \"it is tanh\"\nsince = \"2026-11-30\"\n",
    );
    let (code, rows) = project.rows(&["logistic/f8e4m3fn"]);
    assert_eq!((code, &rows[0]["verdict"]), (0, &Value::from("known")));
    assert_eq!(rows[0]["reason"], "it is tanh");
}

#[test]
fn a_plug_in_that_aborts_costs_one_operator() {
    let project = Project::new(&[
        ("chlo.conj", "[\"f32\"]", "\"exact\"", &hostile("")),
        ("real", "[\"f32\"]", "\"exact\"", &hostile("abort-in-run")),
    ]);
    let (code, rows) = project.rows(&["--target", &hostile_target()]);
    assert_eq!(code, 1);
    let outcomes: Vec<_> = rows.iter().map(|row| row["outcome"].clone()).collect();
    assert_eq!(outcomes, ["pass", "crash"], "{rows:#?}");
    assert_eq!(rows[0]["measure"]["values"], 1 << 20);
}

#[test]
fn one_wrong_value_of_a_million_is_caught_and_named() {
    let project = Project::new(&[("chlo.conj", "[\"f32\"]", "\"exact\"", &hostile("wrong"))]);
    let (code, rows) = project.rows(&["--target", &hostile_target()]);
    assert_eq!(
        (
            code,
            rows[0]["measure"]["faults"]["inaccurate"]["count"].as_u64()
        ),
        (1, Some(1)),
        "{rows:#?}"
    );
}

#[test]
fn the_report_for_people_names_operators_and_faults() {
    let project = Project::new(&[("chlo.conj", "[\"f32\"]", "\"exact\"", &hostile("wrong"))]);
    let folder = project.dir.path().join("published");
    let output = project.run(&[
        "--target",
        &hostile_target(),
        "--publish",
        folder.to_str().unwrap(),
    ]);
    let terminal = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        terminal.contains("new-failure fail exhaustive/chlo.conj/f32 (tolerance exact)"),
        "{terminal}"
    );
    let markdown = fs::read_to_string(folder.join("exhaustive.md")).unwrap();
    assert!(
        markdown.contains("| `exhaustive/chlo.conj/f32` | new-failure |"),
        "{markdown}"
    );
}

#[test]
fn wrong_use_is_told() {
    let project = Project::new(&[("logistic", SMALL, "{ ulp = 1 }", LOGISTIC)]);
    for (args, words) in [
        (&["no_such"][..], "'no_such' is no operator"),
        (&["--target", "aot-v6e"][..], "there is nothing to measure"),
    ] {
        let output = project.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}
