//! `tpu-parity run`: cases on targets, into the store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use super::judged::{self, Tracker};
use super::suites::SuiteArgs;
use super::{CommandResult, Failure, Global, Verdict, positive_seconds};
use crate::case::{Case, CaseId, Origin, ReferenceProgram};
use crate::outcome::{Outcome, OutcomeKind, Stage};
use crate::pjrt::NamedValue;
use crate::project::{Project, ProjectError};
use crate::reference::ReferenceStore;
use crate::report::escape;
use crate::run::{
    Fleet, Interrupt, Plan, PlannedTarget, Progress, RunError, RunOptions, Shard, Summary, execute,
    summary_table,
};
use crate::store::{
    Environment, PluginRecord, Run, RunRecord, RunWriter, StoreError, ToleranceRecord,
};
use crate::suite::{self, Source};
use crate::target::Target;
use crate::track::{self, Judgement, VerdictKind};

/// Names targets where the command line does not.
const TARGETS: &str = "TPU_PARITY_TARGET";
/// How many unexpected outcomes are shown per target.
const EXAMPLES: usize = 10;
/// How many characters of a message are shown.
const LONGEST_MESSAGE: usize = 160;

/// How many cases a command that is suggested may name; for more it repeats the run's globs.
const COMMAND_IDS: usize = 4;

/// Run cases on targets.
///
/// Each case runs in a worker process: a plug-in that aborts or hangs costs that case and no other. The exit code is 0 when
/// every outcome is a pass or an expected failure and no target skipped all its cases, 1 otherwise, and 130 after Ctrl-C, which leaves a run that --resume
/// finishes.
///
/// Of a virtual TPU (vtpu-<gen>), TPU_PARITY_NUMERICS says how matrix products round: mxu, as the generation's matrix unit does, or exact;
/// and TPU_PARITY_COMPILE_LOG names a file that gets a line of JSON for every compilation.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Globs over case ids: `*` stays within a part, `**` crosses slashes [default: all]
    #[arg(value_name = "SELECT", conflicts_with = "resume")]
    select: Vec<String>,
    /// Globs over case ids to leave out
    #[arg(long, value_name = "GLOB", conflicts_with = "resume")]
    exclude: Vec<String>,
    #[command(flatten)]
    suites: SuiteArgs,
    /// Where to run: cpu, tpu, torch-cpu, aot-<gen>[:<slice>], vtpu-<gen>[:<slice>], plugin:<path or name>; may be given several times
    #[arg(
        long = "target",
        short,
        value_name = "TARGET",
        env = TARGETS,
        value_delimiter = ',',
        required_unless_present = "resume"
    )]
    targets: Vec<String>,
    /// Cases at the same time [default: one a core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds that one attempt at a case may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180.0, value_parser = positive_seconds)]
    timeout: f64,
    /// Further attempts at a case that crashed, timed out, failed or met an error
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: usize,
    /// Take only the I-th of N parts of the cases; which part a case falls to depends on its id alone
    #[arg(long, value_name = "I/N", conflicts_with = "resume")]
    shard: Option<String>,
    /// Finish an interrupted run: its id, its label, its path, or latest
    #[arg(long, value_name = "RUN", conflicts_with = "suites")]
    resume: Option<String>,
    /// A name for the run, by which other commands find it
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    label: Option<String>,
    /// A flag of the targets' compilers, set for every program: xla_backend_optimization_level=0; may be given several times.
    /// On vtpu-<gen> the TPU compiler's
    #[arg(long = "flag", value_name = "NAME=VALUE", conflicts_with = "resume")]
    flags: Vec<String>,
    /// Count a case that passes against an expectation as unexpected
    #[arg(long)]
    strict: bool,
}

/// What is about to run, and the run in the store if it exists already.
struct Prepared {
    plan: Plan,
    fleet: Fleet,
    writer: RunWriter,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    let tracker = Tracker::open(global)?;
    let project = &tracker.project;
    let store = ReferenceStore::open(&project.references()).map_err(Failure::wrong_use)?;
    let interrupt = Interrupt::on_signals().map_err(Failure::harness)?;
    if args.resume.is_some() && !args.targets.is_empty() && std::env::var_os(TARGETS).is_none() {
        return Err(Failure::Use(anyhow::anyhow!(
            "--resume takes the run's own targets; leave --target out"
        )));
    }
    let prepared = match &args.resume {
        Some(name) => resume(global, args, project, name, &interrupt)?,
        None => create(global, args, project, &interrupt)?,
    };
    let Some(Prepared {
        plan,
        fleet,
        writer,
    }) = prepared
    else {
        return Err(Failure::Interrupted(
            "interrupted before the first case".to_owned(),
        ));
    };
    let uncomparable: HashSet<CaseId> = plan
        .cases
        .iter()
        .filter(|case| matches!(case.reference_program, ReferenceProgram::Absent(_)))
        .map(|case| case.id.clone())
        .collect();
    let plan =
        plan.with_self_references(|case, target| store.is_self_reference(&case.id, &target.sha256));
    let id = writer.record().id.clone();
    eprintln!("run {id}: {} outcomes to come", plan.len());
    let summary = execute(
        &plan,
        &fleet,
        &|case| store.reference(case),
        writer.journal(),
        &Progress::new(plan.len()),
        &interrupt,
    )
    .map_err(Failure::harness)?;
    drop(fleet);
    if summary.missing > 0 {
        return Err(unfinished(&id, summary));
    }
    let run = writer.seal().map_err(Failure::harness)?;
    let judgement = tracker.judge(&run, None);
    let (text, verdict) = conclude(&run, &judgement, &summary, &uncomparable, args.strict);
    judged::print(&text)?;
    match summary.lost.into_iter().next() {
        Some(lost) => {
            let kept = format!(
                "run {id} is complete, with errors for the cases that {} was lost for",
                lost.target
            );
            Err(Failure::Harness(
                anyhow::Error::new(RunError::from(lost)).context(kept),
            ))
        }
        None => Ok(verdict),
    }
}

fn create(
    global: &Global,
    args: &Args,
    project: &Project,
    interrupt: &Interrupt,
) -> Result<Option<Prepared>, Failure> {
    let targets = parse_targets(&args.targets)?;
    let shard: Option<Shard> = args
        .shard
        .as_ref()
        .map(|text| text.parse())
        .transpose()
        .map_err(Failure::wrong_use)?;
    let sources = args.suites.sources()?;
    let cases = suite::load_sources(&project.suites(), &sources).map_err(Failure::wrong_use)?;
    let mut cases =
        suite::select(cases, &args.select, &args.exclude).map_err(Failure::wrong_use)?;
    cases.retain(|case| shard.is_none_or(|shard| shard.takes(&case.id)));
    if let (Some(shard), true) = (shard, cases.is_empty()) {
        return Err(Failure::Use(anyhow::anyhow!(
            "shard {shard} of the selection holds no case; take fewer shards"
        )));
    }
    let flags = parse_flags(&args.flags, &targets)?;
    let mut targets_planned = resolve(project, &targets)?;
    for target in &mut targets_planned {
        target.flags.clone_from(&flags);
    }
    let plan = Plan::new(cases, targets_planned);
    let Some(fleet) = start(&plan, args, interrupt)? else {
        return Ok(None);
    };
    let mut environment = Environment::here();
    environment.plugins = fleet.records();
    environment.packages = project
        .pins()
        .iter()
        .filter(|pin| {
            let mut used = plan.targets.iter().flat_map(PlannedTarget::pins);
            used.any(|name| name == pin.name)
        })
        .map(|pin| (pin.name.clone(), pin.version.clone()))
        .collect();
    let mut record = RunRecord::new(environment, targets, args.select.clone());
    record.suites = sources.iter().map(ToString::to_string).collect();
    record.exclude = args.exclude.clone();
    record.label = args.label.clone();
    record.shard = shard.map(|shard| shard.to_string());
    record.cases_hash = Some(cases_hash(&plan.cases)?);
    record.tolerances = ToleranceRecord::of(&plan.cases);
    let ids: Vec<CaseId> = plan.cases.iter().map(|case| case.id.clone()).collect();
    let writer = judged::open_store(global)?
        .create(record, &ids)
        .map_err(store_failure)?;
    Ok(Some(Prepared {
        plan,
        fleet,
        writer,
    }))
}

fn resume(
    global: &Global,
    args: &Args,
    project: &Project,
    name: &str,
    interrupt: &Interrupt,
) -> Result<Option<Prepared>, Failure> {
    let dir = judged::open_store(global)?
        .resolve(name)
        .map_err(store_failure)?;
    let writer = RunWriter::resume(&dir).map_err(store_failure)?;
    let record = writer.record();
    let mut targets = resolve(project, &record.targets)?;
    for target in &mut targets {
        let before = record.environment.plugin(&target.target);
        target.flags = before.map_or_else(Vec::new, |plugin| plugin.flags.clone());
        if before.is_some_and(|plugin| !is_same(plugin, target)) {
            return Err(Failure::Use(anyhow::anyhow!(
                "the plug-in of target {}, or its numerics, changed since run {} began; start a new run",
                target.target,
                record.id
            )));
        }
    }
    let cases = planned_cases(project, &writer)?;
    if record
        .cases_hash
        .as_ref()
        .is_some_and(|hash| cases_hash(&cases).ok().as_ref() != Some(hash))
    {
        return Err(Failure::Use(anyhow::anyhow!(
            "the cases of run {} have changed since it began (programs, inputs or tolerances); start a new run",
            record.id
        )));
    }
    let plan = Plan::new(cases, targets).without(|case, target| writer.is_done(case, target));
    Ok(start(&plan, args, interrupt)?.map(|fleet| Prepared {
        plan,
        fleet,
        writer,
    }))
}

/// Whether the target would run now as it did then.
fn is_same(before: &PluginRecord, target: &PlannedTarget) -> bool {
    let then = before.executor.as_ref();
    let now = target.executor.as_ref();
    before.sha256 == target.sha256
        && then.map(|e| (&e.sha256, e.numerics)) == now.map(|e| (&e.sha256, e.numerics))
}

/// BLAKE3 of all that is to be run: two runs of one hash run the same programs on the same inputs to the same tolerances.
fn cases_hash(cases: &[Case]) -> Result<String, Failure> {
    let mut hasher = blake3::Hasher::new();
    for case in cases {
        let origin = Origin {
            file: PathBuf::new(),
            line: 0,
        };
        let placeless = Case {
            origin,
            ..case.clone()
        };
        hasher.update(&serde_json::to_vec(&placeless).map_err(Failure::harness)?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The cases that a run planned, in its order.
fn planned_cases(project: &Project, writer: &RunWriter) -> Result<Vec<Case>, Failure> {
    let run = &writer.record().id;
    let sources = writer
        .record()
        .suites
        .iter()
        .map(|text| text.parse().map_err(Failure::wrong_use))
        .collect::<Result<Vec<Source>, _>>()?;
    let mut cases: HashMap<CaseId, Case> = suite::load_sources(&project.suites(), &sources)
        .map_err(Failure::wrong_use)?
        .into_iter()
        .map(|case| (case.id.clone(), case))
        .collect();
    let take = |id: &CaseId| {
        cases.remove(id).ok_or_else(|| {
            Failure::Use(anyhow::anyhow!(
                "case {id} of run {run} is no longer in the suites; start a new run"
            ))
        })
    };
    writer.planned().iter().map(take).collect()
}

fn parse_targets(texts: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for text in texts {
        let target: Target = text.parse().map_err(Failure::wrong_use)?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

fn parse_flags(texts: &[String], targets: &[Target]) -> Result<Vec<NamedValue>, Failure> {
    if !texts.is_empty() && targets.contains(&Target::Torch) {
        return Err(Failure::Use(anyhow::anyhow!(
            "torch-cpu compiles nothing and takes no --flag"
        )));
    }
    let flags: Vec<NamedValue> = texts
        .iter()
        .map(|text| text.parse().map_err(Failure::wrong_use))
        .collect::<Result<_, _>>()?;
    let twice = flags
        .iter()
        .enumerate()
        .find(|(i, flag)| flags[..*i].iter().any(|other| other.name == flag.name));
    match twice {
        Some((_, flag)) => Err(Failure::Use(anyhow::anyhow!(
            "--flag {} is given twice",
            flag.name
        ))),
        None => Ok(flags),
    }
}

fn resolve(project: &Project, targets: &[Target]) -> Result<Vec<PlannedTarget>, Failure> {
    let resolve_one = |target: &Target| {
        PlannedTarget::resolve(project, target).map_err(|error| match error {
            ProjectError::UnknownPlugin { .. }
            | ProjectError::Numerics(_)
            | ProjectError::CompileLog { .. } => Failure::wrong_use(error),
            _ => Failure::harness(error),
        })
    };
    targets.iter().map(resolve_one).collect()
}

fn start(plan: &Plan, args: &Args, interrupt: &Interrupt) -> Result<Option<Fleet>, Failure> {
    let program: PathBuf = std::env::current_exe().map_err(Failure::harness)?;
    let mut options = RunOptions::new(program);
    if let Some(jobs) = args.jobs {
        options.jobs = jobs.into();
    }
    options.timeout = Duration::from_secs_f64(args.timeout);
    options.retries = args.retries;
    Fleet::start(&plan.targets, &options, interrupt).map_err(Failure::harness)
}

fn store_failure(error: StoreError) -> Failure {
    match error {
        StoreError::NoSuchRun { .. }
        | StoreError::BadLabel { .. }
        | StoreError::Finished { .. } => Failure::wrong_use(error),
        _ => Failure::harness(error),
    }
}

fn unfinished(id: &str, summary: Summary) -> Failure {
    let rest = format!(
        "{} outcomes are kept and {} missing; go on with: tpu-parity run --resume {id}",
        summary.finished, summary.missing
    );
    match summary.lost.into_iter().next() {
        Some(lost) => Failure::Harness(anyhow::Error::new(RunError::from(lost)).context(rest)),
        None => Failure::Interrupted(format!("interrupted: {rest}")),
    }
}

/// What there is to say about a finished run, and whether anything in it is unexpected.
fn conclude(
    run: &Run,
    judgement: &Judgement,
    summary: &Summary,
    uncomparable: &HashSet<CaseId>,
    strict: bool,
) -> (String, Verdict) {
    let unexpected: Vec<&track::Verdict> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.kind.is_unexpected(strict))
        .collect();
    let mut lines = vec![summary_table(&run.record.targets, &run.outcomes)];
    for target in &run.record.targets {
        let name = target.to_string();
        let here: Vec<_> = unexpected.iter().filter(|v| v.target == name).collect();
        if here.is_empty() {
            continue;
        }
        lines.push(format!("\nunexpected on {name}:"));
        lines.extend(here.iter().take(EXAMPLES).map(|verdict| example(verdict)));
        if here.len() > EXAMPLES {
            lines.push(format!("  … and {} more", here.len() - EXAMPLES));
        }
    }
    for section in judgement.nothing_ran() {
        lines.push(format!(
            "\nnothing ran on {} (evidence: {}): all of its {} are skipped",
            section.target,
            section.evidence,
            track::cases(section.verdicts.len())
        ));
    }
    if let Some(line) = without_reference(run, uncomparable) {
        lines.push(format!("\n{line}"));
    }
    lines.push(format!(
        "\nrun {}: {} outcomes in {:.1} s, {} known failures, {} unexpected\n",
        run.record.id,
        run.outcomes.len(),
        summary.elapsed.as_secs_f64(),
        judgement.of(VerdictKind::Known).count(),
        unexpected.len()
    ));
    let verdict = if unexpected.is_empty() && judgement.nothing_ran().next().is_none() {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    };
    (lines.join("\n"), verdict)
}

/// How many cases ran and could not be compared, and what to do about it; nothing can be done about the `uncomparable`.
fn without_reference(run: &Run, uncomparable: &HashSet<CaseId>) -> Option<String> {
    let skipped: Vec<&Outcome> = run
        .outcomes
        .iter()
        .filter(|o| o.outcome == OutcomeKind::Skipped && o.stage == Stage::Compare)
        .filter(|o| !uncomparable.contains(&o.case))
        .collect();
    let ids: BTreeSet<&str> = skipped.iter().map(|o| o.case.as_str()).collect();
    let first = skipped.first()?;
    let globs: Vec<&str> = if ids.len() <= COMMAND_IDS {
        ids.iter().copied().collect()
    } else {
        run.record.select.iter().map(String::as_str).collect()
    };
    let mut command = "tpu-parity reference generate".to_owned();
    for glob in globs {
        command.push_str(&format!(" '{glob}'"));
    }
    if ids.len() > COMMAND_IDS {
        for glob in &run.record.exclude {
            command.push_str(&format!(" --exclude '{glob}'"));
        }
    }
    Some(format!(
        "skipped, for want of a reference to compare with: {} ({} outcomes); compute it with: {command}\n  {}: {}",
        track::cases(ids.len()),
        track::thousands(skipped.len()),
        first.case,
        told(first.message.as_deref().unwrap_or("no reason given"))
    ))
}

/// A plug-in's words, in one short line that a terminal can take.
fn told(message: &str) -> String {
    escape::shorten(&escape::line(message), LONGEST_MESSAGE)
}

fn example(verdict: &track::Verdict) -> String {
    let outcome = verdict.outcome.map_or("no outcome", OutcomeKind::as_str);
    let message = verdict.message.as_deref().unwrap_or_default();
    format!(
        "  {} {outcome} {}: {}",
        verdict.kind,
        verdict.case,
        told(message)
    )
}
