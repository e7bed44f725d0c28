//! f64 as two f32: what a TPU's arithmetic may be off, by hand arithmetic, and what it may not.

use super::*;

/// 3 + 2⁻⁴⁰, whose last digit a pair of f32 holds.
const X: f64 = 3.0 + 1.0 / (1u64 << 40) as f64;

fn off(relative: f64) -> f64 {
    X * (1.0 + relative)
}

#[test]
fn one_rounding_is_16_squared_roundoffs_of_f32() {
    for tolerance in [Tolerance::Exact, Tolerance::Distance(0)] {
        // 2⁻⁴⁴ of 3 lies within half the spacing of 44 digits at 2, 2⁻⁴³; four times that does not.
        assert!(agrees(F64, off(pow2(-45)), X, &tolerance, &TPU));
        assert!(!agrees(F64, off(pow2(-42)), X, &tolerance, &TPU));
        assert!(!agrees(F64, off(pow2(-45)), X, &tolerance, &FLUSH));
    }
    // A part lost is never within it.
    assert!(!agrees(F64, 3.0, X, &Tolerance::Exact, &TPU));
}

#[test]
fn ulps_sums_and_norms_count_in_the_same_roundoff() {
    let ulp = Tolerance::Ulp(4.0);
    assert!(agrees(F64, off(pow2(-42)), X, &ulp, &TPU));
    assert!(!agrees(F64, off(pow2(-40)), X, &ulp, &TPU));
    let norm = Tolerance::Norm(2.0);
    assert!(agrees(F64, off(pow2(-44)), X, &norm, &TPU));
    assert!(!agrees(F64, off(pow2(-42)), X, &norm, &TPU));
    let sum = Tolerance::Accumulate {
        terms: 8,
        accumulator: F64,
        precision: None,
    };
    let with_scale = |got: f64, numerics: &Numerics| {
        let mut expected = reference(F64, &[X]);
        expected.scale = Some(tensor(F64, &[X]));
        let compared = compare(&tensor(F64, &[got]), &expected, &sum, numerics);
        compared.unwrap().mismatches == 0
    };
    // Of nine roundings.
    assert!(with_scale(off(pow2(-41)), &TPU));
    assert!(!with_scale(off(pow2(-40)), &TPU));
    assert!(!with_scale(off(pow2(-41)), &FLUSH));
}

#[test]
fn the_range_is_that_of_f32() {
    let exact = Tolerance::Exact;
    for large in [1e39, -1e300] {
        let infinity = f64::INFINITY.copysign(large);
        assert!(agrees(F64, infinity, large, &exact, &TPU));
        assert!(agrees(F64, large, large, &exact, &TPU));
        assert!(!agrees(F64, -infinity, large, &exact, &TPU));
        assert!(!agrees(F64, infinity, large, &exact, &FLUSH));
    }
    assert!(!agrees(F64, f64::INFINITY, 1e38, &exact, &TPU));
    // Below 2⁻¹²⁶ all may be flushed, of either half.
    assert!(agrees(F64, 0.0, 1e-300, &exact, &TPU));
    assert!(!agrees(F64, 0.0, pow2(-125), &exact, &TPU));
    assert!(!agrees(F64, 0.0, 1e-300, &exact, &FLUSH));
}

#[test]
fn zeros_lose_their_sign_and_nothing_else_is_forgiven() {
    let exact = Tolerance::Exact;
    assert!(agrees(F64, 0.0, -0.0, &exact, &TPU));
    assert!(!agrees(F64, 0.0, -0.0, &exact, &FLUSH));
    assert!(!agrees(F64, f64::NAN, 1.0, &exact, &TPU));
    assert!(!agrees(F64, 1.0, f64::NAN, &exact, &TPU));
    assert!(!agrees(F64, f64::NAN, f64::INFINITY, &exact, &TPU));
    assert!(agrees(F64, f64::INFINITY, f64::INFINITY, &exact, &TPU));
    // Other types are what they are.
    assert!(!agrees(F32, 0.0, -0.0, &exact, &TPU));
    assert!(!agrees(F32, 3.0 + pow2(-22), 3.0, &exact, &TPU));
}

#[test]
fn figures_are_in_f64s_own_ulp() {
    let got = check(F64, &[1.0 + pow2(-46)], &[1.0], &Tolerance::Exact, &TPU);
    assert_eq!((got.mismatches, got.max_ulp), (0, 64.0));
}

#[test]
fn complex_parts_are_pairs_too() {
    let (got, expected) = ([off(pow2(-45)), 0.0], [X, -0.0]);
    let mismatches = |numerics| {
        let compared = check(C128, &got, &expected, &Tolerance::Exact, numerics);
        compared.mismatches
    };
    assert_eq!((mismatches(&TPU), mismatches(&FLUSH)), (0, 1));
}

#[test]
fn a_virtual_tpu_has_them_whatever_its_products_do() {
    let (mxu, exact) = (
        Numerics::of_virtual(MxuNumerics::Mxu),
        Numerics::of_virtual(MxuNumerics::Exact),
    );
    assert_eq!(mxu, Numerics::for_platform("tpu"));
    assert!(exact.f64_as_f32_pairs && !exact.matmul_bf16_passes && exact.flush_subnormals);
    assert!(!Numerics::for_platform("cpu").f64_as_f32_pairs);
}
