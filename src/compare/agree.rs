//! Whether one element agrees with its reference. The rules are in the documentation of [`super::compare`].

use super::Numerics;
use super::bound::{Bound, Check, flushes};
use crate::tensor::FloatFormat;
use crate::tensor::format::{Spacing, Specials};

/// The rules for floats of one element type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floats {
    pub format: FloatFormat,
    /// Of the element type itself, for the figures.
    pub spacing: Spacing,
    pub bound: Bound,
    max_finite: f64,
    /// Whether a finite value within the bound of a reference that is not zero agrees with it: unless the tolerance is exact,
    /// or the type is `f8e8m0fnu`, whose negative references stand for NaN.
    within_is_enough: bool,
    /// Magnitudes below may come as zero even where the tolerance is exact.
    flushed_below: f64,
}

/// References are in f64 at most, so that those of f64 alone are rounded to the element type.
const F64_MANTISSA: u32 = 52;

/// Equal, any NaN to any NaN, and zeros by sign.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

impl Floats {
    /// `own` is the element type's format, and `format` what the target makes of it.
    pub fn new(own: FloatFormat, format: FloatFormat, bound: Bound, numerics: &Numerics) -> Self {
        Self {
            format,
            spacing: own.spacing(),
            bound,
            max_finite: format.max_finite(),
            within_is_enough: !bound.is_exact() && bound.check().is_none() && format.has_sign(),
            flushed_below: if flushes(&format, numerics) && own.mantissa_bits == F64_MANTISSA {
                // The reference is rounded already: the smallest normal may stand for a little less, which flushes.
                format.min_normal().next_up()
            } else if flushes(&format, numerics) {
                format.min_normal()
            } else {
                0.0
            },
        }
    }

    /// The bound at a reference of this magnitude as a distance, whatever the tolerance.
    pub fn distance(&self, magnitude: f64, scale: f64) -> f64 {
        match self.bound.check() {
            Some(Check::Distance(most)) => (most as f64).max(0.5) * self.spacing.at(magnitude),
            Some(Check::Absolute(bound)) => bound,
            None if self.bound.is_exact() => 0.5 * self.spacing.at(magnitude),
            None => self.bound.at(magnitude, scale),
        }
    }

    /// Whether the reference is finite once it is rounded to the element type.
    #[inline]
    pub fn is_finite(&self, reference: f64) -> bool {
        reference.abs() <= self.max_finite || self.format.round_to(reference).is_finite()
    }

    #[inline]
    pub fn real(&self, got: f64, reference: f64, scale: f64) -> bool {
        // What is equal and not zero needs no rounding: `got` is a value of the format. Nor does what lies within the bound of
        // an ordinary value; NaN and infinity fail these comparisons.
        if got == reference && got != 0.0 {
            return true;
        }
        let magnitude = reference.abs();
        if magnitude > 0.0
            && magnitude <= self.max_finite
            && (got - reference).abs() <= self.bound.at(magnitude, scale)
            && self.within_is_enough
        {
            return true;
        }
        self.unusual(got, reference, scale)
    }

    /// The rules in full.
    fn unusual(&self, got: f64, reference: f64, scale: f64) -> bool {
        if reference.is_nan() && !self.format.has_nan() {
            return true;
        }
        if self.bound.is_exact() {
            return self.exact(got, reference);
        }
        if let Some(check) = self.bound.check() {
            return self.checked(check, got, self.format.round_to(reference));
        }
        if !reference.is_finite() {
            return same(got, self.format.round_to(reference));
        }
        if got == 0.0 && reference == 0.0 {
            return same(got, self.format.round_to(reference))
                || !self.bound.needs_zero_sign(reference, scale);
        }
        if self.format.specials == Specials::Scale && reference <= 0.0 {
            return got.is_nan();
        }
        let bound = self.bound.at(reference.abs(), scale);
        let within = if got.is_finite() {
            (got - reference).abs() <= bound
        } else if self.bound.may_overflow(scale) {
            true
        } else {
            self.overflow_sign_fits(got, reference)
                && reference.abs() <= self.max_finite
                && self.format.overflow_value() - reference.abs() <= bound
        };
        within || same(got, self.format.round_to(reference))
    }

    /// Whether a result that is not finite is what the format makes of an overflow with the reference's sign.
    fn overflow_sign_fits(&self, got: f64, reference: f64) -> bool {
        if self.format.has_infinity() {
            got.is_infinite() && (got < 0.0) == (reference < 0.0)
        } else {
            got.is_nan()
        }
    }

    fn exact(&self, got: f64, reference: f64) -> bool {
        same(got, self.format.round_to(reference)) || self.flushed(got, reference)
    }

    fn checked(&self, check: Check, got: f64, reference: f64) -> bool {
        if got.is_finite() && reference.is_finite() {
            check.admits(&self.format, got, reference) || self.flushed(got, reference)
        } else {
            same(got, reference)
        }
    }

    /// Whether a zero stands for a subnormal of its sign that the target may flush.
    pub fn flushed(&self, got: f64, reference: f64) -> bool {
        got == 0.0
            && reference != 0.0
            && reference.abs() < self.flushed_below
            && got.is_sign_negative() == reference.is_sign_negative()
    }

    pub fn complex(&self, got: [f64; 2], reference: [f64; 2], scale: f64) -> bool {
        let finite =
            got.iter().all(|v| v.is_finite()) && reference.iter().all(|v| self.is_finite(*v));
        if self.bound.is_exact() || self.bound.check().is_some() || !finite {
            return self.real(got[0], reference[0], scale)
                && self.real(got[1], reference[1], scale);
        }
        let difference = modulus(got[0] - reference[0], got[1] - reference[1]);
        difference <= self.bound.at(modulus(reference[0], reference[1]), scale)
            || (self.exact(got[0], reference[0]) && self.exact(got[1], reference[1]))
    }
}

/// √(x² + y²) without overflow or underflow on the way.
pub(super) fn modulus(x: f64, y: f64) -> f64 {
    let square = x * x + y * y;
    if square > 1e-290 && square < 1e300 {
        square.sqrt()
    } else {
        x.hypot(y)
    }
}
