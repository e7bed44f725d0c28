//! Computes references on the CPU plug-in, in worker processes, since a plug-in may abort on any of them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::format::{Generator, Output, Provenance, Record, SCHEMA, StoredTensor};
use super::store::{ReferenceError, ReferenceStore, inputs, reference_program_hash};
use crate::case::{Case, CaseId};
use crate::compare::ReferenceTensor;
use crate::outcome::Outcome;
use crate::run::{Computed, Interrupt, Pool, RunError};

/// A case that has no reference, and the outcome that says why.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreferenced {
    pub id: CaseId,
    pub why: Outcome,
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
    pub interrupted: bool,
}

/// Computes the references of `cases` and puts them into `store`, which the caller saves. A case whose reference cannot be
/// computed loses the one it had.
pub fn generate(
    store: &mut ReferenceStore,
    cases: &[Case],
    pool: &Pool,
    generator: &Generator,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<Generated, GenerateError> {
    let date = today();
    let mut report = Generated::default();
    let computed = compute_all(cases, pool, jobs, interrupt, on_case)?;
    report.interrupted = computed.len() < cases.len();
    for (index, computed) in computed {
        let case = &cases[index];
        match computed {
            Ok(tensors) => {
                let record = record(case, &tensors, generator, &date)?;
                let old = store.record(&case.id).cloned();
                store.insert(record);
                match old {
                    None => report.added += 1,
                    Some(old) if store.record(&case.id) == Some(&old) => report.unchanged += 1,
                    Some(_) => report.changed += 1,
                }
            }
            Err(why) => {
                store.remove(&case.id);
                report.unreferenced.push(Unreferenced {
                    id: case.id.clone(),
                    why: *why,
                });
            }
        }
    }
    Ok(report)
}

#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// In the order of the cases; those that an interrupt left out are not there.
pub(super) fn compute_all(
    cases: &[Case],
    pool: &Pool,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<Vec<(usize, Computed)>, RunError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(cases.len()));
    let lane = || -> Result<(), RunError> {
        while !interrupt.is_raised() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else {
                break;
            };
            let Some(computed) = pool.compute(case, interrupt)? else {
                break;
            };
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, computed));
            on_case();
        }
        Ok(())
    };
    let result = thread::scope(|scope| {
        let lanes: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| {
            lane.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    result?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done)
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
            })
            .collect(),
    })
}

/// `YYYY-MM-DD` in UTC.
fn today() -> String {
    let now = jiff::Timestamp::now().to_string();
    now.get(..10).unwrap_or(&now).to_owned()
}
