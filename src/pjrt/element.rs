//! Element types as PJRT numbers them, and the layout of sub-byte elements on the host.

use pjrt_sys::PJRT_Buffer_Type;

use super::{Error, Result};
use crate::tensor::ElementType::{self, *};

/// `PJRT_Buffer_Type`, in PJRT C API 0.113's order. The header of `pjrt-sys` (0.54) ends before `S2`.
/// `TOKEN` (23), `S1` (30) and `U1` (31) are no StableHLO tensor element types. The f6 types are newer than that header: their
/// numbers are those of the buffers that XLA CPU 0.115 answers a `convert` to them with.
const TABLE: [(ElementType, PJRT_Buffer_Type); 30] = [
    (Pred, 1),
    (I8, 2),
    (I16, 3),
    (I32, 4),
    (I64, 5),
    (U8, 6),
    (U16, 7),
    (U32, 8),
    (U64, 9),
    (F16, 10),
    (F32, 11),
    (F64, 12),
    (BF16, 13),
    (C64, 14),
    (C128, 15),
    (F8E5M2, 16),
    (F8E4M3FN, 17),
    (F8E4M3B11FNUZ, 18),
    (F8E5M2FNUZ, 19),
    (F8E4M3FNUZ, 20),
    (I4, 21),
    (U4, 22),
    (I2, 24),
    (U2, 25),
    (F8E4M3, 26),
    (F8E3M4, 27),
    (F8E8M0FNU, 28),
    (F4E2M1FN, 29),
    (F6E2M3FN, 32),
    (F6E3M2FN, 33),
];

/// The first PJRT C API in which f6 types were seen; an older plug-in aborts on a number it does not know.
const F6_SINCE: i32 = 115;

/// The number of a type for a plug-in of PJRT C API 0.`minor`.
pub fn buffer_type(element_type: ElementType, minor: i32) -> Result<PJRT_Buffer_Type> {
    if matches!(element_type, F6E2M3FN | F6E3M2FN) && minor < F6_SINCE {
        return Err(Error::NoBufferType(element_type));
    }
    TABLE
        .iter()
        .find(|row| row.0 == element_type)
        .map(|row| row.1)
        .ok_or(Error::NoBufferType(element_type))
}

pub fn element_type(buffer_type: PJRT_Buffer_Type) -> Result<ElementType> {
    TABLE
        .iter()
        .find(|row| row.1 == buffer_type)
        .map(|row| row.0)
        .ok_or(Error::UnknownBufferType(buffer_type))
}

/// Whether a plug-in may hand over this many elements in `size` bytes: one a byte where they are smaller, as XLA does, or
/// packed where they fill a byte.
pub fn is_host_size(element_type: ElementType, elements: usize, size: usize) -> bool {
    let bits = element_type.bits();
    size == elements * element_type.bytes()
        || (bits < 8 && 8 % bits == 0 && size == elements.div_ceil(8 / bits))
}

/// A plug-in's host bytes as a tensor's: one byte an element, signed ones sign-extended, other high bits clear.
/// Types of a byte and more pass unchanged.
///
/// # Errors
/// [`Error::Malformed`] if the length is none of this type's, see [`is_host_size`].
pub fn unpack(
    call: &'static str,
    element_type: ElementType,
    elements: usize,
    bytes: Vec<u8>,
) -> Result<Vec<u8>> {
    if !is_host_size(element_type, elements, bytes.len()) {
        return Err(bad_size(call, element_type, elements, bytes.len()));
    }
    let bits = element_type.bits();
    if bits >= 8 {
        return Ok(bytes);
    }
    let mask = (1u8 << bits) - 1;
    let extend = |element: u8| {
        let element = element & mask;
        if element_type.is_signed_integer() && element >> (bits - 1) == 1 {
            element | !mask
        } else {
            element
        }
    };
    if bytes.len() == elements {
        return Ok(bytes.into_iter().map(extend).collect());
    }
    let per_byte = 8 / bits;
    Ok((0..elements)
        .map(|index| extend(bytes[index / per_byte] >> (bits * (index % per_byte))))
        .collect())
}

pub fn bad_size(
    call: &'static str,
    element_type: ElementType,
    elements: usize,
    size: usize,
) -> Error {
    Error::Malformed {
        call,
        what: format!("a size of {size} bytes for {elements} elements of {element_type}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_the_header_where_it_has_them() {
        use pjrt_sys::*;
        for (element_type, number) in [
            (Pred, PJRT_Buffer_Type_PJRT_Buffer_Type_PRED),
            (U64, PJRT_Buffer_Type_PJRT_Buffer_Type_U64),
            (BF16, PJRT_Buffer_Type_PJRT_Buffer_Type_BF16),
            (C128, PJRT_Buffer_Type_PJRT_Buffer_Type_C128),
            (F8E4M3FNUZ, PJRT_Buffer_Type_PJRT_Buffer_Type_F8E4M3FNUZ),
            (U4, PJRT_Buffer_Type_PJRT_Buffer_Type_U4),
        ] {
            assert_eq!(buffer_type(element_type, 54).unwrap(), number);
        }
    }

    #[test]
    fn only_f6_has_no_number_in_older_plugins() {
        for element_type in ElementType::all() {
            let number = buffer_type(element_type, F6_SINCE).unwrap();
            assert_eq!(super::element_type(number).unwrap(), element_type);
            let f6 = matches!(element_type, F6E2M3FN | F6E3M2FN);
            assert_eq!(buffer_type(element_type, F6_SINCE - 1).is_err(), f6);
        }
        assert!(matches!(
            super::element_type(23),
            Err(Error::UnknownBufferType(23))
        ));
    }

    #[test]
    fn sub_byte_elements_come_out_one_a_byte() {
        let unpack = |t, n, bytes: &[u8]| super::unpack("PJRT_X", t, n, bytes.to_vec()).unwrap();
        assert_eq!(unpack(I4, 3, &[0x0f, 0x07, 0x08]), [0xff, 0x07, 0xf8]);
        assert_eq!(unpack(U4, 3, &[0xf1, 0x02]), [0x01, 0x0f, 0x02]);
        assert_eq!(unpack(I2, 4, &[0b11_10_01_00]), [0x00, 0x01, 0xfe, 0xff]);
        assert_eq!(unpack(I8, 2, &[0x80, 0x7f]), [0x80, 0x7f]);
        assert_eq!(unpack(F6E2M3FN, 4, &[0xff, 1, 2, 3]), [0x3f, 1, 2, 3]);
    }

    #[test]
    fn a_length_that_is_none_of_the_types_is_malformed() {
        // Four f6 elements would fit three bytes, but no byte holds a whole number of them.
        for (element_type, elements, size) in [
            (F6E2M3FN, 4, 3),
            (F6E3M2FN, 8, 6),
            (I4, 3, 1),
            (I2, 4, 2),
            (F32, 2, 7),
            (I8, 0, 1),
        ] {
            let error = unpack("PJRT_X", element_type, elements, vec![0; size]).unwrap_err();
            assert!(
                matches!(error, Error::Malformed { call: "PJRT_X", .. }),
                "{error}"
            );
        }
    }
}
