//! The operators that can be tried exhaustively, taken from the suites' own cases: program, element types and tolerance.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobMatcher};

use super::reference::{self, Formula};
use super::values::Domain;
use crate::case::{Case, CaseId, ReferenceProgram};
use crate::compare::Tolerance;
use crate::suite::signature;
use crate::tensor::{ElementType, InputSpec, Tensor};

/// The first part of their ids, where a case has its suite.
const SUITE: &str = "exhaustive";

/// One operator on one element type (conversions: on two), on all values.
#[derive(Debug, Clone)]
pub struct Operator {
    /// `exhaustive/<operator>/<type>`, with the axes of the suite's ids behind it but the variant:
    /// `exhaustive/compare/f32/float/lt`, `exhaustive/convert/f32/bf16`.
    pub id: CaseId,
    pub operands: ElementType,
    pub result: ElementType,
    /// The widest that the suite gives it on this type.
    pub tolerance: Tolerance,
    /// Where it comes from, in the suite's words.
    pub tolerance_source: Option<String>,
    pub(super) formula: Formula,
    pub(super) domain: Domain,
    /// The suite's case, whose program is made larger.
    template: Case,
}

/// An operator's name, or a pattern, that names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("bad glob '{glob}': {reason}")]
    Glob { glob: String, reason: String },
    #[error(
        "'{0}' is no operator that is tried exhaustively; write an operator's name, or a glob over the ids without their first part, \
         such as 'logistic', 'chlo.*', 'convert/f32/*'"
    )]
    Nothing(String),
}

impl Operator {
    pub fn name(&self) -> &str {
        self.id.subject()
    }

    /// What follows the operator's name in the id.
    pub fn axes(&self) -> &str {
        let start = SUITE.len() + self.name().len() + 2;
        self.id.as_str().get(start..).unwrap_or_default()
    }

    /// The operator as a case with these operands.
    pub(super) fn case(&self, operands: &[Vec<u64>]) -> Result<Case, String> {
        let length = operands.first().map_or(0, Vec::len);
        let (_, shape) = parameters(&self.template.program)
            .and_then(|parameters| parameters.into_iter().next())
            .ok_or("the program has no operand")?;
        let [from] = shape[..] else {
            return Err("the program's operand is not a vector".to_owned());
        };
        let size = |n: usize| format!("tensor<{n}x");
        let width = self.operands.bytes();
        let inputs = operands
            .iter()
            .map(|codes| {
                let bytes = codes.iter().flat_map(|code| {
                    let bytes = code.to_le_bytes();
                    bytes.into_iter().take(width)
                });
                let tensor = Tensor::new(self.operands, vec![codes.len()], bytes.collect());
                tensor.map(InputSpec::literal).map_err(|e| e.to_string())
            })
            .collect::<Result<_, _>>()?;
        Ok(Case {
            id: self.id.clone(),
            program: self.template.program.replace(&size(from), &size(length)),
            reference_program: ReferenceProgram::Absent("it is measured elsewhere".to_owned()),
            inputs,
            ..self.template.clone()
        })
    }
}

fn parameters(program: &str) -> Option<Vec<(ElementType, Vec<usize>)>> {
    signature(program)
        .ok()
        .map(|signature| signature.parameters)
}

/// All of them, sorted by id. `all_f32`: on all of f32, not a sample.
pub fn operators(cases: &[Case], all_f32: bool) -> Vec<Operator> {
    let mut found: BTreeMap<CaseId, Operator> = BTreeMap::new();
    for case in cases {
        let Some(operator) = operator(case, all_f32) else {
            continue;
        };
        found
            .entry(operator.id.clone())
            .and_modify(|first| {
                if allowance(&operator.tolerance) > allowance(&first.tolerance) {
                    first.tolerance = operator.tolerance.clone();
                    first.tolerance_source = operator.tolerance_source.clone();
                }
            })
            .or_insert(operator);
    }
    found.into_values().collect()
}

/// The ids of [`operators`]: what expectations can speak of.
pub fn ids(cases: &[Case]) -> Vec<CaseId> {
    let operators = operators(cases, false).into_iter();
    operators.map(|operator| operator.id).collect()
}

/// In ulp; 0 of `exact`.
pub(super) fn allowance(tolerance: &Tolerance) -> f64 {
    match tolerance {
        Tolerance::Ulp(ulps) => *ulps,
        _ => 0.0,
    }
}

/// What a case of the suites gives, if it is one operation on whole vectors of one small float type that has a formula.
fn operator(case: &Case, all_f32: bool) -> Option<Operator> {
    if case.id.suite() != "stablehlo" || case.distribution.is_some() {
        return None;
    }
    let mut parts: Vec<&str> = case.id.as_str().split('/').skip(1).collect();
    parts.pop();
    let (name, axes) = (*parts.first()?, parts.get(2..)?);
    let is_convert = name == "convert";
    let formula = reference::formula(name, axes)?;
    let signature = signature(&case.program).ok()?;
    let (operands, shape) = signature.parameters.first()?;
    let [(result, result_shape)] = &signature.results[..] else {
        return None;
    };
    let same = |(t, s): &(ElementType, Vec<usize>)| t == operands && s == shape;
    let fits = signature.parameters.len() == formula.operands()
        && signature.parameters.iter().all(same)
        && result_shape == shape
        && matches!(shape[..], [n] if n > 1)
        && case.program.matches(" = ").count() == 1;
    let small = operands.is_float() && operands.bits() <= 32;
    let judged = result.is_float() || *result == ElementType::Pred;
    let [tolerance @ (Tolerance::Exact | Tolerance::Ulp(_))] = &case.tolerances[..] else {
        return None;
    };
    if !(fits && small && judged) {
        return None;
    }
    let domain = if formula.operands() == 1 {
        Domain::unary(*operands, is_convert.then_some(*result), all_f32)
    } else {
        Domain::Pairs {
            element_type: *operands,
        }
    };
    Some(Operator {
        id: format!("{SUITE}/{}", parts.join("/")).parse().ok()?,
        operands: *operands,
        result: *result,
        tolerance: tolerance.clone(),
        tolerance_source: case.tolerance_source.clone(),
        formula,
        domain,
        template: case.clone(),
    })
}

/// Those whose operator, or whose id with or without its first part, a pattern matches; all where there is no pattern.
pub fn select(operators: Vec<Operator>, patterns: &[String]) -> Result<Vec<Operator>, SelectError> {
    let globs = patterns
        .iter()
        .map(|pattern| glob(pattern))
        .collect::<Result<Vec<_>, _>>()?;
    let matches = |glob: &GlobMatcher, operator: &Operator| {
        let id = operator.id.as_str();
        let short = id.get(SUITE.len() + 1..).unwrap_or_default();
        glob.is_match(operator.name()) || glob.is_match(short) || glob.is_match(id)
    };
    for (glob, pattern) in globs.iter().zip(patterns) {
        if !operators.iter().any(|operator| matches(glob, operator)) {
            return Err(SelectError::Nothing(pattern.clone()));
        }
    }
    let wanted =
        |operator: &Operator| globs.is_empty() || globs.iter().any(|glob| matches(glob, operator));
    Ok(operators.into_iter().filter(wanted).collect())
}

fn glob(pattern: &str) -> Result<GlobMatcher, SelectError> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| SelectError::Glob {
            glob: pattern.to_owned(),
            reason: error.kind().to_string(),
        })
}

#[cfg(test)]
mod tests;
