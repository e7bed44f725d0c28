//! Kinds that show in how much the elements are off: a factor, a bias, errors of one sign, rounding.

use super::evidence::{Evidence, figure};
use super::{Fault, Finding};
use crate::compare::rounding::{Directed, directed};
use crate::tensor::{ElementType, FloatFormat};

/// Elements below which a factor or a bias fits anything.
const FEW: usize = 3;
/// Elements below which a sign or a size of errors says nothing.
const MANY: usize = 16;
/// How many times what is left over a factor or a bias must be, for it to be more than a bound that admits anything.
const CLEAR: f64 = 4.0;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    if evidence.scan.got.element_type() == ElementType::Pred {
        return Vec::new();
    }
    let all = evidence.differing.len();
    let found = factor(evidence)
        .map(|text| (Fault::ConstantFactor, text))
        .or_else(|| bias(evidence).map(|text| (Fault::UniformBias, text)))
        .or_else(|| truncated(evidence).map(|text| (Fault::Truncated, text)))
        .or_else(|| narrowed(evidence).map(|text| (Fault::Narrowed, text)))
        .or_else(|| one_sided(evidence).map(|text| (Fault::OneSided, text)))
        .or_else(|| low_precision(evidence).map(|text| (Fault::LowPrecision, text)));
    found
        .map(|(fault, sentence)| Finding {
            fault,
            explains: all,
            sentence,
        })
        .into_iter()
        .collect()
}

/// Finite parts of the differing elements, as got, reference and bound.
fn differing(evidence: &Evidence<'_>) -> Option<Vec<(f64, f64, f64)>> {
    triples(evidence, evidence.differing.iter().copied())
}

/// `None` where a part is not finite on either side.
fn triples(
    evidence: &Evidence<'_>,
    indices: impl Iterator<Item = usize>,
) -> Option<Vec<(f64, f64, f64)>> {
    let mut triples = Vec::new();
    for index in indices {
        let bound = evidence.scan.bound(index);
        for (got, reference) in evidence.parts(index) {
            if !(got.is_finite() && reference.is_finite()) {
                return None;
            }
            triples.push((got, reference, bound));
        }
    }
    Some(triples)
}

/// What a factor or a bias may leave over, in bounds: none of integers.
fn slack(evidence: &Evidence<'_>) -> f64 {
    if evidence.scan.floats.is_some() {
        2.0
    } else {
        0.0
    }
}

/// Whether the factor would be a strange coincidence on one element: a small whole number, or one over it.
fn is_plain(factor: f64, error: f64) -> bool {
    let near = |x: f64| (2.0..=16.0).contains(&x.round()) && (x - x.round()).abs() <= error * x;
    error < 1e-4 && (near(factor.abs()) || near(1.0 / factor.abs()))
}

fn factor(evidence: &Evidence<'_>) -> Option<String> {
    let differing = differing(evidence)?;
    let slack = slack(evidence);
    // The element that tells most: the largest beside its bound.
    let (got, reference, bound) = differing
        .iter()
        .copied()
        .filter(|(_, reference, _)| *reference != 0.0)
        .max_by(|a, b| (a.1.abs() / a.2).total_cmp(&(b.1.abs() / b.2)))?;
    let factor = got / reference;
    if factor == 0.0 || factor == -1.0 || !factor.is_finite() {
        return None;
    }
    let left = |bound: f64| slack * bound * factor.abs().max(1.0);
    let fits = |&(got, reference, bound): &(f64, f64, f64)| {
        (got - factor * reference).abs() <= left(bound)
    };
    // Factors that no bound could tell from 1 or −1 are none.
    let clear = |&&(_, reference, bound): &&(f64, f64, f64)| {
        (factor - 1.0).abs().min((factor + 1.0).abs()) * reference.abs() > CLEAR * left(bound)
    };
    let agreeing = triples(evidence, evidence.agreeing.iter().copied())?;
    let shown = differing.iter().filter(clear).count();
    let varied = differing
        .iter()
        .any(|(_, other, _)| other.abs() != reference.abs());
    let telling = if shown >= FEW && varied {
        2 * shown >= differing.len()
    } else {
        shown == differing.len() && is_plain(factor, left(bound) / got.abs())
    };
    if !telling || !differing.iter().all(fits) {
        return None;
    }
    let value = figure(factor);
    let count = evidence.differing.len();
    Some(if agreeing.iter().all(fits) && evidence.elements > 1 {
        format!("Every element is {value} times its reference.")
    } else if count == 1 {
        format!("It is {value} times its reference.")
    } else {
        format!(
            "Each of {} is {value} times its reference; the others are not.",
            evidence.count(count)
        )
    })
}

fn bias(evidence: &Evidence<'_>) -> Option<String> {
    let differing = differing(evidence)?;
    let slack = slack(evidence);
    let (got, reference, _) = differing
        .iter()
        .copied()
        .min_by(|a, b| a.2.total_cmp(&b.2))?;
    let bias = got - reference;
    let fits = |&(got, reference, bound): &(f64, f64, f64)| {
        (got - reference - bias).abs() <= slack * bound
    };
    let clear = |&&(_, _, bound): &&(f64, f64, f64)| bias.abs() > CLEAR * slack * bound;
    let varied = differing.iter().any(|(_, other, _)| *other != reference);
    if differing.len() < FEW
        || !varied
        || differing.iter().filter(clear).count() * 2 < differing.len()
        || !differing.iter().all(fits)
    {
        return None;
    }
    let agreeing = triples(evidence, evidence.agreeing.iter().copied())?;
    let everywhere = agreeing.iter().all(fits);
    let whose = if everywhere {
        "Every element".to_owned()
    } else {
        format!("Each of {}", evidence.count(evidence.differing.len()))
    };
    let (sign, size) = if bias < 0.0 {
        ("below", -bias)
    } else {
        ("above", bias)
    };
    Some(format!(
        "{whose} lies {} {sign} its reference.",
        figure(size)
    ))
}

/// The reference cut off where it should be rounded to nearest. Needs a reference finer than the result's type.
fn truncated(evidence: &Evidence<'_>) -> Option<String> {
    let floats = evidence.scan.floats.as_ref()?;
    let count = evidence.differing.len();
    if count < MANY / 3 || evidence.scan.values.element_type() == evidence.scan.got.element_type() {
        return None;
    }
    let pairs = triples(evidence, evidence.sampled())?;
    let ways = [
        (Directed::TowardZero, "toward zero"),
        (Directed::Down, "down"),
        (Directed::Up, "up"),
    ];
    ways.into_iter().find_map(|(way, words)| {
        pairs
            .iter()
            .all(|(got, reference, _)| directed(&floats.format, *reference, way) == Some(*got))
            .then(|| format!("Every element is its reference rounded {words}, not to nearest ({count} differ for it)."))
    })
}

/// Formats that a result is rounded to on the way, in the order in which they are tried.
const NARROWER: [ElementType; 3] = [ElementType::BF16, ElementType::F16, ElementType::F32];

fn narrower(evidence: &Evidence<'_>) -> impl Iterator<Item = (ElementType, FloatFormat)> {
    let own = evidence
        .scan
        .floats
        .as_ref()
        .map_or(0, |floats| floats.format.mantissa_bits);
    NARROWER
        .into_iter()
        .filter_map(|narrow| Some((narrow, narrow.float_format()?)))
        .filter(move |(_, format)| format.mantissa_bits < own)
}

/// All elements are values of a narrower format, next to their references there.
fn narrowed(evidence: &Evidence<'_>) -> Option<String> {
    let own = evidence.scan.floats.as_ref()?.format;
    let differing = differing(evidence)?;
    let all = triples(evidence, evidence.sampled())?;
    narrower(evidence).find_map(|(name, format)| {
        let bits = differing.len() as u32 * (own.mantissa_bits - format.mantissa_bits);
        let near = |&(got, reference, _): &(f64, f64, f64)| {
            (got - reference).abs() <= format.ulp_at(reference)
        };
        let held = all.iter().all(|(got, ..)| format.represents(*got));
        if bits < 16 || !held || !differing.iter().all(near) {
            return None;
        }
        let nearest = all
            .iter()
            .all(|(got, reference, _)| format.round_to(*reference) == *got);
        Some(if nearest {
            format!("Every element is its reference rounded to {name}.")
        } else {
            format!(
                "Every element is a value of {name}, within one ulp of {name} of its reference."
            )
        })
    })
}

/// All errors have one sign, of themselves or seen from zero.
fn one_sided(evidence: &Evidence<'_>) -> Option<String> {
    let differing = differing(evidence)?;
    if differing.len() < MANY || evidence.scan.floats.is_none() || evidence.scan.parts() == 2 {
        return None;
    }
    let agreeing = triples(evidence, evidence.agreeing.iter().copied())?;
    let all = |holds: &dyn Fn(f64, f64) -> bool| {
        let fits = |(got, reference, _): &&(f64, f64, f64)| holds(*got, *reference);
        differing.iter().all(|triple| fits(&triple))
            && agreeing
                .iter()
                .filter(|(g, r, _)| g != r)
                .all(|triple| fits(&triple))
    };
    let side = if all(&|got, reference| got > reference) {
        "above its reference"
    } else if all(&|got, reference| got < reference) {
        "below its reference"
    } else if all(&|got, reference| got.abs() > reference.abs()) {
        "farther from zero than its reference"
    } else if all(&|got, reference| got.abs() < reference.abs()) {
        "nearer to zero than its reference"
    } else {
        return None;
    };
    let mut excess: Vec<f64> = differing
        .iter()
        .map(|(g, r, b)| (g - r).abs() / b)
        .collect();
    excess.sort_by(f64::total_cmp);
    let (least, most) = (excess.first()?, excess.last()?);
    Some(format!(
        "Every element that is not exact lies {side}, the differing ones by {} to {} times their bounds.",
        figure(*least),
        figure(*most)
    ))
}

/// Errors of both signs in most elements, of the size that arithmetic in a narrower format makes.
fn low_precision(evidence: &Evidence<'_>) -> Option<String> {
    let own = evidence.scan.floats.as_ref()?.format;
    if own.mantissa_bits < 23 || evidence.mismatches * 2 < evidence.elements {
        return None;
    }
    let mut errors = Vec::new();
    let mut above = 0;
    for index in evidence.sampled() {
        let size = evidence.scan.size(index);
        for (got, reference) in evidence.parts(index) {
            let error = (got - reference).abs() / size;
            if error.is_finite() {
                above += usize::from(got > reference);
                errors.push(error);
            }
        }
    }
    let count = errors.len();
    if count < MANY || above * 10 < count || above * 10 > count * 9 {
        return None;
    }
    errors.sort_by(f64::total_cmp);
    let (median, most) = (errors[count / 2], *errors.last()?);
    // The median error of one rounding is a third of the unit roundoff u; in a sum of n products whose operands are rounded, about
    // 0.6u/√n of the sum of their magnitudes, since signs are random; where each partial sum is rounded, a third of u whatever n.
    let root = evidence.scan.terms().sqrt();
    let once = |unit: f64| (0.25..=2.0).contains(&(median * root / unit));
    let often = |unit: f64| median * root > 2.0 * unit && median <= unit;
    let formats = || narrower(evidence).map(|(name, format)| (name, format.unit_roundoff()));
    let (name, unit) = formats()
        .find(|(_, unit)| once(*unit))
        .or_else(|| formats().find(|(_, unit)| often(*unit)))
        .filter(|(_, unit)| most <= 64.0 * unit)?;
    let sums = match evidence.scan.terms() {
        1.0 => "their size",
        _ => "the sums of magnitudes",
    };
    Some(format!(
        "The errors are those of arithmetic in {name}: of both signs, their median 2^{:.1} of {sums}, where one rounding to {name} is up to 2^{:.0} and one to {} 2^{:.0}.",
        median.log2(),
        unit.log2(),
        evidence.scan.got.element_type(),
        own.unit_roundoff().log2()
    ))
}
