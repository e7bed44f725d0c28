//! Facts about XLA's element types by their number in `xla_data.proto`, also of those that are younger than the protos that
//! the crate is built with: they pass through the passes as numbers.

use super::ir::PrimitiveType;

/// Bits of one element as it lies in memory; `pred` takes a byte. None for tuples, tokens and numbers that are unknown.
pub fn bit_width(element_type: i32) -> Option<i64> {
    Some(match element_type {
        // u1, s1
        30 | 31 => 1,
        // s2, u2
        26 | 27 => 2,
        // s4, u4, f4e2m1fn
        21 | 22 | 32 => 4,
        // pred, s8, u8, and the f8 types
        1 | 2 | 6 | 19 | 20 | 23 | 24 | 25 | 28 | 29 | 33 => 8,
        // s16, u16, f16, bf16
        3 | 7 | 10 | 16 => 16,
        // s32, u32, f32
        4 | 8 | 11 => 32,
        // s64, u64, f64, c64
        5 | 9 | 12 | 15 => 64,
        // c128
        18 => 128,
        _ => return None,
    })
}

/// Whether it is a floating-point type; complex ones are none.
pub fn is_float(element_type: i32) -> bool {
    matches!(
        element_type,
        10 | 11 | 12 | 16 | 19 | 20 | 23 | 24 | 25 | 28 | 29 | 32 | 33
    )
}

pub fn is_tuple(element_type: i32) -> bool {
    element_type == PrimitiveType::Tuple as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths as XLA's `primitive_util` gives them, `pred` stored as a byte.
    #[test]
    fn every_array_type_of_the_protos_has_its_width() {
        let widths = [
            (PrimitiveType::Pred, 8),
            (PrimitiveType::S4, 4),
            (PrimitiveType::U2, 2),
            (PrimitiveType::Bf16, 16),
            (PrimitiveType::F8e5m2, 8),
            (PrimitiveType::C64, 64),
            (PrimitiveType::C128, 128),
        ];
        for (element_type, width) in widths {
            assert_eq!(bit_width(element_type as i32), Some(width));
        }
        assert_eq!(bit_width(PrimitiveType::Token as i32), None);
        assert_eq!(bit_width(-7), None);
    }
}
