//! What supervisor and worker say to each other: one JSON object a line.
//!
//! Tensors travel as base64 of their bytes, so that every bit pattern arrives, NaN payloads included.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::compare::ReferenceTensor;
use crate::outcome::{Outcome, Stage};
use crate::pjrt::NamedValue;
use crate::store::PluginRecord;
use crate::target::Target;
use crate::tensor::{ElementType, Tensor};

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
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub target: Target,
    pub plugin: PathBuf,
    pub name: Option<String>,
    pub sha256: String,
    pub options: Vec<NamedValue>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub case: Case,
    /// One per result; none where the target does not run programs.
    pub reference: Option<Vec<WireReference>>,
}

/// Worker to supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// Answers `Hello`.
    Ready(PluginRecord),
    /// Answers `Hello` when the target cannot be opened; the worker ends.
    Refused(String),
    /// The case has reached this stage.
    Stage(Stage),
    /// Answers `Job`, and a `Compute` that came to nothing.
    Done(Box<Outcome>),
    /// Answers `Compute`.
    Computed(Vec<WireReference>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireReference {
    values: WireTensor,
    element_type: ElementType,
    scale: Option<WireTensor>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireTensor {
    element_type: ElementType,
    shape: Vec<usize>,
    data: String,
}

impl From<&ReferenceTensor> for WireReference {
    fn from(reference: &ReferenceTensor) -> Self {
        Self {
            values: (&reference.values).into(),
            element_type: reference.element_type,
            scale: reference.scale.as_ref().map(WireTensor::from),
        }
    }
}

impl WireReference {
    /// Fails on bytes that are no tensor of the declared type and shape.
    pub(super) fn decode(self) -> Result<ReferenceTensor, String> {
        Ok(ReferenceTensor {
            values: self.values.decode()?,
            element_type: self.element_type,
            scale: self.scale.map(WireTensor::decode).transpose()?,
        })
    }
}

impl From<&Tensor> for WireTensor {
    fn from(tensor: &Tensor) -> Self {
        Self {
            element_type: tensor.element_type(),
            shape: tensor.shape().to_vec(),
            data: STANDARD.encode(tensor.data()),
        }
    }
}

impl WireTensor {
    fn decode(self) -> Result<Tensor, String> {
        let data = STANDARD.decode(&self.data).map_err(|e| e.to_string())?;
        Tensor::new(self.element_type, self.shape, data).map_err(|e| e.to_string())
    }
}

/// One write of one whole line.
pub(super) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// `None` at the end of the stream.
pub(super) fn receive<T: for<'de> Deserialize<'de>>(
    mut from: impl BufRead,
    line: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    line.clear();
    if from.read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    serde_json::from_slice(line)
        .map(Some)
        .map_err(io::Error::from)
}
