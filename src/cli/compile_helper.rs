//! `tpu-parity compile-helper PARENT_PID`: not for people; see `virtual_tpu::serve`.

use super::{CommandResult, Failure, Verdict};

/// Compiles for the virtual TPU in the process that started it.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id of the client.
    parent: u32,
}

pub fn run(args: &Args) -> CommandResult {
    crate::virtual_tpu::serve(args.parent).map_err(Failure::harness)?;
    Ok(Verdict::Clean)
}
