//! `tpu-parity worker PARENT_PID`: not for people; see `run::worker`.

use super::{CommandResult, Failure, Verdict};

/// Serves cases to the process that started it.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id of the supervisor.
    parent: u32,
}

pub fn run(args: &Args) -> CommandResult {
    crate::run::worker::serve(args.parent).map_err(Failure::harness)?;
    Ok(Verdict::Clean)
}
