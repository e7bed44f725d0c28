//! Bulk conversion between a tensor's bytes and f64 values: one match per slice, one tight loop per width.

use std::sync::LazyLock;

use super::ElementType;
use super::format::FloatFormat;

/// The value of each byte, for the float types of 8 bits and fewer, indexed by the type's place after `F4E2M1FN`.
static SMALL_FLOATS: LazyLock<Vec<[f64; 256]>> = LazyLock::new(|| {
    ElementType::all()
        .filter(|t| t.is_float() && t.bits() <= 8)
        .filter_map(ElementType::float_format)
        .map(|format| std::array::from_fn(|code| format.decode(code as u64)))
        .collect()
});

/// Values of one component (an element, or a part of a complex one) of `element_type` per entry of `out`.
/// 64-bit integers past 2⁵³ round to nearest; every other value is exact.
///
/// `bytes` must hold `out.len()` components.
pub(crate) fn decode(element_type: ElementType, bytes: &[u8], out: &mut [f64]) {
    use ElementType::*;
    macro_rules! load {
        ($type:ty, $value:expr) => {{
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
            for (out, chunk) in out.iter_mut().zip(chunks) {
                let convert: fn($type) -> f64 = $value;
                *out = convert(<$type>::from_le_bytes(*chunk));
            }
        }};
    }
    match element_type {
        Pred | U2 | U4 | U8 => load!(u8, |v| v.into()),
        I2 | I4 | I8 => load!(i8, |v| v.into()),
        I16 => load!(i16, |v| v.into()),
        U16 => load!(u16, |v| v.into()),
        I32 => load!(i32, |v| v.into()),
        U32 => load!(u32, |v| v.into()),
        I64 => load!(i64, |v| v as f64),
        U64 => load!(u64, |v| v as f64),
        BF16 => load!(u16, |v| f32::from_bits(u32::from(v) << 16).into()),
        F16 => {
            const FORMAT: FloatFormat = F16_FORMAT;
            load!(u16, |v| FORMAT.decode(v.into()))
        }
        F32 | C64 => load!(f32, |v| v.into()),
        F64 | C128 => load!(f64, |v| v),
        F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ
        | F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
            let table = &SMALL_FLOATS[element_type as usize - F4E2M1FN as usize];
            for (out, &byte) in out.iter_mut().zip(bytes) {
                *out = table[usize::from(byte)];
            }
        }
    }
}

const F16_FORMAT: FloatFormat = match ElementType::F16.float_format() {
    Some(format) => format,
    None => unreachable!(),
};

const BF16_FORMAT: FloatFormat = match ElementType::BF16.float_format() {
    Some(format) => format,
    None => unreachable!(),
};

/// Appends each value in `element_type`: floats round to nearest even with the format's overflow rule; integers round toward
/// zero and saturate, NaN gives 0; `pred` is true unless zero. Components of complex types come one after the other.
pub(crate) fn encode(element_type: ElementType, values: &[f64], out: &mut Vec<u8>) {
    use ElementType::*;
    macro_rules! store {
        ($value:expr) => {
            out.extend(values.iter().flat_map(|&v| {
                let convert = $value;
                convert(v).to_le_bytes()
            }))
        };
    }
    match element_type {
        Pred => store!(|v: f64| u8::from(v != 0.0)),
        I2 => store!(|v: f64| v.clamp(-2.0, 1.0) as i8),
        I4 => store!(|v: f64| v.clamp(-8.0, 7.0) as i8),
        I8 => store!(|v: f64| v as i8),
        I16 => store!(|v: f64| v as i16),
        I32 => store!(|v: f64| v as i32),
        I64 => store!(|v: f64| v as i64),
        U2 => store!(|v: f64| v.clamp(0.0, 3.0) as u8),
        U4 => store!(|v: f64| v.clamp(0.0, 15.0) as u8),
        U8 => store!(|v: f64| v as u8),
        U16 => store!(|v: f64| v as u16),
        U32 => store!(|v: f64| v as u32),
        U64 => store!(|v: f64| v as u64),
        F16 => store!(|v: f64| F16_FORMAT.encode(v) as u16),
        BF16 => store!(|v: f64| BF16_FORMAT.encode(v) as u16),
        F32 | C64 => store!(|v: f64| v as f32),
        F64 | C128 => store!(|v: f64| v),
        F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ
        | F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
            if let Some(format) = element_type.float_format() {
                store!(|v: f64| format.encode(v) as u8);
            }
        }
    }
}

/// Bytes of one component: an element, or one part of a complex one.
pub(crate) fn component_bytes(element_type: ElementType) -> usize {
    if element_type.is_complex() {
        element_type.bytes() / 2
    } else {
        element_type.bytes()
    }
}
