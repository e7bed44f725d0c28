//! The check operators of StableHLO's interpreter tests, and the tolerance that each stands for.
//!
//! As openxla/stablehlo has them in `stablehlo/tests/CheckOps.{td,cpp}` and, for custom calls, which carry no attributes,
//! in `stablehlo/tools/StablehloTranslateMain.cpp`.

use super::literal;
use super::text::{self, Value};
use crate::compare::Tolerance;
use crate::tensor::Tensor;

/// Of a custom call `check.expect_close`.
const CUSTOM_CALL_ULP: u64 = 3;
/// Of a custom call `check.expect_almost_eq`.
const CUSTOM_CALL_ABSOLUTE: f64 = 1e-3;
/// Defaults of the operators' attributes; the absolute one is also that of a custom call `check.eq` on floats.
const OPERATOR_ULP: u64 = 1;
const OPERATOR_ABSOLUTE: f64 = 1e-4;

/// One check: which value it looks at, and what that should be.
pub(super) struct Check {
    pub operands: Vec<Value>,
    /// Of the `…_const` operators.
    pub constant: Option<Tensor>,
    /// Type of the values, as written.
    pub tensor_type: String,
    pub tolerance: Tolerance,
}

pub(super) fn is_check(statement: &str) -> bool {
    name(statement).is_some()
}

/// `expect_close` and its kin.
fn name(statement: &str) -> Option<&str> {
    let (_, operation) = text::definition(statement);
    let operator = text::operator(operation);
    if let Some(name) = operator.strip_prefix("check.") {
        return Some(name);
    }
    let call = operator.ends_with(".custom_call");
    let target = call.then(|| match operation.find('@') {
        Some(at) if !operation.starts_with('"') => Some(&operation[at + 1..]),
        _ => text::attribute(operation, "call_target_name")?.strip_prefix('"'),
    })??;
    text::name(target).strip_prefix("check.")
}

/// `None` where the statement is no check.
pub(super) fn parse(statement: &str) -> Option<Result<Check, String>> {
    let name = name(statement)?;
    Some(read(statement, name))
}

fn read(statement: &str, name: &str) -> Result<Check, String> {
    let (_, operation) = text::definition(statement);
    let is_call = text::operator(operation).ends_with(".custom_call");
    let kind = name.strip_suffix("_const").unwrap_or(name);
    let tolerance = match kind {
        "expect_eq" => Tolerance::Distance(0),
        "expect_close" if is_call => Tolerance::Distance(CUSTOM_CALL_ULP),
        "expect_close" => close(operation)?,
        "expect_almost_eq" if is_call => Tolerance::Absolute(CUSTOM_CALL_ABSOLUTE),
        "expect_almost_eq" => {
            let bound = number(operation, "tolerance")?;
            Tolerance::Absolute(bound.unwrap_or(OPERATOR_ABSOLUTE))
        }
        "eq" => Tolerance::Absolute(OPERATOR_ABSOLUTE),
        "expect_serialized_eq" => {
            return Err(
                "check.expect_serialized_eq compares with a file that the interpreter writes"
                    .to_owned(),
            );
        }
        _ => return Err(format!("check.{name} is not a check that is known here")),
    };
    let operands: Vec<Value> = text::values(operation)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let constant = match kind == name {
        true => None,
        false => Some(literal::dense_in(operation)?),
    };
    let wanted = if constant.is_some() { 1 } else { 2 };
    if operands.len() != wanted {
        let count = operands.len();
        return Err(format!("check.{name} has {count} operands, not {wanted}"));
    }
    let tensor_type = text::tensor_types(operation)
        .first()
        .map(|t| (*t).to_owned())
        .ok_or_else(|| format!("check.{name} has no tensor type"))?;
    let (element_type, _) = literal::tensor_type(&tensor_type)?;
    Ok(Check {
        operands,
        constant,
        tensor_type,
        tolerance: match element_type.is_float() || element_type.is_complex() {
            true => tolerance,
            false => Tolerance::Exact,
        },
    })
}

fn close(operation: &str) -> Result<Tolerance, String> {
    if number(operation, "min_ulp_difference")?.is_some_and(|least: u64| least > 0) {
        return Err("check.expect_close asks for a difference, not for agreement".to_owned());
    }
    let most = number(operation, "max_ulp_difference")?;
    Ok(Tolerance::Distance(most.unwrap_or(OPERATOR_ULP)))
}

/// The value of an attribute that is a number.
fn number<T: std::str::FromStr>(operation: &str, key: &str) -> Result<Option<T>, String> {
    let Some(value) = text::attribute(operation, key) else {
        return Ok(None);
    };
    let end = value
        .bytes()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-')));
    let digits = &value[..end.unwrap_or(value.len())];
    match digits.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(format!("{key} = {digits} is not a number")),
    }
}
