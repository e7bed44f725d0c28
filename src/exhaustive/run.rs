//! Runs operators on targets, each in a worker process that may die, and measures what comes back.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::measure::{Measure, Rule, measure};
use super::operators::Operator;
use crate::compare::Numerics;
use crate::outcome::{Metrics, Outcome, OutcomeKind, Stage};
use crate::run::{Interrupt, Pool, Progress, RunError};

/// What came of one operator on one target.
#[derive(Debug, Clone)]
pub struct Finding {
    pub operator: Operator,
    /// `pass`, `fail` where a value breaks the tolerance, or how it ended before there was anything to measure.
    pub outcome: Outcome,
    /// What was measured, be it in part only.
    pub measure: Measure,
    /// From the first program's start to the last figure.
    pub seconds: f64,
    /// Of those, spent on the exact results and the figures.
    pub measuring: f64,
}

/// Every operator on every target, in the order of the targets, then of the operators. `Ok(None)`: interrupted.
///
/// # Errors
/// When a target's plug-in can no longer be loaded.
pub fn execute(
    operators: &[Operator],
    pools: &[Pool],
    jobs: usize,
    interrupt: &Interrupt,
) -> Result<Option<Vec<Finding>>, RunError> {
    let total = operators.len() * pools.len();
    let progress = Progress::new(total);
    let next = Mutex::new(0..total);
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = || -> Result<Option<Vec<(usize, Finding)>>, RunError> {
        let mut findings = Vec::new();
        while let Some(index) = take() {
            let pool = &pools[index / operators.len()];
            let operator = &operators[index % operators.len()];
            let Some(finding) = one(operator, pool, interrupt)? else {
                return Ok(None);
            };
            progress.finished(&finding.outcome);
            progress.tick();
            findings.push((index, finding));
        }
        Ok(Some(findings))
    };
    let lanes: Vec<_> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..jobs.clamp(1, total.max(1)))
            .map(|_| scope.spawn(lane))
            .collect();
        lanes
            .into_iter()
            .map(|lane| {
                lane.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    progress.end();
    let mut findings = Vec::with_capacity(total);
    for lane in lanes {
        match lane? {
            Some(found) => findings.extend(found),
            None => return Ok(None),
        }
    }
    findings.sort_by_key(|(index, _)| *index);
    Ok(Some(findings.into_iter().map(|(_, f)| f).collect()))
}

/// The target's numerics, as a worker that compares knows them.
fn numerics(pool: &Pool) -> Numerics {
    let record = pool.record();
    match &record.executor {
        Some(executor) => Numerics::of_virtual(executor.numerics),
        None => Numerics::for_platform(&record.platform),
    }
}

/// `Ok(None)`: interrupted.
fn one(
    operator: &Operator,
    pool: &Pool,
    interrupt: &Interrupt,
) -> Result<Option<Finding>, RunError> {
    let start = Instant::now();
    let mut sums = (Measure::default(), 0.0);
    let ended = chunks(operator, pool, interrupt, &mut sums)?;
    let Some(stopped) = ended else {
        return Ok(None);
    };
    let (measure, measuring) = sums;
    let outcome = stopped.unwrap_or_else(|| {
        let faults = measure.fault_count() > 0;
        let message = faults.then(|| measure.describe_faults());
        let kind = if faults {
            OutcomeKind::Fail
        } else {
            OutcomeKind::Pass
        };
        outcome(operator, pool, kind, message)
    });
    Ok(Some(Finding {
        operator: operator.clone(),
        outcome,
        measure,
        seconds: start.elapsed().as_secs_f64(),
        measuring,
    }))
}

/// Program after program, into the sums. Inner `Some`: the outcome that ended it early. `None`: interrupted.
fn chunks(
    operator: &Operator,
    pool: &Pool,
    interrupt: &Interrupt,
    (sum, measuring): &mut (Measure, f64),
) -> Result<Option<Option<Outcome>>, RunError> {
    let rule = Rule {
        formula: operator.formula,
        operands: operator.operands,
        result: operator.result,
        tolerance: operator.tolerance.clone(),
        numerics: numerics(pool),
    };
    let failed =
        |kind, message: String| Ok(Some(Some(outcome(operator, pool, kind, Some(message)))));
    for index in 0..operator.domain.chunks() {
        let operands = operator.domain.chunk(index);
        let case = match operator.case(&operands) {
            Ok(case) => case,
            Err(message) => return failed(OutcomeKind::Error, message),
        };
        let results = match pool.outputs(&case, interrupt)? {
            None => return Ok(None),
            Some(Err(outcome)) => return Ok(Some(Some(*outcome))),
            Some(Ok(outputs)) => outputs.results,
        };
        let length = operands.first().map_or(0, Vec::len);
        let result = match &results[..] {
            [result] if result.element_type() == operator.result && result.shape() == [length] => {
                result
            }
            _ => {
                let types: Vec<String> = results
                    .iter()
                    .map(|result| format!("{}{:?}", result.element_type(), result.shape()))
                    .collect();
                let message = format!(
                    "the results are ({}), expected {}[{length}]",
                    types.join(", "),
                    operator.result
                );
                return failed(OutcomeKind::Fail, message);
            }
        };
        let start = Instant::now();
        match measure(&rule, &operands, result, std::mem::take(sum)) {
            Ok(all) => *sum = all,
            Err(error) => return failed(OutcomeKind::Error, error.to_string()),
        }
        *measuring += start.elapsed().as_secs_f64();
    }
    Ok(Some(None))
}

fn outcome(
    operator: &Operator,
    pool: &Pool,
    kind: OutcomeKind,
    message: Option<String>,
) -> Outcome {
    let target = &pool.target().target;
    Outcome {
        case: operator.id.clone(),
        target: target.to_string(),
        evidence: target.evidence(),
        outcome: kind,
        stage: Stage::Compare,
        message,
        code: None,
        metrics: Metrics::default(),
        attempts: vec![kind],
    }
}
