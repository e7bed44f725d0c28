//! `tpu-parity reference generate|verify`: computes the stored CPU results, or checks that they still hold.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Subcommand;

use super::{CommandResult, Failure, Verdict, judged, positive_seconds};
use crate::case::{Case, CaseId};
use crate::oracle::{Arithmetic, OracleCommand};
use crate::project::Project;
use crate::reference::{
    self, Accounts, Disagreement, Finding, Generated, Generator, Left, Lookup, OracleReport,
    ReferenceStore, Unreferenced,
};
use crate::report::escape;
use crate::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use crate::suite;
use crate::target::Target;
use crate::track::Expectations;

/// Compute the references that cases are compared against, or check the stored ones
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compute the references of the selected cases in f64 on the pinned CPU plug-in, or by the oracle where oracle/cases.toml
    /// says so, and store them with their provenance; exit 1 if one is lost, or cannot be computed and is no known failure of the `cpu` target
    Generate(Selection),
    /// Compute them again; exit 1 if any differs, is stale or is missing
    Verify(Verify),
}

#[derive(clap::Args)]
struct Selection {
    /// Globs over case ids [default: every case]
    #[arg(value_name = "SELECT")]
    select: Vec<String>,
    /// Globs over case ids to leave out
    #[arg(long, value_name = "SELECT")]
    exclude: Vec<String>,
    /// Worker processes [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds that one case may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = positive_seconds)]
    timeout: f64,
}

#[derive(clap::Args)]
struct Verify {
    #[command(flatten)]
    selection: Selection,
    /// Compare them with the independent oracle in `oracle/` instead, which shares no numeric code with XLA (`ci/clients/setup
    /// oracle` installs what it needs); exit 1 if one differs and oracle/cases.toml does not say why
    #[arg(long)]
    oracle: bool,
}

struct Session {
    all: Vec<Case>,
    cases: Vec<Case>,
    accounts: Accounts,
    oracle: OracleCommand,
    known: Expectations,
    store: ReferenceStore,
    pool: Pool,
    generator: Generator,
    jobs: usize,
    interrupt: Interrupt,
}

impl Session {
    /// `Ok(None)`: interrupted.
    fn open(selection: &Selection) -> Result<Option<Self>, Failure> {
        let here = std::env::current_dir().map_err(Failure::harness)?;
        let project = Project::discover(&here).map_err(Failure::wrong_use)?;
        let all = suite::load(&project.suites()).map_err(Failure::wrong_use)?;
        let mut cases = suite::select(all.clone(), &selection.select, &selection.exclude)
            .map_err(Failure::wrong_use)?;
        // What must be refused has no results to refer to.
        cases.retain(|case| case.breaks().is_none());
        let known = Expectations::load(&project.expectations()).map_err(Failure::wrong_use)?;
        let accounts = Accounts::load(&project.oracle_cases()).map_err(Failure::wrong_use)?;
        let oracle = oracle_command(&project, selection);
        let store = ReferenceStore::open(&project.references()).map_err(Failure::wrong_use)?;
        let plugin = project.resolve(&Target::Cpu).map_err(Failure::harness)?;
        let version = plugin
            .name
            .as_deref()
            .and_then(|name| project.pin(name))
            .map_or_else(String::new, |pin| pin.version.clone());
        let generator = Generator {
            name: plugin.name.clone().unwrap_or_else(|| "unpinned".to_owned()),
            version,
            sha256: plugin.sha256.clone(),
        };
        let mut options = RunOptions::new(std::env::current_exe().map_err(Failure::harness)?);
        options.timeout = Duration::from_secs_f64(selection.timeout);
        if let Some(jobs) = selection.jobs {
            options.jobs = jobs.into();
        }
        let jobs = options.jobs;
        let interrupt = Interrupt::on_signals().map_err(Failure::harness)?;
        let target = PlannedTarget::new(Target::Cpu, plugin);
        let pool = Pool::start(target, options, &interrupt).map_err(Failure::harness)?;
        Ok(pool.map(|pool| Self {
            all,
            cases,
            accounts,
            oracle,
            known,
            store,
            pool,
            generator,
            jobs,
            interrupt,
        }))
    }
}

pub fn run(args: &Args) -> CommandResult {
    match &args.action {
        Action::Generate(selection) => generate(selection),
        Action::Verify(args) if args.oracle => with_oracle(&args.selection),
        Action::Verify(args) => verify(&args.selection),
    }
}

fn interrupted() -> Failure {
    Failure::Interrupted("interrupted; nothing was written".to_owned())
}

fn generate(selection: &Selection) -> CommandResult {
    let Some(mut session) = Session::open(selection)? else {
        return Err(interrupted());
    };
    let bar = bar(session.cases.len());
    let on_case = || bar.inc(1);
    let (by_oracle, by_plugin): (Vec<Case>, Vec<Case>) = session
        .cases
        .iter()
        .cloned()
        .partition(|case| session.accounts.reference(&case.id).is_some());
    let mut report = reference::generate(
        &mut session.store,
        &by_plugin,
        &session.pool,
        &session.generator,
        session.jobs,
        &session.interrupt,
        &on_case,
    );
    if !by_oracle.is_empty() && !report.interrupted {
        reference::generate_by_oracle(
            &mut session.store,
            &by_oracle,
            &session.oracle,
            session.jobs,
            &session.interrupt,
            &on_case,
            &mut report,
        )
        .map_err(Failure::harness)?;
    }
    bar.finish_and_clear();
    if report.interrupted {
        return Err(interrupted());
    }
    let gone = session.store.remove_gone(&session.all);
    session.store.save().map_err(Failure::harness)?;
    let is_known = |case: &Unreferenced| reference::is_known_unreferenced(&session.known, &case.id);
    let mut text = String::new();
    for case in &report.unreferenced {
        text.push_str(&describe(case, is_known(case)));
    }
    for (id, why) in &report.no_oracle {
        text.push_str(&format!("no reference  {id}: {}\n", escape::line(why)));
    }
    text.push_str(&totals(session.store.ids().count(), &report, gone));
    judged::print(&text)?;
    if let Some(failure) = report.failure {
        return Err(Failure::harness(failure));
    }
    if let Some(invalid) = report.invalid {
        return Err(Failure::wrong_use(invalid));
    }
    let expected = |case: &Unreferenced| case.left != Left::Lost && is_known(case);
    Ok(
        if report.unreferenced.iter().all(expected) && report.no_oracle.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Unexpected
        },
    )
}

fn describe(case: &Unreferenced, known: bool) -> String {
    let left = match case.left {
        Left::Kept => "reference kept",
        Left::Lost => "reference lost",
        Left::Nothing if known => "no reference, as known",
        Left::Nothing => "no reference",
    };
    format!(
        "{left}  {}  {} at {}: {}\n",
        case.id,
        case.why.outcome,
        case.why.stage,
        escape::line(case.why.message.as_deref().unwrap_or_default())
    )
}

fn totals(stored: usize, report: &Generated, gone: usize) -> String {
    let left = |left| report.unreferenced.iter().filter(move |c| c.left == left);
    format!(
        "{stored} references: {} new, {} changed, {} unchanged, {} kept that could not be computed again; \
         {} of cases that are gone removed; {} cases without one, of which {} had one\n",
        report.added,
        report.changed,
        report.unchanged,
        left(Left::Kept).count(),
        gone,
        left(Left::Nothing).count() + left(Left::Lost).count(),
        left(Left::Lost).count()
    )
}

fn verify(selection: &Selection) -> CommandResult {
    let Some(session) = Session::open(selection)? else {
        return Err(interrupted());
    };
    let by_plugin: Vec<Case> = session
        .cases
        .iter()
        .filter(|case| !reference::is_by_oracle(&session.store, &case.id))
        .cloned()
        .collect();
    let bar = bar(by_plugin.len());
    let report = reference::verify(
        &session.store,
        &by_plugin,
        &session.pool,
        session.jobs,
        &session.interrupt,
        &|| bar.inc(1),
    )
    .map_err(Failure::harness)?;
    bar.finish_and_clear();
    if report.interrupted {
        return Err(interrupted());
    }
    // Of some cases the CPU plug-in is known to be unable to compute any.
    let none_known: BTreeSet<&CaseId> = session
        .cases
        .iter()
        .filter(|case| matches!(session.store.lookup(case), Ok(Lookup::Missing)))
        .map(|case| &case.id)
        .filter(|id| reference::is_known_unreferenced(&session.known, id))
        .collect();
    let findings: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| !none_known.contains(&finding.id))
        .collect();
    let mut text = String::new();
    for finding in &findings {
        text.push_str(&format!(
            "{}: {}\n",
            finding.id,
            escape::line(&finding.what)
        ));
    }
    text.push_str(&format!(
        "{} references: {} identical, {} within the rounding of f64, {} that differ, are stale or are missing; {} known to have none; {} by the oracle, left to --oracle\n",
        session.cases.len(),
        report.identical,
        report.within_rounding,
        findings.len(),
        none_known.len(),
        session.cases.len() - by_plugin.len()
    ));
    judged::print(&text)?;
    Ok(if findings.is_empty() {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    })
}

fn with_oracle(selection: &Selection) -> CommandResult {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    let project = Project::discover(&here).map_err(Failure::wrong_use)?;
    let cases = suite::load(&project.suites()).map_err(Failure::wrong_use)?;
    let cases =
        suite::select(cases, &selection.select, &selection.exclude).map_err(Failure::wrong_use)?;
    let store = ReferenceStore::open(&project.references()).map_err(Failure::wrong_use)?;
    let accounts = Accounts::load(&project.oracle_cases()).map_err(Failure::wrong_use)?;
    let command = oracle_command(&project, selection);
    let jobs = selection.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    let interrupt = Interrupt::on_signals().map_err(Failure::harness)?;
    let bar = bar(cases.len());
    let on_case = || bar.inc(1);
    let report =
        reference::verify_with_oracle(&store, &cases, &command, jobs, &interrupt, &on_case)
            .map_err(Failure::harness)?;
    bar.finish_and_clear();
    if report.interrupted {
        return Err(interrupted());
    }
    let asked: Vec<&CaseId> = cases.iter().map(|case| &case.id).collect();
    let (text, verdict) = oracle_text(&report, &accounts, &asked);
    judged::print(&text)?;
    Ok(verdict)
}

fn oracle_command(project: &Project, selection: &Selection) -> OracleCommand {
    OracleCommand {
        python: project.oracle_python(Arithmetic::Extended),
        root: project.root().to_owned(),
        arithmetic: Arithmetic::Extended,
        timeout: Duration::from_secs_f64(selection.timeout),
    }
}

fn oracle_text(report: &OracleReport, accounts: &Accounts, asked: &[&CaseId]) -> (String, Verdict) {
    let mut text = String::new();
    let mut unexplained = 0;
    for Disagreement { id, what } in &report.disagree {
        let what = escape::line(what);
        match accounts.explanation(id) {
            Some(reason) => {
                text.push_str(&format!("explained  {id}: {what}\n           {reason}\n"))
            }
            None => {
                unexplained += 1;
                text.push_str(&format!("disagrees  {id}: {what}\n"));
            }
        }
    }
    let disagree: Vec<&CaseId> = report.disagree.iter().map(|found| &found.id).collect();
    let needless = accounts.needless(asked, &disagree);
    for glob in &needless {
        text.push_str(&format!(
            "needless   '{glob}' in oracle/cases.toml: these cases agree\n"
        ));
    }
    let mut without = 0;
    for (why, ids) in &report.no_oracle {
        without += ids.len();
        let first = ids.first().map_or("", |id| id.as_str());
        let (count, why) = (ids.len(), escape::line(why));
        text.push_str(&format!("no oracle  {count} cases, {first} first: {why}\n"));
    }
    let distances: Vec<String> = report
        .distances
        .iter()
        .map(|(most, cases)| match most {
            0 => format!("{cases} equal"),
            most => format!("{cases} within {most}"),
        })
        .collect();
    text.push_str(&format!(
        "{} references: {} agree with the oracle ({}), {} are its own, {} disagree, of which {} explained; {without} without an oracle\n",
        asked.len(),
        report.agree,
        report.packages.join(", "),
        report.own,
        report.disagree.len(),
        report.disagree.len() - unexplained
    ));
    text.push_str(&format!(
        "in ulp of the reference: {}\n",
        distances.join(", ")
    ));
    let verdict = if unexplained == 0 && needless.is_empty() {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    };
    (text, verdict)
}

fn bar(cases: usize) -> indicatif::ProgressBar {
    indicatif::ProgressBar::new(cases as u64)
}
