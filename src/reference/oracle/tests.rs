//! What counts as agreement; the oracle's own arithmetic has tests beside it, in `oracle/tests`.

use super::*;
use crate::tensor::ElementType;

fn reference(values: &[f64], scale: Option<&[f64]>) -> ReferenceTensor {
    let f64s =
        |values: &[f64]| Tensor::from_f64(ElementType::F64, vec![values.len()], values).unwrap();
    ReferenceTensor {
        flushed: None,
        yardstick: None,
        values: f64s(values),
        element_type: ElementType::BF16,
        scale: scale.map(f64s),
    }
}

fn next(x: f64, steps: u64) -> f64 {
    f64::from_bits(x.to_bits() + steps)
}

#[test]
fn an_exact_result_is_equal_in_f64_and_not_merely_in_the_case_s_own_type() {
    let stored = reference(&[next(1.0, 1)], None);
    let said = agree(&stored, &reference(&[1.0], None), &Tolerance::Exact).unwrap_err();
    assert!(
        said.starts_with("1 of 1 elements differ, first at [0]: 1.0000000000000002"),
        "{said}"
    );
    assert_eq!(agree(&stored, &stored, &Tolerance::Exact), Ok(0.0));
}

#[test]
fn a_function_may_be_a_few_ulp_of_f64_off_and_the_distance_is_told() {
    let stored = reference(&[next(1.0, 3), f64::NAN, f64::INFINITY], None);
    let truth = reference(&[1.0, f64::NAN, f64::INFINITY], None);
    assert_eq!(agree(&stored, &truth, &Tolerance::Ulp(1.0)), Ok(3.0));
    let far = reference(&[next(1.0, 129), f64::NAN, f64::INFINITY], None);
    assert!(agree(&far, &truth, &Tolerance::Ulp(1.0)).is_err());
    // In f64 itself an ulp of the reference is an ulp of the result.
    let mut own = reference(&[next(1.0, 9), f64::NAN, f64::INFINITY], None);
    own.element_type = ElementType::F64;
    let mut truth = truth;
    truth.element_type = ElementType::F64;
    assert!(agree(&own, &truth, &Tolerance::Ulp(1.0)).is_err());
}

#[test]
fn a_sum_is_judged_by_its_scale_and_the_scale_by_itself() {
    let tolerance = Tolerance::Accumulate {
        terms: 4,
        accumulator: ElementType::F32,
        precision: None,
    };
    let truth = reference(&[0.0], Some(&[4.0]));
    let near = reference(&[1e-15], Some(&[4.0]));
    assert_eq!(agree(&near, &truth, &tolerance), Ok(0.0));
    assert!(agree(&reference(&[1e-12], Some(&[4.0])), &truth, &tolerance).is_err());
    let said = agree(&reference(&[0.0], Some(&[2.0])), &truth, &tolerance).unwrap_err();
    assert_eq!(
        said,
        "the scale differs, first at element 0: 2.0 stored, 4.0 by the oracle"
    );
}

#[test]
fn distances_are_counted_up_to_powers_of_two() {
    let buckets: Vec<u32> = [0.0, 0.4, 1.0, 1.5, 3.0, 8.1].map(bucket).to_vec();
    assert_eq!(buckets, [0, 1, 1, 2, 4, 16]);
}
