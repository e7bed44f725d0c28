//! A virtual target's lines in the compile log that `TPU_PARITY_COMPILE_LOG` names: what a client of the plug-in would leave
//! there, with the operator for the function and the suite file for the caller.

use std::ops::Add;
use std::path::PathBuf;

use super::device::Stop;
use crate::case::Case;
use crate::hlo::MxuNumerics;
use crate::outcome::{Metrics, known_cost};
use crate::project::ProjectError;
use crate::target::Target;
use crate::virtual_tpu::COMPILE_LOG;
use crate::virtual_tpu::compile_log::{LogOutcome, Record, SCHEMA, append, open};

pub(super) struct CompileLog {
    path: PathBuf,
    target: Target,
    numerics: MxuNumerics,
}

/// `None` where the variable is not set.
fn path() -> Option<PathBuf> {
    let path = std::env::var_os(COMPILE_LOG).filter(|path| !path.is_empty())?;
    Some(path.into())
}

/// Whether the log, where there is to be one, can be written: before anything runs, for no one reads what workers say.
///
/// # Errors
/// [`ProjectError::CompileLog`], in the system's words.
pub(super) fn check() -> Result<(), ProjectError> {
    match path() {
        None => Ok(()),
        Some(path) => open(&path)
            .map(|_| ())
            .map_err(|source| ProjectError::CompileLog { path, source }),
    }
}

impl CompileLog {
    /// `None` where the variable is not set.
    pub fn from_environment(target: &Target, numerics: MxuNumerics) -> Option<Self> {
        Some(Self {
            path: path()?,
            target: target.clone(),
            numerics,
        })
    }

    /// Adds what came of compiling a case. A log that cannot be written costs no case its outcome: the worker says so on
    /// standard error and goes on.
    pub fn add(&self, case: &Case, metrics: &Metrics, stop: Option<&Stop>) {
        let record = self.record(case, metrics, stop);
        if let Err(error) = append(&self.path, &record) {
            eprintln!("{}: {error}", self.path.display());
        }
    }

    fn record(&self, case: &Case, metrics: &Metrics, stop: Option<&Stop>) -> Record {
        let (libtpu, passes, cpu) = (
            metrics.compile_ms,
            metrics.passes_ms,
            metrics.cpu_compile_ms,
        );
        let failed = stop.filter(|_| cpu.is_none());
        let (outcome, message) = match (&metrics.not_executable, failed) {
            (Some(found), _) => (LogOutcome::NotExecutable, Some(found.construct.clone())),
            (None, Some(stop)) => (LogOutcome::Error, Some(stop.message.clone())),
            (None, None) => (LogOutcome::Compiled, None),
        };
        let (replicas, partitions) = case.distribution.as_ref().map_or((1, 1), |distribution| {
            (distribution.replicas, distribution.partitions())
        });
        let input = |spec: &crate::tensor::InputSpec| {
            let sizes: Vec<String> = spec.shape.iter().map(usize::to_string).collect();
            format!("{}[{}]", spec.element_type, sizes.join(","))
        };
        Record {
            schema: SCHEMA.to_owned(),
            time: jiff::Timestamp::now(),
            process: std::process::id(),
            target: self.target.to_string(),
            numerics: self.numerics.to_string(),
            program: case.program_hash(),
            function: Some(format!("{}/{}", case.id.suite(), case.id.subject())),
            caller: Some(case.origin.to_string()),
            inputs: Some(case.inputs.iter().map(input).collect()),
            replicas,
            partitions,
            outcome,
            message,
            total_ms: [libtpu, passes, cpu]
                .into_iter()
                .flatten()
                .fold(0.0, Add::add),
            libtpu_ms: libtpu,
            passes_ms: passes,
            cpu_ms: cpu,
            code_size: metrics.code_size,
            hbm: (!metrics.memory.is_empty()).then(|| metrics.memory.clone()),
            flops: known_cost(&metrics.cost, "flops"),
            estimate: metrics.estimate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Origin, ReferenceProgram};
    use crate::outcome::{NotExecutable, OutcomeKind, Stage};
    use crate::tensor::{Domain, ElementType, InputSpec};

    #[test]
    fn a_case_leaves_the_line_of_its_compilation() {
        let log = CompileLog {
            path: "log".into(),
            target: "vtpu-v6e".parse().unwrap(),
            numerics: MxuNumerics::Mxu,
        };
        let case = Case {
            id: "s/dot/f32/a".parse().unwrap(),
            origin: Origin {
                file: "suites/s/dot.toml".into(),
                line: 7,
            },
            program: "func.func @main() {}".to_owned(),
            reference_program: ReferenceProgram::Native,
            inputs: vec![InputSpec {
                element_type: ElementType::F32,
                shape: vec![2, 3],
                domain: Domain::Any,
            }],
            seed: 0,
            tolerances: Vec::new(),
            tolerance_source: None,
            scale_program: None,
            layers: Vec::new(),
            unloadable: None,
            distribution: None,
        };
        let mut metrics = Metrics {
            compile_ms: Some(20.0),
            passes_ms: Some(2.0),
            cpu_compile_ms: Some(10.0),
            ..Metrics::default()
        };
        let record = log.record(&case, &metrics, None);
        assert_eq!(record.function.as_deref(), Some("s/dot"));
        assert_eq!(record.caller.as_deref(), Some("suites/s/dot.toml:7"));
        assert_eq!(record.inputs.as_deref(), Some(&["f32[2,3]".to_owned()][..]));
        assert_eq!(
            (record.total_ms, record.outcome),
            (32.0, LogOutcome::Compiled)
        );
        // What fails once it is compiled says nothing of the compilation.
        let stop = Stop::new(OutcomeKind::Error, Stage::Run, "no");
        let record = log.record(&case, &metrics, Some(&stop));
        assert_eq!(record.outcome, LogOutcome::Compiled);
        metrics.cpu_compile_ms = None;
        let record = log.record(&case, &metrics, Some(&stop));
        assert_eq!(record.outcome, LogOutcome::Error);
        assert_eq!(record.message.as_deref(), Some("no"));
        metrics.not_executable = Some(NotExecutable {
            construct: "Mosaic kernel".to_owned(),
            instruction: "k".to_owned(),
        });
        let record = log.record(&case, &metrics, Some(&stop));
        assert_eq!(record.outcome, LogOutcome::NotExecutable);
        assert_eq!(record.message.as_deref(), Some("Mosaic kernel"));
    }
}
