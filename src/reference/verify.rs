//! Computes references again and reports any that differ from what is stored, and any that are stale or missing.

use super::generate::compute_all;
use super::store::ReferenceStore;
use crate::case::{Case, CaseId};
use crate::compare::{Numerics, ReferenceTensor, Tolerance, compare};
use crate::run::{Interrupt, Pool, RunError};
use crate::tensor::Tensor;

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

/// A scale only bounds an error, and f64 sums of any length here agree far better than this, relative to their size.
const SCALE_ERROR: f64 = 1e-9;

pub(super) const EXACT_NUMERICS: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};

pub fn verify(
    store: &ReferenceStore,
    cases: &[Case],
    pool: &Pool,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<Verified, RunError> {
    let mut report = Verified::default();
    let mut sound = Vec::new();
    let mut stored = Vec::new();
    for case in cases {
        match store.reference(case) {
            Ok(reference) => {
                sound.push(case.clone());
                stored.push(reference);
            }
            Err(what) => {
                let id = case.id.clone();
                report.findings.push(Finding { id, what });
            }
        }
    }
    let (computed, failure) = compute_all(&sound, pool, jobs, interrupt, on_case);
    if let Some(failure) = failure {
        return Err(failure);
    }
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
        if let Err(what) = same_frame(stored, again) {
            return Agreement::Differs(format!("result {index}: {what}"));
        }
        let tolerance = case.tolerances.get(index).unwrap_or(&Tolerance::Exact);
        let within = |tolerance: &Tolerance| {
            let reference = ReferenceTensor {
                yardstick: None,
                flushed: None,
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

/// What stands beside the values: the element type of the case's own result, and the scale of its error bound.
pub(super) fn same_frame(stored: &ReferenceTensor, again: &ReferenceTensor) -> Result<(), String> {
    if stored.element_type != again.element_type {
        return Err(format!(
            "the case's own element type is {} now, {} stored",
            again.element_type, stored.element_type
        ));
    }
    match (&stored.flushed, &again.flushed) {
        (None, None) => {}
        (Some(stored), Some(again)) => same_values(stored, again, "the value for flushed inputs")?,
        (Some(_), None) => {
            return Err("values for flushed inputs are stored, none were computed".to_owned());
        }
        (None, Some(_)) => {
            return Err("values for flushed inputs were computed, none are stored".to_owned());
        }
    }
    if stored.yardstick.is_some() != again.yardstick.is_some() {
        return Err("one of the two has no yardstick".to_owned());
    }
    match (&stored.scale, &again.scale) {
        (None, None) => Ok(()),
        (Some(stored), Some(again)) => same_values(stored, again, "the scale"),
        (Some(_), None) => Err("a scale is stored, none was computed".to_owned()),
        (None, Some(_)) => Err("no scale is stored, one was computed".to_owned()),
    }
}

fn same_values(stored: &Tensor, again: &Tensor, what: &str) -> Result<(), String> {
    if (stored.element_type(), stored.shape()) != (again.element_type(), again.shape()) {
        return Err(format!(
            "{what} is {}{:?} now, {}{:?} stored",
            again.element_type(),
            again.shape(),
            stored.element_type(),
            stored.shape()
        ));
    }
    let near = |a: f64, b: f64| {
        a == b
            || (a.is_nan() && b.is_nan())
            || (a - b).abs() <= SCALE_ERROR * a.abs().max(b.abs()) && (a - b).is_finite()
    };
    let (stored, again) = (stored.to_f64(), again.to_f64());
    match stored.iter().zip(&again).position(|(a, b)| !near(*a, *b)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what} differs, first at element {at}: {:?} now, {:?} stored",
            again[at], stored[at]
        )),
    }
}

/// The tolerance between two evaluations of a case's reference program.
pub(super) fn in_f64(tolerance: &Tolerance) -> Tolerance {
    match tolerance {
        // Roundings add up through a model's layers; a million are still 1e-10.
        Tolerance::Yardstick { .. } => Tolerance::Norm(1e6),
        Tolerance::Exact => Tolerance::Exact,
        Tolerance::Ulp(ulp) => Tolerance::Ulp(ulp.max(ELEMENTWISE_ULP)),
        Tolerance::Accumulate { terms, .. } => Tolerance::Accumulate {
            terms: *terms,
            accumulator: crate::tensor::ElementType::F64,
            precision: None,
        },
        Tolerance::Norm(factor) => Tolerance::Norm(*factor),
        // Between values of the result's own type, which is not f64: the reference is the value itself.
        Tolerance::Distance(_) | Tolerance::Absolute(_) => Tolerance::Exact,
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
