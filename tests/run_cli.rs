//! `tpu-parity run` as a user meets it: exit codes, one-line errors, runs that survive their supervisor.
//!
//! The plug-in is `examples/hostile_plugin.rs` in libtpu's place, which makes `aot-v6e` a target that needs no references.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tpu_parity::outcome::{Outcome, OutcomeKind, Stage};
use tpu_parity::store::{Run, Store};

const BIN: &str = env!("CARGO_BIN_EXE_tpu-parity");

const HEAD: &str = r#"
suite = "hostile"
family = "hostile"

[[op]]
name = "op"
t = ["f32"]
tolerance = "exact"
reference = "native"
program = '''
// hostile: {{ misdeed }}
func.func @main(%x: {{ tensor(shape, t) }}) -> {{ tensor(shape, t) }} {
  return %x : {{ tensor(shape, t) }}
}
'''

[[op.inputs]]
t = "t"
shape = "shape"
domain = "any"

[op.bind]
shape = [3]
"#;

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// One case per misdeed: `hostile/op/f32/vNN`.
    fn new(misdeeds: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("suites/hostile")).unwrap();
        fs::create_dir_all(root.join("ci")).unwrap();
        fs::write(root.join("ci/plugins.toml"), PINS).unwrap();
        let mut suite = HEAD.to_owned();
        for (index, misdeed) in misdeeds.iter().enumerate() {
            suite.push_str(&format!(
                "\n[op.variant.v{index:02}]\nmisdeed = \"{misdeed}\"\n"
            ));
        }
        fs::write(root.join("suites/hostile/hostile.toml"), suite).unwrap();
        Self { dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("TPU_PARITY_STORE")
            .env_remove("TPU_PARITY_PLUGINS")
            .env_remove("TPU_PARITY_TARGET")
            .env("TPU_PARITY_ROOT", self.dir.path())
            .env("TPU_PARITY_LIBTPU", hostile_plugin())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn latest(&self) -> Run {
        let store = Store::open(self.dir.path().join(".tpu-parity/runs"));
        Run::load(&store.resolve("latest").unwrap()).unwrap()
    }

    /// Starts a run and waits until it has journalled at least `count` outcomes.
    fn start_run(&self, count: usize) -> Child {
        let args = ["run", "--target", "aot-v6e", "--jobs", "2"];
        let mut child = self.command(&args).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "no outcomes");
            assert!(child.try_wait().unwrap().is_none(), "ended too soon");
            let store = Store::open(self.dir.path().join(".tpu-parity/runs"));
            if let Ok(dir) = store.resolve("latest")
                && Run::load(&dir).unwrap().outcomes.len() >= count
            {
                return child;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

const PINS: &str = r#"
[[plugin]]
name = "xla-cpu"
wheel = "w"
version = "1"
wheel_file = "w.whl"
wheel_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
file = "a/plugin.so"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
terms = "t"
"#;

fn hostile_plugin() -> PathBuf {
    let library = Path::new(BIN)
        .parent()
        .unwrap()
        .join("examples/libhostile_plugin.so");
    assert!(
        library.exists(),
        "{} is not there: run cargo build --examples first",
        library.display()
    );
    library
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Ids of living processes that `parent` started as workers.
fn workers_of(parent: u32) -> Vec<String> {
    let wanted = format!("worker\0{parent}\0");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.ends_with(&wanted) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

fn no_workers_left(parent: u32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !workers_of(parent).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", workers_of(parent));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_run_with_a_crash_is_sealed_and_unexpected() {
    let project = Project::new(&["", "abort-in-compile", "unimplemented", "sleep"]);
    let output = project.run(&["run", "--target", "aot-v6e", "--label", "first"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    let run = project.latest();
    assert!(run.is_sealed());
    assert_eq!(run.record.label.as_deref(), Some("first"));
    let got: Vec<(OutcomeKind, Stage)> =
        run.outcomes.iter().map(|o| (o.outcome, o.stage)).collect();
    use OutcomeKind::{Crash, Pass, Unsupported};
    let kinds = [Pass, Crash, Unsupported, Pass];
    assert_eq!(got, kinds.map(|kind| (kind, Stage::Compile)));
    assert!(run.outcomes[0].metrics.compile_ms.is_some());
    let plugin = &run.record.environment.plugins[0];
    assert_eq!(
        (plugin.platform.as_str(), plugin.api_version),
        ("hostile", (0, 54))
    );
    assert_eq!(plugin.sha256.len(), 64);
    assert!(text.contains("Check failed: has_layout"), "{text}");
    assert!(text.contains("2 unexpected"), "{text}");

    let list = project.run(&["store", "ls"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        list.contains("first") && list.contains("sealed") && list.contains("4/4"),
        "{list}"
    );

    let again = project.run(&["run", "--resume", "first"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        stderr(&again).contains("nothing is left to resume"),
        "{}",
        stderr(&again)
    );
}

#[test]
fn an_expected_failure_is_clean() {
    let project = Project::new(&["", "abort-in-compile"]);
    fs::create_dir_all(project.dir.path().join("suites/expectations")).unwrap();
    fs::write(
        project.dir.path().join("suites/expectations/aot.toml"),
        "[[expect]]\ncases = \"hostile/op/f32/v01\"\ntargets = \"aot-*\"\noutcome = \"crash\"\nreason = \"it aborts\"\nsince = \"2026-11-30\"\n",
    )
    .unwrap();
    let output = project.run(&["run", "--target", "aot-v6e"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("1 known failures, 0 unexpected"), "{text}");
}

#[test]
fn cases_without_a_reference_are_counted_with_the_command_that_helps() {
    let project = Project::new(&["", ""]);
    let target = format!("plugin:{}", hostile_plugin().display());
    let output = project.run(&["run", "hostile/**", "--target", &target]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "nothing ran\n{text}");
    for line in [
        "(evidence: hardware): all of its 2 cases are skipped",
        "skipped, for want of a reference to compare with: 2 cases (2 outcomes); compute it with: tpu-parity reference \
         generate 'hostile/op/f32/v00' 'hostile/op/f32/v01'",
        "hostile/op/f32/v00: no reference",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_strict_gate_wants_every_case_of_the_baseline_that_the_suites_still_have() {
    let project = Project::new(&["", "", ""]);
    project.run(&["run", "--target", "aot-v6e", "--label", "all"]);
    project.run(&[
        "run",
        "hostile/op/f32/v00",
        "--target",
        "aot-v6e",
        "--label",
        "one",
    ]);
    let gate = |more: &[&str]| {
        let output = project.run(&[&["gate", "--baseline", "all", "--run", "one"], more].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let line = "hostile/op/f32/v01 and 1 more of the baseline not planned on aot-v6e, and still in the suites";
    let (code, text) = gate(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(&format!("note: {line}; --strict fails on it")),
        "{text}"
    );
    let (code, text) = gate(&["--strict"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&format!("not covered (1):\n  {line}")),
        "{text}"
    );
    // Cases that the suites no longer have are a note.
    let suite = project.dir.path().join("suites/hostile/hostile.toml");
    fs::write(suite, format!("{HEAD}\n[op.variant.v00]\nmisdeed = \"\"\n")).unwrap();
    let (code, text) = gate(&["--strict"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("note: 2 cases of the baseline no longer in the suites"),
        "{text}"
    );
}

#[test]
fn a_killed_supervisor_leaves_a_run_that_resume_finishes() {
    let project = Project::new(&["sleep"; 40]);
    let mut child = project.start_run(5);
    assert_eq!(workers_of(child.id()).len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    no_workers_left(child.id());
    let before = project.latest();
    assert!(!before.is_sealed());
    assert!((5..40).contains(&before.outcomes.len()));

    let output = project.run(&["run", "--resume", "latest", "--jobs", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let after = project.latest();
    assert!(after.is_sealed());
    assert_eq!(after.record.id, before.record.id);
    let cases: Vec<_> = after.outcomes.iter().map(|o| o.case.clone()).collect();
    assert_eq!(cases, after.planned);
    // What was done was not done again: its times are still those of the first process.
    let kept = |outcome: &&Outcome| after.outcomes.contains(outcome);
    assert_eq!(
        before.outcomes.iter().filter(kept).count(),
        before.outcomes.len()
    );
}

#[test]
fn ctrl_c_leaves_a_readable_run_and_says_how_to_go_on() {
    let project = Project::new(&["sleep"; 40]);
    let child = project.start_run(3);
    let pid = child.id();
    signal(&child, "-INT");
    let start = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(output.status.code(), Some(130));
    no_workers_left(pid);
    let run = project.latest();
    let resume = format!("go on with: tpu-parity run --resume {}", run.record.id);
    assert!(stderr(&output).contains(&resume), "{}", stderr(&output));
    assert!(!run.is_sealed() && run.outcomes.len() >= 3);
    assert!(run.outcomes.iter().all(|o| o.outcome == OutcomeKind::Pass));
}

#[test]
fn bad_input_is_one_line_with_the_remedy() {
    let project = Project::new(&[""]);
    let file = project.dir.path().join("file");
    fs::write(&file, "I am a text file").unwrap();
    let text_plugin = format!("plugin:{}", file.display());
    let store = format!("{}/runs", file.display());
    for (args, code, expected) in [
        (vec!["run", "--target", "gpu"], 2, "unknown target 'gpu'"),
        (
            vec!["run", "--target", "plugin:/nowhere.so"],
            2,
            "/nowhere.so",
        ),
        (
            vec!["run", "--target", &text_plugin],
            3,
            "not a shared library",
        ),
        (vec!["run", "--target", "tpu"], 3, "aot-"),
        (vec!["run", "--target", "cpu"], 3, "ci/setup"),
        (
            vec!["run", "nothing/**", "--target", "aot-v6e"],
            2,
            "nothing/**",
        ),
        (
            vec!["run", "--target", "aot-v6e", "--shard", "3/2"],
            2,
            "such as 2/4",
        ),
        (
            vec!["run", "--target", "aot-v6e", "--label", "a b"],
            2,
            "bad label",
        ),
        (
            vec!["run", "--target", "aot-v6e", "--store", &store],
            3,
            "TPU_PARITY_STORE",
        ),
        (vec!["run", "--resume", "nightly"], 2, "tpu-parity store ls"),
    ] {
        let output = project.run(&args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        let errors: Vec<&str> = text.lines().collect();
        assert_eq!(errors.len(), 1, "{args:?}: {text}");
        assert!(
            errors[0].starts_with("error: ") && errors[0].contains(expected),
            "{args:?}: {text}"
        );
    }
}

#[test]
fn a_plugin_that_dies_while_it_loads_is_one_error() {
    let project = Project::new(&["", ""]);
    for (misdeed, expected) in [
        (
            "abort",
            "killed by SIGABRT: layout.cc:120] Check failed: has_layout",
        ),
        (
            "error",
            "PJRT_Plugin_Initialize: INTERNAL: no device; for you",
        ),
    ] {
        let output = project
            .command(&["run", "--target", "aot-v6e"])
            .env("HOSTILE_LOAD", misdeed)
            .output()
            .unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains(expected) && text.contains("aot-v6e"),
            "{text}"
        );
    }
}

#[test]
fn a_target_that_is_lost_in_the_middle_still_gets_an_outcome_for_each_case() {
    let project = Project::new(&["", "abort-in-compile", "", "sleep"]);
    let count = project.dir.path().join("loads");
    let output = project
        .command(&["run", "--target", "aot-v6e", "--jobs", "1"])
        // One worker for the first case, and another for the second, which kills both.
        .env("HOSTILE_LOAD", format!("2 {}", count.display()))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let error = text.lines().last().unwrap();
    assert!(
        error.starts_with("error: ") && error.contains("target aot-v6e does not start"),
        "{text}"
    );
    let run = project.latest();
    assert!(run.is_sealed());
    use OutcomeKind::{Crash, Error, Pass};
    let got: Vec<(OutcomeKind, Stage)> =
        run.outcomes.iter().map(|o| (o.outcome, o.stage)).collect();
    assert_eq!(
        got,
        [
            (Pass, Stage::Compile),
            (Crash, Stage::Compile),
            (Error, Stage::Load),
            (Error, Stage::Load)
        ]
    );
    for outcome in &run.outcomes[2..] {
        let message = outcome.message.as_deref().unwrap();
        assert!(message.contains("INTERNAL: loaded too often"), "{message}");
        assert_eq!(outcome.attempts, [Error]);
    }
}

#[test]
fn a_journal_that_cannot_grow_stays_whole_and_its_run_resumes() {
    let project = Project::new(&[""; 80]);
    // 8 blocks of 512 bytes, which hold the plan and the record and not the journal.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let ordinary = project.command(&["run", "--target", "aot-v6e", "--jobs", "4"]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", script, BIN])
        .args(ordinary.get_args())
        .current_dir(project.dir.path());
    for (name, value) in ordinary.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let output = limited.output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let error = text.lines().last().unwrap();
    assert!(
        error.starts_with("error: ") && error.contains("journal.jsonl"),
        "{text}"
    );
    let open = project.latest();
    assert!(!open.is_sealed());
    assert!((1..80).contains(&open.outcomes.len()));
    let journal = fs::read_to_string(
        project
            .dir
            .path()
            .join(".tpu-parity/runs")
            .join(&open.record.id)
            .join("journal.jsonl"),
    )
    .unwrap();
    assert!(journal.ends_with('\n') && journal.len() <= 4096);
    assert_eq!(journal.lines().count(), open.outcomes.len());

    let output = project.run(&["run", "--resume", "latest"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(project.latest().outcomes.len(), 80);
}

#[test]
fn what_a_plugin_says_reaches_the_terminal_without_its_escapes() {
    let project = Project::new(&["escape"]);
    let output = project.run(&["run", "--target", "aot-v6e"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    assert!(
        text.contains("\\x1b[31mred") && !text.contains('\x1b'),
        "{text}"
    );
}

/// The error of a command that ends at once, in one line.
fn one_error(project: &Project, args: &[&str], code: i32) -> String {
    let output = project.run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("error: "), "{text}");
    text
}

/// Its workers' standard error is read for causes of death alone.
#[test]
fn a_compile_log_that_cannot_be_written_ends_the_run_before_it_begins() {
    let project = Project::new(&[""]);
    let log = project.dir.path().join("missing/log.jsonl");
    let output = project
        .command(&["run", "--target", "vtpu-v6e"])
        .env("TPU_PARITY_COMPILE_LOG", &log)
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for wanted in [
        "TPU_PARITY_COMPILE_LOG",
        "missing/log.jsonl",
        "No such file",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn a_library_that_is_no_plugin_is_one_error() {
    let project = Project::new(&[""]);
    // A library that every process has.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .split_whitespace()
        .find(|word| word.contains("/libc.so") || word.contains("/libc-"))
        .unwrap();
    let error = one_error(&project, &["run", "--target", &format!("plugin:{libc}")], 3);
    assert!(
        error.contains("is not a PJRT plug-in: it exports no GetPjrtApi"),
        "{error}"
    );
}

#[test]
fn a_plugin_that_is_not_the_pinned_one_is_not_loaded() {
    let project = Project::new(&[""]);
    let folder = project.dir.path().join("plugins/xla-cpu");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.so"), "hello").unwrap();
    let error = one_error(&project, &["run", "--target", "cpu"], 3);
    // The SHA-256 of "hello", from sha256sum.
    let found = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert!(
        error.contains(found) && error.contains(&"0".repeat(64)) && error.contains("ci/setup"),
        "{error}"
    );
}

#[test]
fn malformed_toml_is_one_error_with_file_and_line() {
    for (file, text, place) in [
        (
            "suites/hostile/bad.toml",
            "suite = \"hostile\"\nfamily = \"bad\n",
            "suites/hostile/bad.toml:2: ",
        ),
        (
            "suites/expectations/bad.toml",
            "[[expect]]\n\ncases = \n",
            "suites/expectations/bad.toml:3: ",
        ),
        (
            "ci/plugins.toml",
            "[[plugin]]\nname = [\n",
            "ci/plugins.toml:",
        ),
    ] {
        let project = Project::new(&[""]);
        let path = project.dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let error = one_error(&project, &["run", "--target", "aot-v6e"], 2);
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn a_shard_without_a_case_is_refused() {
    let project = Project::new(&[""]);
    let codes: Vec<_> = ["1/2", "2/2"]
        .map(|shard| project.run(&["run", "--target", "aot-v6e", "--shard", shard]))
        .iter()
        .map(|output| output.status.code())
        .collect();
    assert!(
        codes.contains(&Some(0)) && codes.contains(&Some(2)),
        "{codes:?}"
    );
}

#[test]
fn a_run_is_not_resumed_with_other_programs_or_targets() {
    let project = Project::new(&["sleep"; 20]);
    let mut child = project.start_run(3);
    child.kill().unwrap();
    child.wait().unwrap();
    no_workers_left(child.id());
    let resume = ["run", "--resume", "latest"];
    let other = ["run", "--resume", "latest", "--target", "aot-7x"];
    assert!(one_error(&project, &other, 2).contains("leave --target out"));
    let path = project.dir.path().join("suites/hostile/hostile.toml");
    let suite = fs::read_to_string(&path).unwrap();
    fs::write(&path, suite.replace("return %x", "return  %x")).unwrap();
    assert!(one_error(&project, &resume, 2).contains("have changed since it began"));
    fs::write(&path, suite).unwrap();
    assert_eq!(project.run(&resume).status.code(), Some(0));
}

#[test]
fn an_error_says_its_cause_once() {
    let project = Project::new(&[""]);
    fs::write(project.dir.path().join("file"), "").unwrap();
    let error = one_error(
        &project,
        &["run", "--target", "aot-v6e", "--store", "file"],
        3,
    );
    assert_eq!(error.matches("os error").count(), 1, "{error}");
}

#[test]
fn shards_make_up_the_whole() {
    let project = Project::new(&[""; 20]);
    let mut cases = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let output = project.run(&["run", "--target", "aot-v6e", "--shard", shard]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let run = project.latest();
        assert_eq!(run.record.shard.as_deref(), Some(shard));
        cases.extend(run.planned);
    }
    cases.sort();
    cases.dedup();
    assert_eq!(cases.len(), 20);
}
