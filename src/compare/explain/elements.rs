//! Kinds that show on one element alone: NaN, infinities, zeros and their signs, flushed subnormals, flipped signs.

use super::evidence::{Evidence, figure};
use super::{Fault, Finding};

/// The kind of one part of an element that differs, of those that one element shows.
fn kind(evidence: &Evidence<'_>, got: f64, reference: f64, bound: f64) -> Option<Fault> {
    let scan = evidence.scan;
    if got.is_nan() {
        return (!reference.is_nan()).then_some(Fault::Nan);
    }
    if reference.is_nan() {
        return Some(Fault::NanLost);
    }
    if got.is_infinite() && reference.is_finite() {
        return Some(Fault::Infinite);
    }
    let Some(floats) = &scan.floats else {
        return if reference == 0.0 {
            None
        } else if got == 0.0 {
            Some(Fault::Zeros)
        } else {
            (got == -reference).then_some(Fault::SignFlipped)
        };
    };
    if got == 0.0 {
        let rounded = floats.format.round_to(reference);
        return if rounded == 0.0 {
            (got.is_sign_negative() != rounded.is_sign_negative()).then_some(Fault::SignOfZero)
        } else if reference.abs() < floats.format.min_normal() {
            Some(Fault::FlushedSubnormals)
        } else {
            Some(Fault::Zeros)
        };
    }
    let opposite = (got + reference).abs() <= bound || got == -floats.format.round_to(reference);
    (opposite && got.is_sign_negative() != reference.is_sign_negative())
        .then_some(Fault::SignFlipped)
}

/// The one kind that all differing parts of the element have.
fn kind_of_element(evidence: &Evidence<'_>, index: usize) -> Option<Fault> {
    let bound = evidence.scan.bound(index);
    let differs = |(got, reference): &(f64, f64)| {
        !((got - reference).abs() <= bound && (*got != 0.0 || *reference != 0.0)
            || got.to_bits() == reference.to_bits())
    };
    let mut parts = evidence
        .parts(index)
        .enumerate()
        .filter(|(_, part)| differs(part));
    let (first, (got, reference)) = parts.next()?;
    let fault = kind(evidence, got, reference, bound)?;
    match parts.next() {
        None if fault == Fault::SignFlipped && evidence.scan.parts() == 2 && first == 1 => {
            Some(Fault::Conjugated)
        }
        None => Some(fault),
        Some((_, (got, reference))) => {
            (kind(evidence, got, reference, bound) == Some(fault)).then_some(fault)
        }
    }
}

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found: Vec<(Fault, Vec<usize>)> = Vec::new();
    for &index in &evidence.differing {
        let Some(fault) = kind_of_element(evidence, index) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, places)) => places.push(index),
            None => found.push((fault, vec![index])),
        }
    }
    let mut findings: Vec<Finding> = found
        .into_iter()
        .map(|(fault, places)| Finding {
            fault,
            explains: places.len(),
            sentence: sentence(evidence, fault, &places),
        })
        .collect();
    findings.extend(constant(evidence));
    findings
}

fn sentence(evidence: &Evidence<'_>, fault: Fault, places: &[usize]) -> String {
    let count = evidence.count(places.len());
    let first = places.first().copied().unwrap_or_default();
    let at = evidence.position(first);
    let (got, reference) = evidence
        .parts(first)
        .find(|(got, reference)| got.to_bits() != reference.to_bits())
        .unwrap_or_default();
    match fault {
        Fault::Nan => format!(
            "NaN stands where the reference is a number in {count}, first at {at} ({}).",
            figure(reference)
        ),
        Fault::NanLost => format!(
            "A number stands where the reference is NaN in {count}, first {} at {at}.",
            figure(got)
        ),
        Fault::Infinite => format!(
            "An infinity stands where the reference is finite in {count}, first at {at} ({}).",
            figure(reference)
        ),
        Fault::SignOfZero => format!("In {count} a zero has the wrong sign, first at {at}."),
        Fault::FlushedSubnormals => {
            format!("In {count} a subnormal is flushed to zero, first {reference:e} at {at}.")
        }
        Fault::Zeros => format!(
            "In {count} zero stands for a value that is not, first for {} at {at}.",
            figure(reference)
        ),
        Fault::SignFlipped => format!("In {count} the sign is flipped and the magnitude right."),
        Fault::Conjugated => format!("In {count} the sign of the imaginary part alone is flipped."),
        _ => format!("{} in {count}.", fault.as_str()),
    }
}

/// One nonzero value everywhere, where the reference has several.
fn constant(evidence: &Evidence<'_>) -> Option<Finding> {
    let scan = evidence.scan;
    let mut sampled = evidence.sampled();
    let first = sampled.next()?;
    let (value, reference) = (scan.got(first), scan.reference(first));
    let constant = value.iter().all(|part| part.is_finite())
        && value != [0.0, 0.0]
        && evidence.differing.len() >= 3
        && sampled.clone().all(|index| scan.got(index) == value)
        && sampled.any(|index| scan.reference(index) != reference);
    constant.then(|| Finding {
        fault: Fault::Constant,
        explains: evidence.differing.len(),
        sentence: format!(
            "Every element is {}, where the reference varies.",
            scan.got.format_element(first)
        ),
    })
}
