//! `gate`: may this run pass?

use super::judged::{Tracker, print};
use super::{CommandResult, Global, Verdict};
use crate::gate::Gate;

/// Fail (exit code 1) if a run has a regression, a new failure or a missing case, or if nothing ran on a target.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run to compare with: an id, a label, a path, latest or latest~N. Without one, failures are held against the
    /// expectations alone
    #[arg(long, value_name = "RUN")]
    baseline: Option<String>,
    /// The run to judge
    #[arg(long, value_name = "RUN", default_value = "latest")]
    run: String,
    /// Fail also if a case passes against its expectation, fails after its expectation's `until`, or passed in the baseline
    /// and is skipped now or not planned though the suites have it, and if a target of the baseline is not in the run
    #[arg(long)]
    strict: bool,
}

pub fn run(global: &Global, args: &Args) -> CommandResult {
    let tracker = Tracker::open(global)?;
    let run = tracker.run(&args.run)?;
    let baseline = args
        .baseline
        .as_deref()
        .map(|name| tracker.run(name))
        .transpose()?;
    let judgement = tracker.judge(&run, baseline.as_ref());
    let gate = Gate::new(&run.record.id, &judgement, &tracker.ledger, args.strict);
    print(&gate.render())?;
    Ok(if gate.passed() {
        Verdict::Clean
    } else {
        Verdict::Unexpected
    })
}
