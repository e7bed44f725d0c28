//! Behaviour of tensors and of seeded inputs as a whole.

use super::*;
use ElementType::*;

fn tensor(element_type: ElementType, values: &[f64]) -> Tensor {
    let parts = if element_type.is_complex() { 2 } else { 1 };
    Tensor::from_f64(element_type, vec![values.len() / parts], values).unwrap()
}

#[test]
fn bytes_must_fit_the_shape() {
    let error = Tensor::new(F32, vec![2, 3], vec![0; 20]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a tensor of f32 with shape [2, 3] takes 24 bytes, not 20"
    );
    assert!(Tensor::new(F32, vec![0, 3], vec![]).unwrap().is_empty());
    assert!(matches!(
        Tensor::zeros(F64, vec![usize::MAX, 2]),
        Err(TensorError::TooLarge { .. })
    ));
}

#[test]
fn the_unused_bits_of_small_elements_are_canonical() {
    let signed = Tensor::new(I4, vec![2], vec![0x0f, 0x37]).unwrap();
    assert_eq!(signed.data(), [0xff, 0x07]);
    assert_eq!(signed.to_f64(), [-1.0, 7.0]);
    assert_eq!(signed.bits(0), 0xf);
    assert_eq!(
        Tensor::new(F6E3M2FN, vec![1], vec![0xff]).unwrap().data(),
        [0x3f]
    );
    assert_eq!(
        Tensor::new(Pred, vec![2], vec![1, 2]).unwrap_err(),
        TensorError::Pred { index: 1, byte: 2 }
    );
}

#[test]
fn integers_truncate_and_saturate() {
    assert_eq!(
        tensor(I4, &[7.9, -8.9, 100.0, f64::NAN]).to_f64(),
        [7.0, -8.0, 7.0, 0.0]
    );
    assert_eq!(tensor(U2, &[3.2, -1.0, 9.0]).to_f64(), [3.0, 0.0, 3.0]);
    assert_eq!(
        tensor(I64, &[1e30, -1e30]).format_element(0),
        i64::MAX.to_string()
    );
    assert_eq!(
        tensor(Pred, &[0.0, -0.0, 0.5, f64::NAN]).to_f64(),
        [0.0, 0.0, 1.0, 1.0]
    );
}

#[test]
fn large_integers_convert_without_rounding() {
    let data = [i64::MAX, i64::MIN, (1 << 53) + 1]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let t = Tensor::new(I64, vec![3], data).unwrap();
    let u = t.convert(U64).unwrap();
    assert_eq!(u.bits(0), i64::MAX as u128);
    assert_eq!(u.bits(1), 0);
    assert_eq!(u.bits(2), (1 << 53) + 1);
    assert_eq!(t.convert(I4).unwrap().to_f64(), [7.0, -8.0, 7.0]);
}

#[test]
fn complex_converts_from_real_and_not_back() {
    let c = tensor(F16, &[1.5, -2.0]).convert(C64).unwrap();
    assert_eq!(c.to_f64(), [1.5, 0.0, -2.0, 0.0]);
    assert_eq!(c.widen().element_type(), C128);
    assert!(matches!(
        c.convert(F32),
        Err(TensorError::Conversion { .. })
    ));
}

#[test]
fn elements_read_as_their_shortest_decimal() {
    for (element_type, value, expected) in [
        (F32, 0.1f32 as f64, "0.1"),
        (F32, -0.0, "-0"),
        (F32, f64::NAN, "NaN"),
        (F32, f64::NEG_INFINITY, "-inf"),
        (F32, 1e20, "1e20"),
        (F64, 0.1, "0.1"),
        (F64, 3.0, "3"),
        (BF16, 0.1, "0.1"),
        (F16, 65504.0, "65500"),
        (F16, 1.0 / 3.0, "0.3333"),
        (F8E4M3FN, 448.0, "448"),
        (F8E8M0FNU, 0.25, "0.25"),
        (I4, -8.0, "-8"),
        (U64, 7.0, "7"),
        (Pred, 1.0, "true"),
    ] {
        assert_eq!(
            tensor(element_type, &[value]).format_element(0),
            expected,
            "{element_type}"
        );
    }
    assert_eq!(tensor(C64, &[1.0, -0.5]).format_element(0), "(1,-0.5)");
}

#[test]
fn hashes_tell_type_and_shape_apart() {
    let a = Tensor::zeros(F32, vec![2, 3]).unwrap();
    let b = Tensor::zeros(F32, vec![3, 2]).unwrap();
    let c = Tensor::zeros(I32, vec![2, 3]).unwrap();
    assert_ne!(a.hash(), b.hash());
    assert_ne!(a.hash(), c.hash());
    assert_eq!(a.hash(), a.clone().hash());
}
