//! Which values an operator is tried on: all that a type of 16 bits or fewer has, a stratified sample of f32 or all of it, and
//! for pairs a set of hard values. Values are encodings in the low bits.

mod hard;

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::tensor::{ElementType, FloatFormat};

pub use hard::HARD_PAIR_VALUES;

/// How many values of f32 the sample holds.
pub const SAMPLE: usize = 1 << 20;
/// How many values of f32 go into one program when all are tried.
const CHUNK: u64 = 1 << 23;

/// The operands of one operator, in programs of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Every encoding.
    All { bits: u32 },
    /// Every encoding of f32, in chunks.
    AllF32,
    /// The sample of f32, with the values of this type and their midpoints in it where the operator converts to it.
    Sample { into: Option<ElementType> },
    /// All pairs of hard values; of all values where the type has so few.
    Pairs { element_type: ElementType },
}

impl Domain {
    pub fn unary(element_type: ElementType, into: Option<ElementType>, all_f32: bool) -> Self {
        match element_type {
            ElementType::F32 if all_f32 => Self::AllF32,
            ElementType::F32 => Self::Sample { into },
            small => Self::All {
                bits: small.bits() as u32,
            },
        }
    }

    /// How many programs it takes.
    pub fn chunks(&self) -> u64 {
        match self {
            Self::AllF32 => (1 << 32) / CHUNK,
            _ => 1,
        }
    }

    /// The encodings of each operand in one of the programs.
    pub fn chunk(&self, index: u64) -> Vec<Vec<u64>> {
        match *self {
            Self::All { bits } => vec![(0..1 << bits).collect()],
            Self::AllF32 => vec![(index * CHUNK..(index + 1) * CHUNK).collect()],
            Self::Sample { into: None } => {
                // Most operators of f32 share it.
                static SHARED: LazyLock<Vec<u64>> = LazyLock::new(|| sample(None));
                vec![SHARED.clone()]
            }
            Self::Sample { into } => vec![sample(into)],
            Self::Pairs { element_type } => pairs(element_type),
        }
    }

    /// In words, for reports.
    pub fn describe(&self) -> String {
        match self {
            Self::All { bits } => format!("all {} values", 1u64 << bits),
            Self::AllF32 => "all 2^32 values".to_owned(),
            Self::Sample { .. } => "a stratified sample of 2^20".to_owned(),
            Self::Pairs { element_type } if element_type.bits() <= 8 => "all pairs".to_owned(),
            Self::Pairs { .. } => format!("all pairs of {HARD_PAIR_VALUES} hard values"),
        }
    }
}

/// Each value of the first operand with each of the second.
fn pairs(element_type: ElementType) -> Vec<Vec<u64>> {
    let values = match element_type.float_format() {
        Some(format) if element_type.bits() > 8 => hard::for_pairs(&format),
        _ => (0..1 << element_type.bits()).collect(),
    };
    let first = values.iter().flat_map(|&x| vec![x; values.len()]);
    let second = values.iter().flat_map(|_| values.iter().copied());
    vec![first.collect(), second.collect()]
}

/// 2²⁰ different encodings of f32: the hard points, then as many of each sign and exponent field as there is room for, evenly
/// spread with a jitter.
fn sample(into: Option<ElementType>) -> Vec<u64> {
    const FIELDS: u64 = 512;
    const MANTISSAS: u64 = 1 << 23;
    let mut taken = HashSet::with_capacity(SAMPLE);
    let mut codes = Vec::with_capacity(SAMPLE);
    let mut take = |code: u64, codes: &mut Vec<u64>| {
        if codes.len() < SAMPLE && taken.insert(code) {
            codes.push(code);
        }
    };
    for code in hard::for_sample() {
        take(code, &mut codes);
    }
    if let Some(format) = into.and_then(ElementType::float_format) {
        for code in midpoints(&format) {
            take(code, &mut codes);
        }
    }
    // A second round fills the places of jitters that fell on what was there already.
    let mut round = 0;
    while codes.len() < SAMPLE {
        let each = (SAMPLE - codes.len()) as u64 / FIELDS + 1;
        for stratum in 0..each {
            for field in 0..FIELDS {
                let width = MANTISSAS / each;
                let jitter = mixed(round << 48 | stratum << 16 | field) % width;
                take(field << 23 | (stratum * width + jitter), &mut codes);
            }
        }
        round += 1;
    }
    codes
}

/// The f32 values that lie halfway between neighbours of the format, the neighbours, and those next to both; for formats so fine
/// that there would be too many, of an even selection.
fn midpoints(format: &FloatFormat) -> Vec<u64> {
    const MOST: u64 = 1 << 16;
    let largest = format.max_code();
    let step = (largest / (MOST / 2)).max(1);
    let mut codes = Vec::new();
    let mut code = 0;
    while code <= largest {
        let value = format.decode(code);
        let next = if code == largest {
            format.overflow_value()
        } else {
            format.decode(code + 1)
        };
        for point in [value, value / 2.0 + next / 2.0] {
            for sign in [0, 1 << 31] {
                codes.extend(neighbours(point as f32, 1).map(|code| sign | code));
            }
        }
        code += step;
    }
    codes
}

/// The encodings of a positive f32 and of those up to `reach` away from it.
fn neighbours(value: f32, reach: u32) -> impl Iterator<Item = u64> {
    let code = value.abs().to_bits();
    (code.saturating_sub(reach)..=(code + reach).min(0x7f80_0000)).map(u64::from)
}

/// SplitMix64's output function (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_no_value_twice_and_every_exponent_of_both_signs() {
        for into in [None, Some(ElementType::F16), Some(ElementType::F8E4M3FN)] {
            let codes = sample(into);
            let distinct: HashSet<u64> = codes.iter().copied().collect();
            assert_eq!((codes.len(), distinct.len()), (SAMPLE, SAMPLE));
            for field in 0..512 {
                let of_field = codes.iter().filter(|code| *code >> 23 == field).count();
                assert!(of_field > 300, "{into:?}: {of_field} of field {field}");
            }
        }
    }

    #[test]
    fn the_sample_holds_the_hard_points() {
        let codes: HashSet<u64> = sample(None).into_iter().collect();
        let points = [
            0.0f32,
            -0.0,
            f32::from_bits(1),
            f32::MIN_POSITIVE,
            f32::MAX,
            f32::INFINITY,
            1.0,
            1.0 - f32::EPSILON / 2.0,
            -1.0 - f32::EPSILON,
            2.5,
            -8_388_607.5,
            std::f32::consts::FRAC_PI_2,
            // 8000 π/2 to f32's nearest
            12_566.371,
            // where e^x overflows
            88.722_84,
            // where digamma is 0
            1.461_632_1,
        ];
        for point in points {
            assert!(codes.contains(&u64::from(point.to_bits())), "{point:?}");
        }
    }

    #[test]
    fn a_conversion_meets_the_ties_of_its_destination() {
        let codes: HashSet<u64> = sample(Some(ElementType::F8E4M3FN)).into_iter().collect();
        // Halfway between 1 and 1.125, between 0 and the smallest subnormal 2^-9, and between 448 and what would follow.
        for tie in [1.0625f32, -1.0625, 1.0 / 1024.0, 464.0] {
            for code in neighbours(tie, 1) {
                assert!(codes.contains(&code), "{tie}");
            }
        }
    }

    #[test]
    fn pairs_are_all_pairs() {
        let operands = Domain::Pairs {
            element_type: ElementType::F4E2M1FN,
        }
        .chunk(0);
        let pairs: HashSet<(u64, u64)> = operands[0]
            .iter()
            .copied()
            .zip(operands[1].iter().copied())
            .collect();
        assert_eq!(pairs.len(), 256);
        for element_type in [ElementType::BF16, ElementType::F16, ElementType::F32] {
            let operands = Domain::Pairs { element_type }.chunk(0);
            let values: HashSet<u64> = operands[0].iter().copied().collect();
            assert_eq!(values.len(), HARD_PAIR_VALUES, "{element_type}");
            assert_eq!(operands[1].len(), HARD_PAIR_VALUES * HARD_PAIR_VALUES);
        }
    }

    #[test]
    fn all_of_f32_is_each_value_once() {
        let domain = Domain::AllF32;
        let last = domain.chunk(domain.chunks() - 1);
        assert_eq!(domain.chunk(0)[0][0], 0);
        assert_eq!(last[0].last(), Some(&0xffff_ffff));
        assert_eq!(domain.chunks() * last[0].len() as u64, 1 << 32);
    }
}
