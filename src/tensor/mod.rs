//! Element types, dense host tensors, seeded inputs and safetensors.
//!
//! A tensor here is plain host memory in row-major order; it knows nothing of devices.

mod approximate;
pub(crate) mod codec;
mod display;
mod domain;
mod element_type;
mod error;
pub mod format;
mod generate;
pub(crate) mod random;
pub mod safetensors;
mod text;

pub use approximate::Scalar;
pub use domain::{Domain, InputSpec};
pub use element_type::ElementType;
pub use error::{Result, TensorError};
pub use format::FloatFormat;

use serde::{Deserialize, Serialize};

/// A dense, row-major host tensor.
///
/// Elements are stored little-endian. A sub-byte element (i2, u2, i4, u4, f4, f6) takes one byte, its bits in the low end;
/// signed sub-byte integers are sign-extended to the byte. `pred` is one byte, 0 or 1. Complex is real then imaginary.
/// `==` compares bits: a NaN equals itself, −0 does not equal +0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "text::TensorText", into = "text::TensorText")]
pub struct Tensor {
    element_type: ElementType,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// Elements of a shape; an error when their bytes would not fit in memory.
fn count(element_type: ElementType, shape: &[usize]) -> Result<usize> {
    let too_large = || TensorError::TooLarge {
        element_type,
        shape: shape.to_vec(),
    };
    let elements = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .ok_or_else(too_large)?;
    match elements.checked_mul(element_type.bytes()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(elements),
        _ => Err(too_large()),
    }
}

impl Tensor {
    /// A tensor of these bytes. The unused high bits of sub-byte elements are ignored (and made canonical).
    ///
    /// # Errors
    /// When the bytes are not as many as the shape needs, or a `pred` is neither 0 nor 1.
    pub fn new(element_type: ElementType, shape: Vec<usize>, mut data: Vec<u8>) -> Result<Self> {
        let expected = count(element_type, &shape)? * element_type.bytes();
        if data.len() != expected {
            return Err(TensorError::Length {
                element_type,
                shape,
                expected,
                actual: data.len(),
            });
        }
        let bits = element_type.bits();
        if element_type == ElementType::Pred {
            if let Some(index) = data.iter().position(|&byte| byte > 1) {
                return Err(TensorError::Pred {
                    index,
                    byte: data[index],
                });
            }
        } else if bits < 8 {
            let unused = 8 - bits;
            for byte in &mut data {
                *byte = if element_type.is_signed_integer() {
                    ((*byte << unused) as i8 >> unused) as u8
                } else {
                    *byte << unused >> unused
                };
            }
        }
        Ok(Self {
            element_type,
            shape,
            data,
        })
    }

    /// All bits zero: 0 in every type but `f8e8m0fnu`, which has no zero and holds 2⁻¹²⁷.
    pub fn zeros(element_type: ElementType, shape: Vec<usize>) -> Result<Self> {
        let data = vec![0; count(element_type, &shape)? * element_type.bytes()];
        Self::new(element_type, shape, data)
    }

    /// Values converted to the type: floats round to nearest even, with the overflow rule of
    /// [`format::Specials`]; integers round toward zero and saturate, NaN gives 0; `pred` is true unless the value is 0.
    /// Complex types take two values an element, real then imaginary.
    pub fn from_f64(element_type: ElementType, shape: Vec<usize>, values: &[f64]) -> Result<Self> {
        let parts = if element_type.is_complex() { 2 } else { 1 };
        let expected = count(element_type, &shape)? * parts;
        if values.len() != expected {
            return Err(TensorError::Values {
                element_type,
                shape,
                expected,
                actual: values.len(),
            });
        }
        let mut data = Vec::with_capacity(values.len() * codec::component_bytes(element_type));
        codec::encode(element_type, values, &mut data);
        Ok(Self {
            element_type,
            shape,
            data,
        })
    }

    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn data(&self) -> &[u8] {
        &self.data
    }

    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// Elements, a complex one counted once.
    pub fn len(&self) -> usize {
        self.data.len() / self.element_type.bytes()
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The bits of element `index`, in the low end; sub-byte elements without their sign extension.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len), as slices do.
    pub fn bits(&self, index: usize) -> u128 {
        let width = self.element_type.bytes();
        let mut bytes = [0; 16];
        bytes[..width].copy_from_slice(&self.data[index * width..(index + 1) * width]);
        let bits = self.element_type.bits();
        let mask = if bits == 128 {
            u128::MAX
        } else {
            (1 << bits) - 1
        };
        u128::from_le_bytes(bytes) & mask
    }

    /// Every value as f64; complex types give real and imaginary parts in turn. Exact but for 64-bit integers past 2⁵³.
    pub fn to_f64(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.data.len() / codec::component_bytes(self.element_type)];
        codec::decode(self.element_type, &self.data, &mut values);
        values
    }

    /// Value `index` of [`to_f64`](Self::to_f64), without the others.
    ///
    /// # Panics
    /// When there is no such value, as slices do.
    pub fn get_f64(&self, index: usize) -> f64 {
        let width = codec::component_bytes(self.element_type);
        let mut value = [0.0];
        codec::decode(
            self.element_type,
            &self.data[index * width..(index + 1) * width],
            &mut value,
        );
        value[0]
    }

    /// The same values in the type that references are computed in: floats in f64, complex in c128, others unchanged. Exact.
    pub fn widen(&self) -> Tensor {
        let element_type = self.element_type.widened();
        if element_type == self.element_type {
            return self.clone();
        }
        let mut data = Vec::with_capacity(self.len() * element_type.bytes());
        codec::encode(element_type, &self.to_f64(), &mut data);
        Tensor {
            element_type,
            shape: self.shape.clone(),
            data,
        }
    }

    /// The values in another type, as [`from_f64`](Self::from_f64) converts them; between integers exact or saturated.
    /// A real value becomes complex with imaginary part 0.
    ///
    /// # Errors
    /// From complex to a type that is not.
    pub fn convert(&self, to: ElementType) -> Result<Tensor> {
        let from = self.element_type;
        if from == to {
            return Ok(self.clone());
        }
        if from.is_complex() && !to.is_complex() {
            return Err(TensorError::Conversion { from, to });
        }
        let wide = |t: ElementType| matches!(t, ElementType::I64 | ElementType::U64);
        if wide(from) && to.is_integer() {
            return self.convert_wide_integers(to);
        }
        let mut values = self.to_f64();
        if to.is_complex() && !from.is_complex() {
            values = values.into_iter().flat_map(|re| [re, 0.0]).collect();
        }
        Self::from_f64(to, self.shape.clone(), &values)
    }

    /// 64-bit integers to any integer type without the detour over f64, which would round them.
    fn convert_wide_integers(&self, to: ElementType) -> Result<Tensor> {
        let bits = to.bits() as u32;
        let (low, high) = if to.is_signed_integer() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        let (chunks, _) = self.data.as_chunks::<8>();
        let signed = self.element_type == ElementType::I64;
        let mut data = Vec::with_capacity(chunks.len() * to.bytes());
        for chunk in chunks {
            let value = if signed {
                i128::from(i64::from_le_bytes(*chunk))
            } else {
                i128::from(u64::from_le_bytes(*chunk))
            };
            data.extend_from_slice(&value.clamp(low, high).to_le_bytes()[..to.bytes()]);
        }
        Tensor::new(to, self.shape.clone(), data)
    }

    /// BLAKE3, in hex, over the type's name, a zero byte, the rank and the dimensions as little-endian u64, and the data.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.element_type.name().as_bytes());
        hasher.update(&[0]);
        hasher.update(&(self.shape.len() as u64).to_le_bytes());
        for &dimension in &self.shape {
            hasher.update(&(dimension as u64).to_le_bytes());
        }
        hasher.update(&self.data);
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod domain_tests;
#[cfg(test)]
mod golden_tests;

#[cfg(test)]
mod tests;
