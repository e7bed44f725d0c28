//! Whole models: a target may be no worse than a constant times what CPU is in the same precision, both against f64.
//!
//! No bound follows from a model's program as one does from a sum's: errors grow and cancel through its layers. What CPU loses
//! in the precision that the target uses says how sensitive the model is to that precision.

use serde::{Deserialize, Serialize};

use super::{CompareError, Comparison, Numerics, ReferenceTensor, Tolerance, scan};
use crate::tensor::Tensor;

/// How far a result is from the reference in f64.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The largest difference, in the result's unit.
    pub max_abs: f64,
    /// `‖result − ref‖₂ / ‖ref‖₂`.
    pub relative_l2: f64,
}

/// What CPU is off in the precisions that targets use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yardstick {
    /// In the program's element types.
    pub own: Errors,
    /// The same, but with the operands of products rounded to bf16, as a TPU's matrix unit does at the default precision.
    pub matrix_unit: Errors,
}

/// How far a target's predictions agree with the reference's, over the rows of logits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    pub rows: u64,
    /// Rows whose largest logit is at the same class.
    pub top_1: u64,
    /// Classes in both top fives (or of all classes, if there are fewer), over all rows.
    pub top_k: u64,
    /// How many there could be: rows times `min(5, classes)`.
    pub top_k_of: u64,
    /// The mean over the rows of the Kullback-Leibler divergence of softmax(got) from softmax(reference), in nats.
    pub divergence: f64,
}

/// How many of the best classes are looked at.
const TOP: usize = 5;

impl Errors {
    /// Of a result against its reference.
    ///
    /// # Errors
    /// When the two cannot be compared.
    pub fn of(result: &Tensor, reference: &ReferenceTensor) -> Result<Self, CompareError> {
        let comparison = scan::compare(result, reference, &Tolerance::Norm(f64::MAX), &EXACT)?;
        Ok(Self {
            max_abs: comparison.max_abs,
            relative_l2: comparison.relative_l2,
        })
    }
}

const EXACT: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};

/// What CPU is off in the precision that the target uses.
fn of_cpu(reference: &ReferenceTensor, numerics: &Numerics) -> Result<Errors, CompareError> {
    let yardstick = reference.yardstick.ok_or(CompareError::MissingYardstick)?;
    Ok(match numerics.products_in_bf16() {
        true => yardstick.matrix_unit,
        false => yardstick.own,
    })
}

/// The bound on the largest error, as a tolerance in norm.
pub(super) fn of_elements(
    reference: &ReferenceTensor,
    factor: f64,
    numerics: &Numerics,
) -> Result<Tolerance, CompareError> {
    let cpu = of_cpu(reference, numerics)?;
    let Some(format) = numerics.format(reference.element_type) else {
        return Ok(Tolerance::Exact);
    };
    // In roundings of the largest value, which is what a tolerance in norm counts.
    let rounding = format.unit_roundoff() * largest(&reference.values);
    let roundings = if rounding > 0.0 {
        (cpu.max_abs / rounding).max(1.0)
    } else {
        1.0
    };
    Ok(Tolerance::Norm(factor * roundings))
}

pub(super) fn compare(
    got: &Tensor,
    reference: &ReferenceTensor,
    factor: f64,
    logits: bool,
    numerics: &Numerics,
) -> Result<Comparison, CompareError> {
    let cpu = of_cpu(reference, numerics)?;
    let tolerance = of_elements(reference, factor, numerics)?;
    let mut comparison = scan::compare(got, reference, &tolerance, numerics)?;
    let Some(format) = numerics.format(reference.element_type) else {
        return Ok(comparison);
    };
    let roundoff = format.unit_roundoff();
    let rounding = roundoff * largest(&reference.values);
    comparison.times_cpu = Some(
        (comparison.max_abs / cpu.max_abs.max(rounding.max(f64::MIN_POSITIVE)))
            .max(comparison.relative_l2 / cpu.relative_l2.max(roundoff))
            .min(f64::MAX),
    );
    if comparison.relative_l2 > factor * cpu.relative_l2.max(roundoff) {
        // Every element may be within the largest error's bound, and all of them together too far.
        comparison.mismatches = comparison.mismatches.max(1);
    }
    if logits {
        comparison.predictions = predictions(got, &reference.values);
    }
    Ok(comparison)
}

/// max|ref| over the finite elements.
fn largest(values: &Tensor) -> f64 {
    values
        .to_f64()
        .into_iter()
        .filter(|value| value.is_finite())
        .fold(0.0, |largest, value| largest.max(value.abs()))
}

/// `None` where there is no dimension of classes.
fn predictions(got: &Tensor, reference: &Tensor) -> Option<Predictions> {
    let classes = *got.shape().last().filter(|&&classes| classes > 0)?;
    let (got, reference) = (got.to_f64(), reference.to_f64());
    let mut sum = Predictions {
        rows: 0,
        top_1: 0,
        top_k: 0,
        top_k_of: 0,
        divergence: 0.0,
    };
    for (got, reference) in got
        .chunks_exact(classes)
        .zip(reference.chunks_exact(classes))
    {
        let (ours, theirs) = (best(got), best(reference));
        sum.rows += 1;
        sum.top_1 += u64::from(ours.first() == theirs.first());
        sum.top_k += ours.iter().filter(|class| theirs.contains(class)).count() as u64;
        sum.top_k_of += theirs.len() as u64;
        sum.divergence += divergence(reference, got);
    }
    sum.divergence = (sum.divergence / (sum.rows.max(1) as f64)).min(f64::MAX);
    Some(sum)
}

/// The best classes, the best first; of equal ones the first.
fn best(logits: &[f64]) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..logits.len()).collect();
    classes.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    classes.truncate(TOP);
    classes
}

/// KL(softmax(p) ‖ softmax(q)), from 0.
fn divergence(p: &[f64], q: &[f64]) -> f64 {
    let log_softmax = |logits: &[f64]| -> Vec<f64> {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit - largest).exp()).sum();
        let log_sum = largest + sum.ln();
        logits.iter().map(|logit| logit - log_sum).collect()
    };
    let (p, q) = (log_softmax(p), log_softmax(q));
    let terms = p.iter().zip(&q).map(|(p, q)| {
        if *p == f64::NEG_INFINITY {
            0.0
        } else {
            p.exp() * (p - q)
        }
    });
    let sum: f64 = terms.sum();
    if sum.is_nan() { f64::MAX } else { sum.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::tensor::ElementType::{F32, F64};

    fn reference(values: &[f64], own: f64, matrix_unit: f64) -> ReferenceTensor {
        let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        // As if one element alone were off.
        let errors = |max_abs: f64| Errors {
            max_abs,
            relative_l2: max_abs / norm,
        };
        ReferenceTensor {
            values: Tensor::from_f64(F64, vec![1, values.len()], values).unwrap(),
            element_type: F32,
            scale: None,
            flushed: None,
            yardstick: Some(Yardstick {
                own: errors(own),
                matrix_unit: errors(matrix_unit),
            }),
        }
    }

    fn run(got: &[f64], reference: &ReferenceTensor, on_tpu: bool) -> Comparison {
        let got = Tensor::from_f64(F32, vec![1, got.len()], got).unwrap();
        let numerics = Numerics {
            matmul_bf16_passes: on_tpu,
            ..EXACT
        };
        let tolerance = Tolerance::Yardstick {
            factor: 4.0,
            logits: true,
        };
        compare(&got, reference, &tolerance, &numerics).unwrap()
    }

    #[test]
    fn a_target_may_be_four_times_as_far_off_as_cpu_in_its_precision() {
        let reference = reference(&[1.0, 2.0, 3.0, 4.0], 0.001, 0.01);
        for (off, on_cpu, on_tpu) in [(0.0035, 0, 0), (0.005, 1, 0), (0.035, 1, 0), (0.045, 1, 1)] {
            let got = [1.0, 2.0 + off, 3.0, 4.0];
            assert_eq!(run(&got, &reference, false).mismatches, on_cpu, "{off}");
            assert_eq!(run(&got, &reference, true).mismatches, on_tpu, "{off}");
        }
    }

    #[test]
    fn all_elements_together_may_be_too_far_off() {
        // Each is within 4 · 0.001, all four are 0.0035 · 2 in the 2-norm.
        let reference = reference(&[1.0, 2.0, 3.0, 4.0], 0.001, 0.01);
        let got = [1.0035, 2.0035, 3.0035, 4.0035];
        let comparison = run(&got, &reference, false);
        assert_eq!(comparison.mismatches, 1);
        assert!(comparison.first_mismatch.is_none());
    }

    #[test]
    fn an_exact_cpu_counts_as_one_rounding_off() {
        let reference = reference(&[1.0, 2.0, 3.0, 4.0], 0.0, 0.0);
        // One rounding of 4 is 2⁻²² in f32: four of them.
        let off = |factor: f64| [1.0 + factor * 2f64.powi(-22), 2.0, 3.0, 4.0];
        assert_eq!(run(&off(3.0), &reference, false).mismatches, 0);
        assert_eq!(run(&off(6.0), &reference, false).mismatches, 1);
    }

    #[test]
    fn predictions_are_compared_by_row() {
        let values = [0.0, 3.0, 1.0, 2.0, -1.0, -2.0];
        let reference = reference(&values, 10.0, 10.0);
        let same = run(&values, &reference, false).predictions.unwrap();
        assert_eq!(
            (same.rows, same.top_1, same.top_k, same.top_k_of),
            (1, 1, 5, 5)
        );
        assert!(same.divergence < 1e-12);
        // The best class moves, and the last enters the top five in place of the fifth.
        let moved = run(&[0.0, 1.5, 1.0, 2.0, -3.0, -2.0], &reference, false);
        let moved = moved.predictions.unwrap();
        assert_eq!((moved.top_1, moved.top_k), (0, 4));
        // KL(softmax(0, 3, 1, 2, -1, -2) ‖ softmax(0, 1.5, 1, 2, -3, -2)), by Python's math in f64.
        assert!(
            (moved.divergence - DIVERGENCE).abs() < 1e-12,
            "{}",
            moved.divergence
        );
    }

    const DIVERGENCE: f64 = 0.27592907370555736;

    #[test]
    fn a_reference_without_a_yardstick_is_refused() {
        let without = ReferenceTensor {
            yardstick: None,
            ..reference(&[1.0], 0.0, 0.0)
        };
        let got = Tensor::from_f64(F32, vec![1, 1], &[1.0]).unwrap();
        let tolerance = Tolerance::Yardstick {
            factor: 4.0,
            logits: false,
        };
        assert_eq!(
            compare(&got, &without, &tolerance, &EXACT),
            Err(CompareError::MissingYardstick)
        );
    }
}
