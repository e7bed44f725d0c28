//! `show`: one case in full, or what a compile log comes to.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::judged::{Tracker, print};
use super::suites::SuiteArgs;
use super::{CommandResult, Failure, Global, Verdict, harness_or_use};
use crate::case::Case;
use crate::reference::ReferenceStore;
use crate::report::Summary;
use crate::report::recompiles::Recompiles;
use crate::report::show::{Shown, case, in_run};
use crate::store::Run;
use crate::suite::{Source, load_sources};
use crate::virtual_tpu::compile_log;

/// Show one case: its program, inputs and reference, and what became of it in a run.
///
/// With --compile-log: the functions that the virtual TPU compiled for more than one set of shapes, and what that took.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The case's id
    #[arg(value_name = "CASE", required_unless_present = "compile_log")]
    case: Option<String>,
    /// The table of recompiles of this compile log, which TPU_PARITY_COMPILE_LOG named
    #[arg(long, value_name = "FILE", conflicts_with_all = ["case", "run", "suites"])]
    compile_log: Option<PathBuf>,
    /// The run to show: an id, a label, a path, latest or latest~N [default: the latest, if there is one]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    suites: SuiteArgs,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    if let Some(path) = &args.compile_log {
        print(&recompiles(path)?.terminal())?;
        return Ok(Verdict::Clean);
    }
    let id = args.case.as_deref().unwrap_or_default();
    let tracker = Tracker::open(global)?;
    let run = tracker.run_or_latest(args.run.as_deref())?;
    let cases = load(args, &tracker, run.as_ref())?;
    let found = cases.iter().find(|case| case.id.as_str() == id);
    let found = found.ok_or_else(|| unknown(id, &cases))?;
    let mut text = case(&shown(&tracker, found)?);
    if let Some(run) = &run {
        let judgement = tracker.judge(run, None);
        let summary = Summary::new(run, &judgement, &tracker.ledger);
        let outcomes: Vec<_> = run.outcomes.iter().filter(|o| o.case == found.id).collect();
        text += &in_run(&summary, &outcomes);
    }
    print(&text)?;
    Ok(Verdict::Clean)
}

pub(super) fn recompiles(path: &Path) -> Result<Recompiles, Failure> {
    let log = compile_log::read(path).map_err(Failure::wrong_use)?;
    Ok(Recompiles::of(&log))
}

/// From the suites that are named, or else from those that the run took its cases from.
fn load(args: &Args, tracker: &Tracker, run: Option<&Run>) -> Result<Vec<Case>, Failure> {
    let of_run = run
        .map(|run| run.record.suites.as_slice())
        .unwrap_or_default();
    if !args.suites.suites.is_empty() || of_run.is_empty() {
        return args.suites.load(&tracker.project);
    }
    let sources = of_run.iter().map(|text| text.parse::<Source>());
    let sources = sources
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::wrong_use)?;
    load_sources(&tracker.project, &sources).map_err(harness_or_use)
}

fn shown<'a>(tracker: &Tracker, case: &'a Case) -> Result<Shown<'a>, Failure> {
    let references = tracker.project.references();
    let store = ReferenceStore::open(&references).map_err(Failure::wrong_use)?;
    let provenance = store.record(&case.id).map(|record| {
        let made = &record.provenance;
        let (plugin, version) = (&made.plugin.name, &made.plugin.version);
        format!(", computed by {plugin} {version} on {}", made.date)
    });
    let drawn = case.inputs.iter().enumerate().map(|(operand, spec)| {
        let drawn = spec.generate(case.seed, operand);
        drawn.map_err(|error| format!("input {operand}: {error}"))
    });
    Ok(Shown {
        case,
        inputs: drawn.collect(),
        reference: store.reference(case),
        provenance,
    })
}

/// Names a few cases of the same operator, if there are any.
fn unknown(id: &str, cases: &[Case]) -> Failure {
    let prefix: Vec<&str> = id.split('/').take(2).collect();
    let prefix = format!("{}/", prefix.join("/"));
    let near: Vec<&str> = cases
        .iter()
        .map(|case| case.id.as_str())
        .filter(|other| other.starts_with(&prefix))
        .take(3)
        .collect();
    let hint = match near.as_slice() {
        [] => "tpu-parity list --format ids has all of them".to_owned(),
        near => format!("there are {}, …", near.join(", ")),
    };
    Failure::wrong_use(anyhow!("there is no case '{id}'; {hint}"))
}
