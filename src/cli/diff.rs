//! `diff`: what changed between two runs.

use clap::ValueEnum;

use super::judged::{json, load, open_store, print};
use super::{CommandResult, Global, Verdict};
use crate::report::diff::render;
use crate::track::diff::diff;

/// Show what changed between two runs: outcomes, metrics, plug-ins.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The earlier run: an id, a label, a path, latest or latest~N
    #[arg(value_name = "OLD")]
    old: String,
    /// The later run
    #[arg(value_name = "NEW", default_value = "latest")]
    new: String,
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Terminal,
    Json,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    let store = open_store(global)?;
    let found = diff(&load(&store, &args.old)?, &load(&store, &args.new)?);
    let text = match args.format {
        Format::Terminal => render(&found),
        Format::Json => json(&found)?,
    };
    print(&text)?;
    Ok(Verdict::Clean)
}
