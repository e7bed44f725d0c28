//! Decides whether a target's result agrees with its reference, and measures by how much it does not.
//!
//! `bound` holds the error model: how far a float may lie from its reference. `agree` is the verdict on one element.
//! `scan` goes once over the data with all cores and gathers verdicts and figures, with `fast` for what is ordinary. `explain` says what kind of failure it is.

mod agree;
mod bound;
mod element;
mod explain;
mod fast;
mod figures;
mod flushed;
mod rounding;
mod scan;
mod yardstick;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use element::Judge;
pub use flushed::flushable;
pub use yardstick::{Errors, Predictions, Yardstick};

use crate::hlo::MxuNumerics;
use crate::target::is_tpu;
use crate::tensor::format::Specials;
use crate::tensor::{ElementType, FloatFormat, Tensor};

pub use explain::{Explanation, Fault, Known, explain};
pub(crate) use rounding::{Directed, directed};
pub(crate) use scan::Scan as Rules;

/// How far a float result may lie from its reference. Integers, bools, shapes, element types, NaN positions, infinities and
/// signs of zero are compared exactly whatever the tolerance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// Equal to the reference once that is rounded to the element type. Any NaN equals any NaN. (A reference in f64 is
    /// rounded already, so a result can differ where it lies within f64's own error of a tie.)
    Exact,
    /// Within this many ulp of the result's element type, measured at the reference.
    Ulp(f64),
    /// A sum of `terms` products: `|got − ref| ≤ u_out·|ref| + γ(terms, u_acc)·scale` (+ the operand rounding of a TPU's matrix
    /// unit at `precision`), scale being the same program on the absolute values of the inputs.
    Accumulate {
        terms: u64,
        /// The element type that partial sums are kept in.
        accumulator: ElementType,
        /// Set for programs that use the matrix unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        precision: Option<Precision>,
    },
    /// `|got − ref| ≤ factor · u · max|ref|`: for factorisations, solves and transforms, whose errors are bounded in norm.
    Norm(f64),
    /// At most this many values of the element type away, counted as StableHLO's `check.expect_close` counts them: through zero,
    /// whose signs are one value, and by parts of a complex element. 0 is `check.expect_eq`, but that NaN equals NaN.
    Distance(u64),
    /// `|got − ref| ≤ bound`, by parts of a complex element: StableHLO's `check.expect_almost_eq`.
    Absolute(f64),
    /// Of a whole model: no worse than `factor` times what CPU is in the precision that the target uses, both against f64, in
    /// the largest error and in the relative 2-norm. A CPU that is exact counts as one rounding off.
    Yardstick {
        factor: f64,
        /// The last dimension is one of classes: how far the predictions agree is reported beside.
        logits: bool,
    },
}

impl Tolerance {
    /// Whether its number is somebody's finding, and not the arithmetic's own.
    pub fn needs_source(&self) -> bool {
        matches!(self, Self::Ulp(_) | Self::Norm(_) | Self::Yardstick { .. })
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Ulp(ulps) => write!(f, "{ulps} ulp"),
            Self::Distance(0) => f.write_str("the same value"),
            Self::Distance(values) => write!(f, "{values} values of the type away"),
            Self::Absolute(bound) => write!(f, "{bound} absolute"),
            Self::Yardstick { factor, .. } => {
                write!(
                    f,
                    "{factor} times what CPU is off in the target's precision"
                )
            }
            Self::Norm(factor) => write!(f, "{factor} roundings of the largest value"),
            Self::Accumulate {
                terms,
                accumulator,
                precision,
            } => {
                write!(f, "a sum of {terms} products in {accumulator}")?;
                match precision {
                    Some(precision) => {
                        let precision = format!("{precision:?}").to_lowercase();
                        write!(f, ", matrix unit at {precision}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// StableHLO's `precision_config`: on a TPU, one, three or six bf16 passes for f32 operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Default,
    High,
    Highest,
}

/// What one result's comparison measured. Figures cover the elements that are finite on both sides and are always finite
/// themselves (an overflow is given as the largest f64); they are the same however many cores took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub elements: u64,
    pub mismatches: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<Mismatch>,
    /// Against the unrounded reference, like all figures; of a complex element the modulus of the difference. A real
    /// subnormal that the target flushed, as it may, counts in no `max_…`.
    pub max_abs: f64,
    /// Over the elements whose reference is not zero.
    pub max_rel: f64,
    /// In ulp of the result's element type at the reference; of integers the difference.
    pub max_ulp: f64,
    /// `‖got − ref‖₂ / ‖ref‖₂`; `‖got‖₂` where the reference is all zeros.
    pub relative_l2: f64,
    /// Cosine of the angle between the two as vectors; 1 where both are zero or empty, 0 where one is.
    pub cosine: f64,
    /// What kind of failure it is, where elements differ and the comparison's caller asked [`explain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// How many times as far off as CPU in the target's precision, where the tolerance is a yardstick: of the largest error and
    /// the relative 2-norm the worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_cpu: Option<f64>,
    /// How far the predictions agree, of a model's logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<Predictions>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    pub index: Vec<usize>,
    pub got: String,
    pub expected: String,
}

/// The CPU result of one of a program's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferenceTensor {
    /// In the widened type (f64, c128), or in `element_type` itself where the reference was computed in it.
    pub values: Tensor,
    /// Of the program's own result.
    pub element_type: ElementType,
    /// The same program on the absolute values of its inputs, f64 (or c128, of which the modulus counts); same shape.
    pub scale: Option<Tensor>,
    /// The values where subnormal inputs are taken for zeros of their sign, if those are other values: an element that agrees
    /// with its counterpart here is as right on a target that flushes subnormals. Type and shape are those of `values`.
    pub flushed: Option<Tensor>,
    /// How far off CPU is in the program's own precision, where a tolerance measures by that.
    pub yardstick: Option<Yardstick>,
}

impl From<Tensor> for ReferenceTensor {
    /// A reference in the result's own element type, without a scale.
    fn from(values: Tensor) -> Self {
        Self {
            element_type: values.element_type(),
            values,
            scale: None,
            flushed: None,
            yardstick: None,
        }
    }
}

/// What a target's arithmetic does that the element types do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numerics {
    /// f32 products are made of one, three or six products of bf16 parts.
    pub matmul_bf16_passes: bool,
    /// Subnormal results of bf16, f32 and f64 may come as zero of the same sign. (Smaller formats are computed in f32, where
    /// their subnormals are normal.)
    pub flush_subnormals: bool,
    /// f64 is the unevaluated sum of two f32: see [`F64_AS_F32_PAIR`].
    pub f64_as_f32_pairs: bool,
}

/// What is left of f64 where it is a pair of f32, as on a TPU.
///
/// The pair has f32's exponent range and 49 digits (XLA, `xla/ef57.h`, `SplitF64ToF32`). Its arithmetic is double-word
/// arithmetic: with u = 2⁻²⁴, sums are within 3u² + 13u³ of the exact ones, products within 7u², quotients within
/// 15u² + 56u³ (Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building blocks of double-word
/// arithmetic", ACM TOMS 44(2), 2017: the weakest of the algorithms there). All are below 16u² = 2⁻⁴⁴, which is the unit
/// roundoff of 44 digits.
const F64_AS_F32_PAIR: FloatFormat = FloatFormat {
    exponent_bits: 8,
    mantissa_bits: 43,
    bias: 127,
    specials: Specials::Ieee,
};

impl Numerics {
    /// Of the PJRT platform that a client names itself, however its target was spelled: XLA CPU sets flush-to-zero; a TPU
    /// flushes, multiplies in bf16 and makes f64 of two f32.
    pub fn for_platform(platform: &str) -> Self {
        let is_tpu = is_tpu(platform);
        Self {
            matmul_bf16_passes: is_tpu,
            flush_subnormals: true,
            f64_as_f32_pairs: is_tpu,
        }
    }

    /// Of a virtual TPU. Its elementwise arithmetic is XLA CPU's, which executes it and sets flush-to-zero whatever the TPU's
    /// compiler meant; its matrix products round their operands in the passes over the program, as asked for; and f64 was
    /// taken apart by the TPU's compiler before the program came here.
    pub fn of_virtual(numerics: MxuNumerics) -> Self {
        Self {
            matmul_bf16_passes: numerics == MxuNumerics::Mxu,
            f64_as_f32_pairs: true,
            ..Self::for_platform("cpu")
        }
    }

    /// Whether a program's products may be of bf16 operands. The TPU compiler keeps what only products of the default precision
    /// read in bf16, so that they are whatever rounds the operands that it left alone.
    fn products_in_bf16(&self) -> bool {
        self.matmul_bf16_passes || self.f64_as_f32_pairs
    }

    /// The format that results of the type, or the parts of complex ones, have here; `None` of integers.
    pub(crate) fn format(&self, element_type: ElementType) -> Option<FloatFormat> {
        match element_type {
            ElementType::F64 | ElementType::C128 if self.f64_as_f32_pairs => Some(F64_AS_F32_PAIR),
            _ => element_type.float_format(),
        }
    }

    fn in_pairs(&self, element_type: ElementType) -> bool {
        self.format(element_type) == Some(F64_AS_F32_PAIR)
    }
}

/// Why two tensors cannot be compared. The first two are failures of the target; the others say that the case or its
/// reference is malformed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    #[error("the result has element type {got}, expected {expected}")]
    ElementTypeMismatch {
        got: ElementType,
        expected: ElementType,
    },
    #[error("the result has shape {got:?}, expected {expected:?}")]
    ShapeMismatch {
        got: Vec<usize>,
        expected: Vec<usize>,
    },
    #[error("a reference for {element_type} cannot be in {values}; generate the reference again")]
    ReferenceType {
        element_type: ElementType,
        values: ElementType,
    },
    #[error("the tolerance 'accumulate' needs the reference's scale; generate the reference again")]
    MissingScale,
    #[error(
        "the tolerance 'yardstick' needs what CPU is off in the program's precision; generate the reference again"
    )]
    MissingYardstick,
    #[error(
        "the scale is {element_type} {shape:?}, which does not fit a result of shape {expected:?}; generate the reference again"
    )]
    Scale {
        element_type: ElementType,
        shape: Vec<usize>,
        expected: Vec<usize>,
    },
    #[error("the values for flushed inputs do not fit the others; generate the reference again")]
    Flushed,
    #[error("the tolerance is impossible: {0}")]
    Tolerance(String),
}

/// Compares a result with its reference in one pass over the data (two where the tolerance is in norm).
///
/// The rules, element by element:
/// - Integers and `pred` are equal.
/// - NaN stands where the reference has NaN and nowhere else; an infinity where it has the same infinity. (What a type without
///   NaN holds in its place is left open.)
/// - A finite float lies within the tolerance's bound of the unrounded reference, or is the reference rounded to the element
///   type. No bound is below half the smallest subnormal, or, with `flush_subnormals`, the smallest normal.
/// - A reference that overflows the element type is what it rounds to there. Next to that edge the bound decides: an
///   overflow counts as the value that would follow the largest finite one.
/// - With `accumulate`, where the scale itself is past the accumulator's largest value, partial sums may have overflowed:
///   infinities and NaN are accepted.
/// - With `f64_as_f32_pairs`, f64 is the format that the pair's arithmetic amounts to, and its results count as rounded there
///   wherever they ask to be exact; zeros may lose their sign.
/// - Zero for a zero has the reference's sign, unless the reference is a sum whose terms cancelled (`accumulate` with a scale
///   above zero) or is bounded in norm: there a bound admits values of both signs. Types without −0 have nothing to compare.
/// - With `distance` and `absolute`, which are StableHLO's checks, signs of zero do not count, an infinity is equal to itself alone,
///   and no floor lies under the bound; with `flush_subnormals` a subnormal may still come as zero of its sign.
/// - Complex elements: `exact`, `distance` and `absolute` by parts; else the modulus of the difference against the bound at the modulus of the
///   reference, without regard to signs of zero parts; by parts where a part is not finite.
///
/// # Errors
/// See [`CompareError`].
pub fn compare(
    got: &Tensor,
    reference: &ReferenceTensor,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> Result<Comparison, CompareError> {
    let reference = fitting(got, reference, numerics)?;
    match *tolerance {
        Tolerance::Yardstick { factor, logits } => {
            yardstick::compare(got, &reference, factor, logits, numerics)
        }
        _ => scan::compare(got, &reference, tolerance, numerics),
    }
}

/// The tolerance as a bound on single elements: of a yardstick the one in norm that it comes to.
pub(crate) fn of_elements<'a>(
    tolerance: &'a Tolerance,
    reference: &ReferenceTensor,
    numerics: &Numerics,
) -> Result<Cow<'a, Tolerance>, CompareError> {
    Ok(match *tolerance {
        Tolerance::Yardstick { factor, .. } => {
            Cow::Owned(yardstick::of_elements(reference, factor, numerics)?)
        }
        _ => Cow::Borrowed(tolerance),
    })
}

/// What the result is measured against, of those values that are right: the nearer ones. Element types and shapes then fit
/// each other.
pub(crate) fn fitting<'a>(
    got: &Tensor,
    reference: &'a ReferenceTensor,
    numerics: &Numerics,
) -> Result<Cow<'a, ReferenceTensor>, CompareError> {
    let expected = reference.element_type;
    if got.element_type() != expected {
        return Err(CompareError::ElementTypeMismatch {
            got: got.element_type(),
            expected,
        });
    }
    if got.shape() != reference.values.shape() {
        return Err(CompareError::ShapeMismatch {
            got: got.shape().to_vec(),
            expected: reference.values.shape().to_vec(),
        });
    }
    let values = reference.values.element_type();
    if values != expected && values != expected.widened() {
        return Err(CompareError::ReferenceType {
            element_type: expected,
            values,
        });
    }
    match &reference.flushed {
        Some(flushed) if numerics.flush_subnormals => {
            if flushed.element_type() != values || flushed.shape() != reference.values.shape() {
                return Err(CompareError::Flushed);
            }
            Ok(Cow::Owned(flushed::nearer(got, reference, flushed)))
        }
        _ => Ok(Cow::Borrowed(reference)),
    }
}

#[cfg(test)]
mod tests;
