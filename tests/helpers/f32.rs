//! f32 tensors from and to plain numbers, for the tests of several targets.

use tpu_parity::tensor::{ElementType, Tensor};

pub fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes());
    Tensor::new(ElementType::F32, shape.to_vec(), data.collect()).unwrap()
}

pub fn as_f32s(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.element_type(), ElementType::F32);
    let values = tensor.data().chunks(4);
    values
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}
