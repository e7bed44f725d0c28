//! From what came of a compilation to its line in the compile log.

use std::time::Duration;

use super::artifact::Facts;
use super::compile_log::{Estimate, LogOutcome, Record, SCHEMA};
use super::pool::CompileError;
use super::slice::Slice;
use super::wire::Failure;
use crate::hlo::MxuNumerics;
use crate::pjrt::{CompileOptions, Value};

/// What the client asked for.
pub struct Asked<'a> {
    pub slice: &'a Slice,
    pub numerics: MxuNumerics,
    pub program: &'a [u8],
    pub options: &'a [u8],
}

impl Record {
    pub fn of(
        asked: &Asked<'_>,
        facts: Option<&Facts>,
        error: Option<&CompileError>,
        total: Duration,
    ) -> Self {
        let (replicas, partitions) = CompileOptions::decode(asked.options)
            .map_or((1, 1), |options| options.devices_in_use());
        let milliseconds = |seconds: f64| seconds * 1e3;
        // Below zero where a part of the program is of unknown cost.
        let estimated = |facts: &Facts, name: &str| {
            let value = facts.cost.get(name).and_then(Value::as_f64);
            value.filter(|value| *value >= 0.0)
        };
        Self {
            schema: SCHEMA.to_owned(),
            time: jiff::Timestamp::now(),
            process: std::process::id(),
            target: format!("vtpu-{}", asked.slice),
            numerics: asked.numerics.to_string(),
            program: blake3::hash(asked.program).to_hex().to_string(),
            function: facts.map(|facts| facts.name.clone()),
            caller: facts.and_then(|facts| facts.caller.clone()),
            inputs: facts.map(|facts| facts.inputs.clone()),
            replicas,
            partitions,
            outcome: outcome(error),
            message: error.map(message),
            total_ms: milliseconds(total.as_secs_f64()),
            libtpu_ms: facts.map(|facts| milliseconds(facts.libtpu_seconds)),
            passes_ms: facts.map(|facts| milliseconds(facts.passes_seconds)),
            cpu_ms: facts.and_then(|facts| facts.cpu_seconds).map(milliseconds),
            code_size: facts.map(|facts| facts.code_size),
            hbm: facts.map(|facts| facts.memory.clone()),
            flops: facts.and_then(|facts| estimated(facts, "flops")),
            estimate: facts.map(|facts| Estimate {
                cycles: facts.estimated_cycles,
                seconds: estimated(facts, "optimal_seconds"),
            }),
        }
    }
}

fn outcome(error: Option<&CompileError>) -> LogOutcome {
    match error {
        None => LogOutcome::Compiled,
        Some(CompileError::Failed(Failure {
            construct: Some(_), ..
        })) => LogOutcome::NotExecutable,
        Some(CompileError::Failed(_)) => LogOutcome::Error,
        Some(CompileError::Died { .. }) => LogOutcome::Crash,
        Some(CompileError::TimedOut { .. }) => LogOutcome::Timeout,
    }
}

/// The construct alone, where one has no meaning on a CPU: so that such records can be counted by it.
fn message(error: &CompileError) -> String {
    match error {
        CompileError::Failed(Failure {
            construct: Some(construct),
            ..
        }) => construct.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::artifact::tests::artifact;
    use super::super::wire::Stage;
    use super::*;

    fn record(facts: Option<&Facts>, error: Option<&CompileError>) -> Record {
        let asked = Asked {
            slice: &Slice::default(),
            numerics: MxuNumerics::Mxu,
            program: b"module",
            options: &CompileOptions::new().replicas(2).encode(),
        };
        Record::of(&asked, facts, error, Duration::from_millis(7))
    }

    #[test]
    fn a_record_holds_times_sizes_and_the_estimate() {
        let record = record(Some(&artifact().facts), None);
        assert_eq!(record.target, "vtpu-v6e:1x1");
        assert_eq!((record.replicas, record.partitions), (2, 1));
        assert_eq!(record.outcome, LogOutcome::Compiled);
        assert_eq!((record.total_ms, record.libtpu_ms), (7.0, Some(500.0)));
        assert_eq!(
            (record.passes_ms, record.cpu_ms),
            (Some(250.0), Some(125.0))
        );
        assert_eq!(record.flops, Some(8.0));
        let seconds = f64::from(1e-6f32);
        let estimate = Estimate {
            cycles: Some(100),
            seconds: Some(seconds),
        };
        assert_eq!(record.estimate, Some(estimate));
    }

    #[test]
    fn what_a_program_died_of_is_told_apart() {
        let died = CompileError::Died {
            stage: Stage::Cpu,
            how: "was killed by SIGABRT: Check failed: x".to_owned(),
        };
        let record_of = |error: &CompileError| record(None, Some(error));
        let crash = record_of(&died);
        assert_eq!(crash.outcome, LogOutcome::Crash);
        assert!(crash.message.unwrap().contains("Check failed: x"));
        let mut failure = Failure::new(12, "cannot run tpu_custom_call");
        assert_eq!(
            record_of(&failure.clone().into()).outcome,
            LogOutcome::Error
        );
        failure.construct = Some("tpu_custom_call".to_owned());
        let not_executable = record_of(&failure.into());
        assert_eq!(not_executable.outcome, LogOutcome::NotExecutable);
        assert_eq!(not_executable.message.unwrap(), "tpu_custom_call");
        assert_eq!(not_executable.function, None);
    }
}
