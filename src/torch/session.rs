//! A worker's process of the package with its device open: takes a case's id, gives what became of the case.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::agreement::compare_all;
use super::exchange::Exchange;
use super::process::{Lost, Process};
use super::protocol::{Done, Ready, Request, Response};
use super::{Client, TorchError};
use crate::case::CaseId;
use crate::compare::Numerics;
use crate::hlo::MxuNumerics;
use crate::line::one_line;
use crate::outcome::{Metrics, OutcomeKind, Stage, TorchMetrics};
use crate::target::Target;

/// Bytes of the figures that an outcome keeps.
const FIGURES: usize = 16 << 10;
/// Operators that an outcome names.
const OPERATORS: usize = 2000;

/// IEEE 754's: PyTorch on CPU flushes nothing unless it is told to.
const CPU: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};

pub(crate) struct Session {
    process: Process,
    exchange: Exchange,
    numerics: Numerics,
    /// Versions by name.
    pub packages: BTreeMap<String, String>,
    /// As the device calls itself.
    pub device: String,
}

/// What became of a case.
pub(crate) struct Answer {
    pub kind: OutcomeKind,
    pub stage: Stage,
    /// For every outcome but a pass.
    pub message: Option<String>,
    /// The class of the exception.
    pub code: Option<String>,
    pub metrics: Metrics,
}

impl Session {
    /// Starts the process and opens the device. What happens to the process meanwhile is in the inner result.
    pub fn open(client: &Client, target: &Target) -> Result<Result<Self, Lost>, TorchError> {
        super::clear_abandoned();
        let exchange = Exchange::new()?;
        let mut process = Process::start(client)?;
        let name = target.to_string();
        process.send(&Request::Hello {
            target: &name,
            exchange: exchange.path(),
        });
        let ready = match process.next() {
            Ok(Response::Ready(ready)) => ready,
            Ok(Response::Refused(why)) => return Err(TorchError::NotReady(one_line(&why))),
            Ok(_) => return Ok(Err(process.kill("the Python process answered out of turn"))),
            Err(lost) => return Ok(Err(lost)),
        };
        let Ready { packages, device } = ready;
        let packages = packages.iter().map(|package| {
            let (name, version) = package.split_once(' ').unwrap_or((package, "unknown"));
            (name.to_owned(), version.to_owned())
        });
        Ok(Ok(Self {
            process,
            exchange,
            numerics: numerics(target),
            packages: packages.collect(),
            device: device.map_or_else(|| "unknown".to_owned(), |device| one_line(&device)),
        }))
    }

    /// Runs a case to its end.
    ///
    /// # Errors
    /// When the process dies, or talks nonsense and is killed.
    pub fn run(&mut self, case: &CaseId, on_stage: &mut dyn FnMut(Stage)) -> Result<Answer, Lost> {
        self.process.send(&Request::Case(case.as_str()));
        let done = loop {
            match self.process.next()? {
                Response::Stage(stage) => on_stage(stage),
                Response::Done(done) => break done,
                Response::Ready(_) => {
                    return Err(self.process.kill("the Python process answered out of turn"));
                }
                Response::Refused(why) => return Err(self.process.kill(&one_line(&why))),
            }
        };
        on_stage(Stage::Compare);
        self.judge(*done)
    }

    fn judge(&mut self, mut done: Done) -> Result<Answer, Lost> {
        done.operators.truncate(OPERATORS);
        let mut metrics = Metrics {
            run_ms: done.seconds.map(|seconds| (seconds * 1e6).round() / 1e3),
            torch: Some(TorchMetrics {
                compiles: done.compiles,
                operators: std::mem::take(&mut done.operators),
                results: done.results.iter().map(|r| r.name.clone()).collect(),
                figures: done.figures.take().and_then(small),
            }),
            ..Metrics::default()
        };
        let Some(kind) = done.outcome else {
            let (kind, message) = match self.compared(&done, &mut metrics) {
                None => (OutcomeKind::Pass, None),
                Some((kind, message)) => (kind, Some(message)),
            };
            let stage = match done.results.is_empty() {
                // Nothing was compared: the case asks for something else than numbers.
                true => done.stage.unwrap_or(Stage::Run),
                false => Stage::Compare,
            };
            return Ok(Answer {
                kind,
                stage,
                message,
                code: None,
                metrics,
            });
        };
        // Whether numbers agree, and who died of what, is not the process's to say.
        if matches!(
            kind,
            OutcomeKind::Pass | OutcomeKind::Crash | OutcomeKind::Timeout
        ) {
            let reason =
                format!("the Python process says '{kind}' of a case, which is not its to say");
            return Err(self.process.kill(&reason));
        }
        let message = done
            .message
            .as_deref()
            .map(one_line)
            .filter(|m| !m.is_empty());
        Ok(Answer {
            kind,
            stage: done.stage.unwrap_or(Stage::Load),
            message: Some(message.unwrap_or_else(|| "no reason given".to_owned())),
            code: done.code,
            metrics,
        })
    }

    /// The first result that does not agree.
    fn compared(&self, done: &Done, metrics: &mut Metrics) -> Option<(OutcomeKind, String)> {
        if done.results.is_empty() {
            return None;
        }
        let unreadable = |why: String| (OutcomeKind::Error, format!("its tensors: {why}"));
        let Some(file) = &done.file else {
            return Some(unreadable("no file is named".to_owned()));
        };
        match self.exchange.take(file) {
            Err(why) => Some(unreadable(one_line(&why))),
            Ok(tensors) => {
                let compared = compare_all(&done.results, tensors, &self.numerics);
                metrics.comparisons = compared.comparisons;
                compared.first
            }
        }
    }
}

fn numerics(target: &Target) -> Numerics {
    match target {
        Target::Virtual { .. } => Numerics::of_virtual(MxuNumerics::default()),
        Target::Tpu => Numerics::for_platform("tpu"),
        Target::Cpu | Target::Aot { .. } | Target::Torch | Target::Plugin(_) => CPU,
    }
}

/// Figures that an outcome can keep; of others, how large they are.
fn small(figures: Value) -> Option<Value> {
    let empty = figures.is_null() || figures.as_object().is_some_and(|object| object.is_empty());
    let size = figures.to_string().len();
    match (empty, size) {
        (true, _) => None,
        (false, 0..=FIGURES) => Some(figures),
        (false, _) => Some(json!({ "left_out": format!("{size} bytes of figures") })),
    }
}
