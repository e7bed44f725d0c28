//! Points where operators go wrong: of f32 for the sample, and of any format for pairs.

use super::{mixed, neighbours};
use crate::tensor::FloatFormat;
use crate::tensor::format::pow2;

/// How many values of a type of more than 8 bits are paired with each other.
pub const HARD_PAIR_VALUES: usize = 512;

/// Points of f32 at which some operator has a zero, a branch, a pole, or leaves the type's range; each stands for its negative
/// too. Zeros of the gamma function's family: NIST Digital Library of Mathematical Functions, table 5.4.1, and their own
/// logarithm's, computed with mpmath.
#[rustfmt::skip]
const POINTS: &[f64] = &[
    // 1 is a branch point of acos, asin, acosh, atanh and erf_inv, and a zero of log and lgamma; 2 of lgamma.
    0.0, 1.0, 2.0, 0.5, 3.0, 4.0,
    // The zeros of digamma.
    1.461_632_144_968_362_3, 0.504_083_008_264_455_4, 1.573_498_473_162_390_5, 2.610_720_868_444_144_7,
    3.635_293_366_436_901, 4.653_237_761_743_142, 5.667_162_441_556_886, 6.678_418_213_073_427, 7.687_788_325_031_626,
    8.695_764_163_816_402, 9.702_672_540_001_864,
    // The zeros of lgamma below 0.
    2.457_024_738_220_801, 2.747_682_646_727_413, 3.143_580_888_349_98, 3.955_294_284_858_598, 4.039_361_839_740_536,
    4.991_544_640_560_048, 5.008_218_168_440_617, 5.998_607_480_080_876, 6.001_385_294_453_155, 6.999_801_507_890_638, 7.000_198_333_407_325, 7.999_975_197_095_821,
    8.000_024_800_270_682, 8.999_997_244_250_978, 9.000_002_755_714_823, 9.999_999_724_426_63, 10.000_000_275_573_014,
    // e^x, cosh and sinh overflow; e^x becomes subnormal and 0; logistic becomes subnormal.
    88.722_839_111_673, 89.415_986_292_232_94, 87.336_544_750_553_1, 103.972_077_083_991_8, 103.278_929_903_431_84,
    // tanh, erf and logistic become 1 in f32; e^x − 1 becomes −1.
    9.010_913, 3.832_506_9, 16.635_532, 17.328_68,
    // erfc becomes subnormal and 0.
    9.194_549, 10.054_171,
    // Cephes' Bessel functions change their series, Eigen's tanh its clamp, and lgamma and digamma theirs.
    8.0, 7.905_311, 13.0, 12.0, 7.0,
    // lgamma overflows; squares overflow and underflow.
    4.085_003_4e36, 1.844_674_3e19, 1.084_202_2e-19, 2.646_977_8e-23,
    // Half of log 2, where log1p and expm1 of Cephes change.
    0.346_573_59,
];

/// With their neighbours on both sides and their negatives.
pub fn for_sample() -> Vec<u64> {
    let mut points: Vec<(f64, u32)> = POINTS.iter().map(|&point| (point, 32)).collect();
    // Every power of two.
    points.extend((-149..=127).map(|exponent| (pow2(exponent), 4)));
    points.extend([
        (f64::from(f32::MAX), 32),
        (f64::from(f32::MIN_POSITIVE), 32),
        (f64::INFINITY, 0),
    ]);
    // Ties of the roundings, and whole numbers: all small ones, and some in each binade up to where f32 has no halves.
    points.extend((0..8192).map(|n| (f64::from(n) / 2.0, 1)));
    for exponent in 12..24 {
        for n in 0..64 {
            let whole = (pow2(exponent) * (1.0 + f64::from(n) / 64.0)).floor();
            points.extend([(whole, 1), (whole + 0.5, 1), (whole - 0.5, 1)]);
        }
    }
    // Multiples of π/2, where the reduction of sine, cosine and tangent cancels: small ones, and some up to the largest value.
    points.extend((1..8192).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2, 1)));
    for exponent in 13..126 {
        for n in 0..16 {
            let multiple = (pow2(exponent) * (1.0 + f64::from(n) / 16.0)).floor();
            points.push((multiple * std::f64::consts::FRAC_PI_2, 1));
        }
    }
    // The f32 that comes nearest to a multiple of π/2, relative to its size: 16367173 · 2^72 (Muller, "Elementary Functions",
    // 3rd ed., table 11.1).
    points.push((16_367_173.0 * pow2(72), 1));
    let mut codes: Vec<u64> = points
        .into_iter()
        .flat_map(|(point, reach)| neighbours(point as f32, reach))
        .flat_map(|code| [code, code | 1 << 31])
        .collect();
    // Quiet and signalling NaNs of both signs.
    codes.extend([
        0x7fc0_0000,
        0xffc0_0000,
        0x7f80_0001,
        0xff80_0001,
        0x7fff_ffff,
        0xffff_ffff,
    ]);
    codes
}

/// [`HARD_PAIR_VALUES`] different encodings, the hardest first and filled up with values of random exponents.
pub fn for_pairs(format: &FloatFormat) -> Vec<u64> {
    let whole = pow2(format.mantissa_bits as i32);
    let mut points = vec![
        0.0,
        format.min_positive(),
        2.0 * format.min_positive(),
        format.min_normal(),
        format.min_normal() / 2.0,
        format.min_normal() * 2.0,
        format.max_finite(),
        format.max_finite() / 2.0,
        format.max_finite().sqrt(),
        format.min_normal().sqrt(),
        format.min_positive().sqrt(),
        whole,
        2.0 * whole,
        4.0 * whole,
        whole / 2.0,
        1.0 / 3.0,
        0.1,
        std::f64::consts::PI,
        std::f64::consts::FRAC_PI_2,
        std::f64::consts::FRAC_PI_4,
        std::f64::consts::E,
        std::f64::consts::LN_2,
        std::f64::consts::SQRT_2,
    ];
    points.extend((1..=12).map(f64::from));
    points.extend((0..8).map(|n| f64::from(n) + 0.5));
    points.extend((-8..=8).map(|k| pow2(k * format.bias / 8)));
    let infinity = format.max_code() + 1;
    let sign = 1 << (format.exponent_bits + format.mantissa_bits);
    let nan = format.encode(f64::NAN);
    let mut codes = vec![0, sign, infinity, sign | infinity, nan];
    let take = |code: u64, codes: &mut Vec<u64>| {
        if codes.len() < HARD_PAIR_VALUES && !codes.contains(&code) {
            codes.push(code);
        }
    };
    for point in points {
        let code = format.encode(point);
        for near in [code.saturating_sub(1), code, code + 1] {
            if near <= format.max_code() {
                take(near, &mut codes);
                take(sign | near, &mut codes);
            }
        }
    }
    let mut seed = 0;
    while codes.len() < HARD_PAIR_VALUES {
        let code = mixed(seed) % (sign << 1);
        if !format.decode(code).is_nan() {
            take(code, &mut codes);
        }
        seed += 1;
    }
    codes
}
