//! MLIR's dense literals: `dense<…> : tensor<…>` as a tensor, bit for bit.
//!
//! Splats, nested lists and the hexadecimal form of raw data, over every element type of StableHLO; quantized types and
//! `dense_resource` are refused with the reason.

use super::text;
use crate::tensor::{ElementType, Tensor};

/// The element type and shape of `tensor<2x3xf32>`.
pub(super) fn tensor_type(written: &str) -> Result<(ElementType, Vec<usize>), String> {
    let inner = written
        .strip_prefix("tensor<")
        .and_then(|rest| rest.strip_suffix('>'))
        .ok_or_else(|| format!("{written} is not a tensor type"))?;
    let mut shape = Vec::new();
    let mut rest = inner.trim();
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let (dimension, tail) = rest
            .split_once('x')
            .ok_or_else(|| format!("{written} has no element type"))?;
        let dimension = dimension
            .parse()
            .map_err(|_| format!("{written}: dimension {dimension} is too large"))?;
        shape.push(dimension);
        rest = tail;
    }
    let element_type = ElementType::all()
        .find(|t| t.mlir() == rest)
        .ok_or_else(|| match rest {
            _ if rest.starts_with('?') => format!("{written} has a dimension that is not known"),
            _ if rest.starts_with("!quant") => format!("{written} is quantized"),
            _ => format!("{written} has an element type that is not StableHLO's"),
        })?;
    Ok((element_type, shape))
}

/// `tensor<2x3xf32>` for a tensor.
pub(super) fn type_of(tensor: &Tensor) -> String {
    let dimensions: String = tensor.shape().iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dimensions}{}>", tensor.element_type().mlir())
}

/// The first dense literal in the text, with the type that follows it.
pub(super) fn dense_in(text: &str) -> Result<Tensor, String> {
    let open = text
        .find("dense<")
        .ok_or("the constant is not a dense literal")?
        + "dense".len();
    let close = text::closing_angle(text, open).ok_or("a dense literal does not close")?;
    let written = text::tensor_types(&text[close..])
        .first()
        .copied()
        .ok_or("a dense literal has no type")?;
    let (element_type, shape) = tensor_type(written)?;
    let content = text[open + 1..close].trim();
    match content.strip_prefix('"') {
        Some(quoted) => raw(element_type, shape, quoted.trim_end_matches('"')),
        None => listed(element_type, shape, content),
    }
    .map_err(|reason| format!("a literal of {written}: {reason}"))
}

/// A splat or a type of a few characters may ask for any amount of memory; no test needs more than this.
const MOST_BYTES: usize = 1 << 30;
/// Lists nest as deep as the rank.
const MOST_DIMENSIONS: usize = 64;

/// How many elements a tensor of this type has; an error where it is too large for a test.
pub(super) fn elements(element_type: ElementType, shape: &[usize]) -> Result<usize, String> {
    if shape.len() > MOST_DIMENSIONS {
        return Err(format!("it has more than {MOST_DIMENSIONS} dimensions"));
    }
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|n| *n <= MOST_BYTES / element_type.bytes())
        .ok_or_else(|| format!("it takes more than {MOST_BYTES} bytes"))
}

/// Hexadecimal data: every element in little-endian bytes, or one for all. Sub-byte elements take a byte each; `i1` takes a
/// bit in what older versions of MLIR write, and a byte in newer ones.
fn raw(element_type: ElementType, shape: Vec<usize>, text: &str) -> Result<Tensor, String> {
    let digits = text
        .strip_prefix("0x")
        .ok_or("its string is not hexadecimal")?;
    let nibble = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err("its hexadecimal digits are not in pairs".to_owned());
    }
    let mut bytes: Vec<u8> = pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?))
        .collect::<Option<_>>()
        .ok_or("its string is not hexadecimal")?;
    let count = elements(element_type, &shape)?;
    let width = element_type.bytes();
    if element_type == ElementType::Pred {
        if bytes.len() == count.div_ceil(8) && bytes.len() != count {
            bytes = (0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
        }
        bytes
            .iter_mut()
            .for_each(|byte| *byte = u8::from(*byte != 0));
    }
    if bytes.len() == width && count != 1 {
        bytes = bytes.repeat(count);
    }
    Tensor::new(element_type, shape, bytes).map_err(|e| e.to_string())
}

/// A splat or nested lists.
fn listed(element_type: ElementType, shape: Vec<usize>, content: &str) -> Result<Tensor, String> {
    let count = elements(element_type, &shape)?;
    let mut reader = Reader {
        element_type,
        rest: content,
        bytes: Vec::new(),
    };
    if content.starts_with('[') {
        reader.list(&shape)?;
    } else if !content.is_empty() {
        reader.element()?;
        reader.bytes = reader.bytes.repeat(count);
    }
    if !reader.rest.trim().is_empty() {
        return Err(format!("'{}' follows it", shortened(reader.rest)));
    }
    Tensor::new(element_type, shape, reader.bytes).map_err(|e| e.to_string())
}

fn shortened(text: &str) -> String {
    text.chars().take(20).collect()
}

struct Reader<'a> {
    element_type: ElementType,
    rest: &'a str,
    bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, token: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!(
                "'{token}' is missing before '{}'",
                shortened(self.rest)
            )),
        }
    }

    fn list(&mut self, shape: &[usize]) -> Result<(), String> {
        let Some((&length, inner)) = shape.split_first() else {
            return self.element();
        };
        self.expect('[')?;
        let mut found = 0;
        while !self.take(']') {
            if found > 0 {
                self.expect(',')?;
            }
            self.list(inner)?;
            found += 1;
        }
        match found == length {
            true => Ok(()),
            false => Err(format!("a list has {found} items, not {length}")),
        }
    }

    fn element(&mut self) -> Result<(), String> {
        match self.element_type {
            ElementType::C64 | ElementType::C128 => {
                let part = match self.element_type {
                    ElementType::C64 => ElementType::F32,
                    _ => ElementType::F64,
                };
                self.expect('(')?;
                self.scalar(part)?;
                self.expect(',')?;
                self.scalar(part)?;
                self.expect(')')
            }
            element_type => self.scalar(element_type),
        }
    }

    fn scalar(&mut self, element_type: ElementType) -> Result<(), String> {
        self.rest = self.rest.trim_start();
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | ')' | '('))
            .unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        let bad = || format!("'{}' is not a value of {element_type}", shortened(token));
        let width = element_type.bytes();
        let bits = match token {
            "true" | "false" if element_type == ElementType::Pred => u128::from(token == "true"),
            _ if element_type.is_float() => match token.strip_prefix("0x") {
                // The bits of the value.
                Some(hex) => u128::from_str_radix(hex, 16)
                    .ok()
                    .filter(|bits| bits >> element_type.bits() == 0)
                    .ok_or_else(bad)?,
                // MLIR reads a decimal as an f64 and rounds that to the type.
                None => {
                    let value: f64 = token
                        .parse()
                        .ok()
                        .filter(|_| !token.contains(['n', 'N', 'i', 'I']))
                        .ok_or_else(bad)?;
                    Tensor::from_f64(element_type, Vec::new(), &[value])
                        .map_err(|e| e.to_string())?
                        .bits(0)
                }
            },
            _ => integer(token)
                .filter(|value| holds(element_type, *value))
                .ok_or_else(bad)? as u128,
        };
        self.bytes.extend_from_slice(&bits.to_le_bytes()[..width]);
        Ok(())
    }
}

fn integer(token: &str) -> Option<i128> {
    let (sign, digits) = match token.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, token),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    value.ok().filter(|v| *v >= 0).map(|v| sign * v)
}

/// A signless integer may be written as its signed or as its unsigned value.
fn holds(element_type: ElementType, value: i128) -> bool {
    let bits = match element_type {
        ElementType::Pred => 1,
        other => other.bits(),
    };
    let least = match element_type.is_unsigned_integer() || bits == 1 {
        true => 0,
        false => -(1i128 << (bits - 1)),
    };
    (least..1i128 << bits).contains(&value)
}
