//! `report`: runs in the form that a reader wants.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::anyhow;

use super::judged::{Tracker, print};
use super::{CommandResult, Failure, Global, Verdict, show};
use crate::report::{Colour, Format, ReportError, publish, render_with};

/// Report on a run: pass rates, what is unexpected, known failures and their issues.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Ids, labels, paths, latest or latest~N
    #[arg(value_name = "RUN", default_value = "latest")]
    runs: Vec<String>,
    /// terminal, markdown, junit or json
    #[arg(long, value_name = "FORMAT", default_value = "terminal")]
    format: Format,
    /// Judge also against this run: tells regressions from new failures
    #[arg(long, value_name = "RUN")]
    baseline: Option<String>,
    /// Write here instead of standard output
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Add the table of recompiles of this compile log, which TPU_PARITY_COMPILE_LOG named
    #[arg(long, value_name = "FILE")]
    compile_log: Option<PathBuf>,
    /// Write latest/{report.md,report.json,junit.xml} and a line of history.json under this directory, as reports/ has them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format", "compile_log"])]
    publish: Option<PathBuf>,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    let one = args.publish.is_some() || matches!(args.format, Format::Junit | Format::Json);
    if one && args.runs.len() > 1 {
        let what = match &args.publish {
            Some(_) => "--publish".to_owned(),
            None => format!("--format {}", args.format),
        };
        return Err(Failure::wrong_use(anyhow!(
            "{what} takes one run, and {} are named; call it once for each",
            args.runs.len()
        )));
    }
    let tracker = Tracker::open(global)?;
    let baseline = args
        .baseline
        .as_deref()
        .map(|name| tracker.run(name))
        .transpose()?;
    let recompiles = args
        .compile_log
        .as_deref()
        .map(show::recompiles)
        .transpose()?;
    let mut text = String::new();
    for name in &args.runs {
        let run = tracker.run(name)?;
        let judgement = tracker.judge(&run, baseline.as_ref());
        if let Some(dir) = &args.publish {
            publish::publish(dir, &run, &judgement, &tracker.ledger).map_err(failure)?;
            eprintln!("published run {} in {}", run.record.id, dir.display());
            return Ok(Verdict::Clean);
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let colour = colour(args.out.is_some());
        let (ledger, recompiles) = (&tracker.ledger, recompiles.as_ref());
        text += &render_with(args.format, &run, &judgement, ledger, recompiles, colour)
            .map_err(failure)?;
    }
    match &args.out {
        Some(path) => publish::write(path, &text).map_err(failure)?,
        None => print(&text)?,
    }
    Ok(Verdict::Clean)
}

/// Colours for a terminal, unless `NO_COLOR` is set (to anything but nothing, as no-color.org has it).
fn colour(to_file: bool) -> Colour {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if to_file || refused || !std::io::stdout().is_terminal() {
        Colour::Off
    } else {
        Colour::On
    }
}

fn failure(error: ReportError) -> Failure {
    match error {
        ReportError::History { .. } => Failure::wrong_use(error),
        error => Failure::harness(error),
    }
}
