//! Computes references on the CPU plug-in, in worker processes, since a plug-in may abort on any of them.

use super::format::{Generator, Output, Provenance, Record, SCHEMA, StoredTensor};
use super::oracle::compute_by_oracle;
use super::store::{ReferenceError, ReferenceStore, inputs, reference_program_hash};
use crate::case::{Case, CaseId};
use crate::compare::ReferenceTensor;
use crate::oracle::{OracleCommand, OracleError};
use crate::outcome::{Outcome, OutcomeKind};
use crate::run::{Computed, Interrupt, Pool, RunError, in_lanes, parser_message};
use crate::suite::{SuiteError, SuiteErrors};

/// A case whose reference could not be computed, and the outcome that says why.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreferenced {
    pub id: CaseId,
    pub why: Outcome,
    pub left: Left,
}

/// What a case is left with whose reference could not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It never had a reference.
    Nothing,
    /// The reference it had, which is of another program, seed or inputs, damaged, or of a plug-in that now refuses the
    /// program, is gone.
    Lost,
    /// The reference it had is still that of this very case, and the attempt says nothing against it.
    Kept,
}

/// What [`generate`] did.
#[derive(Debug, Default)]
pub struct Generated {
    /// Computed for the first time.
    pub added: usize,
    /// Computed anew, with another result or for another program, seed or inputs.
    pub changed: usize,
    pub unchanged: usize,
    pub unreferenced: Vec<Unreferenced>,
    /// Cases whose reference is to be the oracle's, which has none for this reason; what was stored for them stays.
    pub no_oracle: Vec<(CaseId, String)>,
    /// Programs that are not valid StableHLO; what was stored for their cases stays, for when they are corrected.
    pub invalid: Option<SuiteErrors>,
    pub interrupted: bool,
    /// Why not everything could be computed; what was is in the store.
    pub failure: Option<GenerateError>,
}

#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// Computes the references of `cases` and puts them into `store`, which the caller saves.
pub fn generate(
    store: &mut ReferenceStore,
    cases: &[Case],
    pool: &Pool,
    generator: &Generator,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Generated {
    let date = today();
    let (computed, failure) = compute_all(cases, pool, jobs, interrupt, on_case);
    let mut report = Generated {
        interrupted: failure.is_none() && computed.len() < cases.len(),
        failure: failure.map(GenerateError::from),
        ..Generated::default()
    };
    let mut invalid = Vec::new();
    for (index, computed) in computed {
        let case = &cases[index];
        match computed {
            Ok(tensors) => match record(case, &tensors, generator, &date) {
                Ok(record) => put(store, record, &mut report),
                Err(error) => report.failure = Some(error.into()),
            },
            Err(why) => match why.message.as_deref().and_then(parser_message) {
                Some(complaint) => invalid.push(SuiteError {
                    origin: case.origin.clone(),
                    case: Some(case.id.to_string()),
                    what: format!("the program is not valid StableHLO: {complaint}"),
                    remedy: "correct the template".to_owned(),
                }),
                None => {
                    let left = leave(store, case, why.outcome);
                    report.unreferenced.push(Unreferenced {
                        id: case.id.clone(),
                        why: *why,
                        left,
                    });
                }
            },
        }
    }
    report.invalid = (!invalid.is_empty()).then_some(SuiteErrors(invalid));
    report
}

/// Has the oracle compute the references of `cases`, and adds what came of it to `report`.
///
/// # Errors
/// When the oracle cannot be started.
pub fn generate_by_oracle(
    store: &mut ReferenceStore,
    cases: &[Case],
    command: &OracleCommand,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
    report: &mut Generated,
) -> Result<(), OracleError> {
    let date = today();
    let (computed, generator) = compute_by_oracle(cases, command, jobs, interrupt, on_case)?;
    report.interrupted |= computed.len() < cases.len();
    for (index, computed) in computed {
        let case = &cases[index];
        match computed {
            Ok(tensors) => match record(case, &tensors, &generator, &date) {
                Ok(record) => put(store, record, report),
                Err(error) => report.failure = Some(error.into()),
            },
            Err(why) => report.no_oracle.push((case.id.clone(), why)),
        }
    }
    Ok(())
}

fn put(store: &mut ReferenceStore, record: Record, report: &mut Generated) {
    let id = record.id.clone();
    let held = store.holds(&id);
    let damaged = store.is_damaged(&id);
    let old = store.record(&id).cloned();
    store.insert(record);
    if !held {
        report.added += 1;
    } else if !damaged && store.record(&id) == old.as_ref() {
        report.unchanged += 1;
    } else {
        report.changed += 1;
    }
}

/// A crash, a timeout or an exhausted memory says nothing against the reference that there is.
fn leave(store: &mut ReferenceStore, case: &Case, outcome: OutcomeKind) -> Left {
    let accident = matches!(
        outcome,
        OutcomeKind::Crash | OutcomeKind::Timeout | OutcomeKind::Oom
    );
    if accident && store.reference(case).is_ok() {
        return Left::Kept;
    }
    let had = store.holds(&case.id);
    store.remove(&case.id);
    if had { Left::Lost } else { Left::Nothing }
}

/// In the order of the cases; those that an interrupt or the failure of the last worker left out are not there.
pub(super) fn compute_all(
    cases: &[Case],
    pool: &Pool,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> (Vec<(usize, Computed)>, Option<RunError>) {
    in_lanes(cases, jobs, interrupt, on_case, &|| Ok(()), &|case, ()| {
        pool.compute(case, interrupt)
    })
}

fn record(
    case: &Case,
    tensors: &[ReferenceTensor],
    generator: &Generator,
    date: &str,
) -> Result<Record, ReferenceError> {
    Ok(Record {
        id: case.id.clone(),
        schema: SCHEMA.to_owned(),
        provenance: Provenance {
            plugin: generator.clone(),
            program: case.program_hash(),
            reference_program: reference_program_hash(case),
            seed: case.seed,
            inputs: inputs(case)?,
            date: date.to_owned(),
        },
        outputs: tensors
            .iter()
            .map(|tensor| Output {
                element_type: tensor.element_type,
                values: StoredTensor::encode(&tensor.values),
                scale: tensor.scale.as_ref().map(StoredTensor::encode),
                flushed: tensor.flushed.as_ref().map(StoredTensor::encode),
                yardstick: tensor.yardstick,
            })
            .collect(),
    })
}

/// `YYYY-MM-DD` in UTC.
fn today() -> String {
    let now = jiff::Timestamp::now().to_string();
    now.get(..10).unwrap_or(&now).to_owned()
}
