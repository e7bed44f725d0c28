//! The command line: one file a subcommand, each turning arguments into library calls and errors into words. No logic.

mod compile_helper;
mod coverage;
mod diff;
mod doctor;
mod exhaustive;
mod gate;
mod issues;
mod judged;
mod list;
mod power;
mod reference;
mod report;
mod run;
mod show;
mod store;
mod suites;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::escape;
use crate::run::Interrupt;
use crate::suite::SourceError;

/// Conformance test harness and compatibility tracker for TPUs.
#[derive(Parser)]
#[command(name = "tpu-parity", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every subcommand takes.
#[derive(clap::Args, Debug, Clone)]
pub struct Global {
    /// Where runs are kept [default: .tpu-parity/runs under the project's root]
    #[arg(long, global = true, value_name = "DIR", env = "TPU_PARITY_STORE")]
    pub store: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// What is installed, what is missing, and how to get it
    Doctor(doctor::Doctor),
    Coverage(coverage::Args),
    Diff(diff::Args),
    Exhaustive(exhaustive::Args),
    Gate(gate::Args),
    Issues(issues::Args),
    Power(power::Args),
    Reference(reference::Args),
    Report(report::Args),
    List(list::Args),
    Run(run::Args),
    Show(show::Args),
    Store(store::Args),
    #[command(hide = true)]
    CompileHelper(compile_helper::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

/// What a subcommand found. Written use is 2 (clap's own code and [`Failure::Use`]), a harness failure 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing unexpected: exit code 0.
    Clean,
    /// A regression, a new failure, a strict `fixed`, a missing case: exit code 1.
    Unexpected,
}

/// Why a subcommand could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The request is wrong (an unknown target, a glob that selects nothing, a malformed file): exit code 2.
    Use(anyhow::Error),
    /// The harness or its surroundings failed (an unwritable store, a plug-in that does not load): exit code 3.
    Harness(anyhow::Error),
    /// Stopped by the user, with what is left of the work: exit code 130.
    Interrupted(String),
}

impl Failure {
    pub fn wrong_use(error: impl Into<anyhow::Error>) -> Self {
        Self::Use(error.into())
    }

    pub fn harness(error: impl Into<anyhow::Error>) -> Self {
        Self::Harness(error.into())
    }
}

/// A source of cases that fails by itself is no wrong use.
fn harness_or_use(error: SourceError) -> Failure {
    match &error {
        SourceError::Torch(torch) if torch.is_the_harness() => Failure::harness(error),
        _ => Failure::wrong_use(error),
    }
}

/// The value of `--timeout`.
fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("not a number of seconds above 0".to_owned()),
    }
}

pub type CommandResult = Result<Verdict, Failure>;

pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result: CommandResult = match cli.command {
        Command::Doctor(command) => command.run(&cli.global),
        Command::Coverage(args) => coverage::run(&args),
        Command::Diff(args) => diff::run(&cli.global, &args),
        Command::Exhaustive(args) => exhaustive::run(&args),
        Command::Gate(args) => gate::run(&cli.global, &args),
        Command::Issues(args) => issues::run(&cli.global, &args),
        Command::Power(args) => power::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Report(args) => report::run(&cli.global, &args),
        Command::List(args) => list::run(&args),
        Command::Run(args) => run::run(&cli.global, &args),
        Command::Show(args) => show::run(&cli.global, &args),
        Command::Store(args) => store::run(&cli.global, &args),
        Command::CompileHelper(args) => compile_helper::run(&args),
        Command::Worker(args) => worker::run(&args),
    };
    match result {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Unexpected) => ExitCode::from(1),
        Err(Failure::Use(error)) => complain(&error, 2),
        Err(Failure::Harness(error)) => complain(&error, 3),
        Err(Failure::Interrupted(message)) => {
            eprintln!("{message}");
            ExitCode::from(Interrupt::EXIT_CODE)
        }
    }
}

/// The error and its causes, less those that its own words quote already.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    // Errors quote plug-ins and files. Those of suites are several lines.
    let text = with_causes(error);
    let lines: Vec<String> = text.lines().map(escape::line).collect();
    eprintln!("error: {}", lines.join("\n"));
    ExitCode::from(code)
}
