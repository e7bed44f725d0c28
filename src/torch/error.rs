//! Why torch's suites cannot be listed or run at all; what happens to one of their cases is an outcome and no error.

use std::io;
use std::path::PathBuf;

use crate::project::ProjectError;
use crate::target::Target;

#[derive(Debug, thiserror::Error)]
pub enum TorchError {
    #[error("{} is missing: torch's suites need PyTorch and TorchTPU; install them with ci/setup --torch", python.display())]
    NotInstalled { python: PathBuf },
    #[error("the package of torch's suites is missing: no folder {}", folder.display())]
    NoPackage { folder: PathBuf },
    #[error(
        "the virtual TPU's plug-in {} is missing; build it with cargo build --release, or name one with TPU_PARITY_PLUGIN",
        path.display()
    )]
    NoPlugin { path: PathBuf },
    #[error(
        "torch's suites do not run on {0}; they run on tpu and vtpu-<gen>, which TorchTPU drives, and on cpu, where PyTorch \
         is held against itself"
    )]
    Target(Target),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot start {}: {source}; install it anew with ci/setup --torch", python.display())]
    Start { python: PathBuf, source: io::Error },
    #[error("torch's suites cannot be listed: {0}")]
    Listing(String),
    #[error("torch's suites cannot be listed: line {line} of their listing: {reason}")]
    Line { line: usize, reason: String },
    #[error("torch's suites name no case")]
    Empty,
    #[error("no folder for tensors can be made in {}: {source}", folder.display())]
    Exchange { folder: PathBuf, source: io::Error },
    #[error("{0}")]
    NotReady(String),
    #[error(transparent)]
    Project(#[from] ProjectError),
}

impl TorchError {
    /// Whether the harness or its surroundings failed, rather than the one who asked.
    pub fn is_the_harness(&self) -> bool {
        match self {
            Self::NotInstalled { .. }
            | Self::NoPackage { .. }
            | Self::NoPlugin { .. }
            | Self::Target(_)
            | Self::Listing(_)
            | Self::Empty => false,
            Self::Read { .. }
            | Self::Start { .. }
            | Self::Line { .. }
            | Self::Exchange { .. }
            | Self::NotReady(_)
            | Self::Project(_) => true,
        }
    }
}
