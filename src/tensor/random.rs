//! The random numbers behind seeded inputs: the same on every machine and in every version.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014) read as
//! a function of a counter: output `n` of the generator seeded with `s` is `mix(s + (n + 1)·γ)`. Operand `o` of a case with
//! seed `s` has its own stream: the generator seeded with output `o` of the one seeded with `s`.
//!
//! Nothing here calls the platform's libm. f64 `+ − × ÷` and `sqrt` are exact by IEEE 754 and Rust never fuses or reorders
//! them, so each function below gives the same bits everywhere. Changing any of them changes every reference.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Draws for one operand, addressed by a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    seed: u64,
}

impl Stream {
    pub fn new(seed: u64, operand: usize) -> Self {
        Self {
            seed: Stream { seed }.bits(operand as u64),
        }
    }

    /// Output `counter` of SplitMix64 with this stream's seed.
    pub fn bits(self, counter: u64) -> u64 {
        let mut z = self
            .seed
            .wrapping_add(counter.wrapping_add(1).wrapping_mul(GAMMA));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1): the top 53 bits over 2⁵³.
    pub fn unit(self, counter: u64) -> f64 {
        (self.bits(counter) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0 .. `bound`: the high word of a 128-bit product (bias below bound/2⁶⁴).
    pub fn below(self, counter: u64, bound: u128) -> u64 {
        if bound > u128::from(u64::MAX) {
            return self.bits(counter);
        }
        ((u128::from(self.bits(counter)) * bound) >> 64) as u64
    }

    /// Standard normal: the quantile of the midpoint of one of 2⁵² equal intervals of (0, 1).
    pub fn normal(self, counter: u64) -> f64 {
        let p = ((self.bits(counter) >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64);
        normal_quantile(p)
    }

    /// A permutation of 0 .. n by Fisher–Yates, which takes the n draws from `counter` on.
    pub fn permutation(self, counter: u64, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(
                i,
                self.below(counter.wrapping_add(i as u64), i as u128 + 1) as usize,
            );
        }
        order
    }
}

/// The quantile of the standard normal at 0 < p < 1: PPND16 of Wichura, "Algorithm AS 241", Applied Statistics 37 (1988),
/// about 1 part in 10¹⁶, with the coefficients as published.
#[rustfmt::skip]
#[expect(clippy::excessive_precision, reason = "the coefficients read as published")]
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 8] = [
        3.387_132_872_796_366_608_0e0, 1.331_416_678_917_843_774_5e2, 1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4, 4.592_195_393_154_987_145_7e4, 6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4, 2.509_080_928_730_122_672_7e3,
    ];
    const B: [f64; 8] = [
        1.0, 4.231_333_070_160_091_125_2e1, 6.871_870_074_920_579_083_0e2, 5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4, 3.930_789_580_009_271_061_0e4, 2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561_0e3,
    ];
    const C: [f64; 8] = [
        1.423_437_110_749_683_577_34e0, 4.630_337_846_156_545_295_90e0, 5.769_497_221_460_691_405_50e0,
        3.647_848_324_763_204_605_04e0, 1.270_458_252_452_368_382_58e0, 2.417_807_251_774_506_117_70e-1,
        2.272_384_498_926_918_458_33e-2, 7.745_450_142_783_414_076_40e-4,
    ];
    const D: [f64; 8] = [
        1.0, 2.053_191_626_637_758_821_87e0, 1.676_384_830_183_803_849_40e0, 6.897_673_349_851_000_045_50e-1,
        1.481_039_764_274_800_745_90e-1, 1.519_866_656_361_645_719_66e-2, 5.475_938_084_995_344_946_00e-4,
        1.050_750_071_644_416_843_24e-9,
    ];
    const E: [f64; 8] = [
        6.657_904_643_501_103_777_20e0, 5.463_784_911_164_114_369_90e0, 1.784_826_539_917_291_335_80e0,
        2.965_605_718_285_048_912_30e-1, 2.653_218_952_657_612_309_30e-2, 1.242_660_947_388_078_438_60e-3,
        2.711_555_568_743_487_578_15e-5, 2.010_334_399_292_288_132_65e-7,
    ];
    const F: [f64; 8] = [
        1.0, 5.998_322_065_558_879_376_90e-1, 1.369_298_809_227_358_053_10e-1, 1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591_00e-4, 1.846_318_317_510_054_681_80e-5, 1.421_511_758_316_445_888_70e-7,
        2.044_263_103_389_939_785_64e-15,
    ];
    fn ratio(numerator: &[f64; 8], denominator: &[f64; 8], x: f64) -> f64 {
        let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
        polynomial(numerator) / polynomial(denominator)
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(&A, &B, 0.180625 - q * q);
    }
    let r = (-natural_log(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let tail = if r <= 5.0 { ratio(&C, &D, r - 1.6) } else { ratio(&E, &F, r - 5.0) };
    if q < 0.0 { -tail } else { tail }
}

/// ln x for a positive normal x, to a few ulp: x = m·2ᵏ with m in [√½, √2), and ln m = 2·atanh((m−1)/(m+1)) by its series.
fn natural_log(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // |s| ≤ 0.1716: the term after s²³ is below 2⁻⁶⁰ of the first.
    let series = (0..12)
        .rev()
        .fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for this seed, as in Rosetta Code's "Pseudo-random numbers/Splitmix64".
    #[test]
    fn the_generator_is_splitmix64() {
        let stream = Stream { seed: 1234567 };
        let expected = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ];
        assert_eq!(std::array::from_fn(|n| stream.bits(n as u64)), expected);
    }

    /// Values of Python's `statistics.NormalDist().inv_cdf`.
    #[test]
    fn normal_quantiles_agree_with_python() {
        for (p, expected) in [
            (0.5, 0.0),
            (0.975, 1.9599639845400536),
            (0.1, -1.2815515655446008),
            (0.001, -3.090232306167813),
            (1e-10, -6.361340902404056),
            (1e-15, -7.941345326170995),
            (0.999, 3.090232306167813),
        ] {
            let actual = normal_quantile(p);
            assert!(
                (actual - expected).abs() <= 4e-15 * (1.0 + expected.abs()),
                "{p}: {actual:?} {expected:?}"
            );
        }
    }

    #[test]
    fn the_logarithm_is_the_logarithm() {
        for x in [
            1e-300, 1e-16, 0.075, 0.5, 0.706, 0.708, 1.0, 1.413, 1.415, 10.0, 1e300f64,
        ] {
            let expected = x.ln();
            assert!(
                (natural_log(x) - expected).abs() <= 4e-16 * expected.abs().max(1e-3),
                "{x}"
            );
        }
    }

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let stream = Stream::new(7, 0);
        let n = 100_000;
        let moment = |k: i32| (0..n).map(|i| stream.normal(i).powi(k)).sum::<f64>() / n as f64;
        assert!(moment(1).abs() < 0.02);
        assert!((moment(2) - 1.0).abs() < 0.02);
        assert!(moment(3).abs() < 0.05);
        assert!((moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn permutations_hold_each_number_once() {
        let mut order = Stream::new(1, 2).permutation(0, 100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
