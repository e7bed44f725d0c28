//! What the tests of the kinds look at: which elements differ, how many, where, and by how much.

use crate::compare::scan::Scan;

/// Elements looked at closely, of those that differ and of those that agree.
const SAMPLE: usize = 4096;

pub(super) struct Evidence<'a> {
    pub scan: &'a Scan<'a>,
    pub shape: &'a [usize],
    pub elements: usize,
    pub mismatches: usize,
    /// Flat indices, in order: all of them, or an even sample.
    pub differing: Vec<usize>,
    pub agreeing: Vec<usize>,
    /// Differing elements by index along each axis.
    pub by_axis: Vec<Vec<usize>>,
    /// The first and the last differing element.
    pub ends: (usize, usize),
}

/// Every so many of the indices that it is given, doubling the step whenever there are too many.
struct Thinned {
    kept: Vec<usize>,
    step: usize,
    seen: usize,
}

impl Thinned {
    fn new() -> Self {
        Self {
            kept: Vec::new(),
            step: 1,
            seen: 0,
        }
    }

    fn add(&mut self, index: usize) {
        if self.seen.is_multiple_of(self.step) {
            if self.kept.len() == SAMPLE {
                let mut position = 0;
                self.kept.retain(|_| {
                    position += 1;
                    position % 2 == 1
                });
                self.step *= 2;
            }
            if self.seen.is_multiple_of(self.step) {
                self.kept.push(index);
            }
        }
        self.seen += 1;
    }
}

impl<'a> Evidence<'a> {
    pub fn gather(scan: &'a Scan<'a>) -> Self {
        let shape = scan.got.shape();
        let mut by_axis: Vec<Vec<usize>> = shape.iter().map(|&n| vec![0; n]).collect();
        let (mut differing, mut agreeing) = (Thinned::new(), Thinned::new());
        let mut ends = None;
        for index in 0..scan.got.len() {
            if scan.agrees(index, index) {
                agreeing.add(index);
                continue;
            }
            differing.add(index);
            ends = Some((ends.map_or(index, |(first, _)| first), index));
            let mut rest = index;
            for (counts, &n) in by_axis.iter_mut().zip(shape).rev() {
                counts[rest % n] += 1;
                rest /= n;
            }
        }
        Self {
            scan,
            shape,
            elements: scan.got.len(),
            mismatches: differing.seen,
            differing: differing.kept,
            agreeing: agreeing.kept,
            by_axis,
            ends: ends.unwrap_or_default(),
        }
    }

    /// The elements looked at, differing and agreeing.
    pub fn sampled(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.differing.iter().chain(&self.agreeing).copied()
    }

    /// Pairs of got and reference over the parts of an element.
    pub fn parts(&self, index: usize) -> impl Iterator<Item = (f64, f64)> + use<> {
        let (got, reference) = (self.scan.got(index), self.scan.reference(index));
        got.into_iter().zip(reference).take(self.scan.parts())
    }

    /// `all 64 differing elements`, `3 of the 64 differing elements`, with a word on sampling where there was any.
    pub fn count(&self, explains: usize) -> String {
        let looked_at = self.differing.len();
        let sampled = if looked_at < self.mismatches {
            " looked at"
        } else {
            ""
        };
        match (explains, looked_at) {
            (1, 1) => "the one differing element".to_owned(),
            (n, all) if n == all => format!("all {all} differing elements{sampled}"),
            (n, all) => format!("{n} of {all} differing elements{sampled}"),
        }
    }

    pub fn position(&self, index: usize) -> String {
        let mut place = vec![0; self.shape.len()];
        let mut rest = index;
        for (position, &n) in place.iter_mut().zip(self.shape).rev() {
            *position = rest % n;
            rest /= n;
        }
        format!("{place:?}")
    }

    /// How many differ and by how much.
    pub fn extent(&self) -> String {
        let (n, all) = (self.mismatches, self.elements);
        let many = match n {
            1 if all == 1 => "The only element is off".to_owned(),
            1 => format!("One element of {all} is off"),
            n if n == all => format!("All {all} elements are off"),
            n if n * 100 <= all => format!("A few elements are off ({n} of {all})"),
            n if n * 10 >= all * 9 => format!("Nearly all elements are off ({n} of {all})"),
            n => format!("{n} of {all} elements are off"),
        };
        let mut worst = (0.0, None);
        for &index in &self.differing {
            let bound = self.scan.bound(index);
            for (got, reference) in self.parts(index) {
                let excess = (got - reference).abs() / bound;
                if excess.is_finite() && excess > worst.0 {
                    worst = (excess, Some(index));
                }
            }
        }
        let (excess, Some(index)) = worst else {
            return format!("{many}.");
        };
        let amount = if self.scan.floats.is_none() {
            figure(excess * 0.5)
        } else {
            format!("{} times the bound", figure(excess))
        };
        let at = self.position(index);
        if n == 1 {
            format!("{many}, by {amount}, at {at}.")
        } else {
            format!("{many}, by up to {amount}, at {at}.")
        }
    }

    /// The chance that two unrelated elements agree, as far as a small sample and the width of the type tell.
    pub fn coincidence(&self) -> f64 {
        const PAIRS: usize = 256;
        let n = self.elements;
        let hits = (0..PAIRS.min(n * n))
            .filter(|k| {
                let (i, j) = (k * 7919 % n, (k * 104_729 + n / 2 + 1) % n);
                i != j && self.scan.agrees(i, j)
            })
            .count();
        let width = self.scan.got.element_type().bits() as f64;
        (hits as f64 / PAIRS as f64).max((-width / 2.0).exp2())
    }
}

/// Four digits, without an exponent where a person reads it as well without.
pub(super) fn figure(x: f64) -> String {
    let magnitude = x.abs();
    if x == x.round() && magnitude < 1e6 {
        format!("{x:.0}")
    } else if (1e-3..1e6).contains(&magnitude) {
        let digits = (3 - magnitude.log10().floor() as i32).clamp(0, 6) as usize;
        format!("{x:.digits$}")
    } else {
        format!("{x:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_even_and_bounded() {
        let mut thinned = Thinned::new();
        (0..100_000).for_each(|index| thinned.add(index));
        assert!(thinned.kept.len() <= SAMPLE && thinned.kept.len() > SAMPLE / 2);
        assert!(
            thinned
                .kept
                .windows(2)
                .all(|pair| pair[1] - pair[0] == thinned.step)
        );
        assert_eq!(thinned.seen, 100_000);
    }

    #[test]
    fn figures_are_short() {
        let text: Vec<String> = [2.0, 0.5, 1234.5678, 1e-9, 3.0e8, -0.015]
            .map(figure)
            .into();
        assert_eq!(
            text,
            ["2", "0.5000", "1235", "1.000e-9", "3.000e8", "-0.01500"]
        );
    }
}
