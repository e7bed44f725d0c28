//! The files that references are kept in: `<suite>/<subject>.jsonl`, a line a case, sorted by id.
//!
//! A tensor of at most [`INLINE`] elements is a list of numbers, which a person can read and a diff can show; a larger one
//! is base64 of its bytes. Either way its hash stands beside it, so that a damaged line is found before it is believed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::case::CaseId;
use crate::compare::Yardstick;
use crate::tensor::{ElementType, Tensor};

pub const SCHEMA: &str = "tpu-parity/reference/1";

/// The largest tensor that is written as numbers.
const INLINE: usize = 256;

/// One line of a reference file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub id: CaseId,
    pub schema: String,
    pub provenance: Provenance,
    pub outputs: Vec<Output>,
}

/// Where a reference comes from: enough to compute it again, and to see that the case has changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub plugin: Generator,
    /// BLAKE3 of the case's program and of the program that was executed for the reference.
    pub program: String,
    pub reference_program: String,
    pub seed: u64,
    pub inputs: Vec<Input>,
    /// The day it was computed, `YYYY-MM-DD`.
    pub date: String,
}

/// The plug-in that computed a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    pub name: String,
    pub version: String,
    pub sha256: String,
}

/// An operand as it was drawn, before it was widened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub element_type: ElementType,
    pub shape: Vec<usize>,
    /// [`Tensor::hash`].
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The element type of the case's own result, which the values are rounded to before an exact comparison.
    pub element_type: ElementType,
    pub values: StoredTensor,
    /// The same program on the absolute values of its inputs: the scale of the result's error bound, in f64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<StoredTensor>,
    /// The same program on inputs whose subnormals are zeros, where that gives other values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed: Option<StoredTensor>,
    /// What CPU is off in the program's own precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<Yardstick>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTensor {
    #[serde(rename = "type")]
    element_type: ElementType,
    shape: Vec<usize>,
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl StoredTensor {
    /// NaNs are stored as the one NaN: no comparison tells them apart.
    pub fn encode(tensor: &Tensor) -> Self {
        let element_type = tensor.element_type();
        let mut hash = tensor.hash();
        let mut numbers = None;
        if tensor.len() <= INLINE {
            let values = numbers_of(tensor);
            // Numbers are kept only where they carry every bit but those of a NaN.
            if let Ok(decoded) = decode_numbers(element_type, tensor.shape(), &values)
                && same_but_for_nans(&decoded, tensor)
            {
                hash = decoded.hash();
                numbers = Some(values);
            }
        }
        let base64 = numbers.is_none().then(|| STANDARD.encode(tensor.data()));
        Self {
            element_type,
            shape: tensor.shape().to_vec(),
            hash,
            numbers,
            base64,
        }
    }

    /// The tensor, if it is whole: its hash must be the one that was written with it.
    pub fn decode(&self) -> Result<Tensor, String> {
        let tensor = match (&self.numbers, &self.base64) {
            (Some(numbers), None) => decode_numbers(self.element_type, &self.shape, numbers)?,
            (None, Some(text)) => {
                let data = STANDARD
                    .decode(text)
                    .map_err(|error| format!("bad base64: {error}"))?;
                Tensor::new(self.element_type, self.shape.clone(), data)
                    .map_err(|error| error.to_string())?
            }
            _ => return Err("a tensor needs either 'numbers' or 'base64'".to_owned()),
        };
        if tensor.hash() != self.hash {
            return Err("its values do not match the hash written with them".to_owned());
        }
        Ok(tensor)
    }
}

fn is_integral(element_type: ElementType) -> bool {
    element_type.is_integer() || element_type == ElementType::Pred
}

fn same_but_for_nans(a: &Tensor, b: &Tensor) -> bool {
    if a.data() == b.data() {
        return true;
    }
    !is_integral(a.element_type())
        && a.to_f64()
            .into_iter()
            .zip(b.to_f64())
            .all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()))
}

/// The elements as JSON numbers, non-finite floats as `"NaN"`, `"inf"`, `"-inf"`; complex as real, imaginary, real, …
fn numbers_of(tensor: &Tensor) -> Vec<Value> {
    let element_type = tensor.element_type();
    if is_integral(element_type) {
        (0..tensor.len())
            .map(|i| integer(element_type, tensor.bits(i)))
            .collect()
    } else {
        tensor.to_f64().into_iter().map(float).collect()
    }
}

fn integer(element_type: ElementType, bits: u128) -> Value {
    let width = element_type.bits();
    if element_type.is_signed_integer() {
        let shift = 128 - width;
        Value::from((((bits << shift) as i128) >> shift) as i64)
    } else {
        Value::from(bits as u64)
    }
}

fn float(value: f64) -> Value {
    if value.is_nan() {
        Value::from("NaN")
    } else if value == f64::INFINITY {
        Value::from("inf")
    } else if value == f64::NEG_INFINITY {
        Value::from("-inf")
    } else {
        Value::from(value)
    }
}

fn decode_numbers(
    element_type: ElementType,
    shape: &[usize],
    numbers: &[Value],
) -> Result<Tensor, String> {
    let bad = |value: &Value| format!("'{value}' is no {element_type}");
    if is_integral(element_type) {
        let mut data = Vec::with_capacity(numbers.len() * element_type.bytes());
        for value in numbers {
            let bits = match (value.as_i64(), value.as_u64()) {
                (Some(signed), _) => signed as u64,
                (_, Some(unsigned)) => unsigned,
                _ => return Err(bad(value)),
            };
            data.extend_from_slice(&bits.to_le_bytes()[..element_type.bytes()]);
        }
        return Tensor::new(element_type, shape.to_vec(), data).map_err(|error| error.to_string());
    }
    let floats = numbers
        .iter()
        .map(|value| match value.as_str() {
            Some("NaN") => Ok(f64::NAN),
            Some("inf") => Ok(f64::INFINITY),
            Some("-inf") => Ok(f64::NEG_INFINITY),
            _ => value.as_f64().ok_or_else(|| bad(value)),
        })
        .collect::<Result<Vec<f64>, String>>()?;
    Tensor::from_f64(element_type, shape.to_vec(), &floats).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(tensor: &Tensor) -> (StoredTensor, Tensor) {
        let text = serde_json::to_string(&StoredTensor::encode(tensor)).unwrap();
        let stored: StoredTensor = serde_json::from_str(&text).unwrap();
        let decoded = stored.decode().unwrap();
        (stored, decoded)
    }

    #[test]
    fn small_tensors_are_numbers_and_come_back_bit_for_bit() {
        let values = [
            0.1,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            5e-324,
            f64::MAX,
        ];
        let tensor = Tensor::from_f64(ElementType::F64, vec![7], &values).unwrap();
        let (stored, decoded) = round_trip(&tensor);
        assert!(stored.numbers.is_some() && stored.base64.is_none());
        assert_eq!(decoded, tensor);
    }

    #[test]
    fn extreme_integers_survive() {
        for (element_type, bytes) in [
            (ElementType::I64, i64::MIN.to_le_bytes().to_vec()),
            (ElementType::U64, u64::MAX.to_le_bytes().to_vec()),
            (ElementType::I8, vec![0x80]),
            (ElementType::I4, vec![0xf8]),
            (ElementType::U2, vec![3]),
            (ElementType::Pred, vec![1]),
        ] {
            let tensor = Tensor::new(element_type, vec![1], bytes).unwrap();
            assert_eq!(round_trip(&tensor).1, tensor, "{element_type}");
        }
    }

    #[test]
    fn large_tensors_are_base64() {
        let values: Vec<f64> = (0..300).map(|i| f64::from(i) / 7.0).collect();
        let tensor = Tensor::from_f64(ElementType::F64, vec![300], &values).unwrap();
        let (stored, decoded) = round_trip(&tensor);
        assert!(stored.base64.is_some());
        assert_eq!(decoded, tensor);
    }

    #[test]
    fn any_nan_is_stored_as_the_one_nan() {
        let odd = f64::from_bits(0xfff8_0000_0000_0001);
        let tensor = Tensor::new(ElementType::F64, vec![1], odd.to_le_bytes().to_vec()).unwrap();
        let (stored, decoded) = round_trip(&tensor);
        assert!(stored.numbers.is_some());
        assert!(decoded.to_f64()[0].is_nan());
    }

    #[test]
    fn a_changed_digit_is_found() {
        let tensor = Tensor::from_f64(ElementType::F64, vec![2], &[1.5, 2.5]).unwrap();
        let text = serde_json::to_string(&StoredTensor::encode(&tensor)).unwrap();
        let stored: StoredTensor = serde_json::from_str(&text.replace("2.5", "2.25")).unwrap();
        assert!(stored.decode().unwrap_err().contains("hash"));
    }
}
