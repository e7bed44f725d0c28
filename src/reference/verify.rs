//! Computes references again and reports any that differ from what is stored, and any that are stale or missing.

use super::generate::{GenerateError, compute_all};
use super::store::{Lookup, ReferenceStore};
use crate::case::{Case, CaseId};
use crate::compare::{Numerics, ReferenceTensor, Tolerance, compare};
use crate::run::{Interrupt, Pool};

/// Something wrong with one reference, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub id: CaseId,
    pub what: String,
}

/// What [`verify`] found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Equal to the last bit.
    pub identical: usize,
    /// Equal within the rounding of f64: another processor orders sums and rounds `exp` otherwise.
    pub within_rounding: usize,
    pub findings: Vec<Finding>,
    pub interrupted: bool,
}

/// Two f64 results of the same elementwise program on two processors lie within this many ulp of each other: both are
/// within the few ulp that XLA's CPU math library promises.
const ELEMENTWISE_ULP: f64 = 8.0;

const EXACT_NUMERICS: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
};

pub fn verify(
    store: &ReferenceStore,
    cases: &[Case],
    pool: &Pool,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<Verified, GenerateError> {
    let mut report = Verified::default();
    let mut sound = Vec::new();
    let mut stored = Vec::new();
    for case in cases {
        match store.lookup(case)? {
            Lookup::Found(reference) => {
                sound.push(case.clone());
                stored.push(reference);
            }
            other => {
                if let Err(what) = other.usable(&case.id) {
                    let id = case.id.clone();
                    report.findings.push(Finding { id, what });
                }
            }
        }
    }
    let computed = compute_all(&sound, pool, jobs, interrupt, on_case)?;
    report.interrupted = computed.len() < sound.len();
    for (index, computed) in computed {
        let case = &sound[index];
        let verdict = match &computed {
            Ok(again) => agree(case, &stored[index], again),
            Err(outcome) => Agreement::Differs(format!(
                "it cannot be computed again: {}",
                outcome.message.as_deref().unwrap_or("no reason given")
            )),
        };
        match verdict {
            Agreement::Identical => report.identical += 1,
            Agreement::WithinRounding => report.within_rounding += 1,
            Agreement::Differs(what) => report.findings.push(Finding {
                id: case.id.clone(),
                what,
            }),
        }
    }
    report.findings.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(report)
}

enum Agreement {
    Identical,
    WithinRounding,
    Differs(String),
}

fn agree(case: &Case, stored: &[ReferenceTensor], again: &[ReferenceTensor]) -> Agreement {
    if stored.len() != again.len() {
        return Agreement::Differs(format!(
            "{} results are stored, {} were computed",
            stored.len(),
            again.len()
        ));
    }
    let mut verdict = Agreement::Identical;
    for (index, (stored, again)) in stored.iter().zip(again).enumerate() {
        let tolerance = case.tolerances.get(index).unwrap_or(&Tolerance::Exact);
        let within = |tolerance: &Tolerance| {
            let reference = ReferenceTensor {
                values: stored.values.clone(),
                element_type: stored.values.element_type(),
                scale: stored.scale.clone(),
            };
            compare(&again.values, &reference, tolerance, &EXACT_NUMERICS)
        };
        match within(&Tolerance::Exact) {
            Ok(comparison) if comparison.mismatches == 0 => continue,
            Ok(_) => {}
            Err(mismatch) => return Agreement::Differs(format!("result {index}: {mismatch}")),
        }
        match within(&in_f64(tolerance)) {
            Ok(comparison) if comparison.mismatches == 0 => verdict = Agreement::WithinRounding,
            Ok(comparison) => {
                let first = comparison.first_mismatch.map_or_else(String::new, |first| {
                    format!(
                        ", first at {:?}: {} now, {} stored",
                        first.index, first.got, first.expected
                    )
                });
                return Agreement::Differs(format!(
                    "result {index}: {} of {} elements differ{first}",
                    comparison.mismatches, comparison.elements
                ));
            }
            Err(mismatch) => return Agreement::Differs(format!("result {index}: {mismatch}")),
        }
    }
    verdict
}

/// The tolerance between two evaluations of a case's reference program.
fn in_f64(tolerance: &Tolerance) -> Tolerance {
    match tolerance {
        Tolerance::Exact => Tolerance::Exact,
        Tolerance::Ulp(ulp) => Tolerance::Ulp(ulp.max(ELEMENTWISE_ULP)),
        Tolerance::Accumulate { terms, .. } => Tolerance::Accumulate {
            terms: *terms,
            accumulator: crate::tensor::ElementType::F64,
            precision: None,
        },
        Tolerance::Norm(factor) => Tolerance::Norm(*factor),
    }
}
