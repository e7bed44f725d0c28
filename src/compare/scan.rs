//! One pass over both sides: chunks in parallel, each decoded block by block into f64 on the stack.

use std::ops::Range;

use rayon::prelude::*;

use super::agree::{Floats, modulus};
use super::bound::Bound;
use super::fast::{Fast, Values, largest_within};
use super::figures::{Figures, Sums};
use super::{CompareError, Comparison, Mismatch, Numerics, ReferenceTensor, Tolerance};
use crate::tensor::format::{FloatFormat, pow2};
use crate::tensor::{ElementType, Tensor, codec};

/// Elements that a core takes at a time.
const CHUNK: usize = 1 << 16;
/// Elements decoded at a time.
const BLOCK: usize = 512;

pub(super) fn compare(
    got: &Tensor,
    reference: &ReferenceTensor,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> Result<Comparison, CompareError> {
    let scan = Scan::new(got, reference, tolerance, numerics)?;
    let mut figures = scan
        .chunks(|range| scan.figures(range))
        .iter()
        .fold(Figures::default(), |sum, next| sum.join(next));
    let mut unit = 1.0;
    if figures.sums.are_unusable() {
        // Rare: squares left f64's range. Once more, with the largest value near 1.
        unit = pow2(-(figures.sums.largest.log2() as i32).clamp(-1000, 1000));
        figures.sums = scan.sums(unit);
    }
    let mut comparison = figures.finish(got.len(), unit);
    comparison.first_mismatch = figures
        .first_mismatch
        .map(|index| mismatch(got, reference, index));
    Ok(comparison)
}

fn checked_scale(reference: &ReferenceTensor) -> Result<&Tensor, CompareError> {
    let scale = reference.scale.as_ref().ok_or(CompareError::MissingScale)?;
    let element_type = scale.element_type();
    if scale.shape() != reference.values.shape()
        || !(element_type.is_float() || element_type.is_complex())
    {
        return Err(CompareError::Scale {
            element_type,
            shape: scale.shape().to_vec(),
            expected: reference.values.shape().to_vec(),
        });
    }
    Ok(scale)
}

/// The expected value is shown in the result's type, unless that would read the same as what came.
fn mismatch(got: &Tensor, reference: &ReferenceTensor, flat: usize) -> Mismatch {
    let mut index = vec![0; got.shape().len()];
    let mut rest = flat;
    for (position, &dimension) in index.iter_mut().zip(got.shape()).rev() {
        *position = rest % dimension;
        rest /= dimension;
    }
    let (values, element_type) = (&reference.values, reference.element_type);
    let parts = if element_type.is_complex() { 2 } else { 1 };
    let element: Vec<f64> = (0..parts)
        .map(|part| values.get_f64(flat * parts + part))
        .collect();
    let rounded = Tensor::from_f64(element_type, vec![], &element).ok();
    let got = got.format_element(flat);
    let expected = match rounded {
        Some(tensor) if values.element_type() != element_type => tensor.format_element(0),
        _ => values.format_element(flat),
    };
    let expected = if expected == got {
        values.format_element(flat)
    } else {
        expected
    };
    Mismatch {
        index,
        got,
        expected,
    }
}

/// Two tensors of one shape, and the rules that decide on their elements.
pub(crate) struct Scan<'a> {
    pub got: &'a Tensor,
    pub values: &'a Tensor,
    scale: Option<&'a Tensor>,
    /// Of the sum that an element is; 1 where it is none.
    terms: u64,
    /// The rules; none where the type is an integer or `pred`.
    pub(super) floats: Option<Floats>,
}

/// One block of a tensor as f64; of a complex one, parts in turn.
struct Block<'a> {
    tensor: &'a Tensor,
    parts: usize,
    values: [f64; 2 * BLOCK],
}

impl<'a> Block<'a> {
    fn new(tensor: &'a Tensor) -> Self {
        Self {
            tensor,
            parts: parts(tensor.element_type()),
            values: [0.0; 2 * BLOCK],
        }
    }

    /// As they are stored, where that is f32.
    fn stored(&mut self, range: &Range<usize>) -> Values<'_> {
        if self.tensor.element_type() == ElementType::F32
            && cfg!(target_endian = "little")
            && let Ok(values) =
                bytemuck::try_cast_slice(&self.tensor.data()[range.start * 4..range.end * 4])
        {
            return Values::F32(values);
        }
        Values::F64(self.load(range))
    }

    fn load(&mut self, range: &Range<usize>) -> &[f64] {
        let element_type = self.tensor.element_type();
        let width = element_type.bytes();
        let bytes = &self.tensor.data()[range.start * width..range.end * width];
        let native = matches!(element_type, ElementType::F64 | ElementType::C128);
        if native
            && cfg!(target_endian = "little")
            && let Ok(values) = bytemuck::try_cast_slice(bytes)
        {
            return values;
        }
        let values = &mut self.values[..range.len() * self.parts];
        codec::decode(element_type, bytes, values);
        values
    }
}

/// Parts of a complex element; of any other, the value and 0.
fn element(tensor: &Tensor, index: usize) -> [f64; 2] {
    match parts(tensor.element_type()) {
        2 => [tensor.get_f64(2 * index), tensor.get_f64(2 * index + 1)],
        _ => [tensor.get_f64(index), 0.0],
    }
}

fn magnitude(element: [f64; 2]) -> f64 {
    modulus(element[0], element[1])
}

fn parts(element_type: ElementType) -> usize {
    if element_type.is_complex() { 2 } else { 1 }
}

/// The blocks of a chunk.
fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(BLOCK)
        .map(move |start| start..(start + BLOCK).min(end))
}

impl<'a> Scan<'a> {
    /// The element types and shapes fit each other.
    pub fn new(
        got: &'a Tensor,
        reference: &'a ReferenceTensor,
        tolerance: &Tolerance,
        numerics: &Numerics,
    ) -> Result<Self, CompareError> {
        let element_type = reference.element_type;
        let mut scan = Scan {
            got,
            values: &reference.values,
            scale: None,
            terms: 1,
            floats: None,
        };
        if let Some(format) = numerics.format(element_type) {
            if let Tolerance::Accumulate { terms, .. } = tolerance {
                scan.scale = Some(checked_scale(reference)?);
                scan.terms = *terms;
            }
            let bound = Bound::new(tolerance, element_type, format, numerics, || {
                scan.largest(format)
            })?;
            let own = element_type.float_format().unwrap_or(format);
            scan.floats = Some(Floats::new(own, format, bound, numerics));
        }
        Ok(scan)
    }

    /// Real values an element.
    pub fn parts(&self) -> usize {
        parts(self.got.element_type())
    }

    /// The element as it came, its parts one after the other.
    pub fn got(&self, index: usize) -> [f64; 2] {
        element(self.got, index)
    }

    pub fn reference(&self, index: usize) -> [f64; 2] {
        element(self.values, index)
    }

    /// What the error of an element is measured against: the scale where there is one, else its magnitude.
    pub fn size(&self, index: usize) -> f64 {
        match self.scale {
            Some(_) => self.scale_at(index),
            None => magnitude(self.reference(index)),
        }
    }

    /// Terms of the sum that an element is.
    pub fn terms(&self) -> f64 {
        self.terms.max(1) as f64
    }

    fn scale_at(&self, index: usize) -> f64 {
        self.scale
            .map_or(0.0, |scale| magnitude(element(scale, index)))
    }

    /// Whether one element that came agrees with an element of the reference, of whatever place.
    pub fn agrees(&self, got: usize, reference: usize) -> bool {
        let Some(floats) = &self.floats else {
            return self.got.bits(got) == self.values.bits(reference);
        };
        let (g, r) = (self.got(got), self.reference(reference));
        let scale = self.scale_at(reference);
        if self.parts() == 2 {
            floats.complex(g, r, scale)
        } else {
            floats.real(g[0], r[0], scale)
        }
    }

    /// How far an element may lie from its reference; half an ulp where it must be the reference rounded, half of 1 where
    /// it is an integer.
    pub fn bound(&self, index: usize) -> f64 {
        self.floats.as_ref().map_or(0.5, |floats| {
            floats.distance(magnitude(self.reference(index)), self.scale_at(index))
        })
    }

    /// Whether the reference is finite in the element type.
    pub fn is_finite(&self, index: usize) -> bool {
        let parts = self.reference(index).into_iter().take(self.parts());
        self.floats
            .as_ref()
            .is_none_or(|floats| parts.into_iter().all(|part| floats.is_finite(part)))
    }

    /// Whether partial sums of an element may have overflowed.
    pub fn may_overflow(&self, index: usize) -> bool {
        let scale = self.scale_at(index);
        self.floats
            .as_ref()
            .is_some_and(|floats| floats.bound.may_overflow(scale))
    }

    /// What `work` gives for each chunk, in order.
    fn chunks<T: Send>(&self, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
        let n = self.got.len();
        (0..n.div_ceil(CHUNK))
            .into_par_iter()
            .map(|chunk| work(chunk * CHUNK..((chunk + 1) * CHUNK).min(n)))
            .collect()
    }

    /// max|ref| over the elements within the range of the result's format.
    fn largest(&self, format: FloatFormat) -> f64 {
        let parts = parts(self.values.element_type());
        let max_finite = format.max_finite();
        let largest = self.chunks(|range| {
            let mut block = Block::new(self.values);
            let mut largest = 0.0f64;
            for range in blocks(range) {
                let values = block.load(&range);
                if parts == 1 {
                    largest = largest.max(largest_within(values, max_finite));
                    continue;
                }
                for element in values.chunks_exact(parts) {
                    let magnitude = modulus(element[0], element[1]);
                    if magnitude <= max_finite {
                        largest = largest.max(magnitude);
                    }
                }
            }
            largest
        });
        largest.into_iter().fold(0.0, f64::max)
    }

    fn figures(&self, range: Range<usize>) -> Figures {
        match &self.floats {
            None => self.integers(range),
            Some(floats) if self.got.element_type().is_complex() => self.complex(floats, range),
            Some(floats) => self.reals(floats, range),
        }
    }

    fn reals(&self, floats: &Floats, range: Range<usize>) -> Figures {
        let mut figures = Figures::default();
        let (mut got, mut values) = (Block::new(self.got), Block::new(self.values));
        let mut scales = self.scale.map(Scales::new);
        // Bounds in the format that the target makes of the type, figures in the type itself.
        let own = self.got.element_type().float_format();
        let fast = Fast::new(floats).filter(|_| own == Some(floats.format));
        for range in blocks(range) {
            let scales = scales.as_mut().map(|s| s.load(&range));
            let whole = Fast::whole(range.len());
            let added = fast.is_some_and(|fast| {
                let (got, values) = (got.stored(&range), values.stored(&range));
                let scales = scales.map(|scales| &scales[..whole]);
                fast.add(got.first(whole), values.first(whole), scales, &mut figures)
            });
            let rest = if added { whole } else { 0 };
            if rest == range.len() {
                continue;
            }
            let (got, values) = (got.load(&range), values.load(&range));
            for (i, (&g, &r)) in got.iter().zip(values).enumerate().skip(rest) {
                let scale = scales.map_or(0.0, |s| s[i]);
                if !floats.real(g, r, scale) {
                    figures.mismatch(range.start + i);
                }
                if g.is_finite() && floats.is_finite(r) {
                    figures.sums.add(g, r, 1.0);
                    if g != r && !floats.flushed(g, r) {
                        figures.measure((g - r).abs(), r.abs(), floats.spacing.at(r));
                    }
                }
            }
        }
        figures
    }

    fn complex(&self, floats: &Floats, range: Range<usize>) -> Figures {
        let mut figures = Figures::default();
        let (mut got, mut values) = (Block::new(self.got), Block::new(self.values));
        let mut scales = self.scale.map(Scales::new);
        for range in blocks(range) {
            let (got, _) = got.load(&range).as_chunks::<2>();
            let (values, _) = values.load(&range).as_chunks::<2>();
            let scales = scales.as_mut().map(|s| s.load(&range));
            for (i, (g, r)) in got.iter().zip(values).enumerate() {
                let scale = scales.map_or(0.0, |s| s[i]);
                if !floats.complex(*g, *r, scale) {
                    figures.mismatch(range.start + i);
                }
                if g.iter().all(|v| v.is_finite()) && r.iter().all(|v| floats.is_finite(*v)) {
                    let magnitude = modulus(r[0], r[1]);
                    figures.measure(
                        modulus(g[0] - r[0], g[1] - r[1]),
                        magnitude,
                        floats.spacing.at(magnitude),
                    );
                    figures.sums.add(g[0], r[0], 1.0);
                    figures.sums.add(g[1], r[1], 1.0);
                }
            }
        }
        figures
    }

    fn integers(&self, range: Range<usize>) -> Figures {
        let mut figures = Figures::default();
        let element_type = self.got.element_type();
        let width = element_type.bytes();
        let (mut got, mut values) = (Block::new(self.got), Block::new(self.values));
        for range in blocks(range) {
            let bytes = range.start * width..range.end * width;
            let equal = self.got.data()[bytes.clone()] == self.values.data()[bytes];
            let (got, values) = (got.load(&range), values.load(&range));
            for (i, (&g, &r)) in got.iter().zip(values).enumerate() {
                figures.sums.add(g, r, 1.0);
                if !equal {
                    let index = range.start + i;
                    let (a, b) = (self.got.bits(index), self.values.bits(index));
                    if a != b {
                        figures.mismatch(index);
                        let difference = if width < 8 {
                            (g - r).abs()
                        } else {
                            wide_difference(element_type, a, b)
                        };
                        figures.measure(difference, r.abs(), 1.0);
                    }
                }
            }
        }
        figures
    }

    fn sums(&self, unit: f64) -> Sums {
        let chunks = self.chunks(|range| {
            let mut sums = Sums::default();
            let (mut got, mut values) = (Block::new(self.got), Block::new(self.values));
            let parts = got.parts;
            for range in blocks(range) {
                let (got, values) = (got.load(&range), values.load(&range));
                for (g, r) in got.chunks_exact(parts).zip(values.chunks_exact(parts)) {
                    let finite = |r: &f64| {
                        self.floats
                            .as_ref()
                            .is_none_or(|floats| floats.is_finite(*r))
                    };
                    if g.iter().all(|v| v.is_finite()) && r.iter().all(finite) {
                        g.iter().zip(r).for_each(|(g, r)| sums.add(*g, *r, unit));
                    }
                }
            }
            sums
        });
        chunks.iter().fold(Sums::default(), |mut sum, next| {
            sum.join(next);
            sum
        })
    }
}

/// |a − b| of 64-bit integers, which f64 alone would round away.
fn wide_difference(element_type: ElementType, a: u128, b: u128) -> f64 {
    if element_type.is_signed_integer() {
        (a as i64).abs_diff(b as i64) as f64
    } else {
        a.abs_diff(b) as f64
    }
}

/// The scale, one value an element.
struct Scales<'a>(Block<'a>);

impl<'a> Scales<'a> {
    fn new(tensor: &'a Tensor) -> Self {
        Self(Block::new(tensor))
    }

    fn load(&mut self, range: &Range<usize>) -> &[f64] {
        if self.0.parts == 1 {
            return self.0.load(range);
        }
        let mut moduli = [0.0; BLOCK];
        for (modulus, part) in moduli.iter_mut().zip(self.0.load(range).chunks_exact(2)) {
            *modulus = magnitude([part[0], part[1]]);
        }
        self.0.values[..BLOCK].copy_from_slice(&moduli);
        &self.0.values[..range.len()]
    }
}
