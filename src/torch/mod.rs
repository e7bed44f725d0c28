//! The suites of TorchTPU itself: PyTorch's operators and models, listed and run by the Python package in `suites/torch/`.
//!
//! Here is what this program knows of that package: how its cases are listed, how one of its processes is started and spoken
//! to, and when a case's results agree. Which worker dies for what, how often a case is tried and where outcomes go is `run`'s
//! job, as for any other case; what the cases are is the package's.

mod agreement;
mod client;
mod error;
mod exchange;
mod listing;
mod process;
mod protocol;
mod session;
mod source;

pub use client::{Client, PACKAGE, has_suite};
pub use error::TorchError;
pub use exchange::clear_abandoned;
pub use listing::{listed_before, load};
pub(crate) use session::Session;
pub use source::{TorchSource, TorchSourceError};

/// The value of `--suite`, before any colon.
pub const SUITE: &str = "torch";
