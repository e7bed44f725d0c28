//! What each operator's result is, computed here and by no compiler: in f64, with relative errors far below an ulp of any
//! smaller type.
//!
//! Elementary functions are those of the crate `libm`, the Rust project's port of musl's, whose errors stay below an ulp of f64;
//! the others are in `gamma` and `special`, and are tested against mpmath. f64's own results cannot be judged by this.

mod double_double;
mod gamma;
mod special;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::tensor::FloatFormat;
use crate::tensor::format::pow2;

/// One operand: a value of its format with its encoding, which alone tells a NaN's sign.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    pub code: u64,
    pub value: f64,
}

/// How an operator's exact result comes from its operands.
#[derive(Debug, Clone, Copy)]
pub enum Formula {
    Unary(fn(f64) -> f64),
    /// `None` where the result is left open, as of [`Self::Binary`].
    Partial(fn(f64) -> Option<f64>),
    /// `None` where the specification leaves the result open, or it lies beyond the formula's reach.
    Binary(fn(f64, f64) -> Option<f64>),
    Compare(Direction, Order),
    NextAfter,
    /// Rounding to a format with so many bits of exponent and of mantissa, and back.
    ReducePrecision {
        exponent: u32,
        mantissa: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Float,
    Total,
}

/// The formula of an operator of the suites; `axes` are the parts of its ids between the element type and the variant. A
/// conversion between floats is the identity, rounded where the result is judged.
pub fn formula(operator: &str, axes: &[&str]) -> Option<Formula> {
    use Formula::{Binary, Unary};
    let unary = UNARY.iter().find(|(name, _)| *name == operator);
    let binary = BINARY.iter().find(|(name, _)| *name == operator);
    match (operator, axes) {
        ("convert", ["pred"]) => Some(Unary(|x| truth(x != 0.0))),
        ("convert", [_]) => Some(Unary(|x| x)),
        ("chlo.digamma", []) => Some(Formula::Partial(gamma::digamma)),
        ("chlo.next_after", []) => Some(Formula::NextAfter),
        ("reduce_precision", [format]) => {
            let (exponent, mantissa) = format.strip_prefix('e')?.split_once('m')?;
            Some(Formula::ReducePrecision {
                exponent: exponent
                    .parse()
                    .ok()
                    .filter(|bits| (1..=11).contains(bits))?,
                mantissa: mantissa.parse().ok().filter(|bits| *bits <= 52)?,
            })
        }
        ("compare", [order, direction]) => {
            let order = match *order {
                "float" => Order::Float,
                "totalorder" => Order::Total,
                _ => return None,
            };
            let (_, direction) = DIRECTIONS.iter().find(|(name, _)| name == direction)?;
            Some(Formula::Compare(*direction, order))
        }
        (_, []) => match (unary, binary) {
            (Some((_, unary)), _) => Some(Unary(*unary)),
            (None, Some((_, binary))) => Some(Binary(*binary)),
            (None, None) => None,
        },
        _ => None,
    }
}

const DIRECTIONS: [(&str, Direction); 6] = [
    ("eq", Direction::Eq),
    ("ne", Direction::Ne),
    ("ge", Direction::Ge),
    ("gt", Direction::Gt),
    ("le", Direction::Le),
    ("lt", Direction::Lt),
];

/// An operator of one operand.
type Unary = fn(f64) -> f64;
/// An operator of two; `None` where the specification leaves the result open.
type Binary = fn(f64, f64) -> Option<f64>;

/// Operators of one operand that take no more to say.
const UNARY: [(&str, Unary); 41] = [
    ("abs", f64::abs),
    ("cbrt", libm::cbrt),
    ("ceil", libm::ceil),
    ("chlo.acos", libm::acos),
    ("chlo.acosh", acosh),
    ("chlo.asin", libm::asin),
    ("chlo.asinh", libm::asinh),
    ("chlo.atan", libm::atan),
    ("chlo.atanh", libm::atanh),
    ("chlo.bessel_i1e", special::bessel_i1e),
    ("chlo.conj", |x| x),
    ("chlo.cosh", libm::cosh),
    ("chlo.erf", libm::erf),
    ("chlo.erf_inv", special::erf_inv),
    ("chlo.erfc", libm::erfc),
    ("chlo.is_inf", |x| truth(x.is_infinite())),
    ("chlo.is_neg_inf", |x| truth(x == f64::NEG_INFINITY)),
    ("chlo.is_pos_inf", |x| truth(x == f64::INFINITY)),
    ("chlo.lgamma", gamma::log_gamma),
    ("chlo.sinh", libm::sinh),
    ("chlo.square", |x| x * x),
    ("chlo.tan", libm::tan),
    ("cosine", libm::cos),
    ("exponential", libm::exp),
    ("exponential_minus_one", libm::expm1),
    ("floor", libm::floor),
    ("imag", |_| 0.0),
    ("is_finite", |x| truth(x.is_finite())),
    ("log", libm::log),
    ("log_plus_one", libm::log1p),
    ("logistic", |x| 1.0 / (1.0 + libm::exp(-x))),
    ("negate", |x| -x),
    ("real", |x| x),
    ("round_nearest_afz", libm::round),
    ("round_nearest_even", f64::round_ties_even),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("sign", sign),
    ("sine", libm::sin),
    ("sqrt", f64::sqrt),
    ("tan", libm::tan),
    ("tanh", libm::tanh),
];

const BINARY: [(&str, Binary); 11] = [
    ("add", |x, y| Some(x + y)),
    ("atan2", |y, x| Some(libm::atan2(y, x))),
    ("chlo.polygamma", gamma::polygamma),
    ("chlo.zeta", gamma::hurwitz_zeta),
    ("divide", |x, y| Some(x / y)),
    ("maximum", |x, y| Some(maximum(x, y))),
    ("minimum", |x, y| Some(-maximum(-x, -y))),
    ("multiply", |x, y| Some(x * y)),
    ("power", |x, y| Some(libm::pow(x, y))),
    ("remainder", remainder),
    ("subtract", |x, y| Some(x - y)),
];

fn truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// `libm` gives numbers for some below its domain.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() {
        x
    } else {
        1f64.copysign(x)
    }
}

/// IEEE 754-2019 `maximum`: NaN wins, and −0 is less than +0.
fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == y {
        if x.is_sign_negative() { y } else { x }
    } else if x > y {
        x
    } else {
        y
    }
}

/// Of the truncated quotient. With an infinite divisor the specification's formula gives NaN and its sentence the dividend.
fn remainder(x: f64, y: f64) -> Option<f64> {
    if x.is_finite() && y.is_infinite() {
        return None;
    }
    Some(x % y)
}

impl Formula {
    pub fn operands(&self) -> usize {
        match self {
            Self::Unary(_) | Self::Partial(_) | Self::ReducePrecision { .. } => 1,
            _ => 2,
        }
    }

    /// The exact result, or `None` where there is none to hold a compiler to. `format` is that of the operands; as many are
    /// given as the formula takes.
    #[inline]
    pub fn evaluate(&self, operands: &[Operand], format: &FloatFormat) -> Option<f64> {
        match (self, operands) {
            (Self::Unary(function), [x]) => Some(function(x.value)),
            (Self::Partial(function), [x]) => function(x.value),
            (&Self::ReducePrecision { exponent, mantissa }, [x]) => {
                reduce_precision(x.value, exponent, mantissa)
            }
            (Self::Binary(function), [x, y]) => function(x.value, y.value),
            (Self::NextAfter, [x, y]) => Some(next_after(*x, *y, format)),
            (Self::Compare(direction, order), [x, y]) => {
                compare(*direction, *order, *x, *y, format).map(truth)
            }
            _ => None,
        }
    }
}

/// Ties to even; what rounds beyond the largest value is infinite. Below the smallest normal one the specification leaves open
/// whether the format has subnormals.
fn reduce_precision(x: f64, exponent: u32, mantissa: u32) -> Option<f64> {
    if x == 0.0 || !x.is_finite() {
        return Some(x);
    }
    let dropped = 52 - mantissa;
    let bits = x.abs().to_bits();
    let half = (1u64 << dropped) >> 1;
    let odd = bits >> dropped & 1;
    // Of f64's own mantissa nothing is dropped.
    let up = if dropped == 0 { 0 } else { half - 1 + odd };
    let rounded = f64::from_bits((bits + up) >> dropped << dropped);
    let bias = (1i32 << (exponent - 1)) - 1;
    if rounded < pow2(1 - bias) {
        return None;
    }
    let largest = pow2(bias) * (2.0 - pow2(-(mantissa as i32)));
    let magnitude = if rounded > largest {
        f64::INFINITY
    } else {
        rounded
    };
    Some(magnitude.copysign(x))
}

/// C's `nextafter` in the format.
fn next_after(x: Operand, y: Operand, format: &FloatFormat) -> f64 {
    if x.value.is_nan() || y.value.is_nan() {
        return f64::NAN;
    }
    if x.value == y.value {
        return y.value;
    }
    let up = x.value < y.value;
    let (Some(from), step) = (format.ordinal(x.code), if up { 1 } else { -1 }) else {
        return f64::NAN;
    };
    let to = from + step;
    match format.from_ordinal(to) {
        // The last step towards 0 keeps the sign of where it comes from.
        Some(_) if to == 0 => 0f64.copysign(x.value),
        Some(code) => format.decode(code),
        // Beyond the largest finite value, where y is infinite.
        None => f64::INFINITY.copysign(to as f64),
    }
}

/// The specification leaves open how zeros of both signs and NaNs stand to each other in the total order.
fn compare(
    direction: Direction,
    order: Order,
    x: Operand,
    y: Operand,
    format: &FloatFormat,
) -> Option<bool> {
    let ordering = match order {
        Order::Float => x.value.partial_cmp(&y.value),
        Order::Total => {
            let both_zero = x.value == 0.0 && y.value == 0.0;
            let both_nan = x.value.is_nan() && y.value.is_nan();
            if both_nan || both_zero && x.code != y.code {
                return None;
            }
            Some(key(x, format).cmp(&key(y, format)))
        }
    };
    Some(match direction {
        Direction::Eq => ordering == Some(Ordering::Equal),
        Direction::Ne => ordering != Some(Ordering::Equal),
        Direction::Ge => ordering.is_some_and(Ordering::is_ge),
        Direction::Gt => ordering.is_some_and(Ordering::is_gt),
        Direction::Le => ordering.is_some_and(Ordering::is_le),
        Direction::Lt => ordering.is_some_and(Ordering::is_lt),
    })
}

/// A whole number that orders values as IEEE 754's totalOrder does: negative NaN, the values, positive NaN.
fn key(operand: Operand, format: &FloatFormat) -> i64 {
    format.ordinal(operand.code).unwrap_or({
        let negative = format.has_sign()
            && operand.code >> (format.exponent_bits + format.mantissa_bits) & 1 == 1;
        if negative { i64::MIN } else { i64::MAX }
    })
}
