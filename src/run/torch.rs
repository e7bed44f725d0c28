//! The target `torch-cpu`: a Python process that evaluates the case's own program with PyTorch, in its own element types.
//!
//! It stands for a device that someone else has made: what it gets right and the suites refuse is a false alarm of theirs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use super::Interrupt;
use super::device::{Stop, generate_inputs};
use super::protocol::Hello;
use crate::case::Case;
use crate::compare::Numerics;
use crate::line::one_line;
use crate::oracle::{Answer, Arithmetic, OracleCommand, OracleError, Process, Request};
use crate::outcome::{OutcomeKind, Stage};
use crate::pjrt::Value;
use crate::store::PluginRecord;
use crate::tensor::Tensor;

pub(super) struct Torch {
    command: OracleCommand,
    process: RefCell<Option<Process>>,
}

/// The supervisor's timeout is shorter, and ends the worker with its Python process.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Torch {
    /// IEEE 754's: PyTorch flushes nothing unless it is told to.
    pub const NUMERICS: Numerics = Numerics {
        matmul_bf16_passes: false,
        flush_subnormals: false,
        f64_as_f32_pairs: false,
    };

    pub fn open(hello: &Hello) -> Result<(Self, PluginRecord), OracleError> {
        let root = hello.options.iter().find(|option| option.name == "root");
        let command = OracleCommand {
            python: hello.plugin.clone(),
            root: match root.map(|option| &option.value) {
                Some(Value::String(root)) => root.into(),
                _ => ".".into(),
            },
            arithmetic: Arithmetic::Torch,
            timeout: TIMEOUT,
        };
        let process = Process::start(&command)?;
        let record = PluginRecord {
            target: hello.target.clone(),
            name: None,
            path: hello.plugin.clone(),
            sha256: hello.sha256.clone(),
            api_version: (0, 0),
            platform: "torch".to_owned(),
            platform_version: process.packages().join(", "),
            stablehlo_version: None,
            devices: BTreeMap::from([("cpu".to_owned(), 1)]),
            memory_limit: None,
            executor: None,
            flags: Vec::new(),
        };
        let process = RefCell::new(Some(process));
        Ok((Self { command, process }, record))
    }

    pub fn run(&self, case: &Case, on_stage: &mut dyn FnMut(Stage)) -> Result<Vec<Tensor>, Stop> {
        let request = Request {
            program: case.program.clone(),
            inputs: generate_inputs(case)?,
            scale: false,
            scale_program: None,
            flushed: None,
        };
        on_stage(Stage::Run);
        let stop = |kind, message: &str| Err(Stop::new(kind, Stage::Run, one_line(message)));
        let mut process = self.process.borrow_mut();
        let serving = match process.take() {
            Some(serving) => Ok(serving),
            None => Process::start(&self.command),
        };
        let mut serving = match serving {
            Ok(serving) => serving,
            Err(error) => return stop(OutcomeKind::Crash, &error.to_string()),
        };
        let answer = serving.ask(&request, self.command.timeout, &Interrupt::default());
        if !matches!(answer, Answer::Lost(_)) {
            *process = Some(serving);
        }
        match answer {
            Answer::Results { values, .. } => Ok(values),
            // Not an implementation of StableHLO: what it has no operator for says nothing about the suites.
            Answer::None(why) => stop(OutcomeKind::Skipped, &why),
            Answer::Failed(what) => stop(OutcomeKind::Error, &what),
            Answer::Lost(why) => stop(OutcomeKind::Crash, &why),
            Answer::Stopped => stop(OutcomeKind::Error, "interrupted"),
        }
    }
}
