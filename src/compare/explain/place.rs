//! Where the differing elements lie: at the ends of an axis alone, or from some index on.

use super::evidence::Evidence;
use super::{Fault, Finding};

/// A pattern of places is told only if differing elements spread evenly would show it less often than this.
const CHANCE: f64 = 1e-3;

/// Differing elements that lie in a share of the tensor by chance alone.
fn is_telling(share: f64, mismatches: usize) -> bool {
    share.powf(mismatches as f64) < CHANCE
}

pub(super) fn finding(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.mismatches == evidence.elements {
        return None;
    }
    let (fault, place) = boundary(evidence)
        .or_else(|| rim(evidence))
        .map(|place| (Fault::Boundary, place))
        .or_else(|| above(evidence).map(|place| (Fault::AboveASize, place)))?;
    Some(Finding {
        fault,
        explains: evidence.differing.len(),
        sentence: format!("All that differ lie {place}."),
    })
}

/// At the first index, the last, or both of one axis.
fn boundary(evidence: &Evidence<'_>) -> Option<String> {
    let all = evidence.mismatches;
    evidence
        .by_axis
        .iter()
        .enumerate()
        .find_map(|(axis, counts)| {
            let n = counts.len();
            let ([first, .., last], true) = (counts.as_slice(), n >= 3) else {
                return None;
            };
            let of = format!("of axis {axis} ({n} long)");
            let one = is_telling(1.0 / n as f64, all);
            if *first == all && one {
                Some(format!("at index 0 {of}"))
            } else if *last == all && one {
                Some(format!("at the last index {of}"))
            } else if first + last == all && n > 3 && is_telling(2.0 / n as f64, all) {
                Some(format!("at the first and the last index {of}"))
            } else {
                None
            }
        })
}

/// On the rim of the tensor, whatever the axis. Decided by the sample.
fn rim(evidence: &Evidence<'_>) -> Option<String> {
    let axes: Vec<usize> = evidence.shape.iter().copied().filter(|n| *n > 2).collect();
    if axes.len() < 2 || evidence.differing.len() < evidence.mismatches {
        return None;
    }
    let inner: usize = evidence
        .shape
        .iter()
        .map(|&n| if n > 2 { n - 2 } else { n })
        .product();
    let share = 1.0 - inner as f64 / evidence.elements as f64;
    let on_the_rim = |index: &usize| {
        let mut rest = *index;
        evidence.shape.iter().rev().any(|&n| {
            let place = rest % n;
            rest /= n;
            n > 2 && (place == 0 || place == n - 1)
        })
    };
    (is_telling(share, evidence.mismatches) && evidence.differing.iter().all(on_the_rim))
        .then(|| "on the rim, at the first or the last index of some axis".to_owned())
}

/// From some index of an axis on, or from some element on, and there most of them.
fn above(evidence: &Evidence<'_>) -> Option<String> {
    let all = evidence.mismatches;
    let mut found: Option<(f64, String)> = None;
    let mut offer = |from: usize, n: usize, what: String| {
        let share = (n - from) as f64 / n as f64;
        let held = all as f64 / (share * evidence.elements as f64);
        if from > 0
            && held >= 0.5
            && is_telling(share, all)
            && found.as_ref().is_none_or(|(best, _)| share < *best)
        {
            let held = if held == 1.0 {
                "every element is off".to_owned()
            } else {
                format!("{:.0}% of the elements are off", held * 100.0)
            };
            found = Some((share, format!("{what}, where {held}")));
        }
    };
    for (axis, counts) in evidence.by_axis.iter().enumerate() {
        if let Some(from) = counts.iter().position(|count| *count > 0) {
            let n = counts.len();
            offer(
                from,
                n,
                format!("at index {from} and above of axis {axis} ({n} long)"),
            );
        }
    }
    if evidence.shape.len() > 1 {
        let (from, n) = (evidence.ends.0, evidence.elements);
        offer(
            from,
            n,
            format!("from element {from} of {n} on, counted in row-major order"),
        );
    }
    found.map(|(_, place)| place)
}
