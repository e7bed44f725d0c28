//! References: the CPU results that cases are compared against, stored with the provenance that shows when they are stale.

mod format;
mod generate;
mod store;
mod verify;

use crate::case::CaseId;
use crate::outcome::OutcomeKind;
use crate::target::Target;
use crate::track::Expectations;

pub use format::{Generator, Output, Provenance, Record, StoredTensor};
pub use generate::{GenerateError, Generated, Left, Unreferenced, generate};
pub use store::{Lookup, ReferenceError, ReferenceStore};
pub use verify::{Finding, Verified, verify};

/// Whether a case is known not to run on the CPU plug-in, so that it can have no reference.
pub fn is_known_unreferenced(expectations: &Expectations, id: &CaseId) -> bool {
    use OutcomeKind::{Crash, Error, Unsupported};
    expectations
        .matching(id, &Target::Cpu.to_string())
        .any(|index| {
            let known = &expectations.entries()[index];
            [Crash, Error, Unsupported]
                .into_iter()
                .any(|kind| known.expects(kind))
        })
}
