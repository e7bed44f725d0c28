//! Decides whether a target's result agrees with its reference, and measures by how much it does not.

use serde::{Deserialize, Serialize};

/// How far a float result may lie from its reference. Integers, bools, shapes, element types, NaN positions, infinities and
/// signs of zero are compared exactly whatever the tolerance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// Equal to the reference once that is rounded to the element type. Any NaN equals any NaN.
    Exact,
    /// Within this many ulp of the result's element type, measured at the reference.
    Ulp(f64),
    /// A sum of `terms` products: `|got − ref| ≤ u_out·|ref| + γ(terms, u_acc)·scale` (+ the operand rounding of a TPU's matrix
    /// unit at `precision`), scale being the same program on the absolute values of the inputs.
    Accumulate {
        terms: u64,
        /// The element type that partial sums are kept in.
        accumulator: crate::tensor::ElementType,
        /// Set for programs that use the matrix unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        precision: Option<Precision>,
    },
    /// `|got − ref| ≤ factor · u · max|ref|`: for factorisations, solves and transforms, whose errors are bounded in norm.
    Norm(f64),
}

/// StableHLO's `precision_config`: on a TPU, one, three or six bf16 passes for f32 operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Default,
    High,
    Highest,
}

/// What one result's comparison measured. Figures cover the finite elements of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub elements: u64,
    pub mismatches: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<Mismatch>,
    pub max_abs: f64,
    pub max_rel: f64,
    /// In ulp of the result's element type.
    pub max_ulp: f64,
    /// `‖got − ref‖₂ / ‖ref‖₂`
    pub relative_l2: f64,
    pub cosine: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    pub index: Vec<usize>,
    pub got: String,
    pub expected: String,
}
