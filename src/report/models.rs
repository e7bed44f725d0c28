//! Whole models: how much worse each target is than CPU in the same precision, and how far the predictions agree.

use serde::Serialize;

use crate::case::CaseId;
use crate::compare::Predictions;
use crate::outcome::{Outcome, OutcomeKind};
use crate::store::Run;

/// One model on one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRow<'a> {
    pub target: String,
    pub case: &'a CaseId,
    pub outcome: OutcomeKind,
    /// Of the layer that is worst: how many times as far off as CPU.
    pub times_cpu: f64,
    /// The number of that layer, from 0.
    pub worst_layer: usize,
    pub layers: usize,
    /// Of the last result.
    pub relative_l2: f64,
    pub cosine: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<Predictions>,
}

/// The outcomes that were measured by a yardstick, by target and case.
pub fn rows<'a>(run: &'a Run, label: impl Fn(&str) -> String) -> Vec<ModelRow<'a>> {
    run.outcomes
        .iter()
        .filter_map(|outcome| row(outcome, &label))
        .collect()
}

fn row<'a>(outcome: &'a Outcome, label: &impl Fn(&str) -> String) -> Option<ModelRow<'a>> {
    if outcome.metrics.torch.is_some() {
        // PyTorch's have a table of their own.
        return None;
    }
    let comparisons = &outcome.metrics.comparisons;
    let (worst_layer, times_cpu) = comparisons
        .iter()
        .enumerate()
        .filter_map(|(index, comparison)| Some((index, comparison.times_cpu?)))
        .reduce(|worst, next| if next.1 > worst.1 { next } else { worst })?;
    let last = comparisons.last()?;
    Some(ModelRow {
        target: label(&outcome.target.to_string()),
        case: &outcome.case,
        outcome: outcome.outcome,
        times_cpu,
        worst_layer,
        layers: comparisons.len(),
        relative_l2: last.relative_l2,
        cosine: last.cosine,
        predictions: last.predictions,
    })
}
