//! The float formats: how each float type's bits are laid out, and correctly rounded conversion from and to f64.
//!
//! Rounding is to nearest, ties to even, once. What overflows or cannot be held follows ml_dtypes, which XLA's convert
//! agrees with: see [`Specials`].

use super::ElementType;

/// How a format spends its encodings on what is not an ordinary number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// IEEE 754: the highest exponent holds infinities and NaNs. Overflow gives infinity.
    Ieee,
    /// `fn`: no infinities; NaN is all ones. Overflow and infinity give NaN.
    FiniteNan,
    /// The microscaling element types (`f4…fn`, `f6…fn`): neither infinities nor NaN. Overflow and infinity saturate; NaN gives −0.
    Finite,
    /// `fnuz`: no infinities and no −0; the encoding of −0 is the one NaN. Overflow and infinity give NaN.
    FiniteNanUnsignedZero,
    /// `e8m0fnu`: powers of two without sign or zero; NaN is all ones. Zero, negatives and overflow give NaN; positive
    /// values below the smallest give the smallest; a tie goes up. What lies strictly between the two smallest, 2⁻¹²⁷ and
    /// 2⁻¹²⁶, goes up too: not to nearest, but what ml_dtypes 0.6 does there, where f32 is subnormal.
    Scale,
}

/// A binary float format: `1 + exponent_bits + mantissa_bits` wide (without the 1 for `f8e8m0fnu`).
///
/// Sources: IEEE 754-2019 §3.6; "FP8 Formats for Deep Learning" (arXiv 2209.05433); "8-bit Numerical Formats for Deep Neural
/// Networks" (arXiv 2206.02915) for `fnuz`; OCP Microscaling Formats v1.0 for f4, f6 and e8m0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatFormat {
    pub exponent_bits: u32,
    /// Explicit ones, without the leading 1.
    pub mantissa_bits: u32,
    pub bias: i32,
    pub specials: Specials,
}

const fn format(
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
) -> FloatFormat {
    FloatFormat {
        exponent_bits,
        mantissa_bits,
        bias,
        specials,
    }
}

impl ElementType {
    /// The format of a float type, or of the parts of a complex one.
    pub const fn float_format(self) -> Option<FloatFormat> {
        use Specials::*;
        Some(match self {
            ElementType::F4E2M1FN => format(2, 1, 1, Finite),
            ElementType::F6E2M3FN => format(2, 3, 1, Finite),
            ElementType::F6E3M2FN => format(3, 2, 3, Finite),
            ElementType::F8E3M4 => format(3, 4, 3, Ieee),
            ElementType::F8E4M3 => format(4, 3, 7, Ieee),
            ElementType::F8E4M3FN => format(4, 3, 7, FiniteNan),
            ElementType::F8E4M3FNUZ => format(4, 3, 8, FiniteNanUnsignedZero),
            ElementType::F8E4M3B11FNUZ => format(4, 3, 11, FiniteNanUnsignedZero),
            ElementType::F8E5M2 => format(5, 2, 15, Ieee),
            ElementType::F8E5M2FNUZ => format(5, 2, 16, FiniteNanUnsignedZero),
            ElementType::F8E8M0FNU => format(8, 0, 127, Scale),
            ElementType::BF16 => format(8, 7, 127, Ieee),
            ElementType::F16 => format(5, 10, 15, Ieee),
            ElementType::F32 | ElementType::C64 => format(8, 23, 127, Ieee),
            ElementType::F64 | ElementType::C128 => format(11, 52, 1023, Ieee),
            _ => return None,
        })
    }
}

/// 2^`exponent`, exact, for exponents from −1074 to 1023; 0 below and infinity above.
pub const fn pow2(exponent: i32) -> f64 {
    if exponent > 1023 {
        f64::INFINITY
    } else if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else if exponent >= -1074 {
        f64::from_bits(1 << (exponent + 1074))
    } else {
        0.0
    }
}

/// The exponent of a nonzero finite value: the e of |x| = m·2^e with 1 ≤ m < 2.
const fn exponent_of(x: f64) -> i32 {
    let bits = x.to_bits() & !(1 << 63);
    let field = (bits >> 52) as i32;
    if field == 0 {
        63 - bits.leading_zeros() as i32 - 1074
    } else {
        field - 1023
    }
}

/// The distances between a format's neighbouring values.
#[derive(Debug, Clone, Copy)]
pub struct Spacing {
    min_exponent: i32,
    max_exponent: i32,
    mantissa_bits: i32,
}

impl Spacing {
    #[inline]
    pub const fn at(&self, x: f64) -> f64 {
        // Zero and f64's subnormals read as −1023, which is below every format's smallest exponent.
        let mut exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        if exponent < self.min_exponent {
            exponent = self.min_exponent;
        }
        if exponent > self.max_exponent {
            exponent = self.max_exponent;
        }
        pow2(exponent - self.mantissa_bits)
    }
}

impl FloatFormat {
    pub const fn has_sign(&self) -> bool {
        !matches!(self.specials, Specials::Scale)
    }

    pub const fn has_infinity(&self) -> bool {
        matches!(self.specials, Specials::Ieee)
    }

    pub const fn has_nan(&self) -> bool {
        !matches!(self.specials, Specials::Finite)
    }

    pub const fn has_negative_zero(&self) -> bool {
        !matches!(
            self.specials,
            Specials::Scale | Specials::FiniteNanUnsignedZero
        )
    }

    pub const fn has_zero(&self) -> bool {
        !matches!(self.specials, Specials::Scale)
    }

    pub const fn has_subnormals(&self) -> bool {
        !matches!(self.specials, Specials::Scale)
    }

    /// The position of the sign bit, which is also the count of the bits below it.
    const fn magnitude_bits(&self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// The encoding of the largest finite value.
    pub const fn max_code(&self) -> u64 {
        let ones = (1u64 << self.magnitude_bits()) - 1;
        match self.specials {
            Specials::Ieee => ones - (1 << self.mantissa_bits),
            Specials::FiniteNan | Specials::Scale => ones - 1,
            Specials::Finite | Specials::FiniteNanUnsignedZero => ones,
        }
    }

    /// The canonical (positive, quiet) NaN.
    const fn nan_code(&self) -> u64 {
        let ones = (1u64 << self.magnitude_bits()) - 1;
        match self.specials {
            Specials::Ieee => (self.max_code() + 1) | (1 << (self.mantissa_bits - 1)),
            Specials::FiniteNan | Specials::Scale => ones,
            Specials::Finite | Specials::FiniteNanUnsignedZero => 1 << self.magnitude_bits(),
        }
    }

    /// Exponent of the smallest normal; for `f8e8m0fnu` of the smallest value.
    pub const fn min_exponent(&self) -> i32 {
        match self.specials {
            Specials::Scale => -self.bias,
            _ => 1 - self.bias,
        }
    }

    /// Half the distance from 1 to the next larger value: the largest relative error of rounding to nearest.
    pub const fn unit_roundoff(&self) -> f64 {
        pow2(-(self.mantissa_bits as i32) - 1)
    }

    pub const fn max_finite(&self) -> f64 {
        self.decode(self.max_code())
    }

    pub const fn min_normal(&self) -> f64 {
        pow2(self.min_exponent())
    }

    /// The smallest positive value.
    pub const fn min_positive(&self) -> f64 {
        pow2(self.min_exponent() - self.mantissa_bits as i32)
    }

    /// What would follow the largest finite value: the real value that an overflow stands for. Infinity for f64.
    pub const fn overflow_value(&self) -> f64 {
        let max = self.max_finite();
        max + self.ulp_at(max)
    }

    /// The spacing of the format's values at `x`: constant below the smallest normal and above the largest finite value.
    pub const fn ulp_at(&self, x: f64) -> f64 {
        self.spacing().at(x)
    }

    /// [`ulp_at`](Self::ulp_at) made ready for many values.
    pub const fn spacing(&self) -> Spacing {
        Spacing {
            min_exponent: self.min_exponent(),
            max_exponent: exponent_of(self.max_finite()),
            mantissa_bits: self.mantissa_bits as i32,
        }
    }

    /// How many steps from one value to the next lead from `a` to `b`, finite values of the format; +0 and −0 are one value.
    pub fn distance(&self, a: f64, b: f64) -> u128 {
        let place = |x: f64| {
            // From 0 on, encodings count the values.
            let steps = i128::from(self.encode(x.abs()));
            if x < 0.0 { -steps } else { steps }
        };
        place(a).abs_diff(place(b))
    }

    /// The exact value of an encoding, given in the low bits.
    pub const fn decode(&self, code: u64) -> f64 {
        let width = self.magnitude_bits();
        let magnitude = code & ((1 << width) - 1);
        let negative = self.has_sign() && (code >> width) & 1 == 1;
        match self.specials {
            Specials::Ieee if magnitude > self.max_code() => {
                return if magnitude != self.max_code() + 1 {
                    f64::NAN
                } else if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                };
            }
            Specials::FiniteNan | Specials::Scale if magnitude > self.max_code() => {
                return f64::NAN;
            }
            Specials::FiniteNanUnsignedZero if magnitude == 0 && negative => return f64::NAN,
            _ => {}
        }
        let field = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if matches!(self.specials, Specials::Scale) {
            pow2(field - self.bias)
        } else if field == 0 {
            // At most 52 bits times a power of two that f64 holds: exact.
            mantissa as f64 * pow2(self.min_exponent() - self.mantissa_bits as i32)
        } else if self.exponent_bits == 11 {
            f64::from_bits(magnitude)
        } else {
            f64::from_bits(
                (((field - self.bias + 1023) as u64) << 52)
                    | (mantissa << (52 - self.mantissa_bits)),
            )
        };
        if negative { -value } else { value }
    }

    /// The encoding nearest to `x`, ties to even, in the low bits.
    pub const fn encode(&self, x: f64) -> u64 {
        let bits = x.to_bits();
        let sign = if self.has_sign() {
            (bits >> 63) << self.magnitude_bits()
        } else {
            0
        };
        let magnitude = bits & !(1 << 63);
        if x.is_nan() {
            return self.nan_code();
        }
        if magnitude == 0 {
            return match self.specials {
                Specials::Scale => self.nan_code(),
                Specials::FiniteNanUnsignedZero => 0,
                _ => sign,
            };
        }
        if matches!(self.specials, Specials::Scale) && x < 0.0 {
            return self.nan_code();
        }
        let code = if magnitude == f64::INFINITY.to_bits() {
            u64::MAX
        } else {
            self.round(magnitude)
        };
        if code > self.max_code() {
            return match self.specials {
                Specials::Ieee => sign | (self.max_code() + 1),
                Specials::Finite => sign | self.max_code(),
                Specials::FiniteNan => sign | self.nan_code(),
                Specials::FiniteNanUnsignedZero | Specials::Scale => self.nan_code(),
            };
        }
        if code == 0 && matches!(self.specials, Specials::FiniteNanUnsignedZero) {
            return 0;
        }
        sign | code
    }

    /// Rounds the finite, positive f64 with these bits to an encoding; past the largest when it overflows.
    const fn round(&self, magnitude: u64) -> u64 {
        let x = f64::from_bits(magnitude);
        let exponent = exponent_of(x);
        // The 53-bit significand: |x| = significand · 2^(exponent − 52).
        let significand = if magnitude >> 52 == 0 {
            magnitude << (52 - (exponent + 1074))
        } else {
            (magnitude & ((1 << 52) - 1)) | (1 << 52)
        };
        let scale = matches!(self.specials, Specials::Scale);
        let normal = scale || exponent >= self.min_exponent();
        let quantum = if normal {
            exponent
        } else {
            self.min_exponent()
        };
        let shift = (52 - self.mantissa_bits as i32) + (quantum - exponent);
        let rounded = if shift == 0 {
            significand
        } else if shift > 53 {
            0
        } else {
            let half = 1u64 << (shift - 1);
            let kept = significand >> shift;
            let dropped = significand & ((1 << shift) - 1);
            let up = dropped > half || (dropped == half && kept & 1 == 1);
            kept + up as u64
        };
        if scale {
            if exponent == self.min_exponent() {
                return (significand > 1 << 52) as u64;
            }
            let code = (exponent + self.bias) as i64 + rounded as i64 - 1;
            return if code < 0 { 0 } else { code as u64 };
        }
        if normal {
            // A carry out of the significand moves into the exponent, as it should.
            (((exponent + self.bias) as u64) << self.mantissa_bits) + rounded
                - (1 << self.mantissa_bits)
        } else {
            rounded
        }
    }

    /// `x` rounded to the format.
    #[inline]
    pub const fn round_to(&self, x: f64) -> f64 {
        match (self.exponent_bits, self.mantissa_bits) {
            // The machine's own rounding is the same and faster.
            (8, 23) => x as f32 as f64,
            (11, 52) => x,
            _ => self.decode(self.encode(x)),
        }
    }

    /// True where `x` is a value of the format (NaN is, when the format has one; −0 only where it differs from +0).
    pub fn represents(&self, x: f64) -> bool {
        let rounded = self.round_to(x);
        rounded.to_bits() == x.to_bits() || (rounded.is_nan() && x.is_nan())
    }

    /// A number that counts representable values from zero up and down, −0 and +0 both 0; `None` for NaN.
    pub fn ordinal(&self, code: u64) -> Option<i64> {
        if self.decode(code).is_nan() {
            return None;
        }
        let width = self.magnitude_bits();
        let magnitude = (code & ((1 << width) - 1)) as i64;
        let negative = self.has_sign() && (code >> width) & 1 == 1;
        Some(if negative { -magnitude } else { magnitude })
    }

    /// The encoding with this ordinal, −0 never; `None` outside the finite values.
    pub fn from_ordinal(&self, ordinal: i64) -> Option<u64> {
        let magnitude = ordinal.unsigned_abs();
        if magnitude > self.max_code() || (ordinal < 0 && !self.has_sign()) {
            return None;
        }
        Some(if ordinal < 0 {
            magnitude | 1 << self.magnitude_bits()
        } else {
            magnitude
        })
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
