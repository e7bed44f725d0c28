//! References: the CPU results that cases are compared against, stored with the provenance that shows when they are stale.

mod format;
mod generate;
pub(crate) mod matrix_unit;
mod oracle;
mod store;
mod verify;

use crate::case::CaseId;
use crate::outcome::OutcomeKind;
use crate::target::Target;
use crate::track::Expectations;

pub use format::{Generator, Output, Provenance, Record, StoredTensor};
pub use generate::{GenerateError, Generated, Left, Unreferenced, generate, generate_by_oracle};
pub use oracle::{
    Accounts, AccountsError, Disagreement, OracleReport, is_by_oracle, verify_with_oracle,
};
pub use store::{Lookup, ReferenceError, ReferenceStore};
pub use verify::{Finding, Verified, verify};

/// Whether a case is known not to run on the CPU plug-in, so that it can have no reference.
pub fn is_known_unreferenced(expectations: &Expectations, id: &CaseId) -> bool {
    use OutcomeKind::{Crash, Error, Unsupported};
    expectations
        .matching(id, &Target::Cpu.to_string(), &[])
        .any(|index| {
            let known = &expectations.entries()[index];
            [Crash, Error, Unsupported]
                .into_iter()
                .any(|kind| known.expects(kind))
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rayon::prelude::*;

    use super::*;
    use crate::suite;

    /// An edit of a suite without its references is found here, where no plug-in is needed.
    #[test]
    fn every_case_has_a_usable_reference_or_is_known_to_have_none() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let cases = suite::load(&root.join("suites")).unwrap();
        let known = Expectations::load(&root.join("suites/expectations")).unwrap();
        let store = ReferenceStore::open(&root.join("reference-outputs")).unwrap();
        let refusals: Vec<String> = cases
            .par_iter()
            .filter(|case| case.breaks().is_none())
            .filter_map(|case| match store.lookup(case) {
                Ok(Lookup::Missing) if is_known_unreferenced(&known, &case.id) => None,
                Ok(lookup) => lookup.usable(&case.id).err(),
                Err(error) => Some(error.to_string()),
            })
            .collect();
        assert!(
            refusals.is_empty(),
            "{} cases have no usable reference; run: tpu-parity reference generate\n{}",
            refusals.len(),
            refusals[..refusals.len().min(10)].join("\n")
        );
        let gone: Vec<_> = store
            .ids()
            .filter(|id| !cases.iter().any(|case| case.id == **id))
            .collect();
        assert!(
            gone.is_empty(),
            "references of cases that are gone: {gone:?}; run: tpu-parity reference generate"
        );
    }
}
