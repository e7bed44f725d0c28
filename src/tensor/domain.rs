//! What an operand holds: the declaration that seeded inputs are made from.

use serde::{Deserialize, Serialize};

use super::ElementType;

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
    /// Floats and complex parts: (1 + u)·2ᵏ with u uniform in [0, 1) and k in −4 ..= 3, within the type's positive values.
    /// Integers: 1 ..= min(100, max). `pred`: true.
    Positive,
    /// Floats and complex parts: uniform in [0, 1).
    Unit,
    /// Floats and complex parts: uniform in [lo, hi).
    Uniform { lo: f64, hi: f64 },
    /// Uniform integers lo ..= hi, as integers or as floats of that value (where the type skips integers, a near one in the range).
    Integers { lo: i64, hi: i64 },
    /// Like `Any`, never zero: what rounds to zero becomes 1 (floats: with its sign).
    Nonzero,
    /// Along the last dimension, a random permutation of 0 .. n (distinct values; for sort, gather, scatter).
    Permutation,
    /// Zeros of both signs, infinities, NaN, ±1, extremes, the smallest normals, ties and neighbours of powers of two,
    /// cycled in a seeded order. Integers: 0, ±1, extremes and their neighbours. No subnormals.
    Special,
    /// Subnormals of both signs, the smallest normals and zeros.
    Subnormal,
    /// Symmetric (Hermitian) positive definite matrices in the last two dimensions, floats and complex (for cholesky):
    /// B·Bᴴ + n·I with B of −1, 0 and 1, so every element is a small integer.
    PositiveDefinite,
    /// Matrices for triangular solves, well-conditioned: off-diagonal normal scaled by 1/n, diagonal in ±[1, 2). Both
    /// triangles are filled, so that they serve `lower` and upper and a solver that reads the wrong one is caught.
    Triangular,
    /// These values, cycled in row-major order (complex: real and imaginary parts in turn). Floats round to the type and
    /// must not overflow; integers must be whole and in range.
    Values(#[serde(with = "any_f64")] Vec<f64>),
    /// These very bits: the elements of the operand as a [`super::Tensor`] holds them.
    Literal(#[serde(with = "super::text::in_base64")] Vec<u8>),
}

/// JSON has no NaN or infinity: they travel as the strings `NaN`, `inf` and `-inf`.
mod any_f64 {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Value {
        Number(f64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|&v| {
            if v.is_finite() {
                Value::Number(v)
            } else {
                Value::Text(v.to_string())
            }
        }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Vec::<Value>::deserialize(deserializer)?
            .into_iter()
            .map(|value| match value {
                Value::Number(number) => Ok(number),
                Value::Text(text) => text
                    .parse()
                    .map_err(|_| D::Error::custom(format!("'{text}' is not a number"))),
            })
            .collect()
    }
}

impl InputSpec {
    /// The operand that holds this tensor, whatever the seed.
    pub fn literal(tensor: super::Tensor) -> Self {
        Self {
            element_type: tensor.element_type(),
            shape: tensor.shape().to_vec(),
            domain: Domain::Literal(tensor.into_data()),
        }
    }
}

impl Domain {
    /// As written in suite files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Positive => "positive",
            Self::Unit => "unit",
            Self::Uniform { .. } => "uniform",
            Self::Integers { .. } => "integers",
            Self::Nonzero => "nonzero",
            Self::Permutation => "permutation",
            Self::Special => "special",
            Self::Subnormal => "subnormal",
            Self::PositiveDefinite => "positive_definite",
            Self::Triangular => "triangular",
            Self::Values(_) => "values",
            Self::Literal(_) => "literal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_survive_json() {
        let domain = Domain::Values(vec![
            0.1,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            5e-324,
        ]);
        let json = serde_json::to_string(&domain).unwrap();
        let Domain::Values(values) = serde_json::from_str(&json).unwrap() else {
            panic!("{json}");
        };
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let Domain::Values(expected) = domain else {
            unreachable!()
        };
        assert_eq!(bits(&values), bits(&expected), "{json}");
    }
}
