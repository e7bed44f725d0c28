//! The Python package `oracle/` as this program sees it: processes that evaluate StableHLO programs, with extended precision as
//! the second oracle of the references, or with PyTorch as the target `torch-cpu`.

mod process;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use process::{Answer, Process, Request};
pub use process::{OracleError, sources};

/// What a process computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// 80 bits, exact integers, mpmath.
    Extended,
    /// PyTorch on CPU, in the program's own element types.
    Torch,
}

impl Arithmetic {
    /// As `python -m oracle` takes it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Extended => "extended",
            Self::Torch => "torch",
        }
    }

    /// The environment of `ci/clients/setup` that has its packages.
    pub(crate) fn environment(self) -> &'static str {
        match self {
            Self::Extended => "oracle",
            Self::Torch => "torch",
        }
    }
}

/// How processes are started.
#[derive(Debug, Clone)]
pub struct OracleCommand {
    /// A Python with the packages of `ci/clients/oracle.txt` (of `torch.txt`, for [`Arithmetic::Torch`]).
    pub python: PathBuf,
    /// The folder that the package `oracle` lies in.
    pub root: PathBuf,
    pub arithmetic: Arithmetic,
    /// For one case.
    pub timeout: Duration,
}
