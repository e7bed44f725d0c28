//! Drives a plan to its end: lanes take cases, pools turn them into outcomes, the journal keeps them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::device::unserved;
use super::pool::Reference;
use super::{Interrupt, Plan, PlannedTarget, Pool, Progress, Result, RunError, RunOptions};
use crate::case::Case;
use crate::line::one_line;
use crate::outcome::{Outcome, OutcomeKind, Stage};
use crate::store::{Journal, PluginRecord};
use crate::target::Target;

const TICK: Duration = Duration::from_millis(100);

/// One pool per target, each with a plug-in that has been seen to load.
pub struct Fleet {
    pools: Vec<Pool>,
    jobs: usize,
}

impl Fleet {
    /// Starts a worker per target, so that a plug-in that does not load ends the run before it begins. `Ok(None)`:
    /// interrupted.
    pub fn start(
        targets: &[PlannedTarget],
        options: &RunOptions,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        let mut pools = Vec::with_capacity(targets.len());
        for target in targets {
            match Pool::start(target.clone(), options.clone(), interrupt)? {
                Some(pool) => pools.push(pool),
                None => return Ok(None),
            }
        }
        let exclusive = pools.iter().any(Pool::is_exclusive);
        Ok(Some(Self {
            pools,
            jobs: if exclusive { 1 } else { options.jobs.max(1) },
        }))
    }

    /// In the order of the targets.
    pub fn records(&self) -> Vec<PluginRecord> {
        self.pools
            .iter()
            .map(|pool| pool.record().clone())
            .collect()
    }
}

/// A target whose plug-in stopped loading during the run: the rest of its cases are errors at stage `load`.
#[derive(Debug)]
pub struct Lost {
    pub target: Target,
    pub error: RunError,
}

impl From<Lost> for RunError {
    fn from(lost: Lost) -> Self {
        lost.error
    }
}

#[derive(Debug)]
pub struct Summary {
    /// Outcomes written.
    pub finished: usize,
    /// Planned outcomes that are still missing.
    pub missing: usize,
    pub interrupted: bool,
    /// In the order of the targets.
    pub lost: Vec<Lost>,
    pub elapsed: Duration,
}

/// Runs what the plan still holds. `references` gives what a case is compared against, and is asked once per case and
/// target that runs programs. An error is the journal's: the run can then be resumed once it is writable again.
pub fn execute(
    plan: &Plan,
    fleet: &Fleet,
    references: &(dyn Fn(&Case) -> Reference + Sync),
    journal: &Journal,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Summary> {
    let start = Instant::now();
    let board = Board::new(plan);
    let lanes = fleet.jobs.min(plan.len()).max(1);
    let ticked = thread::scope(|scope| {
        let (alive, lanes_done) = mpsc::channel::<()>();
        for _ in 0..lanes {
            let alive = alive.clone();
            let board = &board;
            scope.spawn(move || {
                let _alive = alive;
                lane(plan, fleet, references, journal, progress, interrupt, board);
            });
        }
        drop(alive);
        loop {
            match lanes_done.recv_timeout(TICK) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    progress.tick();
                    if let Err(error) = journal.tick() {
                        board.state().queue.clear();
                        return Err(error);
                    }
                }
            }
        }
    });
    progress.end();
    let state = board
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    ticked?;
    if let Some(error) = state.failed {
        return Err(error);
    }
    journal.sync()?;
    let lost = state.lost.into_iter().map(|(target, error)| Lost {
        target: plan.targets[target].target.clone(),
        error,
    });
    Ok(Summary {
        finished: state.finished,
        missing: plan.len() - state.finished,
        interrupted: interrupt.is_raised(),
        lost: lost.collect(),
        elapsed: start.elapsed(),
    })
}

/// What the lanes share.
struct Board {
    state: Mutex<State>,
}

struct State {
    /// Indices of a target and a case.
    queue: VecDeque<(usize, usize)>,
    /// Planned outcomes still to come, by target.
    left: Vec<usize>,
    finished: usize,
    lost: BTreeMap<usize, RunError>,
    /// Why the whole run ends early.
    failed: Option<RunError>,
}

impl Board {
    fn new(plan: &Plan) -> Self {
        let mut left = vec![0; plan.targets.len()];
        for (target, _) in &plan.pending {
            left[*target] += 1;
        }
        Self {
            state: Mutex::new(State {
                queue: plan.pending.iter().copied().collect(),
                left,
                finished: 0,
                lost: BTreeMap::new(),
                failed: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(usize, usize)> {
        self.state().queue.pop_front()
    }

    /// Counts an outcome; true if it was the target's last.
    fn finish(&self, target: usize) -> bool {
        let mut state = self.state();
        state.finished += 1;
        state.left[target] -= 1;
        state.left[target] == 0
    }

    /// Gives up a target; returns the cases that nobody has begun.
    fn lose(&self, target: usize, error: RunError) -> Vec<usize> {
        let mut state = self.state();
        state.lost.entry(target).or_insert(error);
        let mut rest = Vec::new();
        state.queue.retain(|(t, case)| {
            if *t == target {
                rest.push(*case);
            }
            *t != target
        });
        rest
    }

    fn fail(&self, error: RunError) {
        let mut state = self.state();
        state.queue.clear();
        state.failed.get_or_insert(error);
    }
}

fn lane(
    plan: &Plan,
    fleet: &Fleet,
    references: &(dyn Fn(&Case) -> Reference + Sync),
    journal: &Journal,
    progress: &Progress,
    interrupt: &Interrupt,
    board: &Board,
) {
    let finish = |target: usize, outcome: &Outcome| {
        if let Err(error) = journal.append(outcome) {
            board.fail(error.into());
            return false;
        }
        progress.finished(outcome);
        if board.finish(target) {
            fleet.pools[target].retire();
        }
        true
    };
    while !interrupt.is_raised() {
        let Some((target, case)) = board.next() else {
            return;
        };
        let self_reference = plan.is_self_reference(target, case);
        let pool = &fleet.pools[target];
        let reference = pool
            .needs_reference()
            .then(|| references(&plan.cases[case]));
        let written = match pool.run(&plan.cases[case], reference.as_ref(), interrupt) {
            Ok(Some(mut outcome)) => {
                outcome.metrics.self_reference = self_reference;
                finish(target, &outcome)
            }
            Ok(None) => return,
            Err(error) => {
                let reason = one_line(&error.to_string());
                let rest = board.lose(target, error);
                std::iter::once(case).chain(rest).all(|case| {
                    let (case, name) = (&plan.cases[case], &plan.targets[target].target);
                    let (kind, stage) = (OutcomeKind::Error, Stage::Load);
                    finish(target, &unserved(case, name, kind, stage, reason.clone()))
                })
            }
        };
        if !written {
            return;
        }
    }
}
