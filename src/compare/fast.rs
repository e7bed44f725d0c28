//! The ordinary case, a block of real elements at a time: all finite, all within their bounds.
//!
//! The loops have no branches, so that they compile to vector instructions. A block that holds anything else (an element beyond
//! its bound, NaN, an infinity, a zero for what is not that zero) is refused as a whole and left to the rules of `agree`, element
//! by element: this module decides nothing that they would decide otherwise. Sums are taken in eight lanes whatever the machine,
//! so that the figures are the same bits everywhere.

use multiversion::multiversion;

use super::agree::Floats;
use super::bound::Linear;
use super::figures::Figures;
use crate::tensor::format::pow2;

const LANES: usize = 8;

/// The bits of an f64's exponent.
const EXPONENT: u64 = 0x7ff << 52;

/// The rules for ordinary elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fast {
    bound: Linear,
    max_finite: f64,
    min_normal: f64,
    /// 2 to the explicit bits of the significand: what an ulp is to the power of two below the value.
    ulps: f64,
}

/// What a block's elements add to the figures, and what shows that none of them is out of the ordinary.
#[derive(Debug, Clone, Copy)]
struct Lanes {
    got: [f64; LANES],
    reference: [f64; LANES],
    difference: [f64; LANES],
    product: [f64; LANES],
    max_abs: [f64; LANES],
    /// Differences over the powers of two at or below the references.
    max_scaled: [f64; LANES],
    /// Twice what bounds the differences over the references, where these are normal.
    twice_rel: [f64; LANES],
    /// The references over those powers of two: below 1 where they are subnormal or zero.
    least_fraction: [f64; LANES],
    /// With scales: the least that is left between a difference and its bound.
    slack: [f64; LANES],
    /// With scales: the largest bound.
    bound: [f64; LANES],
    largest: [f64; LANES],
    smallest_got: [f64; LANES],
}

// Not `f64::max` and `min`, whose rules for NaN take more instructions: here a NaN is left out, and shows in the sums.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

fn largest(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().copied().fold(0.0, larger)
}

fn smallest(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().copied().fold(f64::INFINITY, smaller)
}

fn sum(lanes: &[f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = *lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

impl Fast {
    /// `None` where the tolerance or the format has no such rules.
    pub fn new(floats: &Floats) -> Option<Self> {
        let format = floats.format;
        let bound = floats.bound.linear(&format)?;
        // Above 2¹⁰²² an f64 has no inverse that is normal.
        let max_finite = format.max_finite().min(pow2(1022));
        Some(Self {
            bound,
            max_finite,
            min_normal: format.min_normal(),
            ulps: pow2(format.mantissa_bits as i32),
        })
    }

    /// Adds the elements to the figures; false, and nothing is added, if any is out of the ordinary. Of scales there are as many
    /// as elements, or none where the bound needs none. Elements past the last [`whole`](Self::whole) one are left out.
    pub fn add(
        &self,
        got: Values<'_>,
        values: Values<'_>,
        scales: Option<&[f64]>,
        figures: &mut Figures,
    ) -> bool {
        match (got, values) {
            (Values::F32(got), Values::F64(values)) => self.add_of(got, values, scales, figures),
            (Values::F64(got), Values::F64(values)) => self.add_of(got, values, scales, figures),
            (Values::F32(got), Values::F32(values)) => self.add_of(got, values, scales, figures),
            (Values::F64(got), Values::F32(values)) => self.add_of(got, values, scales, figures),
        }
    }

    fn add_of<G: Real, R: Real>(
        &self,
        got: &[G],
        values: &[R],
        scales: Option<&[f64]>,
        figures: &mut Figures,
    ) -> bool {
        let lanes = match scales {
            Some(scales) => scaled(self, got, values, scales),
            None => unscaled(self, got, values),
        };
        let difference = sum(&lanes.difference);
        let (max_abs, max_scaled) = (largest(&lanes.max_abs), largest(&lanes.max_scaled));
        let within = if scales.is_some() {
            smallest(&lanes.slack) >= 0.0 && largest(&lanes.bound) < f64::INFINITY
        } else if self.bound.strict {
            max_scaled < self.bound.of_power
        } else {
            // A block that needs both is left to the rules for each element.
            max_scaled <= self.bound.of_power || max_abs <= self.bound.floor
        };
        let ordinary = within
            && difference < f64::INFINITY
            && largest(&lanes.largest) <= self.max_finite
            && (smallest(&lanes.smallest_got) > 0.0 || zeros_are_the_same(got, values));
        if !ordinary {
            return false;
        }
        figures.max_abs = larger(max_abs, figures.max_abs);
        // The divisions take longer than all the rest: only for a block that may hold a new maximum.
        let may_rel = 0.5 * largest(&lanes.twice_rel) * (1.0 + 1e-9);
        if may_rel > figures.max_rel || smallest(&lanes.least_fraction) < 1.0 {
            figures.max_rel = larger(largest(&relative(got, values)), figures.max_rel);
        }
        figures.max_ulp = larger(max_scaled * self.ulps, figures.max_ulp);
        figures.sums.add_block(
            [
                sum(&lanes.got),
                sum(&lanes.reference),
                difference,
                sum(&lanes.product),
            ],
            larger(largest(&lanes.largest), max_abs),
        );
        true
    }

    /// How many of so many elements [`add`](Self::add) takes.
    pub fn whole(elements: usize) -> usize {
        elements - elements % LANES
    }
}

/// A float that an f64 holds exactly.
trait Real: Copy + Into<f64> {}

impl Real for f32 {}
impl Real for f64 {}

/// Some elements in the type that they are stored in, where the loops read it, or as f64.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl Values<'_> {
    /// The first so many.
    pub fn first(self, count: usize) -> Self {
        match self {
            Self::F32(values) => Self::F32(&values[..count]),
            Self::F64(values) => Self::F64(&values[..count]),
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn scaled<G: Real, R: Real>(fast: &Fast, got: &[G], values: &[R], scales: &[f64]) -> Lanes {
    block::<true, G, R, f64>(fast, got, values, scales)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn unscaled<G: Real, R: Real>(fast: &Fast, got: &[G], values: &[R]) -> Lanes {
    block::<false, G, R, R>(fast, got, values, values)
}

#[inline(always)]
fn block<const SCALED: bool, G: Real, R: Real, S: Real>(
    fast: &Fast,
    got: &[G],
    values: &[R],
    scales: &[S],
) -> Lanes {
    const NONE: [f64; LANES] = [0.0; LANES];
    const ALL: [f64; LANES] = [f64::INFINITY; LANES];
    let mut lanes = Lanes {
        got: NONE,
        reference: NONE,
        difference: NONE,
        product: NONE,
        max_abs: NONE,
        max_scaled: NONE,
        twice_rel: NONE,
        least_fraction: ALL,
        slack: ALL,
        bound: NONE,
        largest: NONE,
        smallest_got: ALL,
    };
    let (got, _) = got.as_chunks::<LANES>();
    let (values, _) = values.as_chunks::<LANES>();
    let (scales, _) = scales.as_chunks::<LANES>();
    for ((got, values), scales) in got.iter().zip(values).zip(scales) {
        for i in 0..LANES {
            let (g, r): (f64, f64) = (got[i].into(), values[i].into());
            let (difference, magnitude) = ((g - r).abs(), r.abs());
            // As `Spacing::at`: subnormals have the spacing of the smallest normal.
            let exponent = larger(magnitude, fast.min_normal).to_bits() & EXPONENT;
            let inverse = f64::from_bits((0x7fe_u64 << 52).wrapping_sub(exponent));
            if SCALED {
                let scale = scales[i].into().abs();
                let bound = fast.bound.of_magnitude * magnitude + fast.bound.of_scale * scale;
                let bound = larger(bound, fast.bound.floor);
                lanes.bound[i] = larger(bound, lanes.bound[i]);
                lanes.slack[i] = smaller(bound - difference, lanes.slack[i]);
            }
            lanes.got[i] += g * g;
            lanes.reference[i] += r * r;
            lanes.difference[i] += difference * difference;
            lanes.product[i] += g * r;
            lanes.max_abs[i] = larger(difference, lanes.max_abs[i]);
            let (scaled, fraction) = (difference * inverse, magnitude * inverse);
            // 1/f ≤ (3 − f)/2 for f in [1, 2], by its chord.
            lanes.twice_rel[i] = larger(scaled * (3.0 - fraction), lanes.twice_rel[i]);
            lanes.least_fraction[i] = smaller(fraction, lanes.least_fraction[i]);
            lanes.max_scaled[i] = larger(scaled, lanes.max_scaled[i]);
            lanes.largest[i] = larger(magnitude, lanes.largest[i]);
            lanes.smallest_got[i] = smaller(g.abs(), lanes.smallest_got[i]);
        }
    }
    lanes
}

/// The largest differences over their references; a reference of 0 counts for none.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn relative<G: Real, R: Real>(got: &[G], values: &[R]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    let (got, _) = got.as_chunks::<LANES>();
    let (values, _) = values.as_chunks::<LANES>();
    for (got, values) in got.iter().zip(values) {
        for i in 0..LANES {
            let (g, r): (f64, f64) = (got[i].into(), values[i].into());
            let (difference, magnitude) = ((g - r).abs(), r.abs());
            let relative = if magnitude > 0.0 {
                difference / magnitude
            } else {
                0.0
            };
            lanes[i] = larger(relative, lanes[i]);
        }
    }
    lanes
}

/// The largest magnitude of those up to the limit.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn largest_within(values: &[f64], limit: f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    let within = |value: f64| {
        let magnitude = value.abs();
        if magnitude <= limit { magnitude } else { 0.0 }
    };
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = larger(within(chunk[i]), lanes[i]);
        }
    }
    rest.iter()
        .fold(largest(&lanes), |m, v| larger(within(*v), m))
}

/// Whether each zero that came stands for the very same zero.
fn zeros_are_the_same<G: Real, R: Real>(got: &[G], values: &[R]) -> bool {
    let odd = |(g, r): (&G, &R)| {
        let (g, r): (f64, f64) = ((*g).into(), (*r).into());
        (g == 0.0) & (g.to_bits() != r.to_bits())
    };
    !got.iter().zip(values).any(odd)
}
