//! The workers of one target: takes a case, gives back its one final outcome.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::device::{runs_programs, unserved};
use super::process::{NotReady, Served, Worker, seconds};
use super::protocol::{Answer, Job, Outputs, Request, send};
use super::{Interrupt, PlannedTarget, Result, RunError, Terms};
use crate::case::Case;
use crate::compare::ReferenceTensor;
use crate::outcome::{Evidence, Outcome, OutcomeKind, Stage};
use crate::store::PluginRecord;
use crate::target::is_tpu;

#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Cases at the same time, over all targets.
    pub jobs: usize,
    /// For one attempt at one case.
    pub timeout: Duration,
    /// For a plug-in to load and open its device.
    pub startup_timeout: Duration,
    /// Further attempts at a case that crashed, timed out, failed or met an error.
    pub retries: usize,
    /// The `tpu-parity` binary, started as `<program> worker …`.
    pub program: PathBuf,
    /// A worker is replaced after this many cases, since plug-ins leak.
    pub cases_per_worker: usize,
    /// And when it holds this many bytes.
    pub memory_per_worker: u64,
}

impl RunOptions {
    /// Defaults; `program` is usually `std::env::current_exe()`.
    pub fn new(program: PathBuf) -> Self {
        Self {
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            // Two compilers take a minute for the longest programs of the suites on a virtual TPU, f64 polygamma first of all.
            timeout: Duration::from_secs(180),
            startup_timeout: Duration::from_secs(120),
            retries: 0,
            program,
            cases_per_worker: 1000,
            memory_per_worker: 4 << 30,
        }
    }
}

/// What a case is compared against: the reference's results, or why there are none, for which the case is skipped at the
/// comparison if it comes that far.
pub type Reference = std::result::Result<Vec<ReferenceTensor>, String>;

/// A reference as it was computed, or the outcome that says why there is none.
pub type Computed = Found<Vec<ReferenceTensor>>;

/// What was asked of a case, or the outcome that says why there is none.
pub type Found<T> = std::result::Result<T, Box<Outcome>>;

/// Shared between threads; each [`Pool::run`] holds one worker.
pub struct Pool {
    target: PlannedTarget,
    options: RunOptions,
    record: PluginRecord,
    idle: Mutex<Vec<Worker>>,
}

enum Attempt {
    Ended(Box<Outcome>),
    Answer(Answer),
    Stopped,
}

fn nonsense(reason: &str) -> RunError {
    RunError::Worker(std::io::Error::other(reason.to_owned()))
}

/// How often a worker's memory is looked at, in cases.
const MEMORY_GLANCE: usize = 16;

impl Pool {
    /// Starts a first worker. That the plug-in does not load, even at a second try, is an error here and not the outcome
    /// of each case. `Ok(None)`: interrupted.
    pub fn start(
        target: PlannedTarget,
        options: RunOptions,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        Ok(
            start_worker(&target, &options, interrupt)?.map(|worker| Self {
                record: worker.record.clone(),
                idle: Mutex::new(vec![worker]),
                target,
                options,
            }),
        )
    }

    pub fn target(&self) -> &PlannedTarget {
        &self.target
    }

    /// The plug-in as it described itself.
    pub fn record(&self) -> &PluginRecord {
        &self.record
    }

    /// Whether cases need a reference here.
    pub fn needs_reference(&self) -> bool {
        runs_programs(&self.target.target)
    }

    /// Whether its devices belong to one process at a time, as a TPU's chips do, by whatever name the target goes. A
    /// virtual TPU's do not: any number of them fit on a machine.
    pub fn is_exclusive(&self) -> bool {
        self.target.target.evidence() == Evidence::Hardware && is_tpu(&self.record.platform)
    }

    /// Ends the idle workers.
    pub fn retire(&self) {
        self.idle().clear();
    }

    /// Runs one case, again as often as `retries` allows. `Ok(None)`: interrupted before there was a final outcome.
    /// Errors mean that no worker can be had any more.
    pub fn run(
        &self,
        case: &Case,
        reference: Option<&Reference>,
        interrupt: &Interrupt,
    ) -> Result<Option<Outcome>> {
        // Without a reference a case is still compiled and run: an error on the way is a finding of its own.
        let reference = reference.map_or_else(
            || Err("no reference was given".to_owned()),
            Reference::clone,
        );
        let job = Request::Job(Box::new(Job {
            case: case.clone(),
            reference,
        }));
        let mut line = Vec::new();
        send(&mut line, &job).map_err(RunError::Worker)?;
        let line = line.into();

        let mut attempts = Vec::new();
        loop {
            let mut outcome = match self.attempt(case, &line, interrupt)? {
                Attempt::Ended(outcome) => *outcome,
                Attempt::Answer(_) => return Err(nonsense("it answered a job with tensors")),
                Attempt::Stopped => return Ok(None),
            };
            attempts.push(outcome.outcome);
            let again = matches!(
                outcome.outcome,
                OutcomeKind::Crash | OutcomeKind::Timeout | OutcomeKind::Fail | OutcomeKind::Error
            );
            if !again || attempts.len() > self.options.retries {
                outcome.attempts = attempts;
                return Ok(Some(outcome));
            }
        }
    }

    /// Computes the reference of one case, in f64. `Ok(None)`: interrupted.
    pub fn compute(&self, case: &Case, interrupt: &Interrupt) -> Result<Option<Computed>> {
        let request = Request::Compute(Box::new(case.clone()));
        self.ask(case, &request, interrupt, |answer| match answer {
            Answer::Reference(tensors) => Some(tensors),
            _ => None,
        })
    }

    /// The results of one case, compared with nothing. `Ok(None)`: interrupted.
    pub fn outputs(&self, case: &Case, interrupt: &Interrupt) -> Result<Option<Found<Outputs>>> {
        let request = Request::Outputs(Box::new(case.clone()));
        self.ask(case, &request, interrupt, |answer| match answer {
            Answer::Outputs(outputs) => Some(outputs),
            _ => None,
        })
    }

    /// The terms that the sums of one case are made of, in f64. `Ok(None)`: interrupted.
    pub fn terms(&self, case: &Case, interrupt: &Interrupt) -> Result<Option<Found<Terms>>> {
        let request = Request::Terms(Box::new(case.clone()));
        self.ask(case, &request, interrupt, |answer| match answer {
            Answer::Terms(terms) => Some(terms),
            _ => None,
        })
    }

    fn ask<T>(
        &self,
        case: &Case,
        request: &Request,
        interrupt: &Interrupt,
        expected: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<Option<Found<T>>> {
        let mut line = Vec::new();
        send(&mut line, request).map_err(RunError::Worker)?;
        match self.attempt(case, &line.into(), interrupt)? {
            Attempt::Ended(outcome) => Ok(Some(Err(outcome))),
            Attempt::Stopped => Ok(None),
            Attempt::Answer(answer) => match expected(answer) {
                Some(found) => Ok(Some(Ok(found))),
                None => Err(nonsense("it answered another question")),
            },
        }
    }

    /// One attempt, for which a second worker may be needed: one that has served other cases may die of what those left
    /// behind, a damaged heap above all, idle or in the middle of this case, or freeze. That is not this case's fault, so its
    /// death decides nothing: the case is given to a worker that was started for it, and what comes of that is the attempt's
    /// outcome. A case that crashes by itself crashes there again and counts once; one that does not has the first death in
    /// its message. A hang is not tried again: it would cost the timeout twice.
    fn attempt(&self, case: &Case, job: &Arc<[u8]>, interrupt: &Interrupt) -> Result<Attempt> {
        let ended = |kind, stage, message| {
            let outcome = unserved(case, &self.target.target, kind, stage, message);
            Attempt::Ended(Box::new(outcome))
        };
        let mut died_before = None;
        for last in [false, true] {
            let idle = if last { None } else { self.idle().pop() };
            let worker = match idle {
                Some(worker) => Some(worker),
                None => start_worker(&self.target, &self.options, interrupt)?,
            };
            let Some(mut worker) = worker else {
                return Ok(Attempt::Stopped);
            };
            match worker.serve(job, self.options.timeout, interrupt) {
                Served::Done(mut outcome) => {
                    self.give_back(worker);
                    if outcome.message.is_none() {
                        outcome.message = died_before;
                    }
                    return Ok(Attempt::Ended(outcome));
                }
                Served::Answer(answer) => {
                    self.give_back(worker);
                    return Ok(Attempt::Answer(answer));
                }
                Served::Died { stage, message } if last || worker.served == 0 => {
                    return Ok(ended(OutcomeKind::Crash, stage, message));
                }
                Served::Died { stage, message } => {
                    died_before = Some(format!(
                        "decided in a fresh worker: in stage {stage}, one that had served {} other cases ended: {message}",
                        worker.served
                    ));
                }
                Served::TimedOut { stage } => {
                    let message = format!(
                        "no result after {}, in stage {stage}; killed",
                        seconds(self.options.timeout)
                    );
                    return Ok(ended(OutcomeKind::Timeout, stage, message));
                }
                Served::Stopped => return Ok(Attempt::Stopped),
                Served::NotTaken => {}
            }
        }
        let message = "the worker died or froze before it took the case up".to_owned();
        Ok(ended(OutcomeKind::Crash, Stage::Load, message))
    }

    fn give_back(&self, worker: Worker) {
        let tired = worker.served >= self.options.cases_per_worker
            || worker.served.is_multiple_of(MEMORY_GLANCE)
                && worker
                    .resident()
                    .is_some_and(|bytes| bytes > self.options.memory_per_worker);
        if !tired {
            self.idle().push(worker);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two tries, unless the first takes all its time. `Ok(None)`: interrupted.
fn start_worker(
    target: &PlannedTarget,
    options: &RunOptions,
    interrupt: &Interrupt,
) -> Result<Option<Worker>> {
    let mut reason = String::new();
    for _ in 0..2 {
        let started = Worker::start(&options.program, target, options.startup_timeout, interrupt)?;
        match started {
            Ok(worker) => return Ok(Some(worker)),
            Err(NotReady::Stopped) => return Ok(None),
            Err(NotReady::Refused(why)) => reason = why,
            // A second wait would be as long, and as vain.
            Err(NotReady::TooSlow(why)) => {
                reason = why;
                break;
            }
        }
    }
    Err(RunError::TargetDoesNotStart {
        target: target.target.clone(),
        reason,
    })
}
