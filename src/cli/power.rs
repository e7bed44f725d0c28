//! `tpu-parity power`: whether faults are caught, and what other rules make of the same faults.

use std::path::PathBuf;
use std::time::Duration;

use super::{CommandResult, Failure, Verdict, judged, positive_seconds};
use crate::outcome::Evidence;
use crate::power::{self, Figures};
use crate::project::Project;
use crate::reference::ReferenceStore;
use crate::report;
use crate::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use crate::suite;
use crate::target::Target;

/// Inject faults into the results of passing cases and count those that the comparison catches
///
/// Each class of faults (a flipped sign, swapped axes, a stale output, sums in bf16, …) is injected into every result of every
/// selected case that passes on the target. Beside this project's comparison, numpy's assert_allclose with JAX's tolerances,
/// torch.testing.assert_close and a correlation of 0.99 are asked about the same results. Exit code 1 if less than 99.9% of a
/// class is caught, of the faults that no right result may show.
#[derive(clap::Args)]
pub struct Args {
    /// Globs over case ids [default: all]
    #[arg(value_name = "SELECT")]
    select: Vec<String>,
    /// Globs over case ids to leave out
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Whose results: cpu, tpu, vtpu-<gen>[:<slice>], plugin:<path or name>; may be given several times
    #[arg(
        long = "target",
        short,
        value_name = "TARGET",
        value_delimiter = ',',
        default_value = "cpu"
    )]
    targets: Vec<String>,
    /// Cases at the same time [default: one a core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds that one case may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180.0, value_parser = positive_seconds)]
    timeout: f64,
    /// Write the tables, as Markdown, to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args) -> CommandResult {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    let project = Project::discover(&here).map_err(Failure::wrong_use)?;
    let cases = suite::load(&project.suites()).map_err(Failure::wrong_use)?;
    let cases = suite::select(cases, &args.select, &args.exclude).map_err(Failure::wrong_use)?;
    let store = ReferenceStore::open(&project.references()).map_err(Failure::wrong_use)?;
    let interrupt = Interrupt::on_signals().map_err(Failure::harness)?;
    let mut options = RunOptions::new(std::env::current_exe().map_err(Failure::harness)?);
    options.timeout = Duration::from_secs_f64(args.timeout);
    if let Some(jobs) = args.jobs {
        options.jobs = jobs.into();
    }
    let start = |target: &Target| -> Result<Pool, Failure> {
        let planned = PlannedTarget::resolve(&project, target).map_err(Failure::wrong_use)?;
        Pool::start(planned, options.clone(), &interrupt)
            .map_err(Failure::harness)?
            .ok_or_else(interrupted)
    };
    let mut targets = Vec::new();
    for text in &args.targets {
        let target: Target = text.parse().map_err(Failure::wrong_use)?;
        if target.evidence() == Evidence::Compile {
            return Err(Failure::Use(anyhow::anyhow!("{target} runs no programs")));
        }
        targets.push(target);
    }
    let cpu = start(&Target::Cpu)?;
    let mut figures = Vec::new();
    for target in targets {
        let own = match target {
            Target::Cpu => None,
            _ => Some(start(&target)?),
        };
        let pool = own.as_ref().unwrap_or(&cpu);
        let bar = indicatif::ProgressBar::new(cases.len() as u64);
        let gathered = power::gather(
            &cases,
            &|case| store.reference(case),
            pool,
            &cpu,
            options.jobs,
            &interrupt,
            &|| bar.inc(1),
        );
        bar.finish_and_clear();
        let gathered = gathered.map_err(Failure::harness)?;
        if gathered.interrupted {
            return Err(interrupted());
        }
        let plugins: Vec<String> = pool
            .target()
            .pins()
            .filter_map(|name| project.pin(name))
            .map(|pin| format!("{} {}", pin.name, pin.version))
            .collect();
        figures.push(Figures {
            target: target.to_string(),
            evidence: target.evidence(),
            plugins: if plugins.is_empty() {
                "A plug-in that is not pinned".to_owned()
            } else {
                format!("Plug-ins: {}", plugins.join(", "))
            },
            cases: cases.len(),
            passing: gathered.passing.len(),
            failing: gathered.failing,
            without_result: gathered.without_result,
            tally: power::measure(&gathered.passing),
        });
    }
    if let Some(path) = &args.output {
        report::publish::write(path, &power::markdown(&command(args), &figures))
            .map_err(Failure::harness)?;
    }
    judged::print(&power::terminal(&figures))?;
    let sound = |figures: &Figures| figures.weak().next().is_none();
    Ok(if figures.iter().all(sound) {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    })
}

/// As it would be typed again.
fn command(args: &Args) -> String {
    let mut text = "tpu-parity power".to_owned();
    for glob in &args.select {
        text.push_str(&format!(" '{glob}'"));
    }
    for glob in &args.exclude {
        text.push_str(&format!(" --exclude '{glob}'"));
    }
    for target in &args.targets {
        text.push_str(&format!(" --target {target}"));
    }
    text
}

fn interrupted() -> Failure {
    Failure::Interrupted("interrupted; nothing was written".to_owned())
}
