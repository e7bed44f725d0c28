//! `coverage`: which operators of the specification the suites cover, and with what outcome.

use std::path::PathBuf;

use super::{CommandResult, Failure, Verdict, judged};
use crate::coverage::{Coverage, Outcomes, Specification, render};
use crate::project::Project;
use crate::suite;

/// Show which operators and element types of the specification the suites cover; exit 1 where the two part ways
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The report that outcomes are taken from [default: reports/latest/report.json, if there is one]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the page there, as docs/coverage.md, instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

pub fn run(args: &Args) -> CommandResult {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    let project = Project::discover(&here).map_err(Failure::wrong_use)?;
    let specification = Specification::load(&project.suites()).map_err(Failure::wrong_use)?;
    let suites = suite::load_suites(&project.suites()).map_err(Failure::wrong_use)?;
    let latest = project.reports().join("latest/report.json");
    let outcomes = match &args.report {
        Some(path) => Outcomes::load(path).map_err(Failure::wrong_use)?,
        None if latest.exists() => Outcomes::load(&latest).map_err(Failure::wrong_use)?,
        None => Outcomes::default(),
    };
    let coverage = Coverage::new(&specification, &suites);
    let page = render(&coverage, &outcomes);
    match &args.out {
        None => judged::print(&page)?,
        Some(path) => std::fs::write(path, page).map_err(|error| {
            Failure::harness(anyhow::anyhow!("cannot write {}: {error}", path.display()))
        })?,
    }
    for problem in &coverage.problems {
        eprintln!("{problem}");
    }
    Ok(match coverage.problems.is_empty() {
        true => Verdict::Clean,
        false => Verdict::Unexpected,
    })
}
