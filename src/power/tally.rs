//! Injects every fault into every result and counts what is caught, by us and by the rules of others, and why what is not is not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;

use super::class::{Class, Subject, inject};
use super::gather::Passing;
use super::rival::Rule;
use crate::compare::{
    Fault, Known, Numerics, ReferenceTensor, Rules, Tolerance, compare, explain, fitting,
    flushable, of_elements,
};
use crate::tensor::{ElementType, Tensor};

/// Why a fault cannot be told from a right result: what each changed element is, looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Every changed element lies within the bound of its reference.
    WithinBound,
    /// The target may flush subnormals, so that differences below the smallest normal are none.
    MayFlush,
    /// The sign of a zero that is left of a sum's cancellation, or is bounded in norm, says nothing.
    SignOfZero,
    /// The accumulator may have overflowed.
    MayOverflow,
    /// The reference is NaN and the type has none.
    NoNan,
    /// None of these: the comparison is at fault.
    Unexplained,
}

impl Why {
    pub fn words(self) -> &'static str {
        match self {
            Self::WithinBound => "within the bound",
            Self::MayFlush => "below the smallest normal, where the target may flush",
            Self::SignOfZero => "the sign of a zero that cancellation leaves open",
            Self::MayOverflow => "sums beyond the accumulator's range",
            Self::NoNan => "NaN in a type without NaN",
            Self::Unexplained => "**unexplained**",
        }
    }
}

/// The faults of one class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub injected: usize,
    pub caught: usize,
    /// Not caught, and why; `Unexplained` is a miss.
    pub survived: BTreeMap<Why, usize>,
    /// By rule: faults in results that it accepts while they are right, and those of them that it took for right as well.
    pub rivals: BTreeMap<Rule, (usize, usize)>,
    /// As `rivals`, over the faults that we catch.
    pub rivals_of_caught: BTreeMap<Rule, (usize, usize)>,
    /// Caught, of classes that have a kind of their own.
    pub nameable: usize,
    /// Of those, explained first of all as that kind, and as another.
    pub named: usize,
    pub misnamed: usize,
}

impl Row {
    pub fn missed(&self) -> usize {
        self.survived.get(&Why::Unexplained).copied().unwrap_or(0)
    }

    /// Of the faults that are beyond what a right result may be.
    pub fn share_caught(&self) -> Option<f64> {
        let detectable = self.caught + self.missed();
        (detectable > 0).then(|| self.caught as f64 / detectable as f64)
    }
}

/// Faults of one class that are not caught, in results of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Survivor {
    pub count: usize,
    /// The largest error of a changed element over its bound.
    pub worst: f64,
    pub subjects: BTreeSet<String>,
}

/// Class, reason, tolerance and element type.
pub type SurvivorKey = (Class, Why, String, ElementType);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Results looked at, which are right.
    pub results: usize,
    pub rows: BTreeMap<Class, Row>,
    pub survivors: BTreeMap<SurvivorKey, Survivor>,
    /// By rule: right results that it was asked about, and those that it refused.
    pub refused: BTreeMap<Rule, (usize, usize)>,
    /// Where the comparison is at fault.
    pub unexplained: Vec<String>,
}

impl Tally {
    fn join(mut self, other: Self) -> Self {
        fn add<K: Ord>(to: &mut BTreeMap<K, (usize, usize)>, from: BTreeMap<K, (usize, usize)>) {
            for (key, (asked, wrong)) in from {
                let slot = to.entry(key).or_default();
                slot.0 += asked;
                slot.1 += wrong;
            }
        }
        self.results += other.results;
        for (class, row) in other.rows {
            let own = self.rows.entry(class).or_default();
            own.injected += row.injected;
            own.caught += row.caught;
            own.nameable += row.nameable;
            own.named += row.named;
            own.misnamed += row.misnamed;
            for (why, count) in row.survived {
                *own.survived.entry(why).or_default() += count;
            }
            add(&mut own.rivals, row.rivals);
            add(&mut own.rivals_of_caught, row.rivals_of_caught);
        }
        for (key, survivor) in other.survivors {
            let own = self.survivors.entry(key).or_insert_with(|| Survivor {
                count: 0,
                worst: 0.0,
                subjects: BTreeSet::new(),
            });
            own.count += survivor.count;
            own.worst = own.worst.max(survivor.worst);
            own.subjects.extend(survivor.subjects);
        }
        add(&mut self.refused, other.refused);
        self.unexplained.extend(other.unexplained);
        self
    }

    /// Over all classes.
    pub fn total(&self) -> Row {
        let rows = self.rows.values().cloned();
        let one = |row| Self {
            rows: [(Class::FourBounds, row)].into(),
            ..Self::default()
        };
        let mut sum = rows.map(one).fold(Self::default(), Self::join);
        sum.rows.remove(&Class::FourBounds).unwrap_or_default()
    }
}

/// The kinds that an explanation may give a class of faults; none where the class has no shape of its own.
fn kinds(class: Class) -> &'static [Fault] {
    match class {
        Class::FourBounds | Class::OnePercent | Class::TermDropped => &[],
        Class::SignFlip => &[Fault::SignFlipped, Fault::Conjugated],
        Class::NanToZero => &[Fault::NanLost],
        Class::NegativeZero => &[Fault::SignOfZero],
        Class::SwappedAxes => &[Fault::Transposed],
        Class::ShiftByOne => &[Fault::Shifted],
        Class::Truncation => &[Fault::Truncated, Fault::FlushedSubnormals],
        Class::RoundedToBf16 => &[Fault::Narrowed],
        Class::Bf16Accumulation => &[Fault::Narrowed, Fault::LowPrecision],
        Class::FlushedSubnormals => &[Fault::FlushedSubnormals],
        Class::StaleOutput => &[Fault::Stale],
        Class::Bias => &[Fault::UniformBias, Fault::OneSided],
    }
}

/// Injects all faults. The same for the same cases, however many cores take part.
pub fn measure(passing: &[Passing]) -> Tally {
    let earlier = earlier(passing);
    let tallies: Vec<Tally> = passing
        .par_iter()
        .enumerate()
        .map(|(index, passing)| {
            let results = 0..passing.outputs.results.len();
            results
                .filter_map(|result| {
                    let earlier = earlier.get(&(index, result)).copied();
                    one(passing, result, earlier)
                })
                .fold(Tally::default(), Tally::join)
        })
        .collect();
    tallies.into_iter().fold(Tally::default(), Tally::join)
}

/// For each result the last one before, of another case, of the same element type and shape and with other bits.
fn earlier(passing: &[Passing]) -> HashMap<(usize, usize), &Tensor> {
    let mut earlier = HashMap::new();
    // The last two that differ from each other: if the last is the same, the one before is not.
    let mut last: HashMap<(ElementType, &[usize]), [Option<&Tensor>; 2]> = HashMap::new();
    for (index, passing) in passing.iter().enumerate() {
        for (result, tensor) in passing.outputs.results.iter().enumerate() {
            let seen = last.get(&(tensor.element_type(), tensor.shape()));
            let other = seen
                .into_iter()
                .flatten()
                .flatten()
                .find(|other| **other != tensor);
            if let Some(other) = other {
                earlier.insert((index, result), *other);
            }
        }
        for tensor in &passing.outputs.results {
            let seen = last
                .entry((tensor.element_type(), tensor.shape()))
                .or_default();
            if seen[0] != Some(tensor) {
                *seen = [Some(tensor), seen[0]];
            }
        }
    }
    earlier
}

/// `None` where the tensors do not fit each other, which passing cases' do.
fn one(passing: &Passing, index: usize, earlier: Option<&Tensor>) -> Option<Tally> {
    let case = &passing.case;
    let got = &passing.outputs.results[index];
    let all = &passing.reference[index];
    let tolerance = &case.tolerances[index];
    let numerics = &passing.outputs.numerics;
    let reference = fitting(got, all, numerics).ok()?;
    let reference = reference.as_ref();
    let tolerance = of_elements(tolerance, reference, numerics).ok()?;
    let tolerance = tolerance.as_ref();
    let rules = Rules::new(got, reference, tolerance, numerics).ok()?;
    let expected = reference.values.convert(reference.element_type).ok()?;
    let seed = blake3::hash(format!("{}/{index}", case.id).as_bytes());
    let [a, b, c, d, e, f, g, h, ..] = *seed.as_bytes();
    let subject = Subject {
        got,
        reference,
        tolerance,
        rules: &rules,
        index,
        terms: passing.terms.as_ref(),
        earlier,
        seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
    };
    let mut tally = Tally {
        results: 1,
        ..Tally::default()
    };
    let mut rivals = Vec::new();
    for rule in Rule::ALL {
        if let Some(accepted) = rule.accepts(got, &expected) {
            tally.refused.insert(rule, (1, usize::from(!accepted)));
            // A rule that refuses what is right says nothing of what is wrong.
            rivals.extend(accepted.then_some(rule));
        }
    }
    let known: Vec<Known<'_>> = earlier
        .map(|tensor| Known {
            name: "an earlier case's result".to_owned(),
            tensor,
        })
        .into_iter()
        .collect();
    for class in Class::ALL {
        let mut row = Row::default();
        for fault in inject(class, &subject) {
            row.injected += 1;
            let caught = compare(&fault, all, &case.tolerances[index], numerics)
                .map_or(true, |comparison| comparison.mismatches > 0);
            for &rule in &rivals {
                let accepted = rule.accepts(&fault, &expected) == Some(true);
                let count = |counts: &mut BTreeMap<Rule, (usize, usize)>| {
                    let slot = counts.entry(rule).or_default();
                    slot.0 += 1;
                    slot.1 += usize::from(accepted);
                };
                count(&mut row.rivals);
                if caught {
                    count(&mut row.rivals_of_caught);
                }
            }
            if caught {
                row.caught += 1;
                if kinds(class).is_empty() {
                    continue;
                }
                row.nameable += 1;
                if let Ok(Some(explanation)) = explain(&fault, all, tolerance, numerics, &known)
                    && let Some(first) = explanation.faults.first()
                {
                    let own = kinds(class).contains(first);
                    row.named += usize::from(own);
                    row.misnamed += usize::from(!own);
                }
                continue;
            }
            let (why, worst) = why(&fault, got, all, tolerance, numerics);
            *row.survived.entry(why).or_default() += 1;
            if why == Why::Unexplained {
                tally
                    .unexplained
                    .push(format!("{}, result {index}: {}", case.id, class.name()));
            }
            let key = (
                class,
                why,
                words(&case.tolerances[index]),
                got.element_type(),
            );
            let survivor = tally.survivors.entry(key).or_insert_with(|| Survivor {
                count: 0,
                worst: 0.0,
                subjects: BTreeSet::new(),
            });
            survivor.count += 1;
            survivor.worst = survivor.worst.max(worst);
            survivor.subjects.insert(case.id.subject().to_owned());
        }
        if row.injected > 0 {
            tally.rows.insert(class, row);
        }
    }
    Some(tally)
}

/// A tolerance without what varies from shape to shape.
fn words(tolerance: &Tolerance) -> String {
    match tolerance {
        Tolerance::Exact => "exact".to_owned(),
        Tolerance::Ulp(ulp) => format!("{ulp} ulp"),
        Tolerance::Accumulate {
            accumulator,
            precision: None,
            ..
        } => format!("sums in {accumulator}"),
        Tolerance::Accumulate {
            accumulator,
            precision: Some(precision),
            ..
        } => format!("sums in {accumulator}, {precision:?} precision").to_lowercase(),
        Tolerance::Norm(factor) => format!("norm {factor}"),
        Tolerance::Distance(values) => format!("{values} values"),
        Tolerance::Yardstick { factor, .. } => format!("{factor} times CPU"),
        Tolerance::Absolute(bound) => format!("absolute {bound:e}"),
    }
}

/// Each changed element again, by itself and by plain arithmetic, and the worst reason of all.
fn why(
    fault: &Tensor,
    got: &Tensor,
    reference: &ReferenceTensor,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> (Why, f64) {
    let unexplained = (Why::Unexplained, f64::INFINITY);
    let Ok(reference) = fitting(fault, reference, numerics) else {
        return unexplained;
    };
    let Ok(rules) = Rules::new(fault, &reference, tolerance, numerics) else {
        return unexplained;
    };
    // What the target makes of the type: of f64 on a TPU, a pair of f32.
    let format = numerics.format(got.element_type());
    let floor = format.and_then(|f| flushable(&f)).unwrap_or(0.0);
    let mut worst = (Why::WithinBound, 0.0f64);
    for index in (0..got.len()).filter(|&index| fault.bits(index) != got.bits(index)) {
        let (value, exact) = (rules.got(index), rules.reference(index));
        // A part that the fault left as it came is right, wherever it lies: beyond the range of the target's format, say.
        let off = |part: usize| {
            let place = index * rules.parts() + part;
            let changed = part < rules.parts()
                && fault.get_f64(place).to_bits() != got.get_f64(place).to_bits();
            if changed {
                value[part] - exact[part]
            } else {
                0.0
            }
        };
        let distance = off(0).hypot(off(1));
        let excess = distance / rules.bound(index);
        let zero = value == [0.0, 0.0];
        // A reference in f64 is rounded already: the smallest normal may stand for a little less.
        let small = format.is_some_and(|f| {
            let magnitude = exact[0].hypot(exact[1]);
            magnitude < f.min_normal() || f.mantissa_bits == 52 && magnitude == f.min_normal()
        });
        let rounds_to_zero = format.is_some_and(|f| exact.iter().all(|x| f.round_to(*x) == 0.0));
        let why = if exact.iter().any(|x| x.is_nan()) && format.is_some_and(|f| !f.has_nan()) {
            Why::NoNan
        } else if zero && rounds_to_zero {
            Why::SignOfZero
        } else if (zero && small || excess <= 1.0 && distance <= floor) && numerics.flush_subnormals
        {
            Why::MayFlush
        } else if excess <= 1.0 {
            Why::WithinBound
        } else if rules.may_overflow(index) {
            Why::MayOverflow
        } else {
            Why::Unexplained
        };
        let excess = if excess.is_finite() { excess } else { 0.0 };
        worst = (worst.0.max(why), worst.1.max(excess));
    }
    worst
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
