//! Compares the stored references with a second, independent oracle: the Python package `oracle/`, which evaluates the same
//! program on the same inputs with arithmetic that shares no code with XLA.
//!
//! Here are the comparison and the work on many cases; `accounts` is what a person
//! has written about its cases.

mod accounts;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub use accounts::{Accounts, AccountsError};

use super::format::Generator;
use super::store::{Lookup, ReferenceStore};
use super::verify::{EXACT_NUMERICS, in_f64, same_frame};
use crate::case::{Case, CaseId, ReferenceProgram};
use crate::compare::{ReferenceTensor, Tolerance, compare};
use crate::oracle::{self, Answer, OracleCommand, OracleError, Process, Request};
use crate::run::{Interrupt, as_reference, in_lanes, needs_scale, without_subnormals};
use crate::tensor::Tensor;

/// A reference that the oracle does not confirm.
#[derive(Debug, Clone, PartialEq)]
pub struct Disagreement {
    pub id: CaseId,
    /// Which result, where first, and both values.
    pub what: String,
}

/// What [`verify_with_oracle`] found.
#[derive(Debug, Default)]
pub struct OracleReport {
    /// By the largest distance between the reference and the oracle, in ulp of the reference's element type: 0, then up to each
    /// power of two. Of results with a tolerance in ulp or none.
    pub distances: BTreeMap<u32, usize>,
    /// Cases whose results all agree.
    pub agree: usize,
    /// Cases whose reference is the oracle's own, and is what it computes again.
    pub own: usize,
    /// In the order of the cases.
    pub disagree: Vec<Disagreement>,
    /// The cases that there is nothing to say about, by reason.
    pub no_oracle: BTreeMap<String, Vec<CaseId>>,
    /// The versions of the packages that computed, `numpy 2.4.6` and so on.
    pub packages: Vec<String>,
    pub interrupted: bool,
}

enum Said {
    Agrees { ulp: f64 },
    Own,
    Disagrees(String),
    Nothing(String),
}

/// The results of a case by the oracle, or why it has none.
type Evaluated = Result<Vec<ReferenceTensor>, String>;

/// Asks the oracle about each case that has a sound reference. `jobs` processes at the same time; one that dies or hangs is
/// replaced, and its case counts as one without an oracle.
///
/// # Errors
/// When the oracle cannot be started.
pub fn verify_with_oracle(
    store: &ReferenceStore,
    cases: &[Case],
    command: &OracleCommand,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<OracleReport, OracleError> {
    let ask = |case: &Case, process: &mut Process| -> Result<Option<Said>, OracleError> {
        let stored = match store.lookup(case) {
            Ok(Lookup::Missing) => {
                return Ok(Some(Said::Nothing("no reference is stored".to_owned())));
            }
            _ => match store.reference(case) {
                Ok(stored) => stored,
                Err(what) => return Ok(Some(Said::Disagrees(what))),
            },
        };
        let evaluated = evaluate(case, command, process, interrupt)?;
        let own = is_by_oracle(store, &case.id);
        Ok(evaluated.map(|evaluated| match evaluated {
            Err(why) => Said::Nothing(why),
            Ok(oracle) => match judge(case, &stored, &oracle) {
                Said::Agrees { .. } if own => Said::Own,
                said => said,
            },
        }))
    };
    let (done, packages) = ask_all(cases, command, jobs, interrupt, on_case, &ask)?;
    let mut report = OracleReport {
        packages,
        interrupted: done.len() < cases.len(),
        ..OracleReport::default()
    };
    for (index, said) in done {
        let id = cases[index].id.clone();
        match said {
            Said::Agrees { ulp } => {
                report.agree += 1;
                *report.distances.entry(bucket(ulp)).or_default() += 1;
            }
            Said::Own => report.own += 1,
            Said::Disagrees(what) => report.disagree.push(Disagreement { id, what }),
            Said::Nothing(why) => report.no_oracle.entry(why).or_default().push(id),
        }
    }
    Ok(report)
}

/// The oracle's results of each case, in their order, and what generated them. Fewer than `cases`: interrupted.
///
/// # Errors
/// When the oracle cannot be started or its sources cannot be read.
pub(super) fn compute_by_oracle(
    cases: &[Case],
    command: &OracleCommand,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
) -> Result<(Vec<(usize, Evaluated)>, Generator), OracleError> {
    let ask = |case: &Case, process: &mut Process| {
        if case.tolerances.iter().any(measures_by_cpu) {
            let why = "its tolerance measures by CPU, which the oracle is not".to_owned();
            return Ok(Some(Err(why)));
        }
        evaluate(case, command, process, interrupt)
    };
    let (done, packages) = ask_all(cases, command, jobs, interrupt, on_case, &ask)?;
    let generator = Generator {
        name: NAME.to_owned(),
        version: packages.join(", "),
        sha256: oracle::sources(&command.root, command.arithmetic)?,
    };
    Ok((done, generator))
}

/// The name that the oracle has as the generator of a reference.
const NAME: &str = "oracle";

/// Whether a stored reference was computed by the oracle.
pub fn is_by_oracle(store: &ReferenceStore, id: &CaseId) -> bool {
    store
        .record(id)
        .is_some_and(|record| record.provenance.plugin.name == NAME)
}

type Ask<'a, T> = dyn Fn(&Case, &mut Process) -> Result<Option<T>, OracleError> + Sync + 'a;

/// What came of cases, by their index, and the packages that computed.
type Done<T> = (Vec<(usize, T)>, Vec<String>);

/// `ask` of each case, in the order of the cases, and the packages that computed. `None` from `ask` ends its lane.
fn ask_all<T: Send>(
    cases: &[Case],
    command: &OracleCommand,
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
    ask: &Ask<'_, T>,
) -> Result<Done<T>, OracleError> {
    let first = Process::start(command)?;
    let packages = first.packages().to_vec();
    let idle = Mutex::new(vec![first]);
    let open = || match lock(&idle).pop() {
        Some(process) => Ok(process),
        None => Process::start(command),
    };
    match in_lanes(cases, jobs, interrupt, on_case, &open, ask) {
        (_, Some(failure)) => Err(failure),
        (done, None) => Ok((done, packages)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 0 for equal values, else the smallest power of two from 1 that is no smaller.
fn bucket(ulp: f64) -> u32 {
    if ulp == 0.0 {
        0
    } else {
        (ulp.min(1e9).ceil() as u32).next_power_of_two()
    }
}

/// `Ok(None)`: interrupted.
fn evaluate(
    case: &Case,
    command: &OracleCommand,
    process: &mut Process,
    interrupt: &Interrupt,
) -> Result<Option<Evaluated>, OracleError> {
    let request = match request(case) {
        Ok(request) => request,
        Err(why) => return Ok(Some(Err(why))),
    };
    Ok(match process.ask(&request, command.timeout, interrupt) {
        Answer::Results {
            values,
            scale,
            flushed,
        } => Some(
            as_reference(case, values, scale, flushed)
                .map_err(|what| format!("the oracle: {what}")),
        ),
        Answer::None(why) => Some(Err(why)),
        Answer::Failed(what) => Some(Err(format!("the oracle failed: {what}"))),
        Answer::Stopped => None,
        Answer::Lost(why) => {
            *process = Process::start(command)?;
            Some(Err(why))
        }
    })
}

fn request(case: &Case) -> Result<Request, String> {
    let drawn = case
        .inputs
        .iter()
        .enumerate()
        .map(|(operand, spec)| spec.generate(case.seed, operand))
        .collect::<Result<Vec<Tensor>, _>>()
        .map_err(|error| format!("its inputs cannot be drawn: {error}"))?;
    let widens = matches!(case.reference_program, ReferenceProgram::Widened(_));
    let in_type = |inputs: Vec<Tensor>| -> Vec<Tensor> {
        match widens {
            true => inputs.iter().map(Tensor::widen).collect(),
            false => inputs,
        }
    };
    let program = match &case.reference_program {
        ReferenceProgram::Widened(program) => program.clone(),
        ReferenceProgram::Native => case.program.clone(),
        ReferenceProgram::Given(_) => return Err("the case brings its reference".to_owned()),
        ReferenceProgram::Refused(_) => return Err("the program is to be refused".to_owned()),
        ReferenceProgram::Absent(why) => return Err(why.clone()),
    };
    Ok(Request {
        program,
        scale: case.tolerances.iter().any(needs_scale),
        scale_program: case.scale_program.clone(),
        flushed: without_subnormals(&drawn)?.map(in_type),
        inputs: in_type(drawn),
    })
}

fn measures_by_cpu(tolerance: &Tolerance) -> bool {
    matches!(tolerance, Tolerance::Yardstick { .. })
}

fn judge(case: &Case, stored: &[ReferenceTensor], oracle: &[ReferenceTensor]) -> Said {
    if oracle.len() != stored.len() {
        return Said::Disagrees(format!(
            "{} results are stored, the oracle has {}",
            stored.len(),
            oracle.len()
        ));
    }
    let mut worst = 0.0_f64;
    for (index, (stored, oracle)) in stored.iter().zip(oracle).enumerate() {
        let tolerance = case.tolerances.get(index).unwrap_or(&Tolerance::Exact);
        match agree(stored, oracle, tolerance) {
            Ok(ulp) => worst = worst.max(ulp),
            Err(what) => return Said::Disagrees(format!("result {index}: {what}")),
        }
    }
    Said::Agrees { ulp: worst }
}

/// The largest distance in ulp of the reference's element type, where that is what the tolerance measures; else 0.
fn agree(
    stored: &ReferenceTensor,
    oracle: &ReferenceTensor,
    tolerance: &Tolerance,
) -> Result<f64, String> {
    // What CPU is off in the program's own precision is no claim about the truth.
    let claimed = ReferenceTensor {
        yardstick: None,
        ..stored.clone()
    };
    same_frame(oracle, &claimed).map_err(|what| words(&what))?;
    // The oracle is what is right here; its values are in the reference's own element type.
    let truth = ReferenceTensor {
        element_type: oracle.values.element_type(),
        values: oracle.values.clone(),
        scale: oracle.scale.clone(),
        flushed: None,
        yardstick: None,
    };
    let tolerance_in_f64 = between(stored, tolerance);
    let within = compare(&stored.values, &truth, &tolerance_in_f64, &EXACT_NUMERICS)
        .map_err(|mismatch| mismatch.to_string())?;
    if let Some(first) = &within.first_mismatch {
        return Err(format!(
            "{} of {} elements differ, first at {:?}: {} stored, {} by the oracle",
            within.mismatches, within.elements, first.index, first.got, first.expected
        ));
    }
    Ok(match tolerance {
        Tolerance::Exact | Tolerance::Ulp(_) => within.max_ulp,
        _ => 0.0,
    })
}

/// How far a reference may be from the truth: as far as two computations of it may be from each other; and what is only rounded
/// to a narrower type, a function's error there moves by less than a millionth of that type's ulp.
fn between(stored: &ReferenceTensor, tolerance: &Tolerance) -> Tolerance {
    match tolerance {
        Tolerance::Ulp(_) if stored.element_type != stored.values.element_type() => {
            Tolerance::Ulp(FUNCTION_ULP)
        }
        tolerance => in_f64(tolerance),
    }
}

/// In ulp of f64, for functions whose reference is in f64 and whose results are narrower: 2^-22 ulp of f32. XLA's f64 functions
/// have budgets of up to 150 of their own ulp (`lgamma`), and are no further than 32 off here.
const FUNCTION_ULP: f64 = 128.0;

/// `verify`'s words for two computations of a reference, in which the stored one comes second here.
fn words(what: &str) -> String {
    what.replace(" stored", " by the oracle")
        .replace(" now", " stored")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
