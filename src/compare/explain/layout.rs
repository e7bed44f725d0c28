//! Right values in wrong places: another tensor's, transposed, shifted, reversed or permuted.

use super::evidence::Evidence;
use super::{Fault, Finding, Known};

/// Bits of evidence that a claim needs: differing elements times what an agreement by chance is worth.
const EVIDENCE: f64 = 20.0;
/// Axes of which all orders are tried.
const RANK: usize = 5;
/// How far a shift along an axis may go.
const STEPS: [isize; 8] = [1, -1, 2, -2, 3, -3, 4, -4];
/// Elements that are sorted to see whether they are the reference's in another order.
const SORTED: usize = 1 << 16;

pub(super) fn findings(evidence: &Evidence<'_>, known: &[Known<'_>]) -> Vec<Finding> {
    let bits = -evidence.coincidence().log2();
    let enough = |differing: usize| differing as f64 * bits >= EVIDENCE;
    if !enough(evidence.differing.len()) {
        return Vec::new();
    }
    let moved = stale(evidence, known)
        .map(|sentence| (Fault::Stale, evidence.differing.len(), sentence))
        .or_else(|| {
            transposed(evidence).map(|text| (Fault::Transposed, evidence.differing.len(), text))
        })
        .or_else(|| shifted(evidence, &enough).map(|(n, text)| (Fault::Shifted, n, text)))
        .or_else(|| {
            reversed(evidence).map(|text| (Fault::Reversed, evidence.differing.len(), text))
        })
        .or_else(|| {
            permuted(evidence).map(|text| (Fault::Permuted, evidence.differing.len(), text))
        });
    moved
        .map(|(fault, explains, sentence)| Finding {
            fault,
            explains,
            sentence,
        })
        .into_iter()
        .collect()
}

/// Whether each element looked at agrees with the reference at the place that `source` gives for it.
fn holds(evidence: &Evidence<'_>, source: impl Fn(usize) -> usize) -> bool {
    evidence
        .sampled()
        .all(|index| evidence.scan.agrees(index, source(index)))
}

fn stale(evidence: &Evidence<'_>, known: &[Known<'_>]) -> Option<String> {
    let got = evidence.scan.got;
    let same = |other: &&Known<'_>| {
        other.tensor.element_type() == got.element_type() && other.tensor.data() == got.data()
    };
    let varies = got
        .data()
        .chunks(got.element_type().bytes())
        .any(|element| element != &got.data()[..got.element_type().bytes()]);
    let other = known.iter().filter(|_| varies).find(same)?;
    Some(format!("The result is, bit for bit, {}.", other.name))
}

fn indices(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (position, &n) in place.iter_mut().zip(shape).rev() {
        *position = flat % n;
        flat /= n;
    }
    place
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// The reference with its axes in another order, in the memory of the result.
fn transposed(evidence: &Evidence<'_>) -> Option<String> {
    let shape = evidence.shape;
    if shape.len() > RANK || shape.iter().filter(|n| **n > 1).count() < 2 {
        return None;
    }
    let strides = strides(shape);
    orders(shape.len()).into_iter().find_map(|order| {
        let of: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let source = |flat: usize| -> usize {
            let place = indices(flat, &of);
            place
                .iter()
                .zip(&order)
                .map(|(i, &axis)| i * strides[axis])
                .sum()
        };
        let moves = evidence
            .differing
            .iter()
            .all(|&index| source(index) != index);
        (moves && holds(evidence, source)).then(|| {
            let memory = if of == shape { "" } else { " in memory" };
            format!("The result is the reference with its axes{memory} in the order {order:?}.")
        })
    })
}

/// All orders of so many axes, the exchange of two first.
fn orders(rank: usize) -> Vec<Vec<usize>> {
    fn extend(prefix: &mut Vec<usize>, rank: usize, out: &mut Vec<Vec<usize>>) {
        if prefix.len() == rank {
            out.push(prefix.clone());
        }
        for axis in 0..rank {
            if !prefix.contains(&axis) {
                prefix.push(axis);
                extend(prefix, rank, out);
                prefix.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(&mut Vec::new(), rank, &mut all);
    all.sort_by_key(|order| {
        order
            .iter()
            .enumerate()
            .filter(|(at, axis)| at != *axis)
            .count()
    });
    all
}

/// Along one axis or in memory, by a few places; what enters at the end is left open.
fn shifted(evidence: &Evidence<'_>, enough: &dyn Fn(usize) -> bool) -> Option<(usize, String)> {
    let along = evidence
        .shape
        .iter()
        .zip(strides(evidence.shape))
        .enumerate()
        .rev();
    let axes = along.map(|(axis, (&n, stride))| (n, stride, format!("along axis {axis}")));
    let memory = (evidence.elements, 1, "in memory".to_owned());
    axes.chain([memory]).find_map(|(n, stride, name)| {
        STEPS
            .into_iter()
            .filter(|step| step.unsigned_abs() < n)
            .find_map(|step| {
                let source = |index: usize| -> (usize, bool) {
                    let place = (index / stride % n) as isize;
                    let from = (place - step).rem_euclid(n as isize);
                    let wraps = from != place - step;
                    (
                        (index as isize + (from - place) * stride as isize) as usize,
                        wraps,
                    )
                };
                let inside = |index: &usize| !source(*index).1;
                let explained = evidence.differing.iter().copied().filter(inside).count();
                if !enough(explained) || explained * 2 < evidence.differing.len() {
                    return None;
                }
                let fits = |index: usize| evidence.scan.agrees(index, source(index).0);
                if !evidence.sampled().filter(inside).all(fits) {
                    return None;
                }
                let places = match step.unsigned_abs() {
                    1 => "one place".to_owned(),
                    k => format!("{k} places"),
                };
                let direction = if step > 0 { "up" } else { "down" };
                let round = evidence.sampled().all(fits);
                let ends = if round { ", round the end" } else { "" };
                let explains = if round {
                    evidence.differing.len()
                } else {
                    explained
                };
                let text = format!(
                    "The result is the reference shifted {direction} by {places} {name}{ends}."
                );
                Some((explains, text))
            })
    })
}

fn reversed(evidence: &Evidence<'_>) -> Option<String> {
    let strides = strides(evidence.shape);
    evidence
        .shape
        .iter()
        .zip(strides)
        .enumerate()
        .find_map(|(axis, (&n, stride))| {
            let source = |index: usize| {
                let place = index / stride % n;
                index - place * stride + (n - 1 - place) * stride
            };
            (n > 1 && holds(evidence, source))
                .then(|| format!("The result is the reference reversed along axis {axis}."))
        })
}

/// The reference's values in an order of which nothing more is known.
fn permuted(evidence: &Evidence<'_>) -> Option<String> {
    let scan = evidence.scan;
    let n = evidence.elements;
    if n > SORTED || scan.parts() == 2 || evidence.differing.len() < 4 {
        return None;
    }
    let sorted = |value: &dyn Fn(usize) -> f64| {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
        order
    };
    let got = sorted(&|index| scan.got(index)[0]);
    let reference = sorted(&|index| scan.reference(index)[0]);
    let holds = got
        .iter()
        .zip(&reference)
        .all(|(&got, &reference)| scan.agrees(got, reference));
    holds.then(|| "The values are the reference's, all of them, in another order.".to_owned())
}
