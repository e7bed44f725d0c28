//! Seeded inputs: an [`InputSpec`] and a seed to a tensor, the same on every machine and in every version.
//!
//! Component `c` (an element, or a part of a complex one: element `c / 2`) draws from counter `c` of its operand's stream, or from `2c` and
//! `2c + 1` where it needs two draws; `random` says what a stream is. Values are made in f64 and rounded to nearest even.

use super::format::FloatFormat;
use super::random::Stream;
use super::{Domain, ElementType, InputSpec, Result, Tensor, TensorError, count};

impl InputSpec {
    /// The operand's values for a case's seed.
    ///
    /// # Errors
    /// When the domain is impossible for the element type or the shape.
    pub fn generate(&self, seed: u64, operand: usize) -> Result<Tensor> {
        if let Domain::Literal(data) = &self.domain {
            return Tensor::new(self.element_type, self.shape.clone(), data.clone());
        }
        let elements = count(self.element_type, &self.shape)?;
        let generator = Generator {
            spec: self,
            stream: Stream::new(seed, operand),
            elements,
        };
        match self.element_type.float_format() {
            Some(format) => {
                let values = generator.floats(format)?;
                Tensor::from_f64(self.element_type, self.shape.clone(), &values)
            }
            None => {
                let values = generator.integers()?;
                let width = self.element_type.bytes();
                let data = values
                    .iter()
                    .flat_map(|v| v.to_le_bytes().into_iter().take(width))
                    .collect();
                Tensor::new(self.element_type, self.shape.clone(), data)
            }
        }
    }
}

const AS_THEY_ARE: &str = "its bytes are taken as they are, and none is drawn";

struct Generator<'a> {
    spec: &'a InputSpec,
    stream: Stream,
    elements: usize,
}

impl Generator<'_> {
    fn error(&self, reason: impl Into<String>) -> TensorError {
        TensorError::Domain {
            domain: self.spec.domain.name(),
            element_type: self.spec.element_type,
            shape: self.spec.shape.clone(),
            reason: reason.into(),
        }
    }

    fn parts(&self) -> usize {
        if self.spec.element_type.is_complex() {
            2
        } else {
            1
        }
    }

    /// One value per component, made by `value` from the component's index.
    fn each(&self, value: impl Fn(u64) -> f64) -> Vec<f64> {
        (0..(self.elements * self.parts()) as u64)
            .map(value)
            .collect()
    }

    fn floats(&self, format: FloatFormat) -> Result<Vec<f64>> {
        let stream = self.stream;
        let normal = |c| {
            let x = stream.normal(c);
            // e8m0 holds positive values alone.
            format.round_to(if format.has_sign() { x } else { x.abs() })
        };
        match &self.spec.domain {
            Domain::Any => Ok(self.each(normal)),
            Domain::Nonzero => Ok(self.each(|c| match normal(c) {
                0.0 if stream.normal(c) < 0.0 => -1.0,
                0.0 => 1.0,
                x => x,
            })),
            Domain::Positive => Ok(self.each(|c| {
                let power = stream.below(2 * c, 8) as i32 - 4;
                let x = (1.0 + stream.unit(2 * c + 1)) * super::format::pow2(power);
                format.round_to(x.clamp(format.min_positive(), format.max_finite()))
            })),
            Domain::Unit => self.uniform(format, 0.0, 1.0),
            Domain::Uniform { lo, hi } => self.uniform(format, *lo, *hi),
            Domain::Integers { lo, hi } => self.whole_floats(format, *lo, *hi),
            Domain::Permutation => {
                let exact = (1u64 << (format.mantissa_bits + 1)) as f64;
                let last = self.row_length().saturating_sub(1) as f64;
                if !format.has_zero() || last > exact.min(format.max_finite()) {
                    return Err(self.error(format!(
                        "the type does not hold every integer from 0 to {last}"
                    )));
                }
                let rows = self.permutations();
                Ok(if self.parts() == 2 {
                    rows.flat_map(|v| [v as f64, 0.0]).collect()
                } else {
                    rows.map(|v| v as f64).collect()
                })
            }
            Domain::Special => Ok(self.cycle(&special_floats(format))),
            Domain::Subnormal => {
                if !format.has_subnormals() {
                    return Err(self.error("the type has no subnormals"));
                }
                Ok(self.cycle(&subnormal_floats(format)))
            }
            Domain::PositiveDefinite => self.positive_definite(format),
            Domain::Triangular => self.triangular(format),
            Domain::Literal(_) => Err(self.error(AS_THEY_ARE)),
            Domain::Values(values) => {
                if let Some(bad) = values
                    .iter()
                    .find(|v| v.is_finite() && !format.round_to(**v).is_finite())
                {
                    return Err(self.error(format!("the type does not hold {bad}")));
                }
                let index = self.value_index(values)?;
                Ok(self.each(|c| values[index(c)]))
            }
        }
    }

    /// The position in `Values` for each component.
    fn value_index(&self, values: &[f64]) -> Result<impl Fn(u64) -> usize + use<>> {
        let length = values.len() as u64;
        if length == 0 && self.elements > 0 {
            return Err(self.error("the list of values is empty"));
        }
        Ok(move |c: u64| (c % length) as usize)
    }

    /// Uniform in [lo, hi). What rounds out of the interval moves to the nearest value inside.
    fn uniform(&self, format: FloatFormat, lo: f64, hi: f64) -> Result<Vec<f64>> {
        if !(lo.is_finite() && hi.is_finite() && lo < hi) {
            return Err(self.error(format!("[{lo}, {hi}) is not an interval")));
        }
        if lo < -format.max_finite() || hi > format.max_finite() || (lo < 0.0 && !format.has_sign())
        {
            return Err(self.error(format!("[{lo}, {hi}) leaves the type's range")));
        }
        let draw = |c| lo * (1.0 - self.stream.unit(c)) + hi * self.stream.unit(c);
        (0..(self.elements * self.parts()) as u64)
            .map(|c| {
                nearest(format, draw(c), |x| x >= lo && x < hi, lo)
                    .ok_or_else(|| self.error(format!("the type has no value in [{lo}, {hi})")))
            })
            .collect()
    }

    fn whole_floats(&self, format: FloatFormat, lo: i64, hi: i64) -> Result<Vec<f64>> {
        if lo > hi {
            return Err(self.error(format!("{lo} ..= {hi} is empty")));
        }
        let max = format.max_finite();
        if (lo as f64) < -max || hi as f64 > max || (lo < 1 && !format.has_zero()) {
            return Err(self.error(format!("{lo} ..= {hi} leaves the type's range")));
        }
        let span = (i128::from(hi) - i128::from(lo)) as u128 + 1;
        let (low, high) = (lo as f64, hi as f64);
        (0..(self.elements * self.parts()) as u64)
            .map(|c| {
                let x = (i128::from(lo) + i128::from(self.stream.below(c, span))) as f64;
                nearest(format, x, |x| x >= low && x <= high, low)
                    .ok_or_else(|| self.error(format!("the type has no value in {lo} ..= {hi}")))
            })
            .collect()
    }

    fn row_length(&self) -> usize {
        self.spec.shape.last().copied().unwrap_or(1)
    }

    /// For each row along the last dimension a permutation of 0 .. n.
    fn permutations(&self) -> impl Iterator<Item = usize> {
        let n = self.row_length();
        let rows = self.elements.checked_div(n).unwrap_or(0);
        let stream = self.stream;
        (0..rows).flat_map(move |row| stream.permutation((row * n) as u64, n))
    }

    /// The values of `list` in turn, each turn in an order of its own; the parts of complex elements independently.
    fn cycle<T: Copy>(&self, list: &[T]) -> Vec<T> {
        let (parts, n) = (self.parts(), list.len());
        let mut orders = vec![Vec::new(); parts];
        let mut values = Vec::with_capacity(self.elements * parts);
        for element in 0..self.elements {
            for (part, order) in orders.iter_mut().enumerate() {
                if element % n == 0 {
                    *order = self
                        .stream
                        .permutation(((element / n * parts + part) * n) as u64, n);
                }
                values.push(list[order[element % n]]);
            }
        }
        values
    }

    /// The size of the square matrices in the last two dimensions.
    fn matrix_size(&self, format: FloatFormat) -> Result<usize> {
        if !format.has_sign() || format.mantissa_bits < 2 {
            return Err(self.error("the type is too coarse for matrices"));
        }
        match self.spec.shape.as_slice() {
            [.., rows, columns] if rows == columns => Ok(*rows),
            _ => Err(self.error("the last two dimensions are not equal")),
        }
    }

    fn positive_definite(&self, format: FloatFormat) -> Result<Vec<f64>> {
        let n = self.matrix_size(format)?;
        let parts = self.parts();
        // Row norms of B are at most n (2n when complex), and `shift` more is on the diagonal.
        let shift = (n * parts) as f64;
        if 2.0 * shift > format.max_finite() {
            return Err(self.error(format!("the type does not hold {}", 2.0 * shift)));
        }
        let size = n * n * parts;
        let mut values = Vec::with_capacity(self.elements * parts);
        for matrix in 0..self.elements.checked_div(n * n).unwrap_or(0) {
            let b: Vec<f64> = (0..size)
                .map(|i| self.stream.below((matrix * size + i) as u64, 3) as f64 - 1.0)
                .collect();
            let row = |i: usize| b[i * n * parts..(i + 1) * n * parts].chunks_exact(parts);
            for i in 0..n {
                for j in 0..n {
                    let mut sum = [if i == j { shift } else { 0.0 }, 0.0];
                    for (x, y) in row(i).zip(row(j)) {
                        if let ([a, b], [c, d]) = (x, y) {
                            // (a + bi)·(c − di)
                            sum[0] += a * c + b * d;
                            sum[1] += b * c - a * d;
                        } else {
                            sum[0] += x[0] * y[0];
                        }
                    }
                    values.extend(&sum[..parts]);
                }
            }
        }
        Ok(values)
    }

    fn triangular(&self, format: FloatFormat) -> Result<Vec<f64>> {
        let n = self.matrix_size(format)?;
        let parts = self.parts();
        Ok(self.each(|c| {
            let (element, part) = (c as usize / parts, c as usize % parts);
            let diagonal = (element / n) % n == element % n;
            if diagonal && part == 0 {
                let size = 1.0 + self.stream.unit(2 * c);
                let size = if format.round_to(size) >= 2.0 {
                    1.5
                } else {
                    size
                };
                if self.stream.bits(2 * c + 1) >> 63 == 0 {
                    size
                } else {
                    -size
                }
            } else {
                self.stream.normal(2 * c) / n as f64
            }
        }))
    }

    fn integers(&self) -> Result<Vec<i128>> {
        let element_type = self.spec.element_type;
        let (min, max) = integer_range(element_type);
        let pred = element_type == ElementType::Pred;
        let within = |lo: i128, hi: i128| {
            let stream = self.stream;
            let span = (hi - lo) as u128 + 1;
            (0..self.elements as u64)
                .map(move |c| lo + i128::from(stream.below(c, span)))
                .collect::<Vec<_>>()
        };
        match &self.spec.domain {
            Domain::Any => Ok(within(min, max)),
            Domain::Nonzero => Ok(within(min, max)
                .into_iter()
                .map(|v| if v == 0 { 1 } else { v })
                .collect()),
            Domain::Positive => Ok(within(1, max.min(100))),
            Domain::Integers { lo, hi } => {
                let (lo, hi) = (i128::from(*lo), i128::from(*hi));
                if lo > hi {
                    return Err(self.error(format!("{lo} ..= {hi} is empty")));
                }
                if lo < min || hi > max {
                    return Err(self.error(format!(
                        "{lo} ..= {hi} leaves the type's range, {min} ..= {max}"
                    )));
                }
                Ok(within(lo, hi))
            }
            Domain::Permutation => {
                let last = self.row_length().saturating_sub(1) as i128;
                if last > max {
                    return Err(self.error(format!(
                        "the type does not hold every integer from 0 to {last}"
                    )));
                }
                Ok(self.permutations().map(|v| v as i128).collect())
            }
            Domain::Special => Ok(self.cycle(&special_integers(min, max))),
            Domain::Literal(_) => Err(self.error(AS_THEY_ARE)),
            Domain::Values(values) => {
                let whole = |v: f64| v.fract() == 0.0 && v as i128 >= min && v as i128 <= max;
                if let Some(bad) = values.iter().find(|v| !whole(**v)) {
                    return Err(self.error(format!("the type does not hold {bad}")));
                }
                let index = self.value_index(values)?;
                Ok((0..self.elements as u64)
                    .map(|c| values[index(c)] as i128)
                    .collect())
            }
            Domain::Unit | Domain::Uniform { .. } => Err(self.error(if pred {
                "it is for floats; 'any' is a fair coin"
            } else {
                "it is for floats; use 'integers' with a range"
            })),
            Domain::Subnormal | Domain::PositiveDefinite | Domain::Triangular => {
                Err(self.error("it is for floats and complex types"))
            }
        }
    }
}

/// `x` rounded to the format, or, where that leaves the interval that `inside` tells and `lo` begins, the next value toward it.
fn nearest(format: FloatFormat, x: f64, inside: impl Fn(f64) -> bool, lo: f64) -> Option<f64> {
    let rounded = format.round_to(x);
    if inside(rounded) {
        return Some(rounded);
    }
    let step = if rounded < lo { 1 } else { -1 };
    let ordinal = match format.ordinal(format.encode(x)) {
        Some(ordinal) => ordinal + step,
        // e8m0 has no zero: what it makes of one is the smallest value.
        None => 0,
    };
    let next = format.decode(format.from_ordinal(ordinal)?);
    inside(next).then_some(next)
}

/// The least and the largest value of an integer type; `pred` counts as 0 ..= 1.
fn integer_range(element_type: ElementType) -> (i128, i128) {
    if element_type == ElementType::Pred {
        (0, 1)
    } else if element_type.is_signed_integer() {
        let half = 1i128 << (element_type.bits() - 1);
        (-half, half - 1)
    } else {
        (0, (1i128 << element_type.bits()) - 1)
    }
}

fn special_integers(min: i128, max: i128) -> Vec<i128> {
    let mut list = Vec::new();
    for value in [0, 1, -1, max, min, max - 1, min + 1] {
        if (min..=max).contains(&value) && !list.contains(&value) {
            list.push(value);
        }
    }
    list
}

/// The values of [`Domain::Special`] that the format holds, subnormals apart.
fn special_floats(format: FloatFormat) -> Vec<f64> {
    let normal = |x: &f64| !x.is_finite() || *x == 0.0 || x.abs() >= format.min_normal();
    let next = |x: f64, step: i64| {
        let ordinal = format.ordinal(format.encode(x))?;
        Some(format.decode(format.from_ordinal(ordinal + step)?))
    };
    // Where the spacing of values is 1 and ½: the last halves, and the first integer whose half is a tie.
    let integers_only = super::format::pow2(format.mantissa_bits as i32);
    let neighbours = [0.5, 1.0, 2.0]
        .into_iter()
        .filter(|x| format.represents(*x))
        .flat_map(|x| [next(x, -1), next(x, 1)])
        .flatten();
    let positive = [
        1.0,
        0.5,
        1.5,
        2.0,
        2.5,
        3.5,
        integers_only - 0.5,
        integers_only + 1.0,
    ]
    .into_iter()
    .chain([format.max_finite(), format.min_normal()])
    .chain(neighbours)
    .flat_map(|x| [x, -x]);
    collect(
        format,
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
            .into_iter()
            .chain(positive)
            .filter(normal),
    )
}

/// The values of [`Domain::Subnormal`].
fn subnormal_floats(format: FloatFormat) -> Vec<f64> {
    let first_normal = 1u64 << format.mantissa_bits;
    let codes = [
        0,
        1,
        2,
        first_normal / 3,
        first_normal / 2,
        first_normal - 1,
        first_normal,
    ];
    collect(
        format,
        codes
            .into_iter()
            .map(|code| format.decode(code))
            .flat_map(|x| [x, -x]),
    )
}

/// Each value that the format holds once.
fn collect(format: FloatFormat, values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut list: Vec<f64> = Vec::new();
    for value in values {
        if format.represents(value) && !list.iter().any(|v| v.to_bits() == value.to_bits()) {
            list.push(value);
        }
    }
    list
}
