//! What supervisor and worker say to each other: one JSON object a line.
//!
//! Tensors travel as base64 of their bytes (`Tensor`'s own form in text), so that every bit pattern arrives.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Executor, Terms};
use crate::case::Case;
use crate::compare::{Numerics, ReferenceTensor};
use crate::outcome::{Outcome, Stage};
use crate::pjrt::NamedValue;
use crate::store::PluginRecord;
use crate::target::Target;
use crate::tensor::Tensor;

/// Supervisor to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// First, once: load the plug-in and open the target.
    Hello(Hello),
    /// Then any number of cases, one at a time.
    Job(Box<Job>),
    /// Or the reference of a case.
    Compute(Box<Case>),
    /// Or its results as they are, compared with nothing.
    Outputs(Box<Case>),
    /// Or the terms that its sums are made of.
    Terms(Box<Case>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    pub target: Target,
    pub plugin: PathBuf,
    pub name: Option<String>,
    pub sha256: String,
    pub options: Vec<NamedValue>,
    pub executor: Option<Executor>,
    pub flags: Vec<NamedValue>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub case: Case,
    /// One tensor per result, or why there is none.
    pub reference: Result<Vec<ReferenceTensor>, String>,
}

/// Worker to supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// Answers `Hello`.
    Ready(Box<PluginRecord>),
    /// Answers `Hello` when the target cannot be opened; the worker ends.
    Refused(String),
    /// The case has reached this stage.
    Stage(Stage),
    /// Answers `Job`, and any other request that came to nothing.
    Done(Box<Outcome>),
    /// Answers the others.
    Answer(Answer),
}

/// What a worker finds out about a case beside its outcome.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// To `Compute`.
    Reference(Vec<ReferenceTensor>),
    /// To `Outputs`.
    Outputs(Outputs),
    /// To `Terms`.
    Terms(Terms),
}

/// The results of a case on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outputs {
    pub results: Vec<Tensor>,
    /// What the target's arithmetic does, which a comparison has to know.
    pub numerics: Numerics,
}

/// One write of one whole line.
pub(super) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// `None` at the end of the stream. A last line that its writer's death cut off is no message.
pub(super) fn receive<T: for<'de> Deserialize<'de>>(
    mut from: impl BufRead,
    line: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    line.clear();
    from.read_until(b'\n', line)?;
    if !line.ends_with(b"\n") {
        return Ok(None);
    }
    serde_json::from_slice(line)
        .map(Some)
        .map_err(io::Error::from)
}
