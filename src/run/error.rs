//! Failures of the harness itself; what a plug-in does to a case is an outcome and not an error.

use std::io;
use std::path::PathBuf;

use crate::store::StoreError;
use crate::target::Target;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "target {target} does not start: {reason}; 'tpu-parity doctor' shows what is installed"
    )]
    TargetDoesNotStart { target: Target, reason: String },
    #[error("cannot start a worker process from {}: {source}", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("a worker process cannot be reached: {0}")]
    Worker(io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
