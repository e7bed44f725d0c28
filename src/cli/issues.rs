//! `issues`: the issues reported, and what they block.

use clap::{Subcommand, ValueEnum};

use super::judged::{Tracker, json, print};
use super::{CommandResult, Global, Verdict};
use crate::report::issues::render;
use crate::track::impact::issue_status;

/// The issues that known failures name.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Issues reported, fixed, open and declined, the cases that each blocks, and the headline
    Status {
        /// The run whose outcomes are counted: an id, a label, a path, latest or latest~N [default: the latest, if any]
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    let Command::Status { run, format } = &args.command;
    let tracker = Tracker::open(global)?;
    let run = tracker.run_or_latest(run.as_deref())?;
    let judged = run
        .as_ref()
        .map(|run| (run.record.id.as_str(), tracker.judge(run, None)));
    let status = issue_status(
        judged.as_ref().map(|(id, judgement)| (*id, judgement)),
        tracker.expectations.entries(),
        &tracker.ledger,
    );
    let text = match format {
        Format::Table => render(&status),
        Format::Json => json(&status)?,
    };
    print(&text)?;
    Ok(Verdict::Clean)
}
