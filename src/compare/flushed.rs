//! Subnormal inputs that a target takes for zeros: which of two right values an element is measured against.

use super::ReferenceTensor;
use crate::tensor::{FloatFormat, Tensor};

/// Below this magnitude a target that flushes may take a value of the format for zero: IEEE 754's smallest normal of formats with
/// f32's exponent range or more. `None` of smaller formats, which are computed in f32, where their subnormals are normal.
pub fn flushable(format: &FloatFormat) -> Option<f64> {
    (format.exponent_bits >= 8 && format.has_subnormals()).then(|| format.min_normal())
}

/// The reference with, of each element, the nearer to `got` of its value and its value for flushed inputs.
pub(super) fn nearer(
    got: &Tensor,
    reference: &ReferenceTensor,
    flushed: &Tensor,
) -> ReferenceTensor {
    let mut values = reference.values.clone();
    let size = values.data().len() / values.len().max(1);
    let parts = if values.element_type().is_complex() {
        2
    } else {
        1
    };
    let exact = reference.values.to_f64();
    let zeroed = flushed.to_f64();
    let got = got.to_f64();
    let mut data = values.data().to_vec();
    for (element, got) in got.chunks_exact(parts).enumerate() {
        let at = element * parts..(element + 1) * parts;
        let (exact, zeroed) = (&exact[at.clone()], &zeroed[at]);
        if distance(got, zeroed) < distance(got, exact) {
            let bytes = element * size..(element + 1) * size;
            data[bytes.clone()].copy_from_slice(&flushed.data()[bytes]);
        }
    }
    if let Ok(chosen) = Tensor::new(values.element_type(), values.shape().to_vec(), data) {
        values = chosen;
    }
    ReferenceTensor {
        values,
        ..reference.clone()
    }
}

/// The largest difference of two elements' parts. Of two NaNs or equal infinities none; of a zero and the other zero a little.
fn distance(got: &[f64], value: &[f64]) -> f64 {
    let part = |(got, value): (&f64, &f64)| {
        if got.to_bits() == value.to_bits() || got.is_nan() && value.is_nan() {
            0.0
        } else if got == value {
            f64::MIN_POSITIVE
        } else {
            let difference = (got - value).abs();
            if difference.is_nan() {
                f64::INFINITY
            } else {
                difference
            }
        }
    };
    got.iter().zip(value).map(part).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use crate::compare::{Numerics, ReferenceTensor, Tolerance, compare};
    use crate::tensor::{ElementType, Tensor};

    fn mismatches(
        element_type: ElementType,
        got: &[f64],
        exact: &[f64],
        zeroed: &[f64],
        flush: bool,
    ) -> u64 {
        let parts = if element_type.is_complex() { 2 } else { 1 };
        let tensor = |t: ElementType, values: &[f64]| {
            Tensor::from_f64(t, vec![values.len() / parts], values).unwrap()
        };
        let reference = ReferenceTensor {
            yardstick: None,
            values: tensor(element_type.widened(), exact),
            element_type,
            scale: None,
            flushed: Some(tensor(element_type.widened(), zeroed)),
        };
        let numerics = Numerics {
            matmul_bf16_passes: false,
            flush_subnormals: flush,
            f64_as_f32_pairs: false,
        };
        let got = tensor(element_type, got);
        let comparison = compare(&got, &reference, &Tolerance::Ulp(3.0), &numerics).unwrap();
        comparison.mismatches
    }

    /// log 1e-40 = −92.103…, and log 0 = −∞; 1e-40 · 2¹⁰⁰ = 1.2676506e-10, and 0 · 2¹⁰⁰ = 0.
    #[test]
    fn a_target_that_flushes_may_take_a_subnormal_for_zero() {
        let exact = [-92.103_403_719_761_83, 1.267_650_600_228_229_4e-10];
        let zeroed = [f64::NEG_INFINITY, 0.0];
        for got in [exact, zeroed, [exact[0], zeroed[1]], [zeroed[0], exact[1]]] {
            assert_eq!(
                mismatches(ElementType::F32, &got, &exact, &zeroed, true),
                0,
                "{got:?}"
            );
        }
        assert_eq!(
            mismatches(ElementType::F32, &zeroed, &exact, &zeroed, false),
            2
        );
        assert_eq!(
            mismatches(ElementType::F32, &exact, &exact, &zeroed, false),
            0
        );
    }

    #[test]
    fn what_is_neither_value_is_wrong() {
        let exact = [-92.103_403_719_761_83, 1.0];
        let zeroed = [f64::NEG_INFINITY, 1.0];
        let wrong = [-91.0, f64::NEG_INFINITY];
        assert_eq!(
            mismatches(ElementType::F32, &wrong, &exact, &zeroed, true),
            2
        );
    }

    #[test]
    fn the_parts_of_a_complex_element_are_of_one_kind() {
        let (exact, zeroed) = ([1.0, 2.0], [3.0, 4.0]);
        assert_eq!(
            mismatches(ElementType::C64, &zeroed, &exact, &zeroed, true),
            0
        );
        assert_eq!(
            mismatches(ElementType::C64, &[1.0, 4.0], &exact, &zeroed, true),
            1
        );
    }
}
