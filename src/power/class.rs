//! The classes of faults, and how each is injected into a result that is right.
//!
//! The faults are those of issue lists, not of this project's rules: what they do to a result is said without regard to
//! whether a comparison can see it.

use crate::compare::{Directed, ReferenceTensor, Rules, Tolerance, directed};
use crate::run::Terms;
use crate::tensor::random::Stream;
use crate::tensor::{ElementType, FloatFormat, Tensor};

/// A class of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    FourBounds,
    OnePercent,
    SignFlip,
    NanToZero,
    NegativeZero,
    SwappedAxes,
    ShiftByOne,
    Truncation,
    RoundedToBf16,
    TermDropped,
    Bf16Accumulation,
    FlushedSubnormals,
    StaleOutput,
    Bias,
}

impl Class {
    pub const ALL: [Class; 14] = [
        Self::FourBounds,
        Self::OnePercent,
        Self::SignFlip,
        Self::NanToZero,
        Self::NegativeZero,
        Self::SwappedAxes,
        Self::ShiftByOne,
        Self::Truncation,
        Self::RoundedToBf16,
        Self::TermDropped,
        Self::Bf16Accumulation,
        Self::FlushedSubnormals,
        Self::StaleOutput,
        Self::Bias,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::FourBounds => "one element off by 4 bounds",
            Self::OnePercent => "one element off by 1%",
            Self::SignFlip => "one sign flipped",
            Self::NanToZero => "NaN to 0",
            Self::NegativeZero => "−0 to 0",
            Self::SwappedAxes => "axes swapped",
            Self::ShiftByOne => "shifted by one",
            Self::Truncation => "truncated, not rounded",
            Self::RoundedToBf16 => "results rounded to bf16",
            Self::TermDropped => "one term of the sums dropped",
            Self::Bf16Accumulation => "accumulated in bf16",
            Self::FlushedSubnormals => "subnormals flushed",
            Self::StaleOutput => "stale output of an earlier case",
            Self::Bias => "uniform bias of 2 bounds",
        }
    }

    /// What exactly is done.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::FourBounds => {
                "a finite element, drawn at random, moved by 4 times its own bound, up or down, and rounded to the type; an \
                 exact result's bound is half an ulp, an integer's ½"
            }
            Self::OnePercent => {
                "a finite element other than 0, multiplied by 1.01 and rounded to the type"
            }
            Self::SignFlip => "an element other than 0 and NaN, negated",
            Self::NanToZero => "a NaN, made 0",
            Self::NegativeZero => "a −0, made 0",
            Self::SwappedAxes => {
                "the last two axes longer than 1 swapped in memory, the shape kept"
            }
            Self::ShiftByOne => {
                "moved by one place along the last axis longer than 1, round the end"
            }
            Self::Truncation => "each element the f64 reference rounded toward zero",
            Self::RoundedToBf16 => {
                "each element of a type with more than 8 bits of significand rounded to bf16"
            }
            Self::TermDropped => {
                "one element of an operand, drawn at random, left out of every sum that it is a term of; the terms are measured \
                 by running the f64 program on one element at a time"
            }
            Self::Bf16Accumulation => {
                "each sum of the f64 terms added up in order with every partial sum rounded to bf16, where the accumulator is \
                 finer than bf16"
            }
            Self::FlushedSubnormals => "each subnormal of the type made a zero of its sign",
            Self::StaleOutput => {
                "the result of the last case before with this shape and element type that gave other bits"
            }
            Self::Bias => {
                "2 times its own bound added to each finite element, rounded to the type; 1 to integers"
            }
        }
    }

    /// How many faults are drawn of a result: several where one element is.
    fn draws(self) -> usize {
        match self {
            Self::FourBounds
            | Self::OnePercent
            | Self::SignFlip
            | Self::NanToZero
            | Self::NegativeZero
            | Self::TermDropped => 4,
            _ => 1,
        }
    }
}

/// A result that passes, and what a fault may need to know of it.
pub(super) struct Subject<'a> {
    pub got: &'a Tensor,
    pub reference: &'a ReferenceTensor,
    pub tolerance: &'a Tolerance,
    pub rules: &'a Rules<'a>,
    /// Which of its case's results.
    pub index: usize,
    pub terms: Option<&'a Terms>,
    /// Of the same shape and element type, with other bits.
    pub earlier: Option<&'a Tensor>,
    pub seed: u64,
}

/// The faults of one class in one result: tensors with other bits than the result, none twice.
pub(super) fn inject(class: Class, subject: &Subject<'_>) -> Vec<Tensor> {
    let mut faults: Vec<Tensor> = Vec::new();
    for draw in 0..class.draws() {
        let stream = Stream::new(subject.seed, class as usize * 16 + draw);
        if let Some(fault) = subject.fault(class, stream)
            && fault.data() != subject.got.data()
            && !faults.contains(&fault)
        {
            faults.push(fault);
        }
    }
    faults
}

impl Subject<'_> {
    fn fault(&self, class: Class, stream: Stream) -> Option<Tensor> {
        match class {
            Class::FourBounds => self.four_bounds(stream),
            Class::OnePercent => self.one_percent(stream),
            Class::SignFlip => self.sign_flip(stream),
            Class::NanToZero => self.zeroed(stream, f64::is_nan),
            Class::NegativeZero => self.zeroed(stream, |v| v == 0.0 && v.is_sign_negative()),
            Class::SwappedAxes => self.swapped_axes(),
            Class::ShiftByOne => self.shifted(),
            Class::Truncation => self.truncated(),
            Class::RoundedToBf16 => self.rounded_to_bf16(),
            Class::TermDropped => self.term_dropped(stream),
            Class::Bf16Accumulation => self.accumulated_in_bf16(),
            Class::FlushedSubnormals => self.flushed(),
            Class::StaleOutput => self.earlier.cloned(),
            Class::Bias => self.biased(),
        }
    }

    fn element_type(&self) -> ElementType {
        self.got.element_type()
    }

    fn format(&self) -> Option<FloatFormat> {
        self.element_type().float_format()
    }

    fn parts(&self) -> usize {
        if self.element_type().is_complex() {
            2
        } else {
            1
        }
    }

    /// An index into the result's values that `fits`, at random.
    fn draw(&self, stream: Stream, fits: impl Fn(usize, f64) -> bool) -> Option<(usize, f64)> {
        let values = self.got.to_f64();
        let places: Vec<usize> = (0..values.len()).filter(|&i| fits(i, values[i])).collect();
        let bound = places.len() as u128;
        let place = *places.get(usize::try_from(stream.below(0, bound)).ok()?)?;
        Some((place, values[place]))
    }

    /// The result with one of its values replaced.
    fn with(&self, place: usize, value: f64) -> Option<Tensor> {
        let real = match self.element_type() {
            ElementType::C64 => ElementType::F32,
            ElementType::C128 => ElementType::F64,
            other => other,
        };
        let bytes = Tensor::from_f64(real, vec![], &[value]).ok()?.into_data();
        let mut data = self.got.data().to_vec();
        data.get_mut(place * bytes.len()..(place + 1) * bytes.len())?
            .copy_from_slice(&bytes);
        self.tensor(data)
    }

    fn tensor(&self, data: Vec<u8>) -> Option<Tensor> {
        Tensor::new(self.element_type(), self.got.shape().to_vec(), data).ok()
    }

    /// Each value through `change`, those that stay as they are to the bit.
    fn each(&self, change: impl Fn(usize, f64) -> f64) -> Option<Tensor> {
        let values = self.got.to_f64();
        let changed: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(i, &v)| change(i, v))
            .collect();
        let tensor =
            Tensor::from_f64(self.element_type(), self.got.shape().to_vec(), &changed).ok()?;
        let width = self.element_type().bytes() / self.parts();
        let mut data = tensor.into_data();
        for (place, (before, after)) in values.iter().zip(&changed).enumerate() {
            // A NaN has many encodings, and one is as good as another.
            if before.to_bits() == after.to_bits() || (before.is_nan() && after.is_nan()) {
                let range = place * width..(place + 1) * width;
                data[range.clone()].copy_from_slice(&self.got.data()[range]);
            }
        }
        self.tensor(data)
    }

    /// An integer of the type, wrapping, in place of element `index`.
    fn with_integer(&self, index: usize, change: impl Fn(i128) -> i128) -> Option<Tensor> {
        let width = self.element_type().bytes();
        let bits = self.got.bits(index);
        let unused = 128 - self.element_type().bits() as u32;
        let value = if self.element_type().is_signed_integer() {
            (bits << unused) as i128 >> unused
        } else {
            bits as i128
        };
        let mut data = self.got.data().to_vec();
        data[index * width..(index + 1) * width]
            .copy_from_slice(&change(value).to_le_bytes()[..width]);
        self.tensor(data)
    }

    fn four_bounds(&self, stream: Stream) -> Option<Tensor> {
        let up = stream.bits(1) & 1 == 0;
        if self.element_type() == ElementType::Pred {
            let (place, value) = self.draw(stream, |_, _| true)?;
            return self.with(place, 1.0 - value);
        }
        if self.element_type().is_integer() {
            let (place, _) = self.draw(stream, |_, _| true)?;
            return self.with_integer(place, |v| if up { v + 2 } else { v - 2 });
        }
        let format = self.format()?;
        let bound = |place: usize| self.rules.bound(place / self.parts());
        let (place, value) = self.draw(stream, |place, value| {
            value.is_finite() && self.rules.is_finite(place / self.parts()) && bound(place) > 0.0
        })?;
        let step = 4.0 * bound(place);
        let ways = if up { [step, -step] } else { [-step, step] };
        // A format without a sign, or whose range ends here, leaves one way.
        ways.into_iter()
            .map(|step| format.round_to(value + step))
            .find(|moved| moved.is_finite())
            .and_then(|moved| self.with(place, moved))
    }

    fn one_percent(&self, stream: Stream) -> Option<Tensor> {
        let (place, value) = self.draw(stream, |_, v| v.is_finite() && v != 0.0)?;
        if self.element_type() == ElementType::Pred {
            return None;
        }
        if self.element_type().is_integer() {
            return self.with_integer(place, |v| v + (v + v.signum() * 50) / 100);
        }
        let moved = self.format()?.round_to(value * 1.01);
        if moved.is_finite() {
            self.with(place, moved)
        } else {
            None
        }
    }

    fn sign_flip(&self, stream: Stream) -> Option<Tensor> {
        let signed = self.element_type().is_signed_integer()
            || self.format().is_some_and(|format| format.has_sign());
        if !signed {
            return None;
        }
        let (place, value) = self.draw(stream, |_, v| v != 0.0 && !v.is_nan())?;
        if self.element_type().is_integer() {
            self.with_integer(place, |v| -v)
        } else {
            self.with(place, -value)
        }
    }

    fn zeroed(&self, stream: Stream, fits: impl Fn(f64) -> bool) -> Option<Tensor> {
        let format = self.format()?;
        let (place, _) = self.draw(stream, |_, v| fits(v))?;
        format.has_zero().then(|| self.with(place, 0.0)).flatten()
    }

    /// The elements from other places.
    fn moved(&self, source: impl Fn(usize) -> usize) -> Option<Tensor> {
        let width = self.element_type().bytes();
        let data = self.got.data();
        let element = |index: usize| data[index * width..(index + 1) * width].iter().copied();
        self.tensor(
            (0..self.got.len())
                .flat_map(|index| element(source(index)))
                .collect(),
        )
    }

    fn swapped_axes(&self) -> Option<Tensor> {
        let shape = self.got.shape();
        let long: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] > 1).collect();
        let [.., first, last] = long.as_slice() else {
            return None;
        };
        if self.got.is_empty() {
            return None;
        }
        // Axes between and after the two have length 1: the elements are those of matrices.
        let (rows, columns) = (shape[*first], shape[*last]);
        self.moved(|index| {
            let (matrix, place) = (index / (rows * columns), index % (rows * columns));
            let (column, row) = (place / rows, place % rows);
            matrix * rows * columns + row * columns + column
        })
    }

    fn shifted(&self) -> Option<Tensor> {
        let shape = self.got.shape();
        let axis = (0..shape.len()).rev().find(|&axis| shape[axis] > 1)?;
        let n = shape[axis];
        let inner: usize = shape[axis + 1..].iter().product();
        self.moved(|index| {
            let place = index / inner % n;
            index - place * inner + (place + n - 1) % n * inner
        })
    }

    fn truncated(&self) -> Option<Tensor> {
        let format = self.format()?;
        let values = &self.reference.values;
        if values.element_type() == self.element_type() {
            return None;
        }
        let reference = values.to_f64();
        self.each(|place, value| {
            let cut = directed(&format, reference[place], Directed::TowardZero);
            if value.is_finite() {
                cut.unwrap_or(value)
            } else {
                value
            }
        })
    }

    fn rounded_to_bf16(&self) -> Option<Tensor> {
        let bf16 = ElementType::BF16.float_format()?;
        let finer = self.format()?.mantissa_bits > bf16.mantissa_bits;
        finer
            .then(|| self.each(|_, value| bf16.round_to(value)))
            .flatten()
    }

    /// Which of the operand's elements are terms of this result.
    fn summands(&self) -> Option<Vec<usize>> {
        let terms = self.terms?;
        let own = |element: &usize| {
            terms.elements[*element]
                .iter()
                .any(|term| term.result == self.index)
        };
        self.format()?;
        Some((0..terms.elements.len()).filter(own).collect())
    }

    fn term_dropped(&self, stream: Stream) -> Option<Tensor> {
        let summands = self.summands()?;
        let drawn = stream.below(0, summands.len() as u128);
        let element = *summands.get(usize::try_from(drawn).ok()?)?;
        let mut values = self.got.to_f64();
        for term in &self.terms?.elements[element] {
            if term.result == self.index {
                *values.get_mut(term.place)? -= term.value;
            }
        }
        self.each(|place, _| values[place])
    }

    fn accumulated_in_bf16(&self) -> Option<Tensor> {
        let bf16 = ElementType::BF16.float_format()?;
        let Tolerance::Accumulate { accumulator, .. } = self.tolerance else {
            return None;
        };
        if accumulator.float_format()?.unit_roundoff() >= bf16.unit_roundoff() {
            return None;
        }
        let terms = self.terms?;
        self.summands()?;
        let mut sums: Vec<Option<f64>> = vec![None; self.got.len() * self.parts()];
        let base = terms.base.get(self.index)?;
        for term in terms
            .elements
            .iter()
            .flatten()
            .filter(|term| term.result == self.index)
        {
            let sum = sums.get_mut(term.place)?;
            let before = sum.unwrap_or(bf16.round_to(*base.get(term.place)?));
            *sum = Some(bf16.round_to(before + term.value));
        }
        self.each(|place, value| sums[place].unwrap_or(value))
    }

    fn flushed(&self) -> Option<Tensor> {
        let format = self.format()?;
        if !format.has_subnormals() {
            return None;
        }
        let subnormal = |v: f64| v != 0.0 && v.abs() < format.min_normal();
        self.each(|_, value| {
            if subnormal(value) {
                0.0f64.copysign(value)
            } else {
                value
            }
        })
    }

    fn biased(&self) -> Option<Tensor> {
        if self.element_type() == ElementType::Pred {
            return None;
        }
        if self.element_type().is_integer() {
            let width = self.element_type().bytes();
            let mut data = Vec::with_capacity(self.got.data().len());
            for index in 0..self.got.len() {
                let next = self.got.bits(index).wrapping_add(1);
                data.extend_from_slice(&next.to_le_bytes()[..width]);
            }
            return self.tensor(data);
        }
        let format = self.format()?;
        self.each(|place, value| {
            let bound = self.rules.bound(place / self.parts());
            let moved = format.round_to(value + 2.0 * bound);
            if value.is_finite() && moved.is_finite() {
                moved
            } else {
                value
            }
        })
    }
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
