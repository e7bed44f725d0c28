//! The logarithm of the gamma function and its derivatives, with the relative accuracy of f64 up to their zeros: where the
//! terms cancel, in [`DoubleDouble`].
//!
//! Source of the formulas: NIST Digital Library of Mathematical Functions, §5.5 (recurrence and reflection), §5.11 (Stirling's
//! series), §5.15 (polygamma), §25.11 (Hurwitz zeta, with Euler and Maclaurin's sum).

use std::f64::consts::PI;

use super::double_double::{self, DoubleDouble, sin_cos_pi};

/// Numerators and denominators of the Bernoulli numbers B₂, B₄, … B₂₈: OEIS A000367 and A002445.
const BERNOULLI: [(f64, f64); 14] = [
    (1.0, 6.0),
    (-1.0, 30.0),
    (1.0, 42.0),
    (-1.0, 30.0),
    (5.0, 66.0),
    (-691.0, 2730.0),
    (7.0, 6.0),
    (-3617.0, 510.0),
    (43867.0, 798.0),
    (-174_611.0, 330.0),
    (854_513.0, 138.0),
    (-236_364_091.0, 2730.0),
    (8_553_103.0, 6.0),
    (-23_749_461_029.0, 870.0),
];

/// From here on Stirling's series with 14 terms holds to 2⁻¹⁰⁰.
const STIRLING: f64 = 24.0;
/// A result that is smaller than its terms by this much has lost bits that matter.
const CANCELLED: f64 = 1.0 / 64.0;

fn is_pole(x: f64) -> bool {
    x <= 0.0 && x == x.floor()
}

/// ln |Γ(x)|; +∞ at the poles, as C defines it.
pub fn log_gamma(x: f64) -> f64 {
    if is_pole(x) || x.is_infinite() {
        return f64::INFINITY;
    }
    let quick = libm::lgamma(x);
    // Above 0 libm is made to be right around the zeros at 1 and 2. Below, it subtracts.
    let terms = if x < 0.0 {
        libm::lgamma(-x).abs() + 1.0
    } else {
        0.0
    };
    if quick.abs() >= CANCELLED * terms {
        return quick;
    }
    let y = DoubleDouble::from(-x);
    let (sin, _) = sin_cos_pi(x - x.round());
    ((double_double::PI / (y * sin).abs()).ln() - log_gamma_positive(-x)).value()
}

/// Sum of the terms of Stirling's series beyond the logarithms, each divided by what `divisor` says.
fn stirling(z: DoubleDouble, divisor: impl Fn(f64) -> f64) -> DoubleDouble {
    let square = z * z;
    let mut power = DoubleDouble::from(1.0);
    let mut sum = DoubleDouble::from(0.0);
    for (k, (numerator, denominator)) in (1..).zip(BERNOULLI) {
        power = power * square;
        let divisor = denominator * divisor(2.0 * f64::from(k));
        sum = sum + DoubleDouble::from(numerator) / (power * divisor.into());
    }
    sum
}

fn log_gamma_positive(x: f64) -> DoubleDouble {
    /// ½ ln 2π
    const HALF_LN_2PI: DoubleDouble = DoubleDouble {
        high: 0.918_938_533_204_672_8,
        low: -3.878_294_158_067_241_4e-17,
    };
    let mut z = DoubleDouble::from(x);
    let mut product = DoubleDouble::from(1.0);
    while z.high < STIRLING {
        product = product * z;
        z = z + 1.0.into();
    }
    let series = stirling(z, |k| k * (k - 1.0)) * z;
    (z - 0.5.into()) * z.ln() - z + HALF_LN_2PI + series - product.ln()
}

/// ψ(x) = Γ′(x)/Γ(x); NaN at the poles, where its two sides part, and left open at the zeros, to which some give the limit
/// of one side.
pub fn digamma(x: f64) -> Option<f64> {
    (x != 0.0).then(|| digamma_off_zero(x))
}

fn digamma_off_zero(x: f64) -> f64 {
    if is_pole(x) || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if x == f64::INFINITY {
        return x;
    }
    let (quick, terms) = if x > 0.0 {
        (digamma_quick(x), 1.0)
    } else {
        let (sin, cos) = sin_cos_pi(x - x.round());
        let cotangent = PI * cos.high / sin.high;
        let positive = digamma_quick(1.0 - x);
        (positive - cotangent, positive.abs())
    };
    if quick.abs() >= CANCELLED * terms {
        return quick;
    }
    if x > 0.0 {
        return digamma_positive(x.into()).value();
    }
    let (sin, cos) = sin_cos_pi(x - x.round());
    let reflected = digamma_positive(DoubleDouble::from(1.0) - x.into());
    (reflected - double_double::PI * cos / sin).value()
}

fn digamma_quick(x: f64) -> f64 {
    let mut z = x;
    let mut rest = 0.0;
    while z < STIRLING {
        rest += 1.0 / z;
        z += 1.0;
    }
    let square = 1.0 / (z * z);
    let series = square
        * (1.0 / 12.0
            - square
                * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square / 132.0))));
    libm::log(z) - 0.5 / z - series - rest
}

fn digamma_positive(x: DoubleDouble) -> DoubleDouble {
    let mut z = x;
    let mut rest = DoubleDouble::from(0.0);
    while z.high < STIRLING {
        rest = rest + DoubleDouble::from(1.0) / z;
        z = z + 1.0.into();
    }
    z.ln() - DoubleDouble::from(0.5) / z - stirling(z, |k| k) - rest
}

/// ψ⁽ⁿ⁾(x) for whole n from 0, else NaN; at the poles what n! ζ(n + 1, x) gives with its sign.
///
/// `None` for orders whose factorial leaves f64 so far that no accuracy is left.
pub fn polygamma(n: f64, x: f64) -> Option<f64> {
    const LARGEST: f64 = 1e4;
    if n.is_nan() || x.is_nan() || n < 0.0 || n != n.floor() {
        return Some(f64::NAN);
    }
    if n == 0.0 {
        return digamma(x);
    }
    if n > LARGEST {
        return None;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    let value = if n <= 100.0 || x <= 0.0 {
        libm::tgamma(n + 1.0) * hurwitz_zeta(n + 1.0, x)?
    } else {
        // n! and ζ would leave f64 on both sides where their product need not.
        let log = libm::lgamma(n + 1.0) - (n + 1.0) * libm::log(x);
        libm::exp(log) * scaled_zeta(n + 1.0, x)
    };
    Some(sign * value)
}

/// Σ (q + k)⁻ˢ over k from 0: +∞ at s = 1 and at the poles where both sides agree, NaN below 1, where the series diverges, and
/// where a negative base has a broken power. `None` at s = ∞, at the other poles, and where it diverges in two ways at once.
pub fn hurwitz_zeta(s: f64, q: f64) -> Option<f64> {
    if s.is_nan() || q.is_nan() || s < 1.0 && q > 0.0 {
        return Some(f64::NAN);
    }
    let is_even = s % 2.0 == 0.0;
    if s == f64::INFINITY
        || q == f64::NEG_INFINITY
        || q <= 0.0 && s <= 1.0
        || is_pole(q) && !is_even
    {
        return None;
    }
    if s == 1.0 || is_pole(q) {
        return Some(f64::INFINITY);
    }
    if q == f64::INFINITY {
        return Some(0.0);
    }
    if q > 0.0 {
        return Some(positive_zeta(s, q));
    }
    if s != s.floor() {
        return Some(f64::NAN);
    }
    // The terms below 0 are those of a series from the other side, up to where that leaves off. Of odd powers the near ones
    // cancel, exactly so halfway between poles, which leaves the rest alone.
    let fraction = -q - (-q).floor();
    let terms = (-q).floor() + 1.0;
    let above = positive_zeta(s, 1.0 - fraction);
    let below = positive_zeta(s, fraction);
    let rest = positive_zeta(s, fraction + terms);
    Some(if is_even {
        above + (below - rest)
    } else {
        (above - below) + rest
    })
}

fn positive_zeta(s: f64, q: f64) -> f64 {
    let first = libm::pow(q, -s);
    // Where this is 0, s may be so much larger than q that the sum's expansion does not hold.
    if first == 0.0 {
        0.0
    } else {
        scaled_zeta(s, q) * first
    }
}

/// qˢ ζ(s, q) for s > 1 and q > 0.
fn scaled_zeta(s: f64, q: f64) -> f64 {
    const NEGLIGIBLE: f64 = 1e-20;
    let start = 12.0 + s.min(1000.0);
    let mut sum = 0.0;
    let mut a = q;
    while a < start {
        let term = libm::pow(a / q, -s);
        if term < sum * NEGLIGIBLE {
            return sum;
        }
        sum += term;
        a += 1.0;
    }
    let first = libm::pow(a / q, -s);
    let mut rest = a / (s - 1.0) + 0.5;
    // s (s + 1) … (s + 2j − 2) / ((2j)! a^(2j − 1))
    let mut factor = s / (2.0 * a);
    for (j, (numerator, denominator)) in (1..).zip(BERNOULLI) {
        let term = factor * numerator / denominator;
        rest += term;
        if term.abs() < rest * NEGLIGIBLE {
            break;
        }
        let next = 2.0 * f64::from(j);
        factor *= (s + next - 1.0) * (s + next) / ((next + 1.0) * (next + 2.0) * a * a);
    }
    sum + first * rest
}
