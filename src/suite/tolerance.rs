//! The written forms of a tolerance and of a domain, resolved for one case.

use super::document::Bindings;
use super::template::parse_type;
use crate::compare::{Precision, Tolerance};
use crate::tensor::{Domain, ElementType};

/// Evaluates a minijinja expression to a positive whole number.
pub type Evaluate<'e> = &'e dyn Fn(&str) -> Result<i64, String>;

/// Follows `"$name"` to the binding's value; anything else is itself.
fn follow<'v>(value: &'v toml::Value, bindings: &'v Bindings) -> Result<&'v toml::Value, String> {
    match value.as_str().and_then(|text| text.strip_prefix('$')) {
        None => Ok(value),
        Some(name) => bindings
            .get(name)
            .ok_or_else(|| format!("'${name}' names no binding")),
    }
}

/// One tolerance per result. One alone stands for all results.
pub fn tolerances(
    value: &toml::Value,
    bindings: &Bindings,
    results: &[ElementType],
    evaluate: Evaluate<'_>,
) -> Result<Vec<Tolerance>, String> {
    match follow(value, bindings)? {
        toml::Value::Array(items) if items.len() != results.len() => Err(format!(
            "{} tolerances for {} results",
            items.len(),
            results.len()
        )),
        toml::Value::Array(items) => items
            .iter()
            .zip(results)
            .map(|(item, result)| tolerance(item, bindings, *result, evaluate))
            .collect(),
        item => results
            .iter()
            .map(|result| tolerance(item, bindings, *result, evaluate))
            .collect(),
    }
}

fn tolerance(
    value: &toml::Value,
    bindings: &Bindings,
    result: ElementType,
    evaluate: Evaluate<'_>,
) -> Result<Tolerance, String> {
    let value = follow(value, bindings)?;
    let parsed = match value {
        toml::Value::String(text) if text == "exact" => Tolerance::Exact,
        toml::Value::Table(table) => {
            let known = [
                "ulp",
                "norm",
                "accumulate",
                "accumulator",
                "precision",
                "yardstick",
                "logits",
            ];
            if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
                return Err(format!("unknown key '{key}' in the tolerance"));
            }
            match (table.get("ulp"), table.get("norm"), table.get("accumulate")) {
                (Some(ulp), None, None) => Tolerance::Ulp(per_type(ulp, bindings, result)?),
                (None, Some(norm), None) => Tolerance::Norm(per_type(norm, bindings, result)?),
                (None, None, Some(terms)) => accumulate(table, terms, bindings, result, evaluate)?,
                (None, None, None) if table.contains_key("yardstick") => yardstick(table)?,
                _ => {
                    return Err(
                        "the tolerance needs one of ulp, norm, accumulate and yardstick".to_owned(),
                    );
                }
            }
        }
        other => return Err(format!("{other} is not a tolerance")),
    };
    // Whatever the suite says, there is nothing to tolerate in an integer.
    Ok(match result.is_float() || result.is_complex() {
        true => parsed,
        false => Tolerance::Exact,
    })
}

/// A number, or a table of numbers by element type with `default`.
fn per_type(value: &toml::Value, bindings: &Bindings, result: ElementType) -> Result<f64, String> {
    let number = |value: &toml::Value| match value {
        toml::Value::Integer(integer) if *integer >= 0 => Ok(*integer as f64),
        toml::Value::Float(float) if *float >= 0.0 => Ok(*float),
        other => Err(format!("{other} is not a number from 0")),
    };
    let value = follow(value, bindings)?;
    let toml::Value::Table(table) = value else {
        return number(value);
    };
    for key in table.keys().filter(|key| *key != "default") {
        parse_type(key)?;
    }
    table
        .get(result.name())
        .or_else(|| table.get("default"))
        .ok_or_else(|| format!("the tolerance has no entry for {result} and no default"))
        .and_then(number)
}

fn yardstick(table: &toml::Table) -> Result<Tolerance, String> {
    let factor = match table.get("yardstick") {
        Some(toml::Value::Integer(factor)) => *factor as f64,
        Some(toml::Value::Float(factor)) => *factor,
        _ => 0.0,
    };
    if factor < 1.0 || !factor.is_finite() {
        return Err("a yardstick is a number from 1".to_owned());
    }
    let logits = match table.get("logits") {
        None => false,
        Some(toml::Value::Boolean(logits)) => *logits,
        Some(other) => return Err(format!("logits = {other} is neither true nor false")),
    };
    Ok(Tolerance::Yardstick { factor, logits })
}

fn accumulate(
    table: &toml::Table,
    terms: &toml::Value,
    bindings: &Bindings,
    result: ElementType,
    evaluate: Evaluate<'_>,
) -> Result<Tolerance, String> {
    let terms = match follow(terms, bindings)? {
        toml::Value::Integer(terms) => *terms,
        toml::Value::String(expression) => evaluate(expression)?,
        other => return Err(format!("accumulate = {other} is not an expression")),
    };
    let terms = u64::try_from(terms).map_err(|_| format!("accumulate gives {terms} terms"))?;
    let word = |key: &str| -> Result<Option<&str>, String> {
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        let value = match follow(value, bindings)? {
            toml::Value::Table(by_type) => by_type
                .get(result.name())
                .or_else(|| by_type.get("default"))
                .ok_or_else(|| format!("{key} has no entry for {result} and no default"))?,
            value => value,
        };
        let text = value
            .as_str()
            .ok_or_else(|| format!("{key} = {value} is not a string"))?;
        let bound = bindings.get(text).and_then(toml::Value::as_str);
        Ok(Some(bound.unwrap_or(text)))
    };
    let accumulator = match word("accumulator")? {
        None => result,
        Some(name) => parse_type(name)?,
    };
    let precision = match word("precision")?.map(str::to_lowercase).as_deref() {
        None => None,
        Some("default") => Some(Precision::Default),
        Some("high") => Some(Precision::High),
        Some("highest") => Some(Precision::Highest),
        Some(other) => return Err(format!("unknown precision '{other}'")),
    };
    let unit = accumulator
        .float_format()
        .map_or(0.0, |format| format.unit_roundoff());
    if terms as f64 * unit >= MOST_ROUNDING {
        return Err(format!(
            "the bound of {terms} terms accumulated in {accumulator} would let a result of zero pass; \
             take fewer terms or, where it holds, a wider accumulator"
        ));
    }
    Ok(Tolerance::Accumulate {
        terms,
        accumulator,
        precision,
    })
}

/// Of `terms · u`: from here on the error bound of a sum reaches the sum of its absolute terms, and no result can fail.
const MOST_ROUNDING: f64 = 0.5;

pub fn domain(value: &toml::Value, bindings: &Bindings) -> Result<Domain, String> {
    let value = follow(value, bindings)?;
    let unknown = || format!("{value} is not a domain");
    match value {
        toml::Value::String(name) => Ok(match name.as_str() {
            "any" => Domain::Any,
            "positive" => Domain::Positive,
            "unit" => Domain::Unit,
            "nonzero" => Domain::Nonzero,
            "permutation" => Domain::Permutation,
            "special" => Domain::Special,
            "subnormal" => Domain::Subnormal,
            "positive_definite" => Domain::PositiveDefinite,
            "triangular" => Domain::Triangular,
            _ => return Err(unknown()),
        }),
        toml::Value::Table(table) => {
            let mut entries = table.iter();
            let (Some((name, items)), None) = (entries.next(), entries.next()) else {
                return Err(unknown());
            };
            let items = follow(items, bindings)?.as_array().ok_or_else(unknown)?;
            let floats: Option<Vec<f64>> = items.iter().map(number).collect();
            let floats = floats.ok_or_else(unknown)?;
            match (name.as_str(), floats.as_slice()) {
                ("values", [_, ..]) => Ok(Domain::Values(floats)),
                ("uniform", [lo, hi]) if lo < hi => Ok(Domain::Uniform { lo: *lo, hi: *hi }),
                ("integers", [lo, hi]) if lo <= hi => {
                    match (items[0].as_integer(), items[1].as_integer()) {
                        (Some(lo), Some(hi)) => Ok(Domain::Integers { lo, hi }),
                        _ => Err(unknown()),
                    }
                }
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(integer) => Some(*integer as f64),
        toml::Value::Float(float) => Some(*float),
        toml::Value::Boolean(boolean) => Some(f64::from(u8::from(*boolean))),
        _ => None,
    }
}

/// Why values of `element_type` and `shape` cannot be drawn from `domain`.
pub fn impossible(
    domain: &Domain,
    element_type: ElementType,
    shape: &[usize],
) -> Option<&'static str> {
    let float = element_type.is_float();
    let real_or_complex = float || element_type.is_complex();
    let square = matches!(shape, [.., a, b] if a == b);
    match domain {
        Domain::Unit | Domain::Uniform { .. } if !real_or_complex => {
            Some("a uniform domain needs floats")
        }
        Domain::Subnormal if !real_or_complex => Some("only floats have subnormals"),
        Domain::PositiveDefinite | Domain::Triangular if !real_or_complex => {
            Some("such matrices need floats or complex")
        }
        Domain::PositiveDefinite | Domain::Triangular if !square => {
            Some("the last two dimensions must be equal")
        }
        Domain::Integers { lo, .. } if *lo < 0 && element_type.is_unsigned_integer() => {
            Some("unsigned integers cannot be negative")
        }
        Domain::Integers { lo, hi }
            if element_type.is_integer() && !fits(element_type, *lo, *hi) =>
        {
            Some("the range exceeds the element type's")
        }
        Domain::Permutation if shape.is_empty() => Some("a scalar has no last dimension"),
        Domain::Permutation
            if element_type.is_integer()
                && !fits(element_type, 0, *shape.last().unwrap_or(&1) as i64 - 1) =>
        {
            Some("the last dimension exceeds the element type's range")
        }
        _ => None,
    }
}

fn fits(element_type: ElementType, lo: i64, hi: i64) -> bool {
    let bits = element_type.bits() as u32;
    let (low, high): (i128, i128) = match element_type.is_signed_integer() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    i128::from(lo) >= low && i128::from(hi) <= high
}
