//! Which elements agree: each rule by hand arithmetic. What a comparison reports is in `figures`.

mod checks;
mod fast;
mod figures;
mod pairs;

use super::bound::{bf16_passes, gamma};
use super::*;
use crate::tensor::format::pow2;
use ElementType::*;

const PLAIN: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};
const FLUSH: Numerics = Numerics {
    flush_subnormals: true,
    ..PLAIN
};
const TPU: Numerics = Numerics {
    matmul_bf16_passes: true,
    flush_subnormals: true,
    f64_as_f32_pairs: true,
};

fn tensor(element_type: ElementType, values: &[f64]) -> Tensor {
    let parts = if element_type.is_complex() { 2 } else { 1 };
    Tensor::from_f64(element_type, vec![values.len() / parts], values).unwrap()
}

fn reference(element_type: ElementType, values: &[f64]) -> ReferenceTensor {
    ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: tensor(element_type.widened(), values),
        element_type,
        scale: None,
    }
}

fn check(
    element_type: ElementType,
    got: &[f64],
    expected: &[f64],
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> Comparison {
    compare(
        &tensor(element_type, got),
        &reference(element_type, expected),
        tolerance,
        numerics,
    )
    .unwrap()
}

/// Whether one element agrees.
fn agrees(
    element_type: ElementType,
    got: f64,
    expected: f64,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> bool {
    check(element_type, &[got], &[expected], tolerance, numerics).mismatches == 0
}

fn accumulate(terms: u64, precision: Option<Precision>) -> Tolerance {
    Tolerance::Accumulate {
        terms,
        accumulator: F32,
        precision,
    }
}

/// As `agrees`, f32 with a scale.
fn sums_agree(
    got: f64,
    expected: f64,
    scale: f64,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> bool {
    let reference = ReferenceTensor {
        yardstick: None,
        flushed: None,
        scale: Some(tensor(F64, &[scale])),
        ..reference(F32, &[expected])
    };
    compare(&tensor(F32, &[got]), &reference, tolerance, numerics)
        .unwrap()
        .mismatches
        == 0
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
const EPS: f64 = f32::EPSILON as f64;
const MAX: f64 = f32::MAX as f64;
const MIN_NORMAL: f64 = f32::MIN_POSITIVE as f64;

#[test]
fn exact_is_the_reference_rounded_once() {
    let third = 1.0 / 3.0;
    assert!(agrees(F32, third, third, &Tolerance::Exact, &PLAIN));
    assert!(!agrees(
        F32,
        third + 2.0 * pow2(-25),
        third,
        &Tolerance::Exact,
        &PLAIN
    ));
    // 1 + 2⁻⁸ is bf16's tie between 1 and 1 + 2⁻⁷, and goes to even.
    assert!(agrees(BF16, 1.0, 1.0 + pow2(-8), &Tolerance::Exact, &PLAIN));
    assert!(!agrees(
        BF16,
        1.0 + pow2(-7),
        1.0 + pow2(-8),
        &Tolerance::Exact,
        &PLAIN
    ));
    assert!(agrees(F8E4M3FN, 448.0, 460.0, &Tolerance::Exact, &PLAIN));
    assert!(agrees(F8E4M3FN, NAN, 500.0, &Tolerance::Exact, &PLAIN));
    assert!(agrees(F4E2M1FN, 6.0, INF, &Tolerance::Exact, &PLAIN));
}

#[test]
fn specials_are_exact_whatever_the_tolerance() {
    let loose = [
        Tolerance::Exact,
        Tolerance::Ulp(1e30),
        Tolerance::Norm(1e30),
    ];
    for tolerance in &loose {
        let ok = |got, expected| agrees(F32, got, expected, tolerance, &FLUSH);
        assert!(ok(NAN, NAN) && ok(INF, INF) && ok(-INF, -INF));
        for (got, expected) in [
            (1.0, NAN),
            (INF, NAN),
            (INF, -INF),
            (MAX, INF),
            (NAN, INF),
            (NAN, 1.0),
        ] {
            assert!(!ok(got, expected), "{tolerance:?} {got} {expected}");
        }
    }
    assert!(!agrees(F32, INF, 1.0, &Tolerance::Ulp(4.0), &PLAIN));
    // Any NaN equals any NaN.
    let odd = Tensor::new(F32, vec![1], 0xffc1_2345u32.to_le_bytes().to_vec()).unwrap();
    let reference = reference(F32, &[NAN]);
    assert_eq!(
        compare(&odd, &reference, &Tolerance::Exact, &PLAIN)
            .unwrap()
            .mismatches,
        0
    );
}

#[test]
fn zeros_keep_their_sign() {
    for tolerance in [Tolerance::Exact, Tolerance::Ulp(4.0)] {
        assert!(agrees(F32, -0.0, -0.0, &tolerance, &FLUSH));
        assert!(!agrees(F32, 0.0, -0.0, &tolerance, &FLUSH));
        assert!(!agrees(F32, -0.0, 0.0, &tolerance, &FLUSH));
        assert!(agrees(F8E5M2FNUZ, 0.0, -0.0, &tolerance, &PLAIN));
    }
    assert!(!sums_agree(-0.0, 0.0, 0.0, &accumulate(4, None), &PLAIN));
    assert!(sums_agree(-0.0, 0.0, 3.0, &accumulate(4, None), &PLAIN));
    // -0 and the initial value of a sum, +0: IEEE 754 makes it +0.
    assert!(sums_agree(0.0, -0.0, 0.0, &accumulate(4, None), &PLAIN));
    assert!(agrees(F32, -0.0, 0.0, &Tolerance::Norm(1.0), &PLAIN));
}

#[test]
fn ulps_are_those_of_the_result_type_at_the_reference() {
    // Below 2 the spacing is EPS, from 2 on 2·EPS.
    assert!(agrees(
        F32,
        1.5 + 2.0 * EPS,
        1.5,
        &Tolerance::Ulp(2.0),
        &PLAIN
    ));
    assert!(!agrees(
        F32,
        1.5 + 3.0 * EPS,
        1.5,
        &Tolerance::Ulp(2.0),
        &PLAIN
    ));
    assert!(agrees(
        F32,
        3.0 + 4.0 * EPS,
        3.0,
        &Tolerance::Ulp(2.0),
        &PLAIN
    ));
    assert!(agrees(
        BF16,
        1.0 + 2.0 * pow2(-7),
        1.0,
        &Tolerance::Ulp(2.0),
        &PLAIN
    ));
    assert!(!agrees(
        BF16,
        1.0 + 3.0 * pow2(-7),
        1.0,
        &Tolerance::Ulp(2.0),
        &PLAIN
    ));
    // What is correctly rounded always agrees.
    assert!(agrees(
        F32,
        1.0,
        1.0 + EPS / 4.0,
        &Tolerance::Ulp(0.0),
        &PLAIN
    ));
    // At zero, an ulp is the smallest subnormal.
    assert!(agrees(F32, pow2(-149), 0.0, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(F32, pow2(-148), 0.0, &Tolerance::Ulp(1.0), &PLAIN));
}

#[test]
fn the_edge_of_overflow_is_judged_by_distance() {
    let ulp = pow2(104);
    // Rounds to infinity in f32, but lies a quarter ulp from the edge.
    let over = MAX + 0.75 * ulp;
    assert!(agrees(F32, INF, over, &Tolerance::Exact, &PLAIN));
    assert!(!agrees(F32, MAX, over, &Tolerance::Exact, &PLAIN));
    assert!(agrees(F32, MAX, over, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(agrees(F32, INF, MAX, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(F32, INF, MAX - ulp, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(F32, -INF, MAX, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(F32, MAX, 1e300, &Tolerance::Ulp(4.0), &PLAIN));
    assert!(agrees(F32, INF, 1e300, &Tolerance::Ulp(4.0), &PLAIN));
    // f8e4m3fn: 448 is the largest, 480 would follow, overflow is NaN.
    assert!(agrees(F8E4M3FN, NAN, 448.0, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(F8E4M3FN, NAN, 416.0, &Tolerance::Ulp(1.0), &PLAIN));
}

#[test]
fn flushed_subnormals_are_zero_of_the_same_sign() {
    let subnormal = MIN_NORMAL / 2.0;
    assert!(agrees(F32, 0.0, subnormal, &Tolerance::Exact, &FLUSH));
    assert!(agrees(F32, -0.0, -subnormal, &Tolerance::Exact, &FLUSH));
    assert!(!agrees(F32, -0.0, subnormal, &Tolerance::Exact, &FLUSH));
    assert!(!agrees(F32, 0.0, subnormal, &Tolerance::Exact, &PLAIN));
    assert!(!agrees(F32, 0.0, MIN_NORMAL, &Tolerance::Exact, &FLUSH));
    assert!(agrees(F32, 0.0, subnormal, &Tolerance::Ulp(1.0), &FLUSH));
    assert!(!agrees(F32, 0.0, subnormal, &Tolerance::Ulp(1.0), &PLAIN));
    assert!(!agrees(
        F32,
        0.0,
        2.0 * MIN_NORMAL,
        &Tolerance::Ulp(1.0),
        &FLUSH
    ));
    // f16's subnormals are f32's normals: nothing flushes them.
    assert!(!agrees(F16, 0.0, pow2(-16), &Tolerance::Exact, &FLUSH));
}

/// A product just below the smallest normal of f64 rounds up to it, and is tiny all the same where results are flushed.
#[test]
fn a_rounded_reference_at_the_smallest_normal_may_have_been_flushed() {
    let smallest = pow2(-1022);
    assert!(agrees(F64, -0.0, -smallest, &Tolerance::Exact, &FLUSH));
    assert!(!agrees(F64, 0.0, -smallest, &Tolerance::Exact, &FLUSH));
    assert!(!agrees(F64, 0.0, smallest, &Tolerance::Exact, &PLAIN));
    assert!(!agrees(
        F64,
        0.0,
        smallest.next_up(),
        &Tolerance::Exact,
        &FLUSH
    ));
}

#[test]
fn what_may_be_flushed_is_no_error_in_the_figures() {
    let (got, expected) = ([0.0, 1.0], [MIN_NORMAL / 2.0, 1.0]);
    let flushed = check(F32, &got, &expected, &Tolerance::Exact, &FLUSH);
    assert_eq!(
        (flushed.max_abs, flushed.max_rel, flushed.max_ulp),
        (0.0, 0.0, 0.0)
    );
    // Half the smallest normal is 2²² steps of the smallest subnormal.
    let kept = check(F32, &got, &expected, &Tolerance::Exact, &PLAIN);
    assert_eq!((kept.max_rel, kept.max_ulp), (1.0, pow2(22)));
}

#[test]
fn sums_are_bounded_by_their_scale() {
    // u·|ref| + γ·scale with u = 2⁻²⁴: 8 terms give γ = 2⁻²¹/(1 − 2⁻²¹). ref = 1, scale = 16: 2⁻²⁴ + 2⁻¹⁷ and a little.
    let tolerance = accumulate(8, None);
    let bound = pow2(-24) + pow2(-17);
    assert!(sums_agree(1.0 + bound - EPS, 1.0, 16.0, &tolerance, &PLAIN));
    assert!(!sums_agree(
        1.0 + bound + EPS,
        1.0,
        16.0,
        &tolerance,
        &PLAIN
    ));
    // The passes count for nothing without a precision, or on a target that has none.
    assert!(!sums_agree(1.0 + pow2(-9), 1.0, 1.0, &tolerance, &TPU));
    assert!(!sums_agree(
        1.0 + pow2(-9),
        1.0,
        1.0,
        &accumulate(8, Some(Precision::Default)),
        &PLAIN
    ));
}

#[test]
fn a_tpu_rounds_operands_by_precision() {
    // One term: 2·2⁻⁸, 8·2⁻¹⁶ or 8·2⁻²⁴ of the scale, and f32's own roundings.
    for (precision, within, beyond) in [
        (Precision::Default, pow2(-7), pow2(-7) * 1.01),
        (Precision::High, 8.0 * pow2(-16), 8.1 * pow2(-16)),
        (Precision::Highest, 8.0 * pow2(-24), 16.0 * pow2(-24)),
    ] {
        let tolerance = accumulate(1, Some(precision));
        assert!(
            sums_agree(1.0 + within, 1.0, 1.0, &tolerance, &TPU),
            "{precision:?}"
        );
        assert!(
            !sums_agree(1.0 + beyond, 1.0, 1.0, &tolerance, &TPU),
            "{precision:?}"
        );
    }
}

/// (1 + 2⁻⁹)² is 1.0039 in f16; a matrix unit that takes both operands as 1 gives 1.
#[test]
fn a_tpu_rounds_f16_operands_to_bf16_at_default_precision() {
    let exact = 1.0 + pow2(-8);
    let reference = ReferenceTensor {
        yardstick: None,
        flushed: None,
        scale: Some(tensor(F64, &[exact])),
        ..reference(F16, &[exact])
    };
    let mismatches = |precision, numerics| {
        let tolerance = accumulate(1, Some(precision));
        let got = tensor(F16, &[1.0]);
        compare(&got, &reference, &tolerance, numerics)
            .unwrap()
            .mismatches
    };
    assert_eq!(mismatches(Precision::Default, &TPU), 0);
    assert_eq!(mismatches(Precision::Default, &PLAIN), 1);
    assert_eq!(mismatches(Precision::High, &TPU), 1);
    assert_eq!(mismatches(Precision::Highest, &TPU), 1);
}

/// The passes' bounds against products computed in passes.
#[test]
fn products_in_bf16_passes_stay_within_the_derived_error() {
    let bf16 = BF16.float_format().unwrap();
    // Of an f32: its leading eight bits.
    let cut = |x: f64| f64::from(f32::from_bits((x as f32).to_bits() & 0xffff_0000));
    let split = |x: f64| {
        let first = cut(x);
        let left = x - first;
        let second = cut(left);
        (
            first,
            bf16.round_to(left),
            second,
            bf16.round_to(left - second),
        )
    };
    let spec = crate::tensor::InputSpec {
        element_type: F32,
        shape: vec![20_000],
        domain: crate::tensor::Domain::Any,
    };
    let (a, b) = (
        spec.generate(3, 0).unwrap().to_f64(),
        spec.generate(3, 1).unwrap().to_f64(),
    );
    let mut worst = [0.0f64; 3];
    for (&a, &b) in a.iter().zip(&b) {
        let (x, y) = (split(a), split(b));
        let one = bf16.round_to(a) * bf16.round_to(b);
        let three = x.0 * y.0 + x.0 * y.1 + x.1 * y.0;
        let six = x.0 * y.0 + x.0 * y.2 + x.2 * y.0 + x.1 * y.1 + x.0 * y.3 + x.3 * y.0;
        for (worst, product) in worst.iter_mut().zip([one, three, six]) {
            *worst = worst.max((product - a * b).abs() / (a * b).abs());
        }
    }
    for (precision, worst) in [Precision::Default, Precision::High, Precision::Highest]
        .into_iter()
        .zip(worst)
    {
        let (_, bound) = bf16_passes(precision);
        assert!(
            worst <= bound && worst > bound / 40.0,
            "{precision:?}: {worst:e} of {bound:e}"
        );
    }
}

#[test]
fn gamma_grows_past_its_pole() {
    assert_eq!(gamma(1.0, 0.25), 0.25 / 0.75);
    assert_eq!(gamma(2.0, 0.25), 1.0);
    assert_eq!(gamma(1000.0, 0.25), 500.0);
}

#[test]
fn a_scale_past_the_accumulator_excuses_overflow_and_only_that() {
    let tolerance = accumulate(3, None);
    assert!(sums_agree(INF, 1.0, 1e39, &tolerance, &PLAIN));
    assert!(sums_agree(NAN, 1.0, 1e39, &tolerance, &PLAIN));
    assert!(!sums_agree(INF, 1.0, 1e38, &tolerance, &PLAIN));
    assert!(!sums_agree(1.0, INF, 1e39, &tolerance, &PLAIN));
    assert!(!sums_agree(2.0, 1.0, INF, &tolerance, &PLAIN));
}

#[test]
fn a_norm_bound_is_measured_at_the_largest_reference() {
    // 2·u·8 = 2⁻²⁰.
    let expected = [8.0, 1.0, INF];
    let got = |error: f64| [8.0, 1.0 + error, INF];
    let tolerance = Tolerance::Norm(2.0);
    assert_eq!(
        check(F32, &got(pow2(-20)), &expected, &tolerance, &PLAIN).mismatches,
        0
    );
    assert_eq!(
        check(F32, &got(pow2(-20) + EPS), &expected, &tolerance, &PLAIN).mismatches,
        1
    );
}

#[test]
fn complex_elements_are_bounded_as_a_whole() {
    let one = |got: [f64; 2], expected: [f64; 2], tolerance: &Tolerance| {
        check(C64, &got, &expected, tolerance, &PLAIN).mismatches == 0
    };
    // |ref| = 5: ulp 4·EPS. The imaginary part may be off by what is many ulp of its own.
    assert!(one([5.0, 4.0 * EPS], [5.0, 0.0], &Tolerance::Ulp(1.0)));
    assert!(!one([5.0, 4.5 * EPS], [5.0, 0.0], &Tolerance::Ulp(1.0)));
    assert!(one([5.0, -0.0], [5.0, 0.0], &Tolerance::Ulp(1.0)));
    assert!(!one([5.0, -0.0], [5.0, 0.0], &Tolerance::Exact));
    // A part that is not finite: by parts.
    assert!(one([INF, 1.0 + EPS], [INF, 1.0], &Tolerance::Ulp(1.0)));
    assert!(!one(
        [INF, 1.0 + 2.0 * EPS],
        [INF, 1.0],
        &Tolerance::Ulp(1.0)
    ));
    assert!(!one([INF, 1.0], [1.0, 1.0], &Tolerance::Ulp(1.0)));
    assert!(one([NAN, INF], [NAN, INF], &Tolerance::Exact));
}

#[test]
fn integers_and_bools_are_equal_or_not() {
    let big = |v: i64| Tensor::new(I64, vec![1], v.to_le_bytes().to_vec()).unwrap();
    let reference_tensor = ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: big(i64::MAX),
        element_type: I64,
        scale: None,
    };
    let comparison = compare(
        &big(i64::MAX - 1),
        &reference_tensor,
        &Tolerance::Ulp(9.0),
        &PLAIN,
    )
    .unwrap();
    assert_eq!((comparison.mismatches, comparison.max_abs), (1, 1.0));
    let first = comparison.first_mismatch.unwrap();
    assert_eq!(
        (first.got.as_str(), first.expected.as_str()),
        ("9223372036854775806", "9223372036854775807")
    );
    assert_eq!(
        check(Pred, &[1.0, 0.0], &[1.0, 1.0], &Tolerance::Exact, &PLAIN).mismatches,
        1
    );
    // An integer result needs no scale.
    assert_eq!(
        check(I4, &[-8.0], &[-8.0], &accumulate(3, None), &PLAIN).mismatches,
        0
    );
}

#[test]
fn a_reference_in_the_type_itself_serves_as_well() {
    let native = ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: tensor(BF16, &[1.5, NAN]),
        element_type: BF16,
        scale: None,
    };
    assert_eq!(
        compare(
            &tensor(BF16, &[1.5, NAN]),
            &native,
            &Tolerance::Exact,
            &PLAIN
        )
        .unwrap()
        .mismatches,
        0
    );
}
