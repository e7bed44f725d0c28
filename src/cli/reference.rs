//! `tpu-parity reference generate|verify`: computes the stored CPU results, or checks that they still hold.

use clap::Subcommand;
use std::time::Duration;

use super::{CommandResult, Failure, Verdict, judged};
use crate::case::Case;
use crate::project::Project;
use crate::reference::{self, Generator, ReferenceStore};
use crate::report::escape;
use crate::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use crate::suite;
use crate::target::Target;

/// Compute the references that cases are compared against, or check the stored ones
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compute the references of the selected cases in f64 on the pinned CPU plug-in, and store them with their provenance
    Generate(Selection),
    /// Compute them again; exit 1 if any differs, is stale or is missing
    Verify(Selection),
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
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u64,
}

struct Session {
    all: Vec<Case>,
    cases: Vec<Case>,
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
        let cases = suite::select(all.clone(), &selection.select, &selection.exclude)
            .map_err(Failure::wrong_use)?;
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
        options.timeout = Duration::from_secs(selection.timeout);
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
        Action::Verify(selection) => verify(selection),
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
    let report = reference::generate(
        &mut session.store,
        &session.cases,
        &session.pool,
        &session.generator,
        session.jobs,
        &session.interrupt,
        &|| bar.inc(1),
    )
    .map_err(Failure::harness)?;
    bar.finish_and_clear();
    if report.interrupted {
        return Err(interrupted());
    }
    let gone: Vec<_> = session
        .store
        .ids()
        .filter(|id| !session.all.iter().any(|case| case.id == **id))
        .cloned()
        .collect();
    for id in &gone {
        session.store.remove(id);
    }
    session.store.save().map_err(Failure::harness)?;
    let mut text = String::new();
    for unreferenced in &report.unreferenced {
        text.push_str(&format!(
            "no reference  {}  {} at {}: {}\n",
            unreferenced.id,
            unreferenced.why.outcome,
            unreferenced.why.stage,
            escape::line(unreferenced.why.message.as_deref().unwrap_or_default())
        ));
    }
    text.push_str(&format!(
        "{} references: {} new, {} changed, {} unchanged; {} of cases that are gone removed; {} cases without one\n",
        session.store.ids().count(),
        report.added,
        report.changed,
        report.unchanged,
        gone.len(),
        report.unreferenced.len()
    ));
    judged::print(&text)?;
    Ok(Verdict::Clean)
}

fn verify(selection: &Selection) -> CommandResult {
    let Some(session) = Session::open(selection)? else {
        return Err(interrupted());
    };
    let bar = bar(session.cases.len());
    let report = reference::verify(
        &session.store,
        &session.cases,
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
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&format!(
            "{}: {}\n",
            finding.id,
            escape::line(&finding.what)
        ));
    }
    text.push_str(&format!(
        "{} references: {} identical, {} within the rounding of f64, {} that differ, are stale or are missing\n",
        session.cases.len(),
        report.identical,
        report.within_rounding,
        report.findings.len()
    ));
    judged::print(&text)?;
    Ok(if report.findings.is_empty() {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    })
}

fn bar(cases: usize) -> indicatif::ProgressBar {
    indicatif::ProgressBar::new(cases as u64)
}
