//! The element types of StableHLO: names, sizes and kinds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Every element type of the StableHLO specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ElementType {
    Pred,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

use ElementType::*;

/// (type, name in case ids and files, MLIR spelling, bits)
const TABLE: [(ElementType, &str, &str, usize); 30] = [
    (Pred, "pred", "i1", 8),
    (I2, "i2", "i2", 2),
    (I4, "i4", "i4", 4),
    (I8, "i8", "i8", 8),
    (I16, "i16", "i16", 16),
    (I32, "i32", "i32", 32),
    (I64, "i64", "i64", 64),
    (U2, "u2", "ui2", 2),
    (U4, "u4", "ui4", 4),
    (U8, "u8", "ui8", 8),
    (U16, "u16", "ui16", 16),
    (U32, "u32", "ui32", 32),
    (U64, "u64", "ui64", 64),
    (F4E2M1FN, "f4e2m1fn", "f4E2M1FN", 4),
    (F6E2M3FN, "f6e2m3fn", "f6E2M3FN", 6),
    (F6E3M2FN, "f6e3m2fn", "f6E3M2FN", 6),
    (F8E3M4, "f8e3m4", "f8E3M4", 8),
    (F8E4M3, "f8e4m3", "f8E4M3", 8),
    (F8E4M3FN, "f8e4m3fn", "f8E4M3FN", 8),
    (F8E4M3FNUZ, "f8e4m3fnuz", "f8E4M3FNUZ", 8),
    (F8E4M3B11FNUZ, "f8e4m3b11fnuz", "f8E4M3B11FNUZ", 8),
    (F8E5M2, "f8e5m2", "f8E5M2", 8),
    (F8E5M2FNUZ, "f8e5m2fnuz", "f8E5M2FNUZ", 8),
    (F8E8M0FNU, "f8e8m0fnu", "f8E8M0FNU", 8),
    (BF16, "bf16", "bf16", 16),
    (F16, "f16", "f16", 16),
    (F32, "f32", "f32", 32),
    (F64, "f64", "f64", 64),
    (C64, "c64", "complex<f32>", 64),
    (C128, "c128", "complex<f64>", 128),
];

impl ElementType {
    pub fn all() -> impl Iterator<Item = ElementType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (ElementType, &'static str, &'static str, usize) {
        &TABLE[self as usize]
    }

    /// As written in case ids and suite files: `f8e4m3fn`, `u8`, `c64`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// As written in MLIR: `f8E4M3FN`, `ui8`, `complex<f32>`.
    pub fn mlir(self) -> &'static str {
        self.row().2
    }

    /// Bits of one element as StableHLO counts them; `pred` counts as 8.
    pub fn bits(self) -> usize {
        self.row().3
    }

    /// Bytes of one element in a [`super::Tensor`]; sub-byte elements take one.
    pub fn bytes(self) -> usize {
        self.bits().div_ceil(8)
    }

    pub fn is_float(self) -> bool {
        (F4E2M1FN..=F64).contains(&self)
    }

    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    pub fn is_signed_integer(self) -> bool {
        (I2..=I64).contains(&self)
    }

    pub fn is_unsigned_integer(self) -> bool {
        (U2..=U64).contains(&self)
    }

    /// The type a reference is computed in: floats widen to f64, complex to c128, everything else stays.
    pub fn widened(self) -> ElementType {
        if self.is_float() {
            F64
        } else if self.is_complex() {
            C128
        } else {
            self
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown element type '{0}'; the types are pred, i2 to i64, u2 to u64, f4e2m1fn, f6…, f8…, bf16, f16, f32, f64, c64 and c128"
)]
pub struct ElementTypeError(pub String);

impl FromStr for ElementType {
    type Err = ElementTypeError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| ElementTypeError(name.to_owned()))
    }
}

impl TryFrom<String> for ElementType {
    type Error = ElementTypeError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<ElementType> for String {
    fn from(element_type: ElementType) -> Self {
        element_type.name().to_owned()
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, element_type) in ElementType::all().enumerate() {
            assert_eq!(element_type as usize, index);
            assert_eq!(element_type.name().parse::<ElementType>(), Ok(element_type));
        }
    }
}
