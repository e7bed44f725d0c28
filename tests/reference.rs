//! `tpu-parity reference generate|verify` on the pinned CPU plug-in, in a project of its own: what is written, what is
//! found, and what a mistake in a suite or a damaged file looks like.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tpu_parity::case::CaseId;
use tpu_parity::outcome::{Outcome, OutcomeKind, Stage};
use tpu_parity::project::Project as Checkout;
use tpu_parity::reference::{Record, ReferenceStore, StoredTensor};
use tpu_parity::store::{Run, Store};
use tpu_parity::tensor::Tensor;

/// Three cases of two operators: `s/negate/{bf16,i32}/vector` and `s/dot/f32/small`.
const SUITE: &str = r#"
suite = "s"
family = "f"

[[op]]
name = "negate"
t = ["bf16", "i32"]
tolerance = "exact"
program = '''
func.func @main(%x: {{ tensor([3], t) }}) -> {{ tensor([3], t) }} {
  %0 = stablehlo.negate %x : {{ tensor([3], t) }}
  return %0 : {{ tensor([3], t) }}
}
'''
[[op.inputs]]
shape = [3]
[op.variant.vector]

[[op]]
name = "dot"
t = ["f32"]
tolerance = { accumulate = "3", accumulator = "f32" }
program = '''
func.func @main(%x: {{ tensor([3], t) }}, %y: {{ tensor([3], t) }}) -> {{ tensor([], t) }} {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
    : ({{ tensor([3], t) }}, {{ tensor([3], t) }}) -> {{ tensor([], t) }}
  return %0 : {{ tensor([], t) }}
}
'''
[[op.inputs]]
shape = [3]
[[op.inputs]]
shape = [3]
[op.variant.small]
"#;

struct Project {
    dir: tempfile::TempDir,
    plugins: PathBuf,
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    #[track_caller]
    fn expect(self, code: i32, stdout: &str) -> Self {
        let Self {
            code: found,
            stdout: out,
            stderr: err,
        } = &self;
        assert_eq!(*found, Some(code), "{out}{err}");
        assert!(out.contains(stdout), "no '{stdout}' in: {out}{err}");
        self
    }
}

impl Project {
    fn new(suite: &str) -> Self {
        let checkout = Checkout::discover(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("suites/s")).unwrap();
        fs::create_dir_all(dir.path().join("suites/expectations")).unwrap();
        fs::create_dir_all(dir.path().join("ci")).unwrap();
        let pins = checkout.root().join("ci/plugins.toml");
        fs::copy(pins, dir.path().join("ci/plugins.toml")).unwrap();
        let project = Self {
            dir,
            plugins: checkout.plugins(),
        };
        project.write_suite(suite);
        project
    }

    /// With the references of all its cases.
    fn generated(suite: &str) -> Self {
        let project = Self::new(suite);
        project.generate(&[]).expect(0, " new, 0 changed, ");
        project
    }

    fn write_suite(&self, suite: &str) {
        fs::write(self.dir.path().join("suites/s/f.toml"), suite).unwrap();
    }

    fn command(&self, args: &[&str]) -> Said {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env!("CARGO_BIN_EXE_tpu-parity"))
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("TPU_PARITY_STORE")
            .env_remove("TPU_PARITY_TARGET")
            .env("TPU_PARITY_ROOT", self.dir.path())
            .env("TPU_PARITY_PLUGINS", &self.plugins)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Said {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    fn generate(&self, args: &[&str]) -> Said {
        let first = ["reference", "generate", "--jobs", "1"];
        self.command(&[&first[..], args].concat())
    }

    fn verify(&self) -> Said {
        self.command(&["reference", "verify", "--jobs", "1"])
    }

    /// The outcome of each case on `cpu`, in the order of their ids.
    fn outcomes(&self) -> Vec<Outcome> {
        self.command(&["run", "--target", "cpu", "--jobs", "1"]);
        let store = Store::open(self.dir.path().join(".tpu-parity/runs"));
        Run::load(&store.resolve("latest").unwrap())
            .unwrap()
            .outcomes
    }

    fn file(&self, subject: &str) -> PathBuf {
        let name = format!("reference-outputs/s/{subject}.jsonl");
        self.dir.path().join(name)
    }

    fn edit(&self, subject: &str, edit: impl Fn(&str) -> String) {
        let before = fs::read_to_string(self.file(subject)).unwrap();
        let after = edit(&before);
        assert_ne!(before, after, "the edit changes nothing");
        fs::write(self.file(subject), after).unwrap();
    }

    fn store(&self) -> ReferenceStore {
        ReferenceStore::open(&self.dir.path().join("reference-outputs")).unwrap()
    }

    /// Changes one record as a wrong computation would have: its hashes are right.
    fn rewrite(&self, id: &str, edit: impl Fn(&mut Record)) {
        let mut store = self.store();
        let id: CaseId = id.parse().unwrap();
        let mut record = store.record(&id).unwrap().clone();
        edit(&mut record);
        store.insert(record);
        store.save().unwrap();
    }
}

fn doubled(stored: &StoredTensor) -> StoredTensor {
    let tensor = stored.decode().unwrap();
    let values: Vec<f64> = tensor.to_f64().iter().map(|x| 2.0 * x).collect();
    let shape = tensor.shape().to_vec();
    StoredTensor::encode(&Tensor::from_f64(tensor.element_type(), shape, &values).unwrap())
}

fn kinds(outcomes: &[Outcome]) -> Vec<(&str, OutcomeKind)> {
    outcomes
        .iter()
        .map(|o| (o.case.as_str(), o.outcome))
        .collect()
}

#[test]
fn what_is_generated_verifies_and_stays() {
    let project = Project::new(SUITE);
    project
        .generate(&[])
        .expect(0, "3 references: 3 new, 0 changed, 0 unchanged");
    project
        .verify()
        .expect(0, "3 references: 3 identical, 0 within");
    let outcomes = project.outcomes();
    assert!(
        outcomes.iter().all(|o| o.outcome == OutcomeKind::Pass),
        "{outcomes:?}"
    );
    let texts = || ["negate", "dot"].map(|s| fs::read_to_string(project.file(s)).unwrap());
    let before = texts();
    project
        .generate(&[])
        .expect(0, "3 references: 0 new, 0 changed, 3 unchanged");
    assert_eq!(before, texts());
}

#[test]
fn an_edited_program_makes_its_references_stale_and_they_are_not_compared() {
    let project = Project::generated(SUITE);
    // Without the minus: had it been compared, it would have failed.
    project.write_suite(&SUITE.replace("stablehlo.negate", "stablehlo.abs"));
    let said = project.verify().expect(1, "3 references: 1 identical");
    for id in ["s/negate/bf16/vector", "s/negate/i32/vector"] {
        let line = format!(
            "{id}: stale reference: the program has changed; run `tpu-parity reference generate '{id}'`\n"
        );
        assert!(said.stdout.contains(&line), "{}", said.stdout);
    }
    let outcomes = project.outcomes();
    use OutcomeKind::{Pass, Skipped};
    assert_eq!(
        kinds(&outcomes),
        [
            ("s/dot/f32/small", Pass),
            ("s/negate/bf16/vector", Skipped),
            ("s/negate/i32/vector", Skipped),
        ]
    );
    assert_eq!(outcomes[1].stage, Stage::Compare);
    assert!(outcomes[1].metrics.comparisons.is_empty());
    let message = outcomes[1].message.as_deref().unwrap();
    assert!(
        message.starts_with("stale reference: the program has changed; "),
        "{message}"
    );

    project.generate(&["s/negate/**"]).expect(0, "2 changed");
    project.verify().expect(0, "3 identical");
}

#[test]
fn a_changed_digit_is_found() {
    let project = Project::generated(SUITE);
    project.edit("dot", |text| {
        let at = text.find("\"numbers\":[").unwrap() + 12;
        let digit = text[at..].find(|c: char| c.is_ascii_digit()).unwrap() + at;
        let other = if &text[digit..=digit] == "7" {
            "8"
        } else {
            "7"
        };
        format!("{}{other}{}", &text[..digit], &text[digit + 1..])
    });
    project.verify().expect(
        1,
        "s/dot/f32/small: damaged reference: reference-outputs/s/dot.jsonl:1: its values do not match the hash",
    );
    assert_eq!(project.outcomes()[0].outcome, OutcomeKind::Skipped);
}

#[test]
fn a_truncated_file_costs_one_case_and_the_remedy_works() {
    let project = Project::generated(SUITE);
    let whole = fs::read_to_string(project.file("negate")).unwrap();
    project.edit("negate", |text| text[..text.len() - 60].to_owned());
    let said = project.verify().expect(1, "3 references: 2 identical");
    let line = said.stdout.lines().next().unwrap();
    assert!(
        line.starts_with(
            "s/negate/i32/vector: damaged reference: reference-outputs/s/negate.jsonl:2: EOF"
        ),
        "{line}"
    );
    let outcomes = project.outcomes();
    use OutcomeKind::{Pass, Skipped};
    let found: Vec<_> = outcomes.iter().map(|o| o.outcome).collect();
    assert_eq!(found, [Pass, Pass, Skipped]);
    let message = outcomes[2].message.as_deref().unwrap();
    assert!(
        message.contains("reference-outputs/s/negate.jsonl:2: "),
        "{message}"
    );

    // The remedy as it was named.
    let (_, remedy) = message.split_once("run `tpu-parity ").unwrap();
    let words: Vec<&str> = remedy.trim_end_matches('`').split(' ').collect();
    let words: Vec<&str> = words.iter().map(|word| word.trim_matches('\'')).collect();
    project.command(&words).expect(0, "1 changed");
    assert_eq!(
        fs::read_to_string(project.file("negate")).unwrap(),
        whole,
        "all of it but the date"
    );
    project.verify().expect(0, "3 identical");
}

#[test]
fn a_reference_of_another_program_is_stale() {
    let project = Project::generated(SUITE);
    project.rewrite("s/negate/i32/vector", |record| {
        record.provenance.program = blake3::hash(b"another").to_hex().to_string();
    });
    project.verify().expect(
        1,
        "s/negate/i32/vector: stale reference: the program has changed",
    );
}

#[test]
fn a_wrong_result_scale_or_element_type_in_the_store_is_found() {
    let project = Project::generated(SUITE);
    project.rewrite("s/negate/bf16/vector", |record| {
        record.outputs[0].values = doubled(&record.outputs[0].values);
    });
    let said = project.verify().expect(
        1,
        "s/negate/bf16/vector: result 0: 3 of 3 elements differ, first at [0]: ",
    );
    assert!(said.stdout.contains("2 identical"), "{}", said.stdout);
    project.generate(&[]).expect(0, "1 changed, 2 unchanged");

    project.rewrite("s/dot/f32/small", |record| {
        let scale = record.outputs[0].scale.as_ref().unwrap();
        record.outputs[0].scale = Some(doubled(scale));
    });
    project.verify().expect(
        1,
        "s/dot/f32/small: result 0: the scale differs, first at element 0: ",
    );
    project.generate(&[]).expect(0, "1 changed, 2 unchanged");

    project.rewrite("s/negate/bf16/vector", |record| {
        record.outputs[0].element_type = "f16".parse().unwrap();
    });
    project.verify().expect(
        1,
        "s/negate/bf16/vector: result 0: the case's own element type is bf16 now, f16 stored",
    );
}

#[test]
fn references_of_cases_that_are_gone_go() {
    let project = Project::generated(SUITE);
    let (negate, _) = SUITE.split_at(SUITE.rfind("[[op]]").unwrap());
    project.write_suite(negate);
    project.generate(&[]).expect(
        0,
        "2 references: 0 new, 0 changed, 2 unchanged, 0 kept that could not be computed again; 1 of cases that are gone",
    );
    assert!(!project.file("dot").exists() && project.file("negate").exists());
}

#[test]
fn a_reference_outlives_a_timeout_and_is_not_lost_in_silence() {
    let project = Project::generated(SUITE);
    let whole = fs::read_to_string(project.file("negate")).unwrap();
    project
        .generate(&["s/negate/**", "--timeout", "0.000001"])
        .expect(1, "reference kept  s/negate/bf16/vector  ");
    assert_eq!(fs::read_to_string(project.file("negate")).unwrap(), whole);

    let zero = project.generate(&["--timeout", "0"]).expect(2, "");
    assert!(
        zero.stderr.contains("not a number of seconds above 0"),
        "{}",
        zero.stderr
    );
}

/// cbrt of a complex number parses, and XLA does not take it.
fn with_complex_cbrt() -> String {
    let (negate, _) = SUITE.split_at(SUITE.rfind("[[op]]").unwrap());
    let cbrt = negate
        .replace("suite = \"s\"\nfamily = \"f\"\n", "")
        .replace("\"negate\"", "\"cbrt\"")
        .replace("stablehlo.negate", "stablehlo.cbrt")
        .replace("\"bf16\", \"i32\"", "\"c64\"");
    format!("{negate}\n{cbrt}")
}

#[test]
fn a_case_without_a_reference_is_unexpected_unless_it_is_a_known_failure() {
    let project = Project::new(&with_complex_cbrt());
    project
        .generate(&[])
        .expect(
            1,
            "no reference  s/cbrt/c64/vector  error at compile: PJRT_Client_Compile: ",
        )
        .expect(1, "2 references: 2 new");
    project
        .verify()
        .expect(1, "s/cbrt/c64/vector: no reference");
    fs::write(
        project.dir.path().join("suites/expectations/cpu.toml"),
        "[[expect]]\ncases = \"s/cbrt/**\"\ntargets = \"cpu\"\noutcome = \"error\"\nreason = \"floats only\"\nsince = \"2026-11-30\"\n",
    )
    .unwrap();
    project.generate(&[]).expect(
        0,
        "no reference, as known  s/cbrt/c64/vector  error at compile: ",
    );
    project.verify().expect(0, "; 1 known to have none");
}

#[test]
fn a_reference_that_cannot_be_computed_for_the_new_program_is_lost_and_said_to_be() {
    let complex = with_complex_cbrt();
    let project = Project::generated(&complex.replace("stablehlo.cbrt", "stablehlo.negate"));
    project.write_suite(&complex);
    let said = project.generate(&[]).expect(
        1,
        "reference lost  s/cbrt/c64/vector  error at compile: PJRT_Client_Compile: ",
    );
    assert!(
        said.stdout
            .contains("1 cases without one, of which 1 had one"),
        "{}",
        said.stdout
    );
    assert!(!project.file("cbrt").exists());
}

#[test]
fn a_mistake_in_a_template_costs_no_reference() {
    let project = Project::generated(SUITE);
    let whole = fs::read_to_string(project.file("negate")).unwrap();
    project.write_suite(&SUITE.replace("stablehlo.negate", "stablehlo.negatee"));
    let said = project.generate(&[]).expect(2, "1 unchanged");
    assert!(
        said.stderr.starts_with("error: suites/s/f.toml:17: case s/negate/bf16/vector: the program is not valid StableHLO: ")
            && said.stderr.ends_with("; correct the template (and so 1 more case)\n"),
        "{}",
        said.stderr
    );
    assert_eq!(fs::read_to_string(project.file("negate")).unwrap(), whole);
    project.write_suite(SUITE);
    project.verify().expect(0, "3 identical");
}

#[test]
fn a_template_that_makes_invalid_stablehlo_is_named_with_its_line() {
    for (right, wrong, complaint) in [
        ("%x :", "%x ;", "error: unexpected character"),
        (
            "stablehlo.negate",
            "stablehlo.negatee",
            "error: custom op 'stablehlo.negatee' is unknown",
        ),
        (
            "stablehlo.negate %x",
            "stablehlo.negate %y",
            "error: use of undeclared SSA value name",
        ),
        (
            "stablehlo.negate %x",
            "stablehlo.not %x",
            "error: 'stablehlo.not' op operand #0 must be",
        ),
    ] {
        let project = Project::new(&SUITE.replacen(right, wrong, 1));
        let said = project.generate(&[]).expect(2, " new, ");
        let first = "error: suites/s/f.toml:17: case s/negate/bf16/vector: the program is not valid StableHLO: -:2:";
        let line = said.stderr.lines().next().unwrap();
        assert!(
            line.starts_with(first)
                && line.contains(complaint)
                && line.contains("; correct the template"),
            "{}",
            said.stderr
        );
        // What can be computed is there all the same.
        assert!(project.file("dot").exists());
        let outcomes = project.outcomes();
        let negated = &outcomes[1];
        assert_eq!(
            (negated.outcome, negated.stage),
            (OutcomeKind::Error, Stage::Compile)
        );
        let message = negated.message.as_deref().unwrap();
        assert!(
            message.starts_with("suites/s/f.toml:17: PJRT_Client_Compile: "),
            "{message}"
        );
    }
}

/// IEEE 754-2019, 9.6: `maximum` of a NaN and a number is a NaN, and +0 is greater than -0. XLA CPU's default says otherwise.
#[test]
fn the_reference_of_a_maximum_is_that_of_ieee_754() {
    let project = Project::generated(
        r#"
suite = "s"
family = "f"

[[op]]
name = "maximum"
t = ["f32"]
tolerance = "exact"
program = '''
func.func @main(%x: {{ tensor([4], t) }}, %y: {{ tensor([4], t) }}) -> {{ tensor([4], t) }} {
  %0 = stablehlo.maximum %x, %y : {{ tensor([4], t) }}
  return %0 : {{ tensor([4], t) }}
}
'''
[[op.inputs]]
shape = [4]
domain = { values = [nan, 1, -0.0, 0.0] }
[[op.inputs]]
shape = [4]
domain = { values = [1, nan, 0.0, -0.0] }
[op.variant.nans_and_zeros]
"#,
    );
    let store = project.store();
    let id: CaseId = "s/maximum/f32/nans_and_zeros".parse().unwrap();
    let values = store.record(&id).unwrap().outputs[0]
        .values
        .decode()
        .unwrap()
        .to_f64();
    assert!(values[0].is_nan() && values[1].is_nan(), "{values:?}");
    assert_eq!(
        values[2..].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        [0, 0]
    );
}
