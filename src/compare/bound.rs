//! The error model: how far a float result may lie from its reference.

use super::{CompareError, Numerics, Precision, Tolerance, flushable};
use crate::tensor::format::{Spacing, pow2};
use crate::tensor::{ElementType, FloatFormat};

/// A tolerance made ready for one element type and one target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    kind: Kind,
    /// No bound is smaller.
    floor: f64,
    /// Whether the type's arithmetic keeps the sign of a zero.
    signed_zero: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Exact,
    Ulp {
        ulps: f64,
        spacing: Spacing,
    },
    Accumulate {
        /// Of `|ref|`.
        output: f64,
        /// Of the scale.
        accumulation: f64,
        /// A scale from here on may overflow the accumulator.
        overflow: f64,
    },
    Norm(f64),
    Check(Check),
}

/// A bound as what it takes of each magnitude, for many elements at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linear {
    /// Of the power of two at or below the magnitude; where there are no scales.
    pub of_power: f64,
    /// Of the magnitude and the scale; where there are.
    pub of_magnitude: f64,
    pub of_scale: f64,
    pub floor: f64,
    /// Whether what lies at the bound is left open.
    pub strict: bool,
}

/// A bound that StableHLO's check operators set between two values of the element type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    Distance(u64),
    Absolute(f64),
}

impl Check {
    /// Whether two finite values of the format are near enough.
    pub fn admits(&self, format: &FloatFormat, got: f64, reference: f64) -> bool {
        match *self {
            Self::Distance(most) => format.distance(got, reference) <= u128::from(most),
            Self::Absolute(bound) => (got - reference).abs() <= bound,
        }
    }
}

/// γ(n, u) = nu / (1 − nu), the relative error of n roundings (Higham, "Accuracy and Stability of Numerical Algorithms",
/// 2nd ed., lemma 3.1) while nu ≤ ½; 2nu beyond, where γ breaks down but a sum's error stays below nu
/// (Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", SIMAX 34, 2013).
pub(super) fn gamma(n: f64, u: f64) -> f64 {
    let nu = n * u;
    if nu <= 0.5 { nu / (1.0 - nu) } else { 2.0 * nu }
}

/// Passes of the matrix unit, and the relative error that they leave in a product of two f32 values. The pieces are those that
/// `hlo/mxu.rs` describes, read off the TPU compiler's own low-level code; the scheme is that of Henry, Tang and Heinecke,
/// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations" (ARITH 2019).
///
/// With v = 2⁻⁸, bf16's unit roundoff: a first piece that is cut off and not rounded leaves l with |l| < 2v|x|.
/// - One pass, each operand rounded once: 2v + v².
/// - Three passes, x₁y₁ + x₁y₂ + x₂y₁ with x₂ = l rounded: each operand is short by 2v², and x₂y₂ ≤ 4v²(1 + v)²|xy| is left
///   out, together below 8v² + 9v³.
/// - Six passes: three pieces hold all 24 bits, and every product of pieces is there, the smaller ones within that of the two
///   l, rounded: 4v²(2v + v²).
pub(super) fn bf16_passes(precision: Precision) -> (f64, f64) {
    const V: f64 = 1.0 / 256.0;
    match precision {
        Precision::Default => (1.0, 2.0 * V + V * V),
        Precision::High => (3.0, 8.0 * V * V + 9.0 * V * V * V),
        Precision::Highest => (6.0, 8.0 * V * V * V + 4.0 * V * V * V * V),
    }
}

/// As [`bf16_passes`], by the type of the products. An f16 has 11 bits, so that two parts hold all of it: beyond `Default`
/// there are the three passes of `High`, as the TPU compiler's code for such products shows.
fn operand_error(element_type: ElementType, precision: Precision) -> (f64, f64) {
    match (element_type, precision) {
        (ElementType::F32 | ElementType::C64, precision) => bf16_passes(precision),
        (ElementType::F16, Precision::Default) => bf16_passes(Precision::Default),
        (ElementType::F16, _) => bf16_passes(Precision::High),
        _ => (1.0, 0.0),
    }
}

impl Bound {
    /// `largest` gives max|ref| over the finite elements; it is called for tolerances in norm alone.
    pub fn new(
        tolerance: &Tolerance,
        element_type: ElementType,
        format: FloatFormat,
        numerics: &Numerics,
        largest: impl FnOnce() -> f64,
    ) -> Result<Self, CompareError> {
        let factor = |name: &str, value: f64| {
            if value >= 0.0 && value.is_finite() {
                Ok(value)
            } else {
                Err(CompareError::Tolerance(format!("{name} is {value}")))
            }
        };
        let in_pairs = numerics.in_pairs(element_type);
        let spacing = format.spacing();
        let kind = match *tolerance {
            // One rounding of the pair's arithmetic, for which there is no rounding once.
            Tolerance::Exact if in_pairs => Kind::Ulp { ulps: 0.5, spacing },
            Tolerance::Distance(most) if in_pairs => Kind::Ulp {
                ulps: most as f64 + 0.5,
                spacing,
            },
            Tolerance::Exact => Kind::Exact,
            Tolerance::Distance(most) => Kind::Check(Check::Distance(most)),
            Tolerance::Absolute(bound) => Kind::Check(Check::Absolute(factor("absolute", bound)?)),
            Tolerance::Ulp(ulps) => Kind::Ulp {
                ulps: factor("ulp", ulps)?,
                spacing,
            },
            Tolerance::Yardstick { .. } => {
                return Err(CompareError::Tolerance(
                    "a yardstick is a bound once it is measured".to_owned(),
                ));
            }
            Tolerance::Norm(k) => {
                Kind::Norm(factor("norm", k)? * format.unit_roundoff() * largest())
            }
            Tolerance::Accumulate {
                terms,
                accumulator,
                precision,
            } => {
                let accumulator_format = numerics.format(accumulator).ok_or_else(|| {
                    CompareError::Tolerance(format!(
                        "{accumulator} cannot accumulate {element_type}"
                    ))
                })?;
                // A part of a complex product is two real ones, and the modulus adds two parts' errors in quadrature.
                let (parts, quadrature) = if element_type.is_complex() {
                    (2.0, std::f64::consts::SQRT_2)
                } else {
                    (1.0, 1.0)
                };
                let (passes, operands) = match precision {
                    Some(precision) if numerics.matmul_bf16_passes => {
                        operand_error(element_type, precision)
                    }
                    _ => (1.0, 0.0),
                };
                let rounding = gamma(
                    terms as f64 * parts * passes,
                    accumulator_format.unit_roundoff(),
                );
                Kind::Accumulate {
                    output: format.unit_roundoff(),
                    // Sums add up products that already have the operands' error.
                    accumulation: quadrature * (operands + rounding * (1.0 + operands)),
                    overflow: accumulator_format.max_finite(),
                }
            }
        };
        let floor = if flushes(&format, numerics) {
            format.min_normal()
        } else {
            format.min_positive() / 2.0
        };
        Ok(Self {
            kind,
            floor,
            signed_zero: !in_pairs,
        })
    }

    /// For values of `format` on both sides of whose bound the rules need no closer look: the reference rounded is the only value
    /// of the format nearer than half an ulp. `None` for checks, and where the bound's ulp is not the format's.
    pub fn linear(&self, format: &FloatFormat) -> Option<Linear> {
        let per_ulp = pow2(-(format.mantissa_bits as i32));
        let none = Linear {
            of_power: 0.0,
            of_magnitude: 0.0,
            of_scale: 0.0,
            floor: self.floor,
            strict: false,
        };
        if !format.has_sign() {
            return None;
        }
        match self.kind {
            Kind::Exact => Some(Linear {
                of_power: 0.5 * per_ulp,
                floor: 0.0,
                strict: true,
                ..none
            }),
            Kind::Ulp { ulps, .. } if ulps < 1e9 => Some(Linear {
                of_power: ulps * per_ulp,
                ..none
            }),
            Kind::Accumulate {
                output,
                accumulation,
                ..
            } => Some(Linear {
                of_magnitude: output,
                of_scale: accumulation,
                ..none
            }),
            Kind::Norm(bound) => Some(Linear {
                floor: bound.max(self.floor),
                ..none
            }),
            Kind::Ulp { .. } | Kind::Check(_) => None,
        }
    }

    #[inline]
    pub fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Exact)
    }

    /// The check that takes the place of a bound.
    #[inline]
    pub fn check(&self) -> Option<Check> {
        match self.kind {
            Kind::Check(check) => Some(check),
            _ => None,
        }
    }

    /// The bound at a reference of this magnitude; not for `Exact` and checks, whose bounds are no distance of this kind.
    #[inline]
    pub fn at(&self, magnitude: f64, scale: f64) -> f64 {
        let bound = match self.kind {
            Kind::Exact | Kind::Check(_) => 0.0,
            Kind::Ulp { ulps, spacing } => ulps * spacing.at(magnitude),
            Kind::Accumulate {
                output,
                accumulation,
                ..
            } => {
                let scale = if scale.is_finite() { scale.abs() } else { 0.0 };
                output * magnitude + accumulation * scale
            }
            Kind::Norm(bound) => bound,
        };
        bound.max(self.floor)
    }

    /// Whether a zero must have the sign of its zero reference. A sum of nothing but -0 is +0 where its initial value 0 takes part,
    /// and StableHLO leaves to the implementation where a reduction has it, if at all.
    pub fn needs_zero_sign(&self, reference: f64, scale: f64) -> bool {
        self.signed_zero
            && match self.kind {
                Kind::Exact | Kind::Ulp { .. } => true,
                Kind::Accumulate { .. } => scale == 0.0 && reference.is_sign_positive(),
                Kind::Norm(_) | Kind::Check(_) => false,
            }
    }

    /// Whether a partial sum may have overflowed.
    pub fn may_overflow(&self, scale: f64) -> bool {
        match self.kind {
            Kind::Accumulate { overflow, .. } => scale.is_finite() && scale.abs() > overflow,
            _ => false,
        }
    }
}

/// Whether subnormals of the format may come as zero: those of formats with f32's exponent range or more.
pub(super) fn flushes(format: &FloatFormat, numerics: &Numerics) -> bool {
    numerics.flush_subnormals && flushable(format).is_some()
}
