//! Element types, dense host tensors, seeded inputs and safetensors.
//!
//! A tensor here is plain host memory in row-major order; it knows nothing of devices.

mod element_type;

pub use element_type::ElementType;

use serde::{Deserialize, Serialize};

/// A dense, row-major host tensor.
///
/// Elements are stored little-endian. A sub-byte element (i2, u2, i4, u4, f4, f6) takes one byte, its bits in the low end;
/// signed sub-byte integers are sign-extended to the byte. `pred` is one byte, 0 or 1. Complex is real then imaginary.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    element_type: ElementType,
    shape: Vec<usize>,
    data: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorError {
    #[error("{element_type}{shape:?} takes {expected} bytes, not {given}")]
    Length {
        element_type: ElementType,
        shape: Vec<usize>,
        expected: usize,
        given: usize,
    },
}

impl Tensor {
    pub fn new(
        element_type: ElementType,
        shape: Vec<usize>,
        data: Vec<u8>,
    ) -> Result<Self, TensorError> {
        let expected = shape.iter().product::<usize>() * element_type.bytes();
        if data.len() != expected {
            return Err(TensorError::Length {
                element_type,
                shape,
                expected,
                given: data.len(),
            });
        }
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
}

/// What an operand holds: element type, shape, and the domain its values are drawn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputSpec {
    pub element_type: ElementType,
    pub shape: Vec<usize>,
    pub domain: Domain,
}

/// The set that seeded values are drawn from. Every domain yields values that the element type represents exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Floats and complex parts: standard normal. Integers: uniform over the type's whole range. `pred`: fair coin.
    Any,
    /// Floats: log-uniform in [2⁻⁴, 2⁴]. Integers: 1 ..= min(100, max).
    Positive,
    /// Floats: uniform in [0, 1).
    Unit,
    /// Floats: uniform in [lo, hi).
    Uniform { lo: f64, hi: f64 },
    /// Uniform integers lo ..= hi, as integers or as floats of that value.
    Integers { lo: i64, hi: i64 },
    /// Like `Any`, never zero.
    Nonzero,
    /// Along the last dimension, a random permutation of 0 .. n (distinct values; for sort, gather, scatter).
    Permutation,
    /// Zeros of both signs, infinities, NaN, ±1, extremes, the smallest normals, ties and neighbours of powers of two,
    /// cycled in a seeded order. Integers: 0, ±1, extremes and their neighbours. No subnormals.
    Special,
    /// Subnormals of both signs, the smallest normals and zeros.
    Subnormal,
    /// Symmetric positive definite matrices in the last two dimensions (for cholesky).
    PositiveDefinite,
    /// Well-conditioned triangular matrices: off-diagonal normal scaled by 1/n, diagonal in ±[1, 2).
    Triangular,
    /// Exactly these values, cycled in row-major order.
    Values(Vec<f64>),
}
