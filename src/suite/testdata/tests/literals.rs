//! Dense literals: bits worked out by hand from the formats.

use super::*;

fn read(text: &str) -> Tensor {
    literal::dense_in(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn data(text: &str) -> Vec<u8> {
    read(text).into_data()
}

#[test]
fn lists_splats_and_empty_literals() {
    assert_eq!(
        read("dense<[[1, -2], [3, 4], [5, 6]]> : tensor<3x2xi32>"),
        tensor(ElementType::I32, &[3, 2], &[1.0, -2.0, 3.0, 4.0, 5.0, 6.0])
    );
    assert_eq!(data("dense<-1> : tensor<2xi16>"), [0xFF; 4]);
    assert!(data("dense<> : tensor<0x3xf32>").is_empty());
    assert!(data("dense<[]> : tensor<0xf32>").is_empty());
    assert_eq!(data("dense<true> : tensor<3xi1>"), [1, 1, 1]);
    assert_eq!(data("dense<[true, false]> : tensor<2xi1>"), [1, 0]);
    assert_eq!(
        read("dense<[(1.5,-0.0), (0x7F800000,2.0)]> : tensor<2xcomplex<f32>>"),
        tensor(ElementType::C64, &[2], &[1.5, -0.0, f64::INFINITY, 2.0])
    );
    assert_eq!(
        read("dense<(1.0,2.0)> : tensor<2xcomplex<f64>>"),
        tensor(ElementType::C128, &[2], &[1.0, 2.0, 1.0, 2.0])
    );
}

#[test]
fn floats_are_decimals_or_bits() {
    // 1.1 is 0x3F8CCCCD in f32, 0x3F8D in bf16 and 0x3C66 in f16.
    assert_eq!(
        data("dense<1.1> : tensor<f32>"),
        0x3F8C_CCCDu32.to_le_bytes()
    );
    assert_eq!(
        data("dense<1.100000e+00> : tensor<bf16>"),
        0x3F8Du16.to_le_bytes()
    );
    assert_eq!(data("dense<1.1> : tensor<f16>"), 0x3C66u16.to_le_bytes());
    assert_eq!(
        data("dense<0xFFC1> : tensor<bf16>"),
        0xFFC1u16.to_le_bytes()
    );
    assert_eq!(
        data("dense<0x7FF8000000000000> : tensor<f64>"),
        0x7FF8_0000_0000_0000u64.to_le_bytes()
    );
    // f8e4m3fn: 1.5 is 0x3C; f4e2m1fn: 6 is 0x7.
    assert_eq!(
        data("dense<[1.5, 0x7F]> : tensor<2xf8E4M3FN>"),
        [0x3C, 0x7F]
    );
    assert_eq!(data("dense<6.0> : tensor<2xf4E2M1FN>"), [7, 7]);
}

#[test]
fn raw_data_is_little_endian() {
    assert_eq!(data("dense<\"0x01000200\"> : tensor<2xi16>"), [1, 0, 2, 0]);
    assert_eq!(
        data("dense<\"0xcdcc8c3f\"> : tensor<2xf32>"),
        [0xCD, 0xCC, 0x8C, 0x3F, 0xCD, 0xCC, 0x8C, 0x3F]
    );
    // A byte an element for sub-byte integers: −1 is 0x0F in i4, kept sign-extended.
    assert_eq!(data("dense<\"0x0F07\"> : tensor<2xi4>"), [0xFF, 0x07]);
    // i1 by bits from the low end, by bytes, and one for all.
    assert_eq!(
        data("dense<\"0x0501\"> : tensor<9xi1>"),
        [1, 0, 1, 0, 0, 0, 0, 0, 1]
    );
    assert_eq!(data("dense<\"0x010001\"> : tensor<3xi1>"), [1, 0, 1]);
    assert_eq!(data("dense<\"0x05\"> : tensor<3xi1>"), [1, 0, 1]);
    assert_eq!(data("dense<\"0xFF\"> : tensor<20xi1>"), [1; 20]);
}

#[test]
fn integers_at_the_ends_of_their_types() {
    assert_eq!(
        data("dense<-9223372036854775808> : tensor<i64>"),
        i64::MIN.to_le_bytes()
    );
    assert_eq!(
        data("dense<18446744073709551615> : tensor<ui64>"),
        u64::MAX.to_le_bytes()
    );
    // Signless: 255 and −1 are the same i8.
    assert_eq!(
        data("dense<255> : tensor<i8>"),
        data("dense<-1> : tensor<i8>")
    );
    assert_eq!(data("dense<0xFF> : tensor<ui8>"), [255]);
}

#[test]
fn what_cannot_be_read_says_why() {
    for (text, reason) in [
        ("dense<256> : tensor<i8>", "not a value of i8"),
        ("dense<-1> : tensor<ui8>", "not a value of u8"),
        ("dense<nan> : tensor<f32>", "not a value of f32"),
        ("dense<0x1FFFFFFFF> : tensor<f32>", "not a value of f32"),
        ("dense<[1, 2]> : tensor<3xi32>", "2 items, not 3"),
        ("dense<[1, 2, 3, 4]> : tensor<2x2xi32>", "'[' is missing"),
        ("dense<[[1], [2]]> : tensor<2xi32>", "not a value"),
        ("dense<1 2> : tensor<i32>", "follows it"),
        ("dense<\"0x123\"> : tensor<i32>", "in pairs"),
        ("dense<\"0x12zz\"> : tensor<i16>", "not hexadecimal"),
        ("dense<\"12\"> : tensor<i8>", "not hexadecimal"),
        ("dense<\"0x0102\"> : tensor<3xi32>", "bytes"),
        (
            "dense<1.0> : tensor<2x!quant.uniform<i8:f32, 1.0>>",
            "quantized",
        ),
        ("dense<1> : tensor<?xi32>", "not known"),
        ("dense<1> : tensor<4xindex>", "not StableHLO's"),
        ("dense<1> : tensor<9999999999999999999999xi32>", "too large"),
        (
            "dense<1> : tensor<4000000000x4000000000x4000000000xi32>",
            "more than 1073741824 bytes",
        ),
        (
            "dense<1> : tensor<400000000000000000xi32>",
            "more than 1073741824 bytes",
        ),
        (
            &format!("dense<1> : tensor<{}i32>", "1x".repeat(100_000)),
            "more than 64 dimensions",
        ),
        ("dense<1>", "no type"),
        ("dense<[1, 2", "does not close"),
        ("dense_resource<x> : tensor<2xi32>", "not a dense literal"),
    ] {
        let told = literal::dense_in(text).unwrap_err();
        assert!(told.contains(reason), "{text}: {told}");
    }
}
