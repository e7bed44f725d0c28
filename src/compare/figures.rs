//! The figures of a comparison: gathered by chunk, joined in the chunks' order so that they do not depend on the cores.

use super::Comparison;

/// What one part of the data gave.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub mismatches: u64,
    pub first_mismatch: Option<usize>,
    pub max_abs: f64,
    pub max_rel: f64,
    pub max_ulp: f64,
    pub sums: Sums,
}

/// Sums of squares and products over the finite elements, of values times `unit`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    got: f64,
    reference: f64,
    difference: f64,
    product: f64,
    /// The largest magnitude on either side, unscaled.
    pub largest: f64,
}

impl Sums {
    #[inline]
    pub fn add(&mut self, got: f64, reference: f64, unit: f64) {
        self.largest = self.largest.max(got.abs()).max(reference.abs());
        let (g, r) = (got * unit, reference * unit);
        self.got += g * g;
        self.reference += r * r;
        self.difference += (g - r) * (g - r);
        self.product += g * r;
    }

    /// The sums of a block: of got², reference², their differences' squares and their products, in unit 1.
    pub fn add_block(&mut self, [got, reference, difference, product]: [f64; 4], largest: f64) {
        self.got += got;
        self.reference += reference;
        self.difference += difference;
        self.product += product;
        self.largest = self.largest.max(largest);
    }

    pub fn join(&mut self, next: &Sums) {
        self.got += next.got;
        self.reference += next.reference;
        self.difference += next.difference;
        self.product += next.product;
        self.largest = self.largest.max(next.largest);
    }

    /// Whether squares overflowed or underflowed, so that the sums must be taken again in another unit.
    pub fn are_unusable(&self) -> bool {
        let norms = self.got.max(self.reference);
        self.largest > 0.0
            && !(norms > 1e-270
                && self.got < 1e300
                && self.reference < 1e300
                && self.difference < 1e300)
    }

    fn relative_l2(&self, unit: f64) -> f64 {
        if self.reference > 0.0 {
            (self.difference / self.reference).sqrt()
        } else {
            self.difference.sqrt() / unit
        }
    }

    fn cosine(&self) -> f64 {
        if self.got == 0.0 && self.reference == 0.0 {
            return 1.0;
        }
        if self.got == 0.0 || self.reference == 0.0 {
            return 0.0;
        }
        (self.product / self.got.sqrt() / self.reference.sqrt()).clamp(-1.0, 1.0)
    }
}

impl Figures {
    /// `ulp` and the magnitude of the reference belong to the element whose difference this is.
    #[inline]
    pub fn measure(&mut self, difference: f64, magnitude: f64, ulp: f64) {
        if difference == 0.0 {
            return;
        }
        self.max_abs = self.max_abs.max(difference);
        self.max_ulp = self.max_ulp.max(difference / ulp);
        if magnitude != 0.0 {
            self.max_rel = self.max_rel.max(difference / magnitude);
        }
    }

    #[inline]
    pub fn mismatch(&mut self, index: usize) {
        self.mismatches += 1;
        self.first_mismatch.get_or_insert(index);
    }

    /// Adds a later part of the data.
    pub fn join(mut self, next: &Figures) -> Self {
        self.mismatches += next.mismatches;
        self.first_mismatch = self.first_mismatch.or(next.first_mismatch);
        self.max_abs = self.max_abs.max(next.max_abs);
        self.max_rel = self.max_rel.max(next.max_rel);
        self.max_ulp = self.max_ulp.max(next.max_ulp);
        self.sums.join(&next.sums);
        self
    }

    /// JSON has no infinity: what overflowed is the largest f64.
    pub fn finish(&self, elements: usize, unit: f64) -> Comparison {
        Comparison {
            elements: elements as u64,
            mismatches: self.mismatches,
            first_mismatch: None,
            max_abs: self.max_abs.min(f64::MAX),
            max_rel: self.max_rel.min(f64::MAX),
            max_ulp: self.max_ulp.min(f64::MAX),
            relative_l2: self.sums.relative_l2(unit).min(f64::MAX),
            cosine: self.sums.cosine(),
            explanation: None,
            times_cpu: None,
            predictions: None,
        }
    }
}
