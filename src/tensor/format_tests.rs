//! Limits, roundings and spacings of the float formats.

use super::*;

fn get(element_type: ElementType) -> FloatFormat {
    element_type.float_format().unwrap()
}

fn small_floats() -> impl Iterator<Item = (ElementType, FloatFormat)> {
    ElementType::all()
        .filter(|t| t.is_float() && t.bits() <= 16)
        .map(|t| (t, get(t)))
}

#[test]
fn every_small_value_survives_decode_and_encode() {
    for (element_type, format) in small_floats() {
        for code in 0..1u64 << element_type.bits() {
            let value = format.decode(code);
            if value.is_nan() {
                assert!(
                    format.decode(format.encode(value)).is_nan(),
                    "{element_type} {code:#x}"
                );
            } else {
                assert_eq!(format.encode(value), code, "{element_type} {code:#x}");
            }
        }
    }
}

/// Limits from the papers and specifications that define the formats.
#[test]
fn limits_are_those_of_the_specifications() {
    for (element_type, max, min_normal, min_positive) in [
        (ElementType::F4E2M1FN, 6.0, 1.0, 0.5),
        (ElementType::F6E2M3FN, 7.5, 1.0, 0.125),
        (ElementType::F6E3M2FN, 28.0, 0.25, 0.0625),
        (ElementType::F8E3M4, 15.5, 0.25, 0.015625),
        (ElementType::F8E4M3, 240.0, 0.015625, 0.001953125),
        (ElementType::F8E4M3FN, 448.0, 0.015625, 0.001953125),
        (ElementType::F8E4M3FNUZ, 240.0, 0.0078125, 0.0009765625),
        (
            ElementType::F8E4M3B11FNUZ,
            30.0,
            0.0009765625,
            0.0001220703125,
        ),
        (ElementType::F8E5M2, 57344.0, pow2(-14), pow2(-16)),
        (ElementType::F8E5M2FNUZ, 57344.0, pow2(-15), pow2(-17)),
        (ElementType::F8E8M0FNU, pow2(127), pow2(-127), pow2(-127)),
        (ElementType::F16, 65504.0, pow2(-14), pow2(-24)),
        (
            ElementType::F32,
            f32::MAX as f64,
            f32::MIN_POSITIVE as f64,
            pow2(-149),
        ),
        (ElementType::F64, f64::MAX, f64::MIN_POSITIVE, pow2(-1074)),
    ] {
        let format = get(element_type);
        assert_eq!(format.max_finite(), max, "{element_type}");
        assert_eq!(format.min_normal(), min_normal, "{element_type}");
        assert_eq!(format.min_positive(), min_positive, "{element_type}");
    }
}

#[test]
fn every_half_and_bfloat16_agrees_with_the_half_crate() {
    for code in 0..=u16::MAX {
        for (ours, theirs) in [
            (
                get(ElementType::F16).decode(code.into()),
                half::f16::from_bits(code).to_f64(),
            ),
            (
                get(ElementType::BF16).decode(code.into()),
                half::bf16::from_bits(code).to_f64(),
            ),
        ] {
            assert!(
                ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                "{code:#x}"
            );
        }
    }
}

#[test]
fn f32_rounding_is_the_machines() {
    let format = get(ElementType::F32);
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..200_000 {
        bits = bits
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        // Spread the exponents over f32's range and a little past both ends.
        let x = f64::from_bits((bits & !(0x7ff << 52)) | ((860 + (bits >> 33) % 320) << 52));
        assert_eq!(format.encode(x) as u32, (x as f32).to_bits(), "{x:e}");
    }
    let f64_format = get(ElementType::F64);
    for x in [0.0, -0.0, 1.5, -5e-324, f64::MAX, f64::INFINITY, 2.2e-308] {
        assert_eq!(f64_format.encode(x), x.to_bits());
    }
}

#[test]
fn rounding_to_f16_from_f64_rounds_once() {
    // 1 + 2⁻¹¹ + 2⁻³⁵ is above the tie; rounding to f32 first would lose that and go to even, 1.
    let x = 1.0 + pow2(-11) + pow2(-35);
    assert_eq!(get(ElementType::F16).round_to(x), 1.0 + pow2(-10));
    // And bfloat16: 1 + 2⁻⁸ + 2⁻⁴⁰.
    assert_eq!(
        get(ElementType::BF16).round_to(1.0 + pow2(-8) + pow2(-40)),
        1.0 + pow2(-7)
    );
}

#[test]
fn ulp_is_the_distance_to_the_next_value() {
    let f32_format = get(ElementType::F32);
    for x in [1.0f32, 1.5, 2.0, 3.9, 1e-40, 0.0, 1e30] {
        let next = f32::from_bits(x.to_bits() + 1) as f64;
        assert_eq!(f32_format.ulp_at(x.into()), next - x as f64, "{x}");
    }
    assert_eq!(f32_format.ulp_at(1e300), pow2(104));
    assert_eq!(f32_format.overflow_value(), pow2(128));
    assert_eq!(get(ElementType::F8E4M3FN).overflow_value(), 480.0);
    assert_eq!(get(ElementType::F64).ulp_at(1.0), f64::EPSILON);
}

#[test]
fn distance_counts_values_across_zero_and_powers_of_two() {
    let f32_format = get(ElementType::F32);
    let below_one = f32::from_bits(1.0f32.to_bits() - 1) as f64;
    let above_one = f32::from_bits(1.0f32.to_bits() + 1) as f64;
    // The values' spacing halves below 1, and a count does not mind.
    assert_eq!(f32_format.distance(below_one, above_one), 2);
    assert_eq!(f32_format.distance(0.0, -0.0), 0);
    // The two smallest subnormals are one step from zero each.
    let smallest = f32::from_bits(1) as f64;
    assert_eq!(f32_format.distance(smallest, -smallest), 2);
    assert_eq!(
        f32_format.distance(-(f32::MAX as f64), f32::MAX as f64),
        2 * u128::from(f32::MAX.to_bits())
    );
    // f8e4m3fn: 1 is 0x38 and 2 is 0x40.
    assert_eq!(get(ElementType::F8E4M3FN).distance(2.0, 1.0), 8);
    assert_eq!(get(ElementType::F64).distance(5e-324, -1e-323), 3);
}
