//! The verdict on one element, for what measures more of each than [`super::compare`] does.

use super::agree::Floats;
use super::bound::Bound;
use super::{CompareError, Numerics, Tolerance, flushable};
use crate::tensor::{ElementType, FloatFormat};

/// The rules of [`super::compare`] for results of one real type, made ready. Integers and `pred` come as f64 and are equal or not.
#[derive(Debug, Clone, Copy)]
pub struct Judge {
    floats: Option<Floats>,
}

impl Judge {
    /// # Errors
    /// Of a tolerance that one element alone cannot be held to: in norm, or with a scale.
    pub fn new(
        tolerance: &Tolerance,
        element_type: ElementType,
        numerics: &Numerics,
    ) -> Result<Self, CompareError> {
        let Some(format) = numerics.format(element_type) else {
            return Ok(Self { floats: None });
        };
        if matches!(tolerance, Tolerance::Norm(_) | Tolerance::Accumulate { .. }) {
            return Err(CompareError::Tolerance(
                "it does not hold for single elements".to_owned(),
            ));
        }
        let bound = Bound::new(tolerance, element_type, format, numerics, || 0.0)?;
        let own = element_type.float_format().unwrap_or(format);
        Ok(Self {
            floats: Some(Floats::new(own, format, bound, numerics)),
        })
    }

    /// Whether the result agrees with the exact value.
    #[inline]
    pub fn accepts(&self, got: f64, exact: f64) -> bool {
        match &self.floats {
            Some(floats) => floats.real(got, exact, 0.0),
            None => got == exact,
        }
    }

    /// Whether it is a zero that the target may give for a subnormal.
    #[inline]
    pub fn is_flushed(&self, got: f64, exact: f64) -> bool {
        self.floats
            .as_ref()
            .is_some_and(|floats| floats.flushed(got, exact))
    }

    /// Whether the exact value is finite in the type.
    #[inline]
    pub fn is_finite(&self, exact: f64) -> bool {
        match &self.floats {
            Some(floats) => floats.is_finite(exact),
            None => true,
        }
    }

    /// |got − exact| in ulp of the type at the exact value, of integers the difference; where both are finite and the exact
    /// value does not overflow the type, be it that the type saturates.
    #[inline]
    pub fn ulps(&self, got: f64, exact: f64) -> Option<f64> {
        let spacing = match &self.floats {
            Some(floats) if exact.abs() < floats.format.overflow_value() => {
                floats.spacing.at(exact)
            }
            Some(_) => return None,
            None => 1.0,
        };
        (got.is_finite() && self.is_finite(exact)).then(|| (got - exact).abs() / spacing)
    }
}

impl Numerics {
    /// Magnitudes below this, but 0, are subnormals of the format that the target may take for zeros of their sign, results
    /// and operands alike; 0 where it takes none.
    pub fn flushed_below(&self, format: &FloatFormat) -> f64 {
        match flushable(format) {
            Some(smallest) if self.flush_subnormals => smallest,
            _ => 0.0,
        }
    }
}
