//! What a target gives for the cases that pass there: the results that faults are injected into.

use crate::case::{Case, ReferenceProgram};
use crate::compare::{ReferenceTensor, Tolerance, compare};
use crate::run::{Interrupt, Outputs, Pool, Reference, RunError, Terms, in_lanes};

/// A case that passes on a target.
#[derive(Debug, Clone)]
pub struct Passing {
    pub case: Case,
    pub outputs: Outputs,
    /// One per result.
    pub reference: Vec<ReferenceTensor>,
    /// What its sums are made of, where it has sums and is linear in an operand.
    pub terms: Option<Terms>,
}

#[derive(Debug, Default)]
pub struct Gathered {
    /// In the order of the cases.
    pub passing: Vec<Passing>,
    /// Cases that ended in an error, crashed, timed out or have no reference.
    pub without_result: usize,
    /// Cases whose numbers differ.
    pub failing: usize,
    pub interrupted: bool,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct GatherError(#[from] RunError);

enum Found {
    Passing(Box<Passing>),
    Failing,
    Nothing,
}

/// Runs every case once on `pool`. `cpu` takes sums apart; it may be the same pool.
///
/// # Errors
/// When no worker can be had any more.
pub fn gather(
    cases: &[Case],
    references: &(dyn Fn(&Case) -> Reference + Sync),
    pool: &Pool,
    cpu: &Pool,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<Gathered, GatherError> {
    let (done, failure) = in_lanes(cases, jobs, interrupt, on_case, &|| Ok(()), &|case, ()| {
        one(case, references, pool, cpu, interrupt)
    });
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let mut gathered = Gathered {
        interrupted: interrupt.is_raised(),
        ..Gathered::default()
    };
    for (_, found) in done {
        match found {
            Found::Passing(passing) => gathered.passing.push(*passing),
            Found::Failing => gathered.failing += 1,
            Found::Nothing => gathered.without_result += 1,
        }
    }
    Ok(gathered)
}

/// `Ok(None)`: interrupted.
fn one(
    case: &Case,
    references: &(dyn Fn(&Case) -> Reference + Sync),
    pool: &Pool,
    cpu: &Pool,
    interrupt: &Interrupt,
) -> Result<Option<Found>, RunError> {
    let Ok(reference) = references(case) else {
        return Ok(Some(Found::Nothing));
    };
    let outputs = match pool.outputs(case, interrupt)? {
        None => return Ok(None),
        Some(Err(_)) => return Ok(Some(Found::Nothing)),
        Some(Ok(outputs)) => outputs,
    };
    if !passes(case, &outputs, &reference) {
        return Ok(Some(Found::Failing));
    }
    let sums = |tolerance: &Tolerance| matches!(tolerance, Tolerance::Accumulate { .. });
    let has_terms = case.tolerances.iter().any(sums)
        && case.devices() == 1
        && matches!(case.reference_program, ReferenceProgram::Widened(_));
    let terms = if has_terms {
        match cpu.terms(case, interrupt)? {
            None => return Ok(None),
            Some(found) => found.ok(),
        }
    } else {
        None
    };
    Ok(Some(Found::Passing(Box::new(Passing {
        case: case.clone(),
        outputs,
        reference,
        terms,
    }))))
}

fn passes(case: &Case, outputs: &Outputs, reference: &[ReferenceTensor]) -> bool {
    let results = outputs.results.len();
    results == reference.len()
        && results == case.tolerances.len()
        && outputs
            .results
            .iter()
            .zip(reference)
            .zip(&case.tolerances)
            .all(|((got, reference), tolerance)| {
                compare(got, reference, tolerance, &outputs.numerics)
                    .is_ok_and(|comparison| comparison.mismatches == 0)
            })
}
