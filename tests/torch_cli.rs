//! `tpu-parity run --suite torch` against a package that speaks the protocol without PyTorch, and dies, hangs and lies
//! (`tests/data/fake_torch/`): each misdeed costs its own case, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tpu_parity::outcome::{Outcome, OutcomeKind, Stage};
use tpu_parity::store::{Run, Store};

const BIN: &str = env!("CARGO_BIN_EXE_tpu-parity");
const PACKAGE: &str = "suites/torch/tpu_parity_torch";

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["ci", PACKAGE] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let copies = [
            ("ci/plugins.toml", "ci/plugins.toml"),
            (
                "tests/data/fake_torch/__main__.py",
                "suites/torch/tpu_parity_torch/__main__.py",
            ),
        ];
        for (from, to) in copies {
            fs::copy(own.join(from), root.join(to)).unwrap();
        }
        Self { dir }
    }

    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Output {
        Command::new(BIN)
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("TPU_PARITY_STORE")
            .env_remove("TPU_PARITY_PLUGINS")
            .env_remove("TPU_PARITY_TARGET")
            .env("TPU_PARITY_ROOT", self.dir.path())
            .env("TPU_PARITY_TORCH", python())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn latest(&self) -> Run {
        let store = Store::open(self.dir.path().join(".tpu-parity/runs"));
        Run::load(&store.resolve("latest").unwrap()).unwrap()
    }
}

fn python() -> String {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("this test needs python3");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

#[test]
fn each_misdeed_costs_its_own_case() {
    use OutcomeKind::{Crash, Error, Fail, Pass, Skipped, Timeout, Unsupported};
    use Stage::{Compare, Load, Lower};
    const RUN: Stage = Stage::Run;

    let project = Project::new();
    let elsewhere = project.dir.path().join("elsewhere.safetensors");
    fs::write(&elsewhere, b"not yours").unwrap();
    let output = project.run(
        &[
            "run",
            "--suite",
            "torch",
            "-t",
            "cpu",
            "-j",
            "2",
            "--timeout",
            "8",
        ],
        &[("FAKE_ELSEWHERE", elsewhere.to_str().unwrap())],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let run = project.latest();
    assert!(run.is_sealed());
    let expected = [
        ("absent", Skipped, Load, "there is no such thing"),
        (
            "abort",
            Crash,
            RUN,
            "killed by SIGABRT: tensor.cc:12] Check failed: has_layout",
        ),
        ("bad-file", Error, Compare, "not a whole safetensors file"),
        ("elsewhere", Error, Compare, "it does not lie in"),
        (
            "exit",
            Crash,
            RUN,
            "exited with status 3: ImportError: no module named x",
        ),
        ("exit-clean", Crash, RUN, "exited with status 0"),
        ("forks", Crash, RUN, "exited with status 4"),
        ("good", Pass, Compare, ""),
        (
            "hang",
            Timeout,
            RUN,
            "no result after 8 s, in stage run; killed",
        ),
        (
            "huge-file",
            Error,
            Compare,
            "3221225472 bytes of tensors are too many",
        ),
        (
            "integers-off",
            Fail,
            Compare,
            "1 of 2 elements differ, first at [1]",
        ),
        ("lacks", Error, Compare, "its tensors lack 'device.out'"),
        ("large-figures", Pass, Compare, ""),
        ("no-file", Error, Compare, "No such file"),
        (
            "nonsense",
            Crash,
            RUN,
            "answered nonsense: expected value at line 1 column 1: \"Segmentation fault\"",
        ),
        ("not-an-answer", Crash, RUN, "answered out of turn"),
        (
            "off",
            Fail,
            Compare,
            "1 of 2 elements differ, first at [1]: 2.5, expected 2",
        ),
        ("overflow-as-cpu", Pass, Compare, ""),
        ("prints", Pass, Compare, ""),
        ("quiet", Pass, RUN, ""),
        (
            "recompiles",
            Fail,
            Compare,
            "a second call with the same shapes compiled again",
        ),
        (
            "says-pass",
            Crash,
            Compare,
            "says 'pass' of a case, which is not its to say",
        ),
        (
            "unsupported",
            Unsupported,
            Lower,
            "operator 'aten::i0' is not; implemented for TPU",
        ),
        (
            "wrong-shape",
            Fail,
            Compare,
            "the result has shape [2, 1], expected [2]",
        ),
        (
            "wrong-type",
            Fail,
            Compare,
            "the result has element type i64, expected f32",
        ),
    ];
    let outcomes: BTreeMap<&str, &Outcome> =
        run.outcomes.iter().map(|o| (o.case.subject(), o)).collect();
    assert_eq!(outcomes.len(), expected.len());
    for (subject, kind, stage, words) in expected {
        let outcome = outcomes[subject];
        let message = outcome.message.as_deref().unwrap_or_default();
        assert_eq!(
            (outcome.outcome, outcome.stage),
            (kind, stage),
            "{subject}: {message}"
        );
        assert!(message.contains(words), "{subject}: {message}");
        assert_eq!(message.is_empty(), words.is_empty(), "{subject}: {message}");
    }
    assert_eq!(fs::read(&elsewhere).unwrap(), b"not yours");

    let good = outcomes["good"].metrics.torch.as_ref().unwrap();
    assert_eq!((good.operators.len(), good.compiles), (2, Some(1)));
    assert_eq!((&*good.results[0], &good.figures), ("out", &None));
    assert_eq!(outcomes["good"].metrics.run_ms, Some(250.0));
    // A third in f32 is 1/3·2⁻²⁴·… off: one rounding of the largest value, 2, is more, so CPU counts as that far off.
    let comparison = &outcomes["good"].metrics.comparisons[0];
    assert_eq!((comparison.elements, comparison.mismatches), (2, 0));
    let figures = outcomes["quiet"].metrics.torch.as_ref().unwrap();
    assert_eq!(figures.figures.as_ref().unwrap()["losses"][1], 1.25);
    let left_out = outcomes["large-figures"].metrics.torch.as_ref().unwrap();
    let words = left_out.figures.as_ref().unwrap().to_string();
    assert!(words.contains("bytes of figures"), "{words}");
    assert_eq!(
        outcomes["unsupported"].code.as_deref(),
        Some("NotImplementedError")
    );

    let environment = &run.record.environment;
    assert_eq!(environment.packages["torch_tpu"], "0.2.0");
    assert_eq!(environment.plugins[0].devices["a fake"], 1);

    // The run's workers are gone, and their folders.
    let left = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let ours = left.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("tpu-parity-torch-")
            && entry.path().join("case.safetensors").exists()
    });
    assert_eq!(ours.count(), 0);
}

#[test]
fn a_listing_is_kept_until_the_package_changes() {
    let project = Project::new();
    let list = |cases: &str| {
        let args = ["list", "--suite", "torch", "--format", "ids"];
        let output = project.run(&args, &[("FAKE_CASES", cases)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        text(&output)
    };
    assert_eq!(
        list("good off"),
        "fake/good/f32\nfake/off/f32\nfake/absent/f32\n"
    );
    assert_eq!(
        list("good"),
        "fake/good/f32\nfake/off/f32\nfake/absent/f32\n"
    );
    fs::write(project.dir.path().join(PACKAGE).join("new.py"), "").unwrap();
    assert_eq!(list("good"), "fake/good/f32\nfake/absent/f32\n");
}

#[test]
fn a_run_goes_on_only_with_the_package_that_it_began_with() {
    let project = Project::new();
    let cases = [("FAKE_CASES", "good hang")];
    let mut command = Command::new(BIN);
    command
        .args([
            "run", "--suite", "torch", "-t", "cpu", "-j", "1", "--label", "cut",
        ])
        .current_dir(project.dir.path())
        .env_remove("TPU_PARITY_STORE")
        .env("TPU_PARITY_ROOT", project.dir.path())
        .env("TPU_PARITY_TORCH", python())
        .envs(cases)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let store = Store::open(project.dir.path().join(".tpu-parity/runs"));
    let begun = || {
        store
            .resolve("cut")
            .is_ok_and(|dir| !Run::load(&dir).unwrap().outcomes.is_empty())
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !begun() {
        assert!(std::time::Instant::now() < deadline, "no outcome");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();

    let module = project.dir.path().join(PACKAGE).join("new.py");
    fs::write(&module, "").unwrap();
    let resume = ["run", "--resume", "cut", "--timeout", "1"];
    let output = project.run(&resume, &cases);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).contains("changed since run"),
        "{}",
        text(&output)
    );

    fs::remove_file(&module).unwrap();
    let output = project.run(&resume, &cases);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let run = project.latest();
    assert!(run.is_sealed());
    assert_eq!(run.outcomes.len(), 3);
}

#[test]
fn known_failures_are_judged_as_any_others() {
    let project = Project::new();
    let expectations = project.dir.path().join("suites/expectations");
    fs::create_dir_all(&expectations).unwrap();
    let entry = |cases: &str| {
        format!(
            "[[expect]]\ncases = \"{cases}\"\ntargets = \"cpu\"\noutcome = \"fail\"\nreason = \"it is off\"\n\
             since = \"2026-11-30\"\nuntil = \"torch_tpu >= 0.3\"\n"
        )
    };
    let entries = [
        entry("fake/off/**"),
        entry("fake/gone/**"),
        entry("other/x/**"),
    ]
    .concat();
    fs::write(expectations.join("torchtpu.toml"), entries).unwrap();
    // Of a suite of the package that this run does not list nothing is known.
    fs::write(project.dir.path().join(PACKAGE).join("other.py"), "").unwrap();

    let cases = [("FAKE_CASES", "good off")];
    let output = project.run(&["run", "--suite", "torch:fake", "-t", "cpu"], &cases);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("1 known failures, 0 unexpected"));
    let report = project.run(&["report", "--format", "json"], &cases);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let unused = &report["verdicts"]["unused_expectations"];
    assert_eq!(unused, &serde_json::json!(["torchtpu.toml:8"]));
    let show = text(&project.run(&["show", "fake/off/f32"], &cases));
    for words in [
        "of PyTorch's: is off",
        "2 operators: aten.add, aten.mul",
        "result out: 1 of 2",
    ] {
        assert!(show.contains(words), "{show}");
    }
}

/// Arguments, environment, exit code, and words of what is printed.
type Check<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], i32, &'a str);

#[test]
fn what_cannot_run_says_why() {
    let project = Project::new();
    let torch = ["run", "--suite", "torch", "-t", "cpu"];
    let missing = [("TPU_PARITY_TORCH", "/nowhere/python")];
    let checks: [Check; 7] = [
        (&torch, &missing, 2, "install them with ci/setup --torch"),
        (
            &["list", "--suite", "torch"],
            &missing,
            2,
            "ci/setup --torch",
        ),
        (
            &["run", "--suite", "torch", "-t", "aot-v6e"],
            &[],
            2,
            "do not run on aot-v6e",
        ),
        (
            &["run", "--suite", "torch:nowhere", "-t", "cpu"],
            &[],
            2,
            "there is no suite nowhere",
        ),
        (
            &["run", "--suite", "torch:", "-t", "cpu"],
            &[],
            2,
            "write torch, torch:aten",
        ),
        (
            &torch,
            &[("FAKE_HELLO", "refuses")],
            3,
            "torch_tpu 9.9 has moved its; private entry",
        ),
        (
            &torch,
            &[("FAKE_HELLO", "dies")],
            3,
            "exited with status 1: ModuleNotFoundError",
        ),
    ];
    for (args, environment, code, words) in checks {
        let output = project.run(args, environment);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(words), "{args:?}: {text}");
    }
}
