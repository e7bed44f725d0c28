//! Scales and element types; the values themselves are compared by `compare`, which has its own tests.

use super::*;
use crate::tensor::ElementType;

fn reference(scale: Option<&[f64]>) -> ReferenceTensor {
    let f64s =
        |values: &[f64]| Tensor::from_f64(ElementType::F64, vec![values.len()], values).unwrap();
    ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: f64s(&[1.0, -2.0]),
        element_type: ElementType::F32,
        scale: scale.map(f64s),
    }
}

fn what(stored: &ReferenceTensor, again: &ReferenceTensor) -> String {
    same_frame(stored, again).unwrap_err()
}

#[test]
fn equal_scales_agree_whatever_they_hold() {
    let odd = [0.0, f64::INFINITY, f64::NAN, 5e-324];
    for scale in [None, Some(&odd[..])] {
        assert_eq!(same_frame(&reference(scale), &reference(scale)), Ok(()));
    }
    let rounded = [3.0 * (1.0 + 1e-12), 0.0];
    let stored = reference(Some(&[3.0, 0.0]));
    assert_eq!(same_frame(&stored, &reference(Some(&rounded))), Ok(()));
}

#[test]
fn another_scale_is_found_where_it_is() {
    let stored = reference(Some(&[3.0, 4.0]));
    for (again, expected) in [
        (
            reference(Some(&[3.0, 8.0])),
            "the scale differs, first at element 1: 8.0 now, 4.0 stored",
        ),
        (
            reference(Some(&[f64::INFINITY, 4.0])),
            "the scale differs, first at element 0: inf now, 3.0 stored",
        ),
        (
            reference(Some(&[3.0])),
            "the scale is f64[1] now, f64[2] stored",
        ),
        (reference(None), "a scale is stored, none was computed"),
    ] {
        assert_eq!(what(&stored, &again), expected);
    }
    assert_eq!(
        what(&reference(None), &stored),
        "no scale is stored, one was computed"
    );
}

#[test]
fn another_element_type_is_found() {
    let again = ReferenceTensor {
        yardstick: None,
        flushed: None,
        element_type: ElementType::BF16,
        ..reference(None)
    };
    assert_eq!(
        what(&reference(None), &again),
        "the case's own element type is bf16 now, f32 stored"
    );
}
