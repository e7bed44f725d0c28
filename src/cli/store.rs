//! `tpu-parity store`: what runs there are.

use clap::Subcommand;
use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::{CommandResult, Failure, Global, Verdict, judged};
use crate::report::escape;
use crate::store::{Listed, Run};

/// Look at the runs that are kept.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the runs, the newest last
    Ls,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    match args.command {
        Command::Ls => ls(global),
    }
}

fn ls(global: &Global) -> CommandResult {
    let store = judged::open_store(global)?;
    let runs = store.list().map_err(Failure::harness)?;
    if runs.is_empty() {
        eprintln!("no runs in {}", store.path().display());
        return Ok(Verdict::Clean);
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["run", "label", "state", "outcomes", "targets"]);
    for run in &runs {
        table.add_row(row(run));
    }
    judged::print(&format!("{}\n", table.trim_fmt()))?;
    Ok(Verdict::Clean)
}

fn row(listed: &Listed) -> [String; 5] {
    let run = match &listed.record {
        Ok(_) => Run::load(&listed.dir),
        Err(error) => return unreadable(listed, error),
    };
    let run = match run {
        Ok(run) => run,
        Err(error) => return unreadable(listed, &error),
    };
    let targets: Vec<String> = run.record.targets.iter().map(ToString::to_string).collect();
    let state = if run.is_sealed() { "sealed" } else { "open" };
    [
        escape::line(&listed.dir.id()),
        escape::line(run.record.label.as_deref().unwrap_or_default()),
        state.to_owned(),
        format!(
            "{}/{}",
            run.outcomes.len(),
            run.planned.len() * run.record.targets.len()
        ),
        escape::line(&targets.join(" ")),
    ]
}

fn unreadable(listed: &Listed, error: &crate::store::StoreError) -> [String; 5] {
    [
        escape::line(&listed.dir.id()),
        String::new(),
        "unreadable".to_owned(),
        String::new(),
        escape::line(&error.to_string()),
    ]
}
