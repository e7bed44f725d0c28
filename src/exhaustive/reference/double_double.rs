//! Numbers of some 106 bits as the unevaluated sum of two f64, for the few places where f64 cancels: around the zeros of lgamma
//! and digamma. Only what those need: no special values, no overflow.
//!
//! Algorithms: Dekker, "A floating-point technique for extending the available precision" (1971); Joldes, Muller and Popescu,
//! "Tight and rigorous error bounds for basic building blocks of double-word arithmetic" (2017).

use std::ops::{Add, Div, Mul, Neg, Sub};

#[derive(Debug, Clone, Copy)]
pub(super) struct DoubleDouble {
    pub high: f64,
    pub low: f64,
}

/// π, with the rest that its f64 leaves.
pub(super) const PI: DoubleDouble = DoubleDouble {
    high: std::f64::consts::PI,
    low: 1.224_646_799_147_353_2e-16,
};
const LN_2: DoubleDouble = DoubleDouble {
    high: std::f64::consts::LN_2,
    low: 2.319_046_813_846_299_6e-17,
};

/// s + e = a + b exactly.
fn two_sum(a: f64, b: f64) -> DoubleDouble {
    let high = a + b;
    let rest = high - a;
    DoubleDouble {
        high,
        low: (a - (high - rest)) + (b - rest),
    }
}

/// As [`two_sum`] where |a| ≥ |b|.
fn fast_two_sum(a: f64, b: f64) -> DoubleDouble {
    let high = a + b;
    DoubleDouble {
        high,
        low: b - (high - a),
    }
}

impl From<f64> for DoubleDouble {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Neg for DoubleDouble {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            high: -self.high,
            low: -self.low,
        }
    }
}

impl Add for DoubleDouble {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = two_sum(self.high, other.high);
        let low = two_sum(self.low, other.low);
        let sum = fast_two_sum(high.high, high.low + low.high);
        fast_two_sum(sum.high, sum.low + low.low)
    }
}

impl Sub for DoubleDouble {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        fast_two_sum(high, low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for DoubleDouble {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * first.into();
        let second = rest.high / other.high;
        let rest = rest - other * second.into();
        fast_two_sum(first, second) + (rest.high / other.high).into()
    }
}

impl DoubleDouble {
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    pub fn abs(self) -> Self {
        if self.high < 0.0 { -self } else { self }
    }

    /// By Taylor's series of an argument divided by 2⁸, squared eight times.
    fn exp(self) -> Self {
        const HALVINGS: i32 = 8;
        let power = (self.high / LN_2.high).round();
        let rest = self - LN_2 * power.into();
        let scale = 2f64.powi(-HALVINGS);
        let small = Self {
            high: rest.high * scale,
            low: rest.low * scale,
        };
        let mut term = Self::from(1.0);
        let mut sum = term;
        for n in 1..=12 {
            term = term * small / f64::from(n).into();
            sum = sum + term;
        }
        for _ in 0..HALVINGS {
            sum = sum * sum;
        }
        let scale = 2f64.powi(power as i32);
        Self {
            high: sum.high * scale,
            low: sum.low * scale,
        }
    }

    /// Of a positive number: one step of Newton's method from the f64's logarithm, whose error it squares.
    pub fn ln(self) -> Self {
        let start = Self::from(libm::log(self.high));
        start + (self * (-start).exp() - 1.0.into())
    }
}

/// (sin πr, cos πr) for |r| ≤ ½, both with their relative accuracy.
pub(super) fn sin_cos_pi(r: f64) -> (DoubleDouble, DoubleDouble) {
    if r.abs() <= 0.25 {
        let angle = PI * r.into();
        return (sine(angle), cosine(angle));
    }
    let angle = PI * (0.5 - r.abs()).into();
    let (sin, cos) = (cosine(angle), sine(angle));
    (if r < 0.0 { -sin } else { sin }, cos)
}

fn series(first: DoubleDouble, square: DoubleDouble, start: i32) -> DoubleDouble {
    let mut term = first;
    let mut sum = first;
    for n in (start..40).step_by(2) {
        term = -(term * square / f64::from(n * (n + 1)).into());
        sum = sum + term;
        if term.high.abs() < sum.high.abs() * 1e-34 {
            break;
        }
    }
    sum
}

fn sine(angle: DoubleDouble) -> DoubleDouble {
    series(angle, angle * angle, 2)
}

fn cosine(angle: DoubleDouble) -> DoubleDouble {
    series(1.0.into(), angle * angle, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mpmath at 60 digits, as the nearest f64 and the rest.
    fn is(value: DoubleDouble, high: f64, low: f64) {
        let error = (value - DoubleDouble { high, low }).value().abs();
        assert!(error < 1e-29 * high.abs(), "{value:?}: {error:e}");
    }

    #[test]
    fn it_holds_some_thirty_digits() {
        is(DoubleDouble::from(10.0).ln(), LN10.0, LN10.1);
        is(DoubleDouble::from(1.0).exp(), E.0, E.1);
        is(sin_cos_pi(0.1).0, SIN_TENTH.0, SIN_TENTH.1);
        is(sin_cos_pi(-0.4).0, -SIN_TWO_FIFTHS.0, -SIN_TWO_FIFTHS.1);
        is(DoubleDouble::from(1.0) / 3.0.into(), 1.0 / 3.0, THIRD_REST);
    }

    const LN10: (f64, f64) = (std::f64::consts::LN_10, -2.1707562233822494e-16);
    const E: (f64, f64) = (std::f64::consts::E, 1.4456468917292502e-16);
    const SIN_TENTH: (f64, f64) = (0.30901699437494745, -1.0574775703354033e-17);
    const SIN_TWO_FIFTHS: (f64, f64) = (0.9510565162951536, -4.853158876183457e-17);
    const THIRD_REST: f64 = 1.850371707708594e-17;
}
