//! Cases taken one after the other by several threads, and what came of them put back into order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Interrupt;
use crate::case::Case;

/// What is done with a case; `None` ends the lane.
pub(crate) type Work<'a, S, T, E> = dyn Fn(&Case, &mut S) -> Result<Option<T>, E> + Sync + 'a;

/// What `work` gave for each case, with the case's index, in the order of the cases, and why a lane ended early.
///
/// Each of `jobs` lanes has what `open` gave it to itself. A lane ends with its first error, or when `work` gives `None`, which is
/// how it says that it was interrupted; the others go on. `on_case` is called after each case.
pub(crate) fn in_lanes<S, T: Send, E: Send>(
    cases: &[Case],
    jobs: usize,
    interrupt: &Interrupt,
    on_case: &(dyn Fn() + Sync),
    open: &(dyn Fn() -> Result<S, E> + Sync),
    work: &Work<'_, S, T, E>,
) -> (Vec<(usize, T)>, Option<E>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(cases.len()));
    let lane = || -> Result<(), E> {
        let mut own = open()?;
        while !interrupt.is_raised() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else {
                break;
            };
            let Some(found) = work(case, &mut own)? else {
                break;
            };
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, found));
            on_case();
        }
        Ok(())
    };
    let failure = thread::scope(|scope| {
        let lanes = 1..=jobs.clamp(1, cases.len().max(1));
        let lanes: Vec<_> = lanes.map(|_| scope.spawn(lane)).collect();
        // All are waited for: what the others found counts.
        let ends: Vec<_> = lanes
            .into_iter()
            .map(|lane| {
                lane.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        ends.into_iter().find_map(Result::err)
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    (done, failure)
}
