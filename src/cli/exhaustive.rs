//! `tpu-parity exhaustive`: operators on all values of a type.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;

use super::judged::{json, print};
use super::{CommandResult, Failure, Verdict, positive_seconds};
use crate::exhaustive::{self, Report};
use crate::outcome::Evidence;
use crate::project::{Project, ProjectError};
use crate::report::publish;
use crate::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use crate::store::Environment;
use crate::suite;
use crate::target::Target;
use crate::track::Expectations;

/// The report's name in the folder that it is published to.
const REPORT: &str = "exhaustive.md";

/// Try operators on every value of their types, and measure the worst error.
///
/// Elementwise operators, their types and tolerances are those of suites/stablehlo. Each runs once on all values: all of the types of
/// 16 bits and fewer, of f32 a sample of 2^20 with every exponent and the operators' hard points, and of two operands all pairs of
/// hard values. Results are compared with exact ones that no compiler had a part in. Failures are judged by suites/expectations under
/// the id exhaustive/<operator>/<type>; the exit code is 0 when every outcome is a pass or an expected failure, and 1 otherwise.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Operators by name, or globs over names or ids: logistic, 'chlo.*', 'convert/f32/*', '*/bf16' [default: all]
    #[arg(value_name = "OPERATOR")]
    operators: Vec<String>,
    /// Where to run: cpu, tpu, vtpu-<gen>[:<slice>], plugin:<path or name>; may be given several times
    #[arg(
        long = "target",
        short,
        value_name = "TARGET",
        default_value = "cpu",
        value_delimiter = ','
    )]
    targets: Vec<String>,
    /// All 2^32 values of f32 in place of the sample: minutes an operator
    #[arg(long)]
    all_f32: bool,
    /// Write all figures, histograms and first faults as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write exhaustive.md into this folder
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    /// Operators at the same time [default: one a core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds that one program may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, value_parser = positive_seconds)]
    timeout: f64,
    /// Count an operator that passes against an expectation as unexpected
    #[arg(long)]
    strict: bool,
}

pub fn run(args: &Args) -> CommandResult {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    let project = Project::discover(&here).map_err(Failure::wrong_use)?;
    let expectations = Expectations::load(&project.expectations()).map_err(Failure::wrong_use)?;
    let cases = suite::load(&project.suites()).map_err(Failure::wrong_use)?;
    let operators = exhaustive::operators(&cases, args.all_f32);
    let operators = exhaustive::select(operators, &args.operators).map_err(Failure::wrong_use)?;
    let targets = targets(&args.targets)?;
    let interrupt = Interrupt::on_signals().map_err(Failure::harness)?;
    let mut options = RunOptions::new(std::env::current_exe().map_err(Failure::harness)?);
    options.timeout = Duration::from_secs_f64(args.timeout);
    if let Some(jobs) = args.jobs {
        options.jobs = jobs.into();
    }
    let stopped = || Failure::Interrupted("interrupted; nothing is written".to_owned());
    let mut pools = Vec::with_capacity(targets.len());
    for target in &targets {
        let planned = PlannedTarget::resolve(&project, target).map_err(|error| match error {
            ProjectError::UnknownPlugin { .. } | ProjectError::Numerics(_) => {
                Failure::wrong_use(error)
            }
            _ => Failure::harness(error),
        })?;
        let pool = Pool::start(planned, options.clone(), &interrupt).map_err(Failure::harness)?;
        pools.push(pool.ok_or_else(stopped)?);
    }
    let mut environment = Environment::here();
    environment.plugins = pools.iter().map(|pool| pool.record().clone()).collect();
    let jobs = if pools.iter().any(Pool::is_exclusive) {
        1
    } else {
        options.jobs
    };
    let findings = exhaustive::execute(&operators, &pools, jobs, &interrupt)
        .map_err(Failure::harness)?
        .ok_or_else(stopped)?;
    let report = Report::new(environment, &targets, &findings, &expectations);
    if let Some(file) = &args.json {
        publish::write(file, &json(&report)?).map_err(Failure::harness)?;
    }
    if let Some(dir) = &args.publish {
        publish::write(&dir.join(REPORT), &report.markdown()).map_err(Failure::harness)?;
    }
    print(&report.terminal())?;
    Ok(if report.is_unexpected(args.strict) {
        Verdict::Unexpected
    } else {
        Verdict::Clean
    })
}

fn targets(texts: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for text in texts {
        let target: Target = text.parse().map_err(Failure::wrong_use)?;
        if target.evidence() == Evidence::Compile {
            return Err(Failure::Use(anyhow!(
                "{target} compiles and does not run: there is nothing to measure; vtpu-<gen> runs what the compiler makes"
            )));
        }
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}
