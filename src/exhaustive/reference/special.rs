//! Functions of the error function's and Bessel's families that libm has not.

use std::f64::consts::PI;

/// erf⁻¹(x): ±∞ at ±1, NaN beyond. Halley's method on erf below ½ and on erfc above, whose argument 1 − x is exact for every
/// type of fewer bits than f64; the start is Winitzki's ("A handy approximation for the error function and its inverse", 2008).
pub fn erf_inv(x: f64) -> f64 {
    let magnitude = x.abs();
    if x == 0.0 {
        return x;
    }
    if magnitude > 1.0 || x.is_nan() {
        return f64::NAN;
    }
    if magnitude == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    let mut y = if magnitude < 1e-3 {
        magnitude * PI.sqrt() / 2.0
    } else {
        const A: f64 = 0.147;
        let log = libm::log((1.0 - magnitude) * (1.0 + magnitude));
        let half = 2.0 / (PI * A) + log / 2.0;
        ((half * half - log / A).sqrt() - half).sqrt()
    };
    for _ in 0..4 {
        let excess = if magnitude < 0.5 {
            libm::erf(y) - magnitude
        } else {
            (1.0 - magnitude) - libm::erfc(y)
        };
        let step = excess / (2.0 / PI.sqrt() * libm::exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// e^−|x| I₁(x). NIST Digital Library of Mathematical Functions, 10.25.2 (the series, all of whose terms have one sign) and
/// 10.40.1 (the expansion for large arguments, whose smallest term is near e^−2x).
pub fn bessel_i1e(x: f64) -> f64 {
    const LARGE: f64 = 30.0;
    let magnitude = x.abs();
    if magnitude.is_infinite() {
        return 0f64.copysign(x);
    }
    let value = if magnitude < LARGE {
        let quarter = magnitude * magnitude / 4.0;
        let mut term = 1.0;
        let mut sum = 1.0;
        let mut k = 1.0;
        while term > sum * 1e-18 {
            term *= quarter / (k * (k + 1.0));
            sum += term;
            k += 1.0;
        }
        magnitude / 2.0 * sum * libm::exp(-magnitude)
    } else {
        let mut term = 1.0;
        let mut sum = 1.0;
        let mut k = 1.0;
        while k < 2.0 * LARGE && f64::abs(term) > 1e-18 {
            let odd = 2.0 * k - 1.0;
            term *= -(4.0 - odd * odd) / (k * 8.0 * magnitude);
            sum += term;
            k += 1.0;
        }
        sum / (2.0 * PI * magnitude).sqrt()
    };
    value.copysign(x)
}
