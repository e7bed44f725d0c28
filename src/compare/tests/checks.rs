//! StableHLO's checks as tolerances, by hand arithmetic.

use super::*;

/// `check.expect_close`: a count of values, whatever their spacing, with zeros and NaN of any kind alike.
#[test]
fn distance_is_counted_in_values_of_the_element_type() {
    let three = Tolerance::Distance(3);
    let up = |x: f32, n: i32| f64::from(f32::from_bits((x.to_bits() as i32 + n) as u32));
    assert!(agrees(F32, up(1.0, 3), 1.0, &three, &PLAIN));
    assert!(!agrees(F32, up(1.0, 4), 1.0, &three, &PLAIN));
    assert!(agrees(F32, up(1.0, -2), up(1.0, 1), &three, &PLAIN));
    assert!(!agrees(F32, up(1.0, -3), up(1.0, 1), &three, &PLAIN));
    assert!(agrees(F32, -0.0, 0.0, &Tolerance::Distance(0), &PLAIN));
    assert!(agrees(F32, NAN, NAN, &three, &PLAIN));
    assert!(agrees(F32, INF, INF, &three, &PLAIN));
    assert!(!agrees(F32, MAX, INF, &three, &PLAIN));
    assert!(!agrees(F32, INF, MAX, &three, &PLAIN));
    assert!(!agrees(F32, -INF, INF, &three, &PLAIN));
    assert!(!agrees(F32, NAN, 1.0, &three, &PLAIN));
    // bf16's 2⁻⁷ above 1 is one step.
    assert!(agrees(
        BF16,
        1.0 + pow2(-7),
        1.0,
        &Tolerance::Distance(1),
        &PLAIN
    ));
}

/// `check.expect_almost_eq`.
#[test]
fn an_absolute_bound_holds_at_every_magnitude() {
    let milli = Tolerance::Absolute(1e-3);
    assert!(agrees(F64, 1.0009, 1.0, &milli, &PLAIN));
    assert!(!agrees(F64, 1.0011, 1.0, &milli, &PLAIN));
    assert!(!agrees(F64, 1e9 + 1.0, 1e9, &milli, &PLAIN));
    assert!(agrees(F64, -1e-4, 0.0, &milli, &PLAIN));
    assert!(agrees(F64, NAN, NAN, &milli, &PLAIN));
    assert!(!agrees(F64, NAN, 0.0, &milli, &PLAIN));
    assert!(!agrees(F64, MAX, INF, &milli, &PLAIN));
}

/// Where a modulus would let the error of a small part hide behind a large one.
#[test]
fn checks_judge_a_complex_element_by_its_parts() {
    let off = |re: f64, im: f64, tolerance: &Tolerance| {
        check(C64, &[re, im], &[1e6, 1.0], tolerance, &PLAIN).mismatches
    };
    assert_eq!(off(1e6, 1.0 + 3.0 * EPS, &Tolerance::Distance(3)), 0);
    assert_eq!(off(1e6, 1.0 + 4.0 * EPS, &Tolerance::Distance(3)), 1);
    assert_eq!(off(1e6, 1.0005, &Tolerance::Absolute(1e-3)), 0);
    assert_eq!(off(1e6, 1.002, &Tolerance::Absolute(1e-3)), 1);
}

#[test]
fn checks_leave_a_target_free_to_flush_subnormals() {
    let zero = Tolerance::Distance(0);
    assert!(agrees(F32, 0.0, 1e-40, &zero, &FLUSH));
    assert!(!agrees(F32, 0.0, 1e-40, &zero, &PLAIN));
    assert!(!agrees(F32, -0.0, 1e-40, &zero, &FLUSH));
}

#[test]
fn an_impossible_absolute_bound_is_the_cases_fault() {
    let error = compare(
        &tensor(F32, &[1.0]),
        &reference(F32, &[1.0]),
        &Tolerance::Absolute(f64::NAN),
        &PLAIN,
    );
    assert!(matches!(error, Err(CompareError::Tolerance(_))));
}
