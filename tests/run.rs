//! Runs against a plug-in that aborts, hangs, lies and dies (`examples/hostile_plugin.rs`): each costs its own case, and
//! nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tpu_parity::case::{Case, Origin, ReferenceProgram};
use tpu_parity::compare::{Precision, ReferenceTensor, Tolerance};
use tpu_parity::outcome::{Outcome, OutcomeKind, Stage};
use tpu_parity::pjrt::NamedValue;
use tpu_parity::run::{
    Fleet, Interrupt, Plan, PlannedTarget, Pool, Progress, Reference, RunError, RunOptions,
    Summary, execute,
};
use tpu_parity::store::{Environment, Run, RunRecord, RunWriter, Store};
use tpu_parity::tensor::{Domain, ElementType, InputSpec, Tensor};

fn hostile_plugin() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_tpu-parity"));
    let library = bin.parent().unwrap().join("examples/libhostile_plugin.so");
    assert!(
        library.exists(),
        "{} is not there: cargo test builds it, cargo test --test run does not; run cargo build --examples first",
        library.display()
    );
    library
}

/// A case whose reference is its input, `[1, 2, 3]`.
fn case(name: &str, misdeed: &str) -> Case {
    Case {
        id: format!("hostile/{name}/f32").parse().unwrap(),
        origin: Origin {
            file: "suites/hostile.toml".into(),
            line: 1,
        },
        program: format!("// hostile: {misdeed}\nfunc.func @main"),
        reference_program: ReferenceProgram::Native,
        inputs: vec![InputSpec {
            element_type: ElementType::F32,
            shape: vec![3],
            domain: Domain::Values(vec![1.0, 2.0, 3.0]),
        }],
        seed: 1,
        tolerances: vec![Tolerance::Exact],
        distribution: None,
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        unloadable: None,
    }
}

fn reference(_: &Case) -> Reference {
    Ok(vec![ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: Tensor::from_f64(ElementType::F64, vec![3], &[1.0, 2.0, 3.0]).unwrap(),
        element_type: ElementType::F32,
        scale: None,
    }])
}

fn target(plugin: &Path) -> PlannedTarget {
    PlannedTarget {
        target: format!("plugin:{}", plugin.display()).parse().unwrap(),
        plugin: plugin.to_owned(),
        name: None,
        sha256: String::new(),
        options: Vec::new(),
        executor: None,
        flags: Vec::new(),
    }
}

fn options() -> RunOptions {
    let mut options = RunOptions::new(env!("CARGO_BIN_EXE_tpu-parity").into());
    options.jobs = 2;
    options.timeout = Duration::from_secs(6);
    options
}

struct Finished {
    summary: Summary,
    run: Run,
}

impl Finished {
    fn get(&self, name: &str) -> &Outcome {
        self.run
            .outcomes
            .iter()
            .find(|outcome| outcome.case.subject() == name)
            .unwrap_or_else(|| panic!("no outcome for {name}"))
    }
}

fn run_cases(cases: Vec<Case>, options: &RunOptions) -> Finished {
    run_on(target(&hostile_plugin()), cases, options)
}

fn run_on(target: PlannedTarget, cases: Vec<Case>, options: &RunOptions) -> Finished {
    run_plan(Plan::new(cases, vec![target]), options)
}

fn run_plan(plan: Plan, options: &RunOptions) -> Finished {
    let store = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::default();
    let fleet = Fleet::start(&plan.targets, options, &interrupt)
        .unwrap()
        .unwrap();
    let writer = create(&Store::open(store.path()), &plan);
    let summary = execute(
        &plan,
        &fleet,
        &reference,
        writer.journal(),
        &Progress::hidden(),
        &interrupt,
    )
    .unwrap();
    Finished {
        summary,
        run: writer.seal().unwrap(),
    }
}

fn create(store: &Store, plan: &Plan) -> RunWriter {
    let targets = plan.targets.iter().map(|t| t.target.clone()).collect();
    let ids: Vec<_> = plan.cases.iter().map(|case| case.id.clone()).collect();
    let record = RunRecord::new(Environment::here(), targets, vec!["**".to_owned()]);
    store.create(record, &ids).unwrap()
}

#[test]
fn every_misdeed_costs_its_own_case_and_nothing_else() {
    use OutcomeKind::*;
    let expected: &[(&str, OutcomeKind, Stage, &str, Option<&str>)] = &[
        (
            "abort-in-compile",
            Crash,
            Stage::Compile,
            "killed by SIGABRT: layout.cc:120] Check failed: has_layout",
            None,
        ),
        (
            "throw-in-compile",
            Crash,
            Stage::Compile,
            "killed by SIGABRT: terminate called after throwing an instance of 'std::bad_alloc' what():  std::bad_alloc",
            None,
        ),
        (
            "hang-in-compile",
            Timeout,
            Stage::Compile,
            "no result after 6 s, in stage compile; killed",
            None,
        ),
        (
            "exit-in-compile",
            Crash,
            Stage::Compile,
            "exited with status 0",
            None,
        ),
        (
            "kill-in-compile",
            Crash,
            Stage::Compile,
            "killed by SIGKILL",
            None,
        ),
        (
            "flood-then-abort",
            Crash,
            Stage::Compile,
            "killed by SIGABRT: layout.cc:120] Check failed: has_layout",
            None,
        ),
        (
            "unimplemented",
            Unsupported,
            Stage::Compile,
            "PJRT_Client_Compile: UNIMPLEMENTED: dot on s64; is not implemented",
            Some("UNIMPLEMENTED"),
        ),
        (
            "exhausted",
            Oom,
            Stage::Compile,
            "PJRT_Client_Compile: RESOURCE_EXHAUSTED: no memory for 1 TiB",
            Some("RESOURCE_EXHAUSTED"),
        ),
        (
            "internal",
            Error,
            Stage::Compile,
            "PJRT_Client_Compile: INTERNAL: confused",
            Some("INTERNAL"),
        ),
        (
            "invalid",
            Error,
            Stage::Compile,
            "PJRT_Client_Compile: INVALID_ARGUMENT: what is this?",
            Some("INVALID_ARGUMENT"),
        ),
        (
            "null-executable",
            Error,
            Stage::Compile,
            "PJRT_Client_Compile returned a null handle",
            None,
        ),
        (
            "abort-in-run",
            Crash,
            Stage::Run,
            "killed by SIGABRT: layout.cc:120] Check failed: has_layout",
            None,
        ),
        (
            "segfault-in-run",
            Crash,
            Stage::Run,
            "killed by SIGSEGV",
            None,
        ),
        (
            "hang-in-run",
            Timeout,
            Stage::Run,
            "no result after 6 s, in stage run; killed",
            None,
        ),
        (
            "unimplemented-in-run",
            Unsupported,
            Stage::Run,
            "PJRT_LoadedExecutable_Execute: UNIMPLEMENTED: cannot run this",
            Some("UNIMPLEMENTED"),
        ),
        (
            "null-result",
            Error,
            Stage::Run,
            "PJRT_LoadedExecutable_Execute returned a null handle",
            None,
        ),
        (
            "wrong",
            Fail,
            Stage::Compare,
            "1 of 3 elements differ, first at [0]: 2, expected 1. One element of 3 is off, by 1.678e7 times the bound, at [0]. It is 2 times its reference.",
            None,
        ),
        ("noise", Pass, Stage::Compare, "", None),
        ("flood", Pass, Stage::Compare, "", None),
    ];
    let mut cases = Vec::new();
    for (index, (name, ..)) in expected.iter().enumerate() {
        cases.push(case(name, name));
        cases.push(case(&format!("ordinary{index}"), ""));
    }
    cases.push(case("short", "short"));
    let planned = cases.len();
    let finished = run_cases(cases, &options());
    assert_eq!(finished.summary.finished, planned);
    assert_eq!(finished.summary.missing, 0);
    assert_eq!(finished.run.outcomes.len(), planned);
    for (name, kind, stage, message, code) in expected {
        let outcome = finished.get(name);
        assert_eq!(
            (
                outcome.outcome,
                outcome.stage,
                outcome.message.as_deref().unwrap_or_default().trim(),
                outcome.code.as_deref()
            ),
            (*kind, *stage, *message, *code),
            "{name}"
        );
        assert_eq!(outcome.attempts, [*kind], "{name}");
    }
    for index in 0..expected.len() {
        let outcome = finished.get(&format!("ordinary{index}"));
        assert_eq!(outcome.outcome, Pass, "{outcome:?}");
    }
    let short = finished.get("short");
    assert_eq!((short.outcome, short.stage), (Fail, Stage::Compare));
    assert!(
        short.message.as_ref().unwrap().contains("shape"),
        "{short:?}"
    );
}

#[test]
fn retries_are_recorded_and_a_late_pass_keeps_its_failures() {
    use OutcomeKind::*;
    let dir = tempfile::tempdir().unwrap();
    let once = |what: &str| format!("{what}-once={}", dir.path().join(what).display());
    let mut options = options();
    options.retries = 2;
    options.jobs = 1;
    let cases = vec![
        // First, in a worker that has served nothing: its death is its own.
        case("crash-once", &once("crash")),
        case("wrong-once", &once("wrong")),
        case("wrong", "wrong"),
        case("unimplemented", "unimplemented"),
        case("ordinary", ""),
    ];
    let finished = run_cases(cases, &options);
    for (name, attempts) in [
        ("wrong-once", vec![Fail, Pass]),
        ("crash-once", vec![Crash, Pass]),
        ("wrong", vec![Fail, Fail, Fail]),
        ("unimplemented", vec![Unsupported]),
        ("ordinary", vec![Pass]),
    ] {
        let outcome = finished.get(name);
        assert_eq!(outcome.attempts, attempts, "{name}");
        assert_eq!(Some(&outcome.outcome), attempts.last(), "{name}");
    }
}

#[test]
fn a_worker_that_dies_idle_is_replaced_and_not_the_next_cases_fault() {
    let interrupt = Interrupt::default();
    let pool = Pool::start(target(&hostile_plugin()), options(), &interrupt)
        .unwrap()
        .unwrap();
    assert_eq!(pool.record().platform, "hostile");
    assert_eq!(
        pool.record().devices,
        BTreeMap::from([("hostile".to_owned(), 1)])
    );
    for name in ["abort-later", "ordinary"] {
        let case = case(name, name);
        let outcome = pool.run(&case, Some(&reference(&case)), &interrupt);
        assert_eq!(outcome.unwrap().unwrap().outcome, OutcomeKind::Pass);
        std::thread::sleep(Duration::from_millis(600));
    }
}

fn pool(options: &RunOptions, target: PlannedTarget) -> Pool {
    Pool::start(target, options.clone(), &Interrupt::default())
        .unwrap()
        .unwrap()
}

fn attempt(pool: &Pool, case: &Case) -> Outcome {
    let outcome = pool.run(case, Some(&reference(case)), &Interrupt::default());
    outcome.unwrap().unwrap()
}

#[test]
fn a_crash_of_what_an_earlier_case_left_behind_is_not_the_later_ones() {
    let pool = pool(&options(), target(&hostile_plugin()));
    assert_eq!(
        attempt(&pool, &case("damage", "damage")).outcome,
        OutcomeKind::Pass
    );
    let later = attempt(&pool, &case("ordinary", ""));
    assert_eq!(later.outcome, OutcomeKind::Pass);
    assert_eq!(later.attempts, [OutcomeKind::Pass]);
    assert_eq!(
        later.message.unwrap(),
        "decided in a fresh worker: in stage compile, one that had served 1 other cases ended: \
         killed by SIGABRT: layout.cc:120] Check failed: has_layout"
    );
    // One that crashes by itself does so in the fresh worker too, and that counts once.
    let crash = attempt(&pool, &case("abort", "abort-in-run"));
    assert_eq!(crash.outcome, OutcomeKind::Crash);
    assert_eq!(crash.attempts, [OutcomeKind::Crash]);
    assert_eq!(
        crash.message.unwrap(),
        "killed by SIGABRT: layout.cc:120] Check failed: has_layout"
    );
}

#[test]
fn a_crash_is_a_crash_though_a_fork_of_the_plugin_holds_the_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("child");
    let misdeed = format!("fork-then-segfault={}", file.display());
    let mut options = options();
    options.timeout = Duration::from_secs(100);
    let pool = pool(&options, target(&hostile_plugin()));
    let start = Instant::now();
    let outcome = attempt(&pool, &case("fork", &misdeed));
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(
        (outcome.outcome, outcome.stage),
        (OutcomeKind::Crash, Stage::Run)
    );
    assert_eq!(outcome.message.unwrap(), "killed by SIGSEGV");
    let child = std::fs::read_to_string(&file).unwrap();
    // A killed process takes a moment to go, and may then wait to be reaped by whoever inherited it.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        if state.is_empty() || state.starts_with('Z') {
            break;
        }
        assert!(Instant::now() < deadline, "{stat}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A case whose job does not fit a pipe's 64 KiB.
fn large(name: &str) -> Case {
    let mut case = case(name, "");
    case.program.push_str(&"// much text\n".repeat(100_000));
    case
}

#[test]
fn a_frozen_worker_and_a_large_job_meet_the_deadline() {
    let mut options = options();
    options.timeout = Duration::from_secs(5);
    let pool = pool(&options, target(&hostile_plugin()));
    attempt(&pool, &case("freeze", "freeze-later"));
    std::thread::sleep(Duration::from_millis(1500));
    let start = Instant::now();
    // The freeze is the earlier case's: another worker takes this one.
    assert_eq!(attempt(&pool, &large("large")).outcome, OutcomeKind::Pass);
    assert!(start.elapsed() >= options.timeout);
}

#[test]
fn a_frozen_worker_and_a_large_job_can_be_interrupted() {
    let mut options = options();
    options.timeout = Duration::from_secs(100);
    let pool = pool(&options, target(&hostile_plugin()));
    attempt(&pool, &case("freeze", "freeze-later"));
    std::thread::sleep(Duration::from_millis(1500));
    let interrupt = Interrupt::default();
    let raise = interrupt.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        raise.raise();
    });
    let (start, case) = (Instant::now(), large("large"));
    let outcome = pool.run(&case, Some(&reference(&case)), &interrupt);
    assert!(outcome.unwrap().is_none());
    assert!(start.elapsed() < Duration::from_secs(20));
}

fn called(platform: &str) -> PlannedTarget {
    let mut target = target(&hostile_plugin());
    target.options = vec![NamedValue::new("platform", platform)];
    target
}

/// Off by 1, where the absolute products add up to 1000: far beyond f32's `3·2⁻²⁴·1000`, and within bf16's `2·2⁻⁸·1000`.
#[test]
fn a_plugin_target_whose_platform_is_tpu_has_a_tpus_numerics() {
    let mut case = case("wrong", "wrong");
    case.tolerances = vec![Tolerance::Accumulate {
        terms: 3,
        accumulator: ElementType::F32,
        precision: Some(Precision::Default),
    }];
    let mut reference = reference(&case).unwrap();
    reference[0].scale = Some(Tensor::from_f64(ElementType::F64, vec![3], &[1000.0; 3]).unwrap());
    for (platform, expected) in [("tpu", OutcomeKind::Pass), ("gpu", OutcomeKind::Fail)] {
        let pool = pool(&options(), called(platform));
        assert_eq!(pool.record().platform, platform);
        let outcome = pool.run(&case, Some(&Ok(reference.clone())), &Interrupt::default());
        assert_eq!(outcome.unwrap().unwrap().outcome, expected, "{platform}");
    }
}

#[test]
fn a_plugin_target_whose_platform_is_tpu_runs_one_case_at_a_time() {
    let cases = (0..8)
        .map(|n| case(&format!("sleep{n}"), "sleep"))
        .collect();
    let mut options = options();
    options.jobs = 8;
    let finished = run_on(called("tpu"), cases, &options);
    assert_eq!(finished.summary.finished, 8);
    assert!(finished.summary.elapsed >= Duration::from_millis(800));
}

#[test]
fn workers_are_replaced_before_they_grow_old() {
    let mut options = options();
    options.cases_per_worker = 3;
    let cases = (0..20).map(|n| case(&format!("ordinary{n}"), "")).collect();
    let finished = run_cases(cases, &options);
    assert!(
        finished
            .run
            .outcomes
            .iter()
            .all(|o| o.outcome == OutcomeKind::Pass)
    );
}

#[test]
fn outcomes_say_where_the_plugin_was_compared_with_itself() {
    let cases = vec![case("own", ""), case("other", "")];
    let plan = Plan::new(cases, vec![target(&hostile_plugin())])
        .with_self_references(|case, _| case.id.subject() == "own");
    let finished = run_plan(plan, &options());
    assert!(finished.get("own").metrics.self_reference);
    assert!(!finished.get("other").metrics.self_reference);
}

#[test]
fn a_case_without_a_reference_runs_and_is_skipped_at_the_comparison() {
    let interrupt = Interrupt::default();
    let pool = Pool::start(target(&hostile_plugin()), options(), &interrupt)
        .unwrap()
        .unwrap();
    let stale: Reference = Err("its reference is stale: the program has changed".to_owned());
    let run = |misdeed| {
        let outcome = pool.run(&case("x", misdeed), Some(&stale), &interrupt);
        outcome.unwrap().unwrap()
    };
    let skipped = run("wrong");
    assert_eq!(
        (skipped.outcome, skipped.stage),
        (OutcomeKind::Skipped, Stage::Compare)
    );
    assert!(skipped.message.unwrap().contains("stale"));
    assert_eq!(run("abort-in-run").outcome, OutcomeKind::Crash);
}

#[test]
fn an_input_that_cannot_be_made_is_an_error_that_names_the_case() {
    let interrupt = Interrupt::default();
    let pool = Pool::start(target(&hostile_plugin()), options(), &interrupt)
        .unwrap()
        .unwrap();
    let mut bad = case("bad", "");
    bad.inputs[0].domain = Domain::Triangular;
    let outcome = pool
        .run(&bad, Some(&reference(&bad)), &interrupt)
        .unwrap()
        .unwrap();
    let message = outcome.message.unwrap();
    assert_eq!(outcome.outcome, OutcomeKind::Error);
    assert!(
        message.starts_with("suites/hostile.toml:1: input 0: "),
        "{message}"
    );
}

#[test]
fn an_interrupt_ends_the_run_soon_and_leaves_it_open() {
    let store = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::default();
    let cases = vec![
        case("ordinary", ""),
        case("hang", "hang-in-run"),
        case("sleep", "hang-in-compile"),
    ];
    let plan = Plan::new(cases, vec![target(&hostile_plugin())]);
    let mut options = options();
    options.timeout = Duration::from_secs(100);
    let fleet = Fleet::start(&plan.targets, &options, &interrupt)
        .unwrap()
        .unwrap();
    let writer = create(&Store::open(store.path()), &plan);
    let raise = interrupt.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        raise.raise();
    });
    let start = Instant::now();
    let progress = Progress::hidden();
    let summary = execute(
        &plan,
        &fleet,
        &reference,
        writer.journal(),
        &progress,
        &interrupt,
    )
    .unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(summary.interrupted);
    assert_eq!((summary.finished, summary.missing), (1, 2));
    let run = Run::load(writer.dir()).unwrap();
    assert_eq!(run.outcomes.len(), 1);
    assert!(!run.is_sealed());
}

#[test]
fn a_plugin_that_loads_for_ever_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("hanging-worker");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let mut options = options();
    options.program = program;
    options.startup_timeout = Duration::from_millis(300);
    let plan = [target(&hostile_plugin())];
    let error = match Fleet::start(&plan, &options, &Interrupt::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it started"),
    };
    assert!(error.contains("it was not ready after 0.3 s"), "{error}");
}

fn start_error(plugin: &Path) -> String {
    let mut options = options();
    options.startup_timeout = Duration::from_secs(10);
    match Fleet::start(&[target(plugin)], &options, &Interrupt::default()) {
        Err(error @ RunError::TargetDoesNotStart { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{} started", plugin.display()),
    }
}

#[test]
fn a_plugin_that_is_not_one_is_one_error_in_one_line() {
    let mut text = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut text, b"I am a text file").unwrap();
    for (plugin, reason) in [
        (Path::new("/nowhere/plugin.so"), "No such file"),
        (text.path(), "not a shared library"),
    ] {
        let error = start_error(plugin);
        assert!(
            error.contains(reason) && error.contains("doctor"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}
