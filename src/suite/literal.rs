//! MLIR literals of every element type: numbers, extremes, infinities and NaN.

use crate::tensor::ElementType;

/// What a suite file may ask for besides a number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scalar {
    Number(f64),
    Integer(i128),
    Infinity {
        negative: bool,
    },
    NaN,
    /// The greatest or the lowest finite value.
    Extreme {
        negative: bool,
    },
}

/// Mantissa bits, exponent of the smallest normal, greatest finite value, bits of +inf and of NaN where the type has them.
struct Format {
    mantissa: i32,
    min_exponent: i32,
    max: f64,
    infinity: Option<u64>,
    nan: Option<u64>,
}

/// Sources: the OCP 8-bit and microscaling formats, and the comments of LLVM's APFloat for the others.
fn format(element_type: ElementType) -> Option<Format> {
    use ElementType::*;
    let (mantissa, min_exponent, max, infinity, nan) = match element_type {
        F4E2M1FN => (1, 0, 6.0, None, None),
        F6E2M3FN => (3, 0, 7.5, None, None),
        F6E3M2FN => (2, -2, 28.0, None, None),
        F8E3M4 => (4, -2, 15.5, Some(0x70), Some(0x78)),
        F8E4M3 => (3, -6, 240.0, Some(0x78), Some(0x7C)),
        F8E4M3FN => (3, -6, 448.0, None, Some(0x7F)),
        F8E4M3FNUZ => (3, -7, 240.0, None, Some(0x80)),
        F8E4M3B11FNUZ => (3, -10, 30.0, None, Some(0x80)),
        F8E5M2 => (2, -14, 57344.0, Some(0x7C), Some(0x7E)),
        F8E5M2FNUZ => (2, -15, 57344.0, None, Some(0x80)),
        F8E8M0FNU => (0, -127, 2f64.powi(127), None, Some(0xFF)),
        BF16 => (
            7,
            -126,
            f64::from(half::bf16::MAX),
            Some(0x7F80),
            Some(0x7FC0),
        ),
        F16 => (10, -14, 65504.0, Some(0x7C00), Some(0x7E00)),
        F32 | C64 => (
            23,
            -126,
            f64::from(f32::MAX),
            Some(0x7F80_0000),
            Some(0x7FC0_0000),
        ),
        F64 | C128 => (
            52,
            -1022,
            f64::MAX,
            Some(0x7FF0_0000_0000_0000),
            Some(0x7FF8_0000_0000_0000),
        ),
        _ => return None,
    };
    Some(Format {
        mantissa,
        min_exponent,
        max,
        infinity,
        nan,
    })
}

fn parse(text: &str) -> Result<Scalar, String> {
    let text = text.trim();
    Ok(match text {
        "inf" | "+inf" => Scalar::Infinity { negative: false },
        "-inf" => Scalar::Infinity { negative: true },
        "nan" => Scalar::NaN,
        "max" => Scalar::Extreme { negative: false },
        "min" => Scalar::Extreme { negative: true },
        "true" => Scalar::Integer(1),
        "false" => Scalar::Integer(0),
        "-0" => Scalar::Number(-0.0),
        _ => {
            if let Ok(integer) = text.parse::<i128>() {
                Scalar::Integer(integer)
            } else if let Ok(number) = text.parse::<f64>() {
                Scalar::Number(number)
            } else {
                return Err(format!(
                    "'{text}' is not a literal: write a number, inf, -inf, nan, max, min, true or false"
                ));
            }
        }
    })
}

/// The MLIR literal for `text` as a value of `element_type`; with `widened`, that same value as f64.
///
/// A number is rounded to the element type first, so both renderings of a program hold the same value. `inf` of a type
/// without infinities is its greatest finite value: the neutral element of `minimum` all the same.
pub fn literal(element_type: ElementType, text: &str, widened: bool) -> Result<String, String> {
    if element_type.is_complex() {
        let (re, im) = match text.trim().strip_prefix('(') {
            Some(pair) => pair
                .strip_suffix(')')
                .and_then(|pair| pair.split_once(','))
                .ok_or_else(|| format!("'{text}' is not a complex literal: write (re,im)"))?,
            None => (text, "0"),
        };
        let re = float(element_type, parse(re)?, widened)?;
        let im = float(element_type, parse(im)?, widened)?;
        return Ok(format!("({re}, {im})"));
    }
    let scalar = parse(text)?;
    if element_type.is_float() {
        float(element_type, scalar, widened)
    } else {
        integer(element_type, scalar, text)
    }
}

fn integer(element_type: ElementType, scalar: Scalar, text: &str) -> Result<String, String> {
    let bits = element_type.bits();
    let (low, high): (i128, i128) = match element_type {
        ElementType::Pred => (0, 1),
        _ if element_type.is_signed_integer() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    };
    let value = match scalar {
        Scalar::Integer(value) => value,
        Scalar::Number(value) if value.fract() == 0.0 => value as i128,
        Scalar::Infinity { negative } | Scalar::Extreme { negative } => {
            if negative {
                low
            } else {
                high
            }
        }
        _ => return Err(format!("'{text}' is not a value of {element_type}")),
    };
    if !(low..=high).contains(&value) {
        return Err(format!(
            "{value} is outside {element_type}: {low} to {high}"
        ));
    }
    Ok(match element_type {
        ElementType::Pred => (value == 1).to_string(),
        _ => value.to_string(),
    })
}

fn float(element_type: ElementType, scalar: Scalar, widened: bool) -> Result<String, String> {
    let own = format(element_type).ok_or_else(|| format!("{element_type} is not a float type"))?;
    let wide = format(ElementType::F64).ok_or("f64 has no format")?;
    let shown = if widened { &wide } else { &own };
    let digits = match element_type {
        _ if widened => 16,
        ElementType::C64 => 8,
        ElementType::C128 => 16,
        _ => element_type.bits().div_ceil(4),
    };
    let hex = |bits: u64| format!("0x{bits:0digits$X}");
    match scalar {
        Scalar::NaN => match (own.nan, shown.nan) {
            (Some(_), Some(bits)) => Ok(hex(bits)),
            _ => Err(format!("{element_type} has no NaN")),
        },
        Scalar::Infinity { negative } => match (own.infinity, shown.infinity) {
            (Some(_), Some(bits)) => {
                let sign = u64::from(negative) << (digits * 4 - 1);
                Ok(hex(bits | sign))
            }
            _ => float(element_type, Scalar::Extreme { negative }, widened),
        },
        Scalar::Extreme { negative: true } if element_type == ElementType::F8E8M0FNU => {
            Ok(decimal(2f64.powi(-127)))
        }
        Scalar::Extreme { negative } => Ok(decimal(if negative { -own.max } else { own.max })),
        Scalar::Integer(value) => Ok(decimal(round(&own, value as f64))),
        Scalar::Number(value) => Ok(decimal(round(&own, value))),
    }
}

/// To the nearest value of the format, ties to even, saturating at its greatest.
fn round(format: &Format, value: f64) -> f64 {
    if value == 0.0 || format.mantissa == 52 {
        return value;
    }
    let exponent = value.abs().log2().floor() as i32;
    let step = 2f64.powi(exponent.max(format.min_exponent) - format.mantissa);
    ((value / step).round_ties_even() * step).clamp(-format.max, format.max)
}

/// MLIR wants a point in a float literal.
fn decimal(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || (1e-5..1e16).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => {
            format!("{mantissa}.0e{exponent}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    /// Bit patterns from IEEE 754 and the OCP 8-bit specification.
    #[test]
    fn literals_of_every_kind() {
        for (element_type, text, expected) in [
            (F32, "inf", "0x7F800000"),
            (F32, "-inf", "0xFF800000"),
            (F16, "nan", "0x7E00"),
            (BF16, "-inf", "0xFF80"),
            (F64, "inf", "0x7FF0000000000000"),
            (F8E5M2, "-inf", "0xFC"),
            (F8E4M3FN, "inf", "448.0"),
            (F8E4M3FN, "min", "-448.0"),
            (F32, "1", "1.0"),
            (F32, "-0", "-0.0"),
            (F32, "1e30", "1.0000000150474662e30"),
            (BF16, "0.1", "0.10009765625"),
            (F8E4M3FN, "0.3", "0.3125"),
            (I8, "min", "-128"),
            (U64, "max", "18446744073709551615"),
            (U2, "inf", "3"),
            (Pred, "max", "true"),
            (Pred, "0", "false"),
            (C64, "(1,-2)", "(1.0, -2.0)"),
            (C64, "3", "(3.0, 0.0)"),
        ] {
            assert_eq!(
                literal(element_type, text, false).as_deref(),
                Ok(expected),
                "{element_type} {text}"
            );
        }
    }

    #[test]
    fn the_widened_literal_is_the_same_value() {
        assert_eq!(literal(BF16, "0.1", true).unwrap(), "0.10009765625");
        assert_eq!(literal(F16, "max", true).unwrap(), "65504.0");
        assert_eq!(literal(F16, "-inf", true).unwrap(), "0xFFF0000000000000");
        assert_eq!(literal(F8E4M3FN, "inf", true).unwrap(), "448.0");
        assert_eq!(literal(I32, "7", true).unwrap(), "7");
    }

    #[test]
    fn impossible_literals_are_refused() {
        for (element_type, text) in [(I8, "128"), (I32, "nan"), (F4E2M1FN, "nan"), (F32, "one")] {
            assert!(literal(element_type, text, false).is_err());
        }
    }
}
