//! References: the CPU results that cases are compared against, stored with the provenance that shows when they are stale.

mod format;
mod generate;
mod store;
mod verify;

pub use format::{Generator, Provenance, Record};
pub use generate::{Generated, Unreferenced, generate};
pub use store::{Lookup, ReferenceError, ReferenceStore};
pub use verify::{Finding, Verified, verify};
