//! Runs made by hand, for tests.

use std::path::{Path, PathBuf};

use super::{Expectations, IssueLedger};
use crate::hlo::MxuNumerics;
use crate::outcome::{Metrics, Outcome, OutcomeKind, Stage};
use crate::store::{Environment, ExecutorRecord, PluginRecord, Run, RunRecord};
use crate::target::Target;

pub fn run(id: &str, targets: &[&str], planned: &[&str]) -> Run {
    let targets: Vec<Target> = targets.iter().map(|t| t.parse().unwrap()).collect();
    let mut record = RunRecord::new(
        Environment {
            tool_version: "0.1.0".to_owned(),
            os: "linux 6.1 x86_64".to_owned(),
            cpu: "A CPU".to_owned(),
            cores: 2,
            plugins: targets.iter().map(plugin).collect(),
            ..Environment::default()
        },
        targets,
        vec!["**".to_owned()],
    );
    let packages = [
        ("libtpu", "0.0.52"),
        ("libtpu-0.0.24", "0.0.24"),
        ("xla-cpu", "0.11.2"),
    ];
    record.environment.packages = packages
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .into();
    record.id = id.to_owned();
    record.started = "2026-11-30T12:03:01Z".parse().unwrap();
    record.finished = Some("2026-11-30T12:13:01Z".parse().unwrap());
    Run {
        record,
        planned: planned.iter().map(|case| case.parse().unwrap()).collect(),
        outcomes: Vec::new(),
    }
}

fn plugin(target: &Target) -> PluginRecord {
    let (name, path, api_version) = match target {
        Target::Cpu => (Some("xla-cpu"), "/opt/someone/plugins/cpu.so", (0, 115)),
        Target::Plugin(name) if !name.starts_with('/') => {
            (Some(name.as_str()), "/opt/someone/plugins/x.so", (0, 78))
        }
        Target::Plugin(path) => (None, path.as_str(), (0, 106)),
        _ => (Some("libtpu"), "/opt/someone/plugins/libtpu.so", (0, 117)),
    };
    PluginRecord {
        target: target.clone(),
        name: name.map(str::to_owned),
        path: PathBuf::from(path),
        sha256: blake3::hash(path.as_bytes()).to_hex().to_string(),
        api_version,
        platform: "cpu".to_owned(),
        platform_version: "1 | <b>2</b>\nbuilt on /opt/someone/build/xla".to_owned(),
        stablehlo_version: Some("1.20.0".to_owned()),
        devices: [("A device".to_owned(), 4)].into(),
        memory_limit: None,
        flags: Vec::new(),
        executor: matches!(target, Target::Virtual { .. }).then(|| ExecutorRecord {
            name: Some("xla-cpu".to_owned()),
            path: PathBuf::from("/opt/someone/plugins/cpu.so"),
            sha256: "00".repeat(32),
            api_version: (0, 115),
            platform: "cpu".to_owned(),
            platform_version: "1".to_owned(),
            numerics: MxuNumerics::Mxu,
        }),
    }
}

/// An outcome on the target; a message for every one but `pass`.
pub fn outcome(run: &mut Run, target: &str, case: &str, kind: OutcomeKind) {
    outcome_with(run, target, case, kind, &format!("{kind} it is"));
}

pub fn outcome_with(run: &mut Run, target: &str, case: &str, kind: OutcomeKind, message: &str) {
    let evidence = target.parse::<Target>().unwrap().evidence();
    run.outcomes.push(Outcome {
        case: case.parse().unwrap(),
        target: target.to_owned(),
        evidence,
        outcome: kind,
        stage: match kind {
            OutcomeKind::Pass | OutcomeKind::Fail => Stage::Compare,
            _ => Stage::Compile,
        },
        message: (kind != OutcomeKind::Pass).then(|| message.to_owned()),
        code: None,
        metrics: if matches!(kind, OutcomeKind::Pass | OutcomeKind::Fail) {
            Metrics {
                compile_ms: Some(25.0),
                run_ms: Some(0.5),
                code_size: Some(1000),
                ..Metrics::default()
            }
        } else {
            Metrics::default()
        },
        attempts: vec![kind],
    });
}

/// A case a target, all with this outcome, in a run of its own.
pub fn single(case: &str, target: &str, kind: Option<OutcomeKind>) -> Run {
    let mut run = run("20261130-120301-aaaa", &[target], &[case]);
    if let Some(kind) = kind {
        outcome(&mut run, target, case, kind);
    }
    run
}

pub fn expectations(text: &str) -> Expectations {
    Expectations::parse(text, Path::new("suites/expectations/aot.toml")).unwrap()
}

/// `[[expect]]` for everything under a glob.
pub fn expect(cases: &str, outcome: &str, more: &str) -> String {
    format!(
        "[[expect]]\ncases = \"{cases}\"\ntargets = \"*\"\noutcome = \"{outcome}\"\nreason = \"not implemented\"\n\
         since = \"2026-11-30\"\n{more}\n"
    )
}

pub fn ledger() -> IssueLedger {
    let text = "[[issue]]\nrepository = \"openxla/xla\"\nnumber = 7\ntitle = \"dot on s64 | is <b>refused</b>\"\nstate = \"open\"\n\
                opened = \"2026-11-01\"\n\
                [[issue]]\nrepository = \"openxla/xla\"\nnumber = 8\ntitle = \"FFT on f64\"\nstate = \"fixed\"\n\
                opened = \"2026-11-01\"\nclosed = \"2026-11-20\"\n";
    IssueLedger::parse(text, Path::new("issues.toml")).unwrap()
}
