//! MLIR literals of every element type: numbers, extremes, infinities and NaN.

use crate::tensor::{ElementType, FloatFormat};

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
        let re = float(element_type, re, widened)?;
        let im = float(element_type, im, widened)?;
        return Ok(format!("({re}, {im})"));
    }
    if element_type.is_float() {
        float(element_type, text, widened)
    } else {
        integer(element_type, parse(text)?, text)
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

/// A float, or a part of a complex number.
fn float(element_type: ElementType, text: &str, widened: bool) -> Result<String, String> {
    let format = |t: ElementType| {
        t.float_format()
            .ok_or_else(|| format!("{t} is not a float type"))
    };
    let own = format(element_type)?;
    let value = match parse(text)? {
        Scalar::NaN if !own.has_nan() => return Err(format!("{element_type} has no NaN")),
        Scalar::NaN => f64::NAN,
        Scalar::Infinity { negative } if own.has_infinity() => {
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Scalar::Infinity { negative } | Scalar::Extreme { negative } => extreme(&own, negative),
        Scalar::Integer(value) => round(&own, value as f64, element_type)?,
        Scalar::Number(value) => round(&own, value, element_type)?,
    };
    if value.is_finite() {
        return Ok(decimal(value));
    }
    // MLIR writes what is no number as its bits.
    let shown = if widened {
        element_type.widened()
    } else {
        element_type
    };
    let parts = if shown.is_complex() { 2 } else { 1 };
    let digits = (shown.bits() / parts).div_ceil(4);
    Ok(format!("0x{:0digits$X}", format(shown)?.encode(value)))
}

/// The greatest or the lowest finite value.
fn extreme(format: &FloatFormat, negative: bool) -> f64 {
    match (negative, format.has_sign()) {
        (false, _) => format.max_finite(),
        (true, true) => -format.max_finite(),
        (true, false) => format.min_positive(),
    }
}

/// To the nearest value of the format, saturating at its greatest.
fn round(format: &FloatFormat, value: f64, element_type: ElementType) -> Result<f64, String> {
    let rounded = format.round_to(value.clamp(-format.max_finite(), format.max_finite()));
    if rounded.is_nan() {
        return Err(format!("{value} is not a value of {element_type}"));
    }
    Ok(rounded)
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
            (F16, "1e6", "65504.0"),
            (F8E3M4, "nan", "0x78"),
            (F8E4M3FNUZ, "nan", "0x80"),
            (F8E8M0FNU, "3", "4.0"),
            (F8E8M0FNU, "nan", "0xFF"),
            (F8E8M0FNU, "max", "1.7014118346046923e38"),
            (F8E8M0FNU, "min", "5.877471754111438e-39"),
            (C64, "(inf,nan)", "(0x7F800000, 0x7FC00000)"),
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
        for (element_type, text) in [
            (I8, "128"),
            (I32, "nan"),
            (F4E2M1FN, "nan"),
            (F32, "one"),
            (F8E8M0FNU, "0"),
            (F8E8M0FNU, "-1"),
        ] {
            assert!(literal(element_type, text, false).is_err());
        }
    }
}
