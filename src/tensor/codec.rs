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

fn load<const N: usize>(bytes: &[u8], out: &mut [f64], value: impl Fn([u8; N]) -> f64) {
    let (chunks, _) = bytes.as_chunks::<N>();
    for (out, chunk) in out.iter_mut().zip(chunks) {
        *out = value(*chunk);
    }
}

fn store<const N: usize>(values: &[f64], out: &mut Vec<u8>, bytes: impl Fn(f64) -> [u8; N]) {
    out.extend(values.iter().flat_map(|&v| bytes(v)));
}

/// Values of one component (an element, or a part of a complex one) of `element_type` per entry of `out`.
/// 64-bit integers past 2⁵³ round to nearest; every other value is exact.
///
/// `bytes` must hold `out.len()` components.
pub(crate) fn decode(element_type: ElementType, bytes: &[u8], out: &mut [f64]) {
    use ElementType::*;
    match element_type {
        Pred | U2 | U4 | U8 => load(bytes, out, |b| u8::from_le_bytes(b).into()),
        I2 | I4 | I8 => load(bytes, out, |b| i8::from_le_bytes(b).into()),
        I16 => load(bytes, out, |b| i16::from_le_bytes(b).into()),
        U16 => load(bytes, out, |b| u16::from_le_bytes(b).into()),
        I32 => load(bytes, out, |b| i32::from_le_bytes(b).into()),
        U32 => load(bytes, out, |b| u32::from_le_bytes(b).into()),
        I64 => load(bytes, out, |b| i64::from_le_bytes(b) as f64),
        U64 => load(bytes, out, |b| u64::from_le_bytes(b) as f64),
        BF16 => load(bytes, out, |b| {
            f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16).into()
        }),
        F16 => load(bytes, out, |b| {
            F16_FORMAT.decode(u16::from_le_bytes(b).into())
        }),
        F32 | C64 => load(bytes, out, |b| f32::from_le_bytes(b).into()),
        F64 | C128 => load(bytes, out, f64::from_le_bytes),
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
    match element_type {
        Pred => store(values, out, |v| u8::from(v != 0.0).to_le_bytes()),
        I2 => store(values, out, |v| (v.clamp(-2.0, 1.0) as i8).to_le_bytes()),
        I4 => store(values, out, |v| (v.clamp(-8.0, 7.0) as i8).to_le_bytes()),
        I8 => store(values, out, |v| (v as i8).to_le_bytes()),
        I16 => store(values, out, |v| (v as i16).to_le_bytes()),
        I32 => store(values, out, |v| (v as i32).to_le_bytes()),
        I64 => store(values, out, |v| (v as i64).to_le_bytes()),
        U2 => store(values, out, |v| (v.clamp(0.0, 3.0) as u8).to_le_bytes()),
        U4 => store(values, out, |v| (v.clamp(0.0, 15.0) as u8).to_le_bytes()),
        U8 => store(values, out, |v| (v as u8).to_le_bytes()),
        U16 => store(values, out, |v| (v as u16).to_le_bytes()),
        U32 => store(values, out, |v| (v as u32).to_le_bytes()),
        U64 => store(values, out, |v| (v as u64).to_le_bytes()),
        F16 => store(values, out, |v| (F16_FORMAT.encode(v) as u16).to_le_bytes()),
        BF16 => store(values, out, |v| {
            (BF16_FORMAT.encode(v) as u16).to_le_bytes()
        }),
        F32 | C64 => store(values, out, |v| (v as f32).to_le_bytes()),
        F64 | C128 => store(values, out, |v| v.to_le_bytes()),
        F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ
        | F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => {
            if let Some(format) = element_type.float_format() {
                store(values, out, |v| (format.encode(v) as u8).to_le_bytes());
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
