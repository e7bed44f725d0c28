//! Named values: options that go in, attributes and properties that come out.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pjrt_sys::{PJRT_NamedValue, PJRT_NamedValue_Type};
use serde::{Deserialize, Serialize};

use super::{Error, Result, raw};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Bool(bool),
    I64(i64),
    F32(f32),
    String(String),
    I64List(Vec<i64>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedValue {
    pub name: String,
    pub value: Value,
}

/// What is written `NAME=VALUE` is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form NAME=VALUE, as xla_cpu_enable_fast_math=true")]
pub struct NamedValueError(String);

impl fmt::Display for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// `true` and `false` are booleans, whole numbers integers, other numbers floats, and the rest strings.
impl FromStr for NamedValue {
    type Err = NamedValueError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let bad = || NamedValueError(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) || value.is_empty() {
            return Err(bad());
        }
        let value = match value {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (value.parse::<i64>(), value.parse::<f32>()) {
                (Ok(integer), _) => Value::I64(integer),
                (_, Ok(float)) if float.is_finite() => Value::F32(float),
                _ => Value::String(value.to_owned()),
            },
        };
        Ok(Self::new(name, value))
    }
}

const STRING: PJRT_NamedValue_Type = 0;
const I64: PJRT_NamedValue_Type = 1;
const I64_LIST: PJRT_NamedValue_Type = 2;
const F32: PJRT_NamedValue_Type = 3;
const BOOL: PJRT_NamedValue_Type = 4;

impl NamedValue {
    pub fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    /// Borrows from `self`.
    fn to_raw(&self) -> PJRT_NamedValue {
        let mut raw = PJRT_NamedValue::new();
        raw.name = self.name.as_ptr().cast();
        raw.name_size = self.name.len();
        raw.value_size = 1;
        match &self.value {
            Value::Bool(value) => {
                raw.type_ = BOOL;
                raw.__bindgen_anon_1.bool_value = *value;
            }
            Value::I64(value) => {
                raw.type_ = I64;
                raw.__bindgen_anon_1.int64_value = *value;
            }
            Value::F32(value) => {
                raw.type_ = F32;
                raw.__bindgen_anon_1.float_value = *value;
            }
            Value::String(value) => {
                raw.type_ = STRING;
                raw.__bindgen_anon_1.string_value = value.as_ptr().cast();
                raw.value_size = value.len();
            }
            Value::I64List(value) => {
                raw.type_ = I64_LIST;
                raw.__bindgen_anon_1.int64_array_value = value.as_ptr();
                raw.value_size = value.len();
            }
        }
        raw
    }

    /// `None` for a type that the header does not define.
    ///
    /// # Safety
    /// What `raw` points to is readable during the call.
    unsafe fn from_raw(call: &'static str, raw: &PJRT_NamedValue) -> Result<Option<Self>> {
        let value = &raw.__bindgen_anon_1;
        // SAFETY: `type_` says which field of the union the plug-in wrote.
        let value = unsafe {
            match raw.type_ {
                STRING => Value::String(raw::text(value.string_value, raw.value_size)),
                I64 => Value::I64(value.int64_value),
                I64_LIST => Value::I64List(
                    raw::slice(call, value.int64_array_value, raw.value_size)?.to_vec(),
                ),
                F32 => Value::F32(value.float_value),
                BOOL => Value::Bool(value.bool_value),
                _ => return Ok(None),
            }
        };
        // SAFETY: by the contract.
        let name = unsafe { raw::text(raw.name, raw.name_size) };
        Ok(Some(Self { name, value }))
    }
}

/// Borrows from `values`.
pub fn to_raw(values: &[NamedValue]) -> Vec<PJRT_NamedValue> {
    values.iter().map(NamedValue::to_raw).collect()
}

/// The values that a call returned, by name.
///
/// # Safety
/// `values` is null, or `length` values that stay readable during the call.
pub unsafe fn from_raw(
    call: &'static str,
    values: *const PJRT_NamedValue,
    length: usize,
) -> Result<BTreeMap<String, Value>> {
    // The plug-in may have been built with a larger struct, in which case the items lie further apart than ours.
    let mut map = BTreeMap::new();
    if length == 0 {
        return Ok(map);
    }
    // SAFETY: by the contract there is at least one.
    let first = unsafe { raw::slice(call, values, 1)? };
    let stride = first[0].struct_size;
    if stride != 0 && stride < PJRT_NamedValue::STRUCT_SIZE {
        return Err(Error::Malformed {
            call,
            what: format!("named values of {stride} bytes"),
        });
    }
    let stride = stride.max(PJRT_NamedValue::STRUCT_SIZE);
    for index in 0..length {
        // SAFETY: by the contract there are `length` items, `stride` bytes apart.
        let value = unsafe { raw::slice(call, values.byte_add(index * stride), 1)? };
        // SAFETY: by the contract what it points to is readable.
        if let Some(named) = unsafe { NamedValue::from_raw(call, &value[0])? } {
            map.insert(named.name, named.value);
        }
    }
    Ok(map)
}

impl Value {
    /// Numbers and bools as f64; `None` for strings and lists.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            Self::I64(value) => Some(*value as f64),
            Self::F32(value) => Some(f64::from(*value)),
            Self::String(_) | Self::I64List(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::I64(value) => value.fmt(f),
            Self::F32(value) => value.fmt(f),
            Self::String(value) => f.pad(value),
            Self::I64List(values) => f.debug_list().entries(values).finish(),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from! { bool => Bool, i64 => I64, f32 => F32, String => String, &str => String, Vec<i64> => I64List }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_c_structs() {
        let values = [
            NamedValue::new("a", true),
            NamedValue::new("b", -7i64),
            NamedValue::new("c", 1.5f32),
            NamedValue::new("d", "text"),
            NamedValue::new("e", vec![1i64, 2, 3]),
        ];
        let raw = to_raw(&values);
        // SAFETY: `raw` borrows from `values`, which is alive.
        let map = unsafe { from_raw("test", raw.as_ptr(), raw.len()) }.unwrap();
        assert_eq!(map.len(), values.len());
        for value in values {
            assert_eq!(map[&value.name], value.value);
        }
    }

    #[test]
    fn a_flag_is_a_name_and_a_value_of_its_own_kind() {
        let parsed = |text: &str| text.parse::<NamedValue>();
        assert_eq!(parsed("level=0"), Ok(NamedValue::new("level", 0i64)));
        assert_eq!(parsed("fast=true"), Ok(NamedValue::new("fast", true)));
        assert_eq!(parsed("part=0.5"), Ok(NamedValue::new("part", 0.5f32)));
        assert_eq!(parsed("dump=a=b"), Ok(NamedValue::new("dump", "a=b")));
        assert_eq!(parsed("x=inf"), Ok(NamedValue::new("x", "inf")));
        for bad in ["", "level", "=1", "level=", "--level=1", "a b=1"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        assert_eq!(NamedValue::new("level", 0i64).to_string(), "level=0");
    }

    #[test]
    fn a_null_array_with_a_length_is_malformed() {
        // SAFETY: null is allowed.
        let error = unsafe { from_raw("PJRT_X", std::ptr::null(), 2) }.unwrap_err();
        assert!(matches!(error, Error::Malformed { call: "PJRT_X", .. }));
    }
}
