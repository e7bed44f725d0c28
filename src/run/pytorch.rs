//! PyTorch's own cases on a target: this worker hands them to a Python process, whose end is this worker's own.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::device::Stop;
use super::protocol::Hello;
use crate::case::{Case, ReferenceProgram};
use crate::outcome::{Metrics, OutcomeKind, Stage};
use crate::store::PluginRecord;
use crate::target::Target;
use crate::torch::{Client, Session, TorchError};

pub(super) struct PyTorch {
    session: RefCell<Session>,
}

impl PyTorch {
    /// Starts the process and opens its device. One that dies over it ends this worker.
    pub fn open(hello: &Hello, client: &Client) -> Result<(Self, PluginRecord), TorchError> {
        let session = match Session::open(client, &hello.target)? {
            Ok(session) => session,
            Err(lost) => lost.end(),
        };
        let packages = session.packages.iter();
        let versions: Vec<String> = packages.map(|(name, v)| format!("{name} {v}")).collect();
        let record = PluginRecord {
            target: hello.target.clone(),
            name: hello.name.clone(),
            path: hello.plugin.clone(),
            sha256: hello.sha256.clone(),
            api_version: (0, 0),
            platform: match hello.target {
                Target::Cpu => "cpu",
                _ => "tpu",
            }
            .to_owned(),
            platform_version: versions.join(", "),
            stablehlo_version: None,
            devices: BTreeMap::from([(session.device.clone(), 1)]),
            memory_limit: None,
            executor: None,
            flags: Vec::new(),
            packages: session.packages.clone(),
            client_sha256: Some(client.sha256.clone()),
        };
        let session = RefCell::new(session);
        Ok((Self { session }, record))
    }

    pub fn execute(
        &self,
        case: &Case,
        metrics: &mut Metrics,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Stage, Stop> {
        match &case.reference_program {
            ReferenceProgram::Torch(_) => {}
            ReferenceProgram::Absent(reason) => {
                return Err(Stop::new(OutcomeKind::Skipped, Stage::Load, reason));
            }
            ReferenceProgram::Widened(_)
            | ReferenceProgram::Native
            | ReferenceProgram::Given(_)
            | ReferenceProgram::Refused(_) => {
                let message = "the case is none of PyTorch's";
                return Err(Stop::new(OutcomeKind::Error, Stage::Load, message));
            }
        }
        let answer = match self.session.borrow_mut().run(&case.id, on_stage) {
            Ok(answer) => answer,
            Err(lost) => lost.end(),
        };
        *metrics = answer.metrics;
        match answer.kind {
            OutcomeKind::Pass => Ok(answer.stage),
            kind => Err(Stop {
                kind,
                stage: answer.stage,
                message: answer.message.unwrap_or_default(),
                code: answer.code,
            }),
        }
    }
}
