//! Whether a case's results agree with its reference, and in words where and how they do not.

use super::device::{Stop, generate_inputs};
use crate::case::{Case, CaseId};
use crate::compare::{
    CompareError, Comparison, Known, Numerics, ReferenceTensor, compare, explain,
};
use crate::outcome::{Metrics, OutcomeKind, Stage};
use crate::tensor::Tensor;

/// The comparison of each result goes into the metrics; the first that does not agree is why the case fails.
pub(super) fn compare_all(
    case: &Case,
    results: &[Tensor],
    reference: &Result<Vec<ReferenceTensor>, String>,
    numerics: &Numerics,
    last: &Option<(CaseId, Vec<Tensor>)>,
    metrics: &mut Metrics,
) -> Result<(), Stop> {
    let fail = |message: String| Stop::new(OutcomeKind::Fail, Stage::Compare, message);
    let reference = reference
        .as_ref()
        .map_err(|reason| Stop::new(OutcomeKind::Skipped, Stage::Compare, reason))?;
    if results.len() != reference.len() || results.len() != case.tolerances.len() {
        return Err(fail(format!(
            "{} results, where the reference has {} and the case {} tolerances",
            results.len(),
            reference.len(),
            case.tolerances.len()
        )));
    }
    let mut first = None;
    for (index, ((got, reference), tolerance)) in results
        .iter()
        .zip(reference)
        .zip(&case.tolerances)
        .enumerate()
    {
        match compare(got, reference, tolerance, numerics) {
            Ok(mut comparison) => {
                if comparison.mismatches > 0 {
                    let inputs = generate_inputs(case).unwrap_or_default();
                    let known = known(index, results, &inputs, last);
                    comparison.explanation =
                        explain(got, reference, tolerance, numerics, &known).unwrap_or_default();
                    first.get_or_insert_with(|| describe(index, case, &comparison));
                }
                metrics.comparisons.push(comparison);
            }
            Err(
                mismatch @ (CompareError::ElementTypeMismatch { .. }
                | CompareError::ShapeMismatch { .. }),
            ) => {
                first.get_or_insert(format!("{}{mismatch}", result_name(index, case)));
            }
            // The case or its reference is malformed: that says nothing of the target.
            Err(error) => {
                let message = format!("{}: {error}", case.origin);
                return Err(Stop::new(OutcomeKind::Error, Stage::Compare, message));
            }
        }
    }
    first.map_or(Ok(()), |message| Err(fail(message)))
}

/// What else a wrong result may be.
fn known<'a>(
    index: usize,
    results: &'a [Tensor],
    inputs: &'a [Tensor],
    last: &'a Option<(CaseId, Vec<Tensor>)>,
) -> Vec<Known<'a>> {
    let named = |name: String, tensor: &'a Tensor| Known { name, tensor };
    let inputs = inputs.iter().enumerate();
    let others = results
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index);
    let mut known: Vec<Known<'a>> = inputs
        .map(|(i, tensor)| named(format!("input {i}"), tensor))
        .chain(others.map(|(i, tensor)| named(format!("result {i}"), tensor)))
        .collect();
    if let Some((case, tensors)) = last {
        let earlier = tensors.iter();
        known.extend(earlier.map(|t| named(format!("a result of {case}, which ran before"), t)));
    }
    known
}

fn describe(index: usize, case: &Case, comparison: &Comparison) -> String {
    let mut text = format!(
        "{}{} of {} elements differ",
        result_name(index, case),
        comparison.mismatches,
        comparison.elements
    );
    match &comparison.first_mismatch {
        Some(first) => text.push_str(&format!(
            ", first at {:?}: {}, expected {}",
            first.index, first.got, first.expected
        )),
        None => text.push_str(&format!(
            " too far together: {:.3e} in the relative 2-norm",
            comparison.relative_l2
        )),
    }
    if let Some(explanation) = &comparison.explanation {
        text.push_str(&format!(". {}", explanation.text));
    }
    text
}

/// A model's results are named by its layers: the first that leaves its bound is where the error begins.
fn result_name(index: usize, case: &Case) -> String {
    let results = case.tolerances.len();
    match case.layers.get(index) {
        Some(layer) if index == 0 => format!("the first of {results} layers, {layer}: "),
        Some(layer) => format!(
            "layer {} of {results}, {layer}, is the first to leave its bound: ",
            index + 1
        ),
        None if results == 1 => String::new(),
        None => format!("result {index}: "),
    }
}
