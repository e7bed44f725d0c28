//! `approx`'s traits on elements of every float type.
//!
//! `half` owns f16 and bf16 and nobody owns the f8 types, so one scalar type stands for all: an encoding and its type.

use approx::{AbsDiffEq, RelativeEq, UlpsEq};

use super::display::format_float;
use super::format::FloatFormat;
use super::{ElementType, Tensor};

/// One element of a float type.
///
/// `==` and the `approx` predicates are those of floats: NaN equals nothing, −0 equals +0. Elements of different types are
/// never equal; an `ulp` is a step between neighbouring values of the type.
#[derive(Debug, Clone, Copy)]
pub struct Scalar {
    element_type: ElementType,
    format: FloatFormat,
    bits: u64,
}

impl Scalar {
    /// `value` rounded to the type; `None` unless it is a real float type.
    pub fn new(element_type: ElementType, value: f64) -> Option<Self> {
        let format = element_type.float_format()?;
        Self::from_bits(element_type, format.encode(value))
    }

    /// The element with this encoding in the low bits; `None` unless the type is a real float type.
    pub fn from_bits(element_type: ElementType, bits: u64) -> Option<Self> {
        let format = element_type.float_format()?;
        element_type.is_float().then_some(Self {
            element_type,
            format,
            bits,
        })
    }

    pub fn element_type(self) -> ElementType {
        self.element_type
    }

    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Exact.
    pub fn value(self) -> f64 {
        self.format.decode(self.bits)
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format_float(self.element_type, self.value()))
    }
}

impl Tensor {
    /// Element `index` of a float tensor; `None` for other types and outside the tensor.
    pub fn scalar(&self, index: usize) -> Option<Scalar> {
        if index >= self.len() || !self.element_type().is_float() {
            return None;
        }
        Scalar::from_bits(self.element_type(), self.bits(index) as u64)
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.element_type == other.element_type && self.value() == other.value()
    }
}

impl AbsDiffEq for Scalar {
    type Epsilon = f64;

    /// f32's, as `approx` has it for f32: the types are many and the trait offers no type to ask.
    fn default_epsilon() -> f64 {
        f32::EPSILON.into()
    }

    fn abs_diff_eq(&self, other: &Self, epsilon: f64) -> bool {
        self.element_type == other.element_type && self.value().abs_diff_eq(&other.value(), epsilon)
    }
}

impl RelativeEq for Scalar {
    fn default_max_relative() -> f64 {
        f32::EPSILON.into()
    }

    fn relative_eq(&self, other: &Self, epsilon: f64, max_relative: f64) -> bool {
        self.element_type == other.element_type
            && self
                .value()
                .relative_eq(&other.value(), epsilon, max_relative)
    }
}

impl UlpsEq for Scalar {
    fn default_max_ulps() -> u32 {
        4
    }

    /// Like `approx`'s for f32: within `epsilon`, or of the same sign and within `max_ulps` steps.
    fn ulps_eq(&self, other: &Self, epsilon: f64, max_ulps: u32) -> bool {
        if self.abs_diff_eq(other, epsilon) {
            return true;
        }
        if self.element_type != other.element_type
            || self.value().is_sign_negative() != other.value().is_sign_negative()
        {
            return false;
        }
        match (
            self.format.ordinal(self.bits),
            self.format.ordinal(other.bits),
        ) {
            (Some(a), Some(b)) => a.abs_diff(b) <= u64::from(max_ulps),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use approx::{assert_abs_diff_eq, assert_relative_eq, assert_ulps_eq, assert_ulps_ne};

    use super::*;

    fn scalar(element_type: ElementType, value: f64) -> Scalar {
        Scalar::new(element_type, value).unwrap()
    }

    #[test]
    fn approx_works_on_small_floats() {
        let one = scalar(ElementType::BF16, 1.0);
        let next = scalar(ElementType::BF16, 1.0 + 1.0 / 128.0);
        assert_ulps_eq!(one, next, epsilon = 0.0, max_ulps = 1);
        assert_ulps_ne!(one, next, epsilon = 0.0, max_ulps = 0);
        assert_relative_eq!(one, next, max_relative = 0.01);
        assert_abs_diff_eq!(one, next, epsilon = 0.01);
        assert_ulps_eq!(
            scalar(ElementType::F8E4M3FN, 448.0),
            scalar(ElementType::F8E4M3FN, 416.0),
            epsilon = 0.0,
            max_ulps = 1
        );
    }

    #[test]
    fn approx_agrees_with_approx_on_f32() {
        let values = [
            0.0f32,
            -0.0,
            1.0,
            1.0000001,
            1.000001,
            -1.0,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        for a in values {
            for b in values {
                let (x, y) = (
                    scalar(ElementType::F32, a.into()),
                    scalar(ElementType::F32, b.into()),
                );
                for max_ulps in [0, 1, 8] {
                    assert_eq!(
                        x.ulps_eq(&y, 0.0, max_ulps),
                        a.ulps_eq(&b, 0.0, max_ulps),
                        "{a} {b} {max_ulps}"
                    );
                }
                assert_eq!(x == y, a == b, "{a} {b}");
            }
        }
    }

    #[test]
    fn types_do_not_mix_and_complex_is_no_scalar() {
        assert_ne!(
            scalar(ElementType::F16, 1.0),
            scalar(ElementType::BF16, 1.0)
        );
        assert!(Scalar::new(ElementType::C64, 1.0).is_none());
        assert!(Scalar::new(ElementType::I8, 1.0).is_none());
    }
}
