//! Each class on small results whose faults are known by hand.

use super::*;
use crate::compare::Numerics;
use crate::run::Term;
use ElementType::*;

const PLAIN: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};

struct Fixture {
    got: Tensor,
    reference: ReferenceTensor,
    tolerance: Tolerance,
    terms: Option<Terms>,
    earlier: Option<Tensor>,
}

impl Fixture {
    fn new(t: ElementType, shape: &[usize], values: &[f64]) -> Self {
        let tensor = |t| Tensor::from_f64(t, shape.to_vec(), values).unwrap();
        Self {
            got: tensor(t),
            reference: ReferenceTensor {
                values: tensor(t.widened()),
                element_type: t,
                scale: Some(tensor(F64)),
                flushed: None,
                yardstick: None,
            },
            tolerance: Tolerance::Ulp(1.0),
            terms: None,
            earlier: None,
        }
    }

    fn inject(&self, class: Class) -> Vec<Vec<f64>> {
        let rules = Rules::new(&self.got, &self.reference, &self.tolerance, &PLAIN).unwrap();
        let subject = Subject {
            got: &self.got,
            reference: &self.reference,
            tolerance: &self.tolerance,
            rules: &rules,
            index: 0,
            terms: self.terms.as_ref(),
            earlier: self.earlier.as_ref(),
            seed: 5,
        };
        inject(class, &subject).iter().map(Tensor::to_f64).collect()
    }
}

fn ramp() -> Fixture {
    Fixture::new(F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
}

/// The elements that a fault changed, each with its new value.
fn changes(fault: &[f64]) -> Vec<(f64, f64)> {
    let before = ramp().got.to_f64();
    before
        .into_iter()
        .zip(fault.iter().copied())
        .filter(|(a, b)| a != b)
        .collect()
}

#[test]
fn one_element_moves_by_four_bounds() {
    let faults = ramp().inject(Class::FourBounds);
    assert!(!faults.is_empty() && faults.len() <= 4);
    for fault in faults {
        let [(before, after)] = changes(&fault)[..] else {
            panic!("{fault:?}");
        };
        // The bound is one ulp of f32 at the reference.
        let ulp = f64::from(f32::EPSILON) * before.log2().floor().exp2();
        assert_eq!((after - before).abs(), 4.0 * ulp, "{before} {after}");
    }
    let bools = Fixture::new(Pred, &[1], &[1.0]);
    assert_eq!(bools.inject(Class::FourBounds), [[0.0]]);
    let integers = Fixture::new(I8, &[1], &[127.0]);
    assert!([-127.0, 125.0].contains(&integers.inject(Class::FourBounds)[0][0]));
}

#[test]
fn one_element_moves_by_a_percent() {
    for fault in ramp().inject(Class::OnePercent) {
        let [(before, after)] = changes(&fault)[..] else {
            panic!("{fault:?}");
        };
        assert_eq!(after, f64::from((before * 1.01) as f32));
    }
    // Of f8e5m2, 1.01 is 1: nothing changes, so there is no fault.
    assert!(
        Fixture::new(F8E5M2, &[1], &[1.0])
            .inject(Class::OnePercent)
            .is_empty()
    );
    assert!(
        Fixture::new(I32, &[1], &[20.0])
            .inject(Class::OnePercent)
            .is_empty()
    );
    assert_eq!(
        Fixture::new(I32, &[1], &[-300.0]).inject(Class::OnePercent),
        [[-303.0]]
    );
}

#[test]
fn signs_nans_and_zeros() {
    for fault in ramp().inject(Class::SignFlip) {
        let [(before, after)] = changes(&fault)[..] else {
            panic!("{fault:?}");
        };
        assert_eq!(after, -before);
    }
    assert!(
        Fixture::new(U8, &[1], &[3.0])
            .inject(Class::SignFlip)
            .is_empty()
    );
    assert!(ramp().inject(Class::NanToZero).is_empty());
    let special = Fixture::new(F32, &[3], &[f64::NAN, -0.0, 0.0]);
    let fault = &special.inject(Class::NanToZero)[0];
    assert_eq!(fault[0].to_bits(), 0.0f64.to_bits());
    let fault = &special.inject(Class::NegativeZero)[0];
    assert!(fault[0].is_nan() && fault[1].is_sign_positive());
}

#[test]
fn places() {
    assert_eq!(
        ramp().inject(Class::SwappedAxes),
        [[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]]
    );
    assert_eq!(
        ramp().inject(Class::ShiftByOne),
        [[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]]
    );
    let column = Fixture::new(F32, &[3, 1], &[1.0, 2.0, 3.0]);
    assert!(column.inject(Class::SwappedAxes).is_empty());
    assert_eq!(column.inject(Class::ShiftByOne), [[3.0, 1.0, 2.0]]);
    let mut stale = ramp();
    assert!(stale.inject(Class::StaleOutput).is_empty());
    stale.earlier = Some(Tensor::zeros(F32, vec![2, 3]).unwrap());
    assert_eq!(stale.inject(Class::StaleOutput), [[0.0; 6]]);
}

#[test]
fn rounding() {
    // 1 + 2⁻⁷ − 2⁻¹⁰ lies nearer to 1 + 2⁻⁷ in bf16.
    let near = Fixture::new(BF16, &[1], &[1.0 + 1.0 / 128.0 - 1.0 / 1024.0]);
    assert_eq!(near.got.to_f64(), [1.0 + 1.0 / 128.0]);
    assert_eq!(near.inject(Class::Truncation), [[1.0]]);
    let fine = Fixture::new(F32, &[1], &[1.0 + 1.0 / 512.0]);
    assert_eq!(fine.inject(Class::RoundedToBf16), [[1.0]]);
    assert!(fine.inject(Class::Truncation).is_empty());
    // Whatever its payload, a NaN stays a NaN, and that is no fault.
    let mut nan = Fixture::new(F32, &[1], &[f64::NAN]);
    nan.got = Tensor::new(F32, vec![1], 0xffc1_2345u32.to_le_bytes().to_vec()).unwrap();
    assert!(nan.inject(Class::RoundedToBf16).is_empty());
    let small = Fixture::new(F16, &[2], &[-(2.0f64.powi(-20)), 1.0]);
    let flushed = &small.inject(Class::FlushedSubnormals)[0];
    assert!(flushed[0] == 0.0 && flushed[0].is_sign_negative() && flushed[1] == 1.0);
}

#[test]
fn sums_lose_a_term_or_are_kept_in_bf16() {
    // 256 + 1 + 1 + 1: bf16 has 8 bits, so that each 1 is lost (257 is a tie, to even).
    let mut sum = Fixture::new(F32, &[], &[259.0]);
    sum.tolerance = Tolerance::Accumulate {
        terms: 4,
        accumulator: F32,
        precision: None,
    };
    let term = |value| {
        vec![Term {
            result: 0,
            place: 0,
            value,
        }]
    };
    sum.terms = Some(Terms {
        base: vec![vec![0.0]],
        elements: vec![term(256.0), term(1.0), term(1.0), term(1.0)],
    });
    assert_eq!(sum.inject(Class::Bf16Accumulation), [[256.0]]);
    for fault in sum.inject(Class::TermDropped) {
        assert!(fault == [3.0] || fault == [258.0], "{fault:?}");
    }
    // Where the sum may be kept in bf16, that is no fault.
    let mut narrow = Fixture::new(BF16, &[], &[259.0]);
    narrow.tolerance = Tolerance::Accumulate {
        terms: 4,
        accumulator: BF16,
        precision: None,
    };
    narrow.terms = sum.terms;
    assert!(narrow.inject(Class::Bf16Accumulation).is_empty());
}

#[test]
fn a_bias_of_two_bounds_moves_every_element() {
    let [fault] = &ramp().inject(Class::Bias)[..] else {
        panic!("one fault");
    };
    assert_eq!(changes(fault).len(), 6);
    assert_eq!(fault[0], 1.0 + 2.0 * f64::from(f32::EPSILON));
    assert_eq!(
        Fixture::new(I8, &[2], &[127.0, 1.0]).inject(Class::Bias),
        [[-128.0, 2.0]]
    );
}

/// The same bits for the same seed; 64-bit integers past 2⁵³ keep those that are not touched.
#[test]
fn what_is_not_touched_keeps_its_bits() {
    let odd = (i64::MAX - 1).to_le_bytes();
    let data = [odd, 5i64.to_le_bytes()].concat();
    let mut fixture = Fixture::new(I64, &[2], &[0.0, 5.0]);
    fixture.got = Tensor::new(I64, vec![2], data).unwrap();
    fixture.reference = fixture.got.clone().into();
    let rules = Rules::new(&fixture.got, &fixture.reference, &Tolerance::Exact, &PLAIN).unwrap();
    let subject = Subject {
        got: &fixture.got,
        reference: &fixture.reference,
        tolerance: &Tolerance::Exact,
        rules: &rules,
        index: 0,
        terms: None,
        earlier: None,
        seed: 1,
    };
    for fault in inject(Class::SignFlip, &subject) {
        let same = (0..2)
            .filter(|&i| fault.bits(i) == fixture.got.bits(i))
            .count();
        assert_eq!(same, 1);
    }
}
