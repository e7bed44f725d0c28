//! Directed rounding to a float format: what an implementation does that truncates where it should round to nearest.

use crate::tensor::FloatFormat;

/// How a value that lies between two of a format becomes one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directed {
    TowardZero,
    Down,
    Up,
}

/// A finite value rounded to the format in one direction; `None` where the format has no value on that side.
pub(crate) fn directed(format: &FloatFormat, x: f64, direction: Directed) -> Option<f64> {
    if !x.is_finite() {
        return None;
    }
    let largest = format.max_finite();
    let nearest = if x.abs() > largest {
        largest.copysign(x)
    } else {
        format.round_to(x)
    };
    let beyond = match direction {
        Directed::TowardZero => nearest.abs() > x.abs(),
        Directed::Down => nearest > x,
        Directed::Up => nearest < x,
    };
    if !beyond {
        return nearest.is_finite().then_some(nearest);
    }
    let step = match direction {
        Directed::TowardZero if x > 0.0 => -1,
        Directed::Down => -1,
        _ => 1,
    };
    let ordinal = format.ordinal(format.encode(nearest))?;
    let value = format.decode(format.from_ordinal(ordinal + step)?);
    Some(if value == 0.0 && format.has_negative_zero() {
        value.copysign(x)
    } else {
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::ElementType;

    /// 1 + 2⁻⁸ lies halfway between bf16's 1 and 1 + 2⁻⁷.
    #[test]
    fn each_direction_has_its_neighbour() {
        let bf16 = ElementType::BF16.float_format().unwrap();
        let (x, above) = (1.0 + 1.0 / 256.0, 1.0 + 1.0 / 128.0);
        for (value, direction, expected) in [
            (x, Directed::TowardZero, 1.0),
            (-x, Directed::TowardZero, -1.0),
            (x, Directed::Up, above),
            (-x, Directed::Up, -1.0),
            (-x, Directed::Down, -above),
            (above, Directed::Down, above),
        ] {
            assert_eq!(
                directed(&bf16, value, direction),
                Some(expected),
                "{value} {direction:?}"
            );
        }
    }

    #[test]
    fn what_exceeds_the_largest_value_stops_there_on_the_way_to_zero() {
        let f16 = ElementType::F16.float_format().unwrap();
        assert_eq!(directed(&f16, 1e9, Directed::TowardZero), Some(65504.0));
        assert_eq!(
            directed(&f16, -1e-9, Directed::TowardZero).map(f64::to_bits),
            Some((-0.0f64).to_bits())
        );
        assert_eq!(directed(&f16, f64::NAN, Directed::Up), None);
    }
}
