//! What a target's results are worth, value by value, against the exact ones: all cores, one pass.
//!
//! An operand that is subnormal in a type whose subnormals the target flushes may have been read as a zero of its sign: a result
//! that is right for that is accepted, counted, and left out of the figures in ulp.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;

use super::reference::{Formula, Operand};
use crate::compare::{CompareError, Judge, Numerics, Tolerance};
use crate::tensor::{ElementType, FloatFormat, Tensor, codec};

/// Upper ends, in ulp, of the histogram's buckets but the last, which has none.
pub const BUCKETS: [f64; 13] = [
    0.0,
    0.5,
    1.0,
    2.0,
    4.0,
    8.0,
    16.0,
    32.0,
    64.0,
    256.0,
    1024.0,
    65536.0,
    16_777_216.0,
];

/// Values that a core takes at a time.
const BLOCK: usize = 1 << 14;
/// Operands of any operator, at most.
const MOST_OPERANDS: usize = 2;

/// How an operator is judged.
pub struct Rule {
    pub formula: Formula,
    pub operands: ElementType,
    pub result: ElementType,
    pub tolerance: Tolerance,
    pub numerics: Numerics,
}

/// One value and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The operands' encodings, in hex.
    pub bits: Vec<String>,
    pub operands: Vec<String>,
    pub got: String,
    /// Rounded to the result's type, unless that would read the same as what came.
    pub expected: String,
    /// Where both are finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ulp: Option<f64>,
}

/// What is wrong with a result that the tolerance does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Further from the exact value than allowed.
    Inaccurate,
    /// NaN where there is a number, or a number where there is NaN.
    Nan,
    /// An infinity in place of a finite number or of the other infinity, or a finite number in its place.
    Infinity,
    /// A zero of the other sign.
    ZeroSign,
    /// A zero in place of a number that the target may not flush.
    Zero,
    /// With a subnormal operand that the target may read as zero: right neither for it nor for the zero.
    Subnormal,
}

impl Fault {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Inaccurate => "too inaccurate",
            Self::Nan => "NaN misplaced",
            Self::Infinity => "infinity misplaced",
            Self::ZeroSign => "zero of the wrong sign",
            Self::Zero => "zero in place of a number",
            Self::Subnormal => "wrong for a subnormal operand, as itself and as zero",
        }
    }
}

/// How often a fault occurred, and where first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Occurrences {
    pub count: u64,
    pub first: Point,
}

/// What was measured of one operator on one type.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measure {
    pub values: u64,
    /// Values for which the specification leaves the result open.
    pub open: u64,
    /// With a subnormal operand that the target may take for zero, and accepted as the result for it.
    pub operands_subnormal: u64,
    /// Accepted as the result for a zero in such an operand's place.
    pub operands_flushed: u64,
    /// Accepted zeros in place of subnormal results.
    pub results_flushed: u64,
    /// By [`BUCKETS`], of the values that none of the above counts, with a finite result on both sides.
    pub histogram: [u64; BUCKETS.len() + 1],
    /// The largest error in ulp of those; none where all are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<Point>,
    pub faults: BTreeMap<Fault, Occurrences>,
}

impl Measure {
    pub fn worst_ulp(&self) -> f64 {
        self.worst.as_ref().and_then(|p| p.ulp).unwrap_or(0.0)
    }

    pub fn fault_count(&self) -> u64 {
        self.faults.values().map(|fault| fault.count).sum()
    }

    /// The faults in words, the first of each with its place.
    pub fn describe_faults(&self) -> String {
        let words: Vec<String> = self
            .faults
            .iter()
            .map(|(fault, found)| format!("{} {}", found.count, fault.describe()))
            .collect();
        let mut text = format!("of {} values {}", self.values, words.join(", "));
        if let Some(found) = self.faults.values().next() {
            let worst = match &self.worst {
                Some(worst) if self.faults.contains_key(&Fault::Inaccurate) => worst,
                _ => &found.first,
            };
            text.push_str(&format!("; {}", worst.describe()));
        }
        text
    }

    /// Joins what follows.
    fn join(mut self, next: Self) -> Self {
        self.values += next.values;
        self.open += next.open;
        self.operands_subnormal += next.operands_subnormal;
        self.operands_flushed += next.operands_flushed;
        self.results_flushed += next.results_flushed;
        for (sum, next) in self.histogram.iter_mut().zip(next.histogram) {
            *sum += next;
        }
        if next.worst_ulp() > self.worst_ulp() {
            self.worst = next.worst;
        }
        for (fault, found) in next.faults {
            self.faults
                .entry(fault)
                .and_modify(|sum| sum.count += found.count)
                .or_insert(found);
        }
        self
    }
}

impl Point {
    /// `at 0x3f800001 (1.0000001): 0.0, expected 1.1920929e-7 (8388608 ulp)`.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "at {} ({}): {}, expected {}",
            self.bits.join(" "),
            self.operands.join(", "),
            self.got,
            self.expected
        );
        if let Some(ulp) = self.ulp {
            text.push_str(&format!(" ({} ulp)", figure(ulp)));
        }
        text
    }
}

/// Three digits or so of an error in ulp.
pub fn figure(ulp: f64) -> String {
    if ulp == 0.0 {
        "0".to_owned()
    } else if ulp < 100.0 {
        format!("{ulp:.2}")
    } else if ulp < 1e6 {
        format!("{ulp:.0}")
    } else {
        format!("{ulp:.1e}")
    }
}

/// What this program's results show, after `so_far`. `operands` are encodings, as many of each as the result has elements.
///
/// # Errors
/// Of a tolerance that single elements cannot be held to.
pub fn measure(
    rule: &Rule,
    operands: &[Vec<u64>],
    results: &Tensor,
    so_far: Measure,
) -> Result<Measure, CompareError> {
    let judge = Judge::new(&rule.tolerance, rule.result, &rule.numerics)?;
    let format = rule.operands.float_format().ok_or_else(|| {
        CompareError::Tolerance(format!("operands of {} are not measured", rule.operands))
    })?;
    let scan = Scan {
        rule,
        judge,
        format,
        flushed_below: rule.numerics.flushed_below(&format),
        result_flushed_below: rule
            .result
            .float_format()
            .map_or(0.0, |format| rule.numerics.flushed_below(&format)),
        operands,
        results,
    };
    let blocks: Vec<Measure> = (0..results.len().div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| scan.block(block * BLOCK..((block + 1) * BLOCK).min(results.len())))
        .collect();
    Ok(blocks.into_iter().fold(so_far, Measure::join))
}

struct Scan<'a> {
    rule: &'a Rule,
    judge: Judge,
    format: FloatFormat,
    /// Magnitudes of operands below may be read as zero.
    flushed_below: f64,
    /// And of results.
    result_flushed_below: f64,
    operands: &'a [Vec<u64>],
    results: &'a Tensor,
}

impl Scan<'_> {
    fn block(&self, range: Range<usize>) -> Measure {
        let mut measure = Measure::default();
        let width = self.results.element_type().bytes();
        let mut got = vec![0.0; range.len()];
        codec::decode(
            self.results.element_type(),
            &self.results.data()[range.start * width..range.end * width],
            &mut got,
        );
        let mut operands = [Operand {
            code: 0,
            value: 0.0,
        }; MOST_OPERANDS];
        let count = self.operands.len().min(MOST_OPERANDS);
        for (index, got) in range.zip(got) {
            for (operand, codes) in operands.iter_mut().zip(self.operands) {
                let code = codes[index];
                *operand = Operand {
                    code,
                    value: self.format.decode(code),
                };
            }
            self.value(&operands[..count], got, &mut measure);
        }
        measure
    }

    fn value(&self, operands: &[Operand], got: f64, measure: &mut Measure) {
        measure.values += 1;
        let Some(exact) = self.rule.formula.evaluate(operands, &self.format) else {
            measure.open += 1;
            return;
        };
        let accepted = self.judge.accepts(got, exact);
        if operands.iter().any(|x| self.is_flushed(x)) {
            if !accepted && self.is_right_for_zeros(operands, got) {
                measure.operands_flushed += 1;
            } else if accepted {
                measure.operands_subnormal += 1;
            } else {
                let ulp = self.judge.ulps(got, exact);
                self.note(Fault::Subnormal, operands, got, exact, ulp, measure);
            }
            return;
        }
        if self.judge.is_flushed(got, exact) {
            measure.results_flushed += 1;
            return;
        }
        let ulp = self.judge.ulps(got, exact);
        if let Some(ulp) = ulp {
            let bucket = BUCKETS.iter().position(|end| ulp <= *end);
            measure.histogram[bucket.unwrap_or(BUCKETS.len())] += 1;
            if ulp > measure.worst_ulp() {
                measure.worst = Some(self.point(operands, got, exact, Some(ulp)));
            }
        }
        if !accepted {
            let fault = self.fault(got, exact);
            self.note(fault, operands, got, exact, ulp, measure);
        }
    }

    fn note(
        &self,
        fault: Fault,
        operands: &[Operand],
        got: f64,
        exact: f64,
        ulp: Option<f64>,
        measure: &mut Measure,
    ) {
        measure
            .faults
            .entry(fault)
            .and_modify(|found| found.count += 1)
            .or_insert_with(|| Occurrences {
                count: 1,
                first: self.point(operands, got, exact, ulp),
            });
    }

    /// Whether the target may read the operand as a zero.
    fn is_flushed(&self, operand: &Operand) -> bool {
        operand.value.abs() < self.flushed_below && operand.value != 0.0
    }

    /// Whether the result is right if some subnormal operands are zeros, a subnormal result too: it may be such an operand,
    /// passed on.
    fn is_right_for_zeros(&self, operands: &[Operand], got: f64) -> bool {
        let as_zero = match got.abs() < self.result_flushed_below {
            true => 0f64.copysign(got),
            false => got,
        };
        let flushed = |operand: &Operand| {
            self.is_flushed(operand).then(|| {
                let value = 0f64.copysign(operand.value);
                Operand {
                    code: self.format.encode(value),
                    value,
                }
            })
        };
        let right = |operands: &[Operand]| {
            self.rule
                .formula
                .evaluate(operands, &self.format)
                .is_none_or(|exact| {
                    self.judge.accepts(got, exact) || self.judge.accepts(as_zero, exact)
                })
        };
        match operands {
            [x] => flushed(x).is_some_and(|x| right(&[x])),
            [x, y] => match (flushed(x), flushed(y)) {
                (Some(u), Some(v)) => right(&[u, v]) || right(&[u, *y]) || right(&[*x, v]),
                (Some(u), None) => right(&[u, *y]),
                (None, Some(v)) => right(&[*x, v]),
                (None, None) => false,
            },
            _ => false,
        }
    }

    fn fault(&self, got: f64, exact: f64) -> Fault {
        let finite = self.judge.is_finite(exact);
        if got.is_nan() != (exact.is_nan() || !finite && !self.has_infinity()) {
            Fault::Nan
        } else if got.is_finite() != finite || !finite {
            Fault::Infinity
        } else if got == 0.0 && exact == 0.0 {
            Fault::ZeroSign
        } else if got == 0.0 {
            Fault::Zero
        } else {
            Fault::Inaccurate
        }
    }

    fn has_infinity(&self) -> bool {
        let format = self.rule.result.float_format();
        format.is_none_or(|format| format.has_infinity())
    }

    fn point(&self, operands: &[Operand], got: f64, exact: f64, ulp: Option<f64>) -> Point {
        let got = shown(self.rule.result, got);
        let rounded = match self.rule.result.float_format() {
            Some(format) => format.round_to(exact),
            None => exact,
        };
        let expected = match shown(self.rule.result, rounded) {
            same if same == got => format!("{exact:?}"),
            other => other,
        };
        let digits = self.rule.operands.bits().div_ceil(4);
        Point {
            bits: operands
                .iter()
                .map(|x| format!("{:#0width$x}", x.code, width = digits + 2))
                .collect(),
            operands: operands
                .iter()
                .map(|x| shown(self.rule.operands, x.value))
                .collect(),
            got,
            expected,
            ulp,
        }
    }
}

/// The shortest digits that f32, which holds all smaller types, tells from others.
fn shown(element_type: ElementType, value: f64) -> String {
    if element_type == ElementType::F64 {
        format!("{value:?}")
    } else {
        format!("{:?}", value as f32)
    }
}

#[cfg(test)]
mod tests;
