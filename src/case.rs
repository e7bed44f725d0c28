//! A case: one program with its inputs, its reference and its tolerance, and the stable id that names it.
//!
//! A case is self-contained plain data: whoever holds one can run it without the suite file it came from, which is what
//! lets a worker process know nothing of suites.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::compare::Tolerance;
use crate::distribution::Distribution;
use crate::suite::{TensorType, signature};
use crate::tensor::{InputSpec, Tensor};

/// `suite/subject/variant…`, each part made of `[a-z0-9._-]`. Pass rates group by suite and subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaseId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad case id '{id}': {reason}")]
pub struct CaseIdError {
    pub id: String,
    pub reason: &'static str,
}

impl CaseId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn suite(&self) -> &str {
        self.part(0)
    }

    /// The operator or the model.
    pub fn subject(&self) -> &str {
        self.part(1)
    }

    fn part(&self, index: usize) -> &str {
        self.0.split('/').nth(index).unwrap_or_default()
    }
}

impl FromStr for CaseId {
    type Err = CaseIdError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        let bad = |reason| CaseIdError {
            id: id.to_owned(),
            reason,
        };
        let parts: Vec<&str> = id.split('/').collect();
        if parts.len() < 2 {
            return Err(bad(
                "it needs at least a suite and a subject, separated by '/'",
            ));
        }
        for part in parts {
            if part.is_empty() {
                return Err(bad("a part between slashes is empty"));
            }
            if !part
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
            {
                return Err(bad("only a-z, 0-9, '.', '_' and '-' may stand in a part"));
            }
        }
        Ok(Self(id.to_owned()))
    }
}

impl TryFrom<String> for CaseId {
    type Error = CaseIdError;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        id.parse()
    }
}

impl From<CaseId> for String {
    fn from(id: CaseId) -> Self {
        id.0
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the reference of a case is computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceProgram {
    /// The same program with every float in f64 (complex in c128): inputs are widened exactly, outputs are f64. Of a case on
    /// several devices it is the program that computes on one device what they compute together.
    Widened(String),
    /// The program itself: for operators whose meaning is bound to the element type (`bitcast_convert`, `reduce_precision`, rng).
    Native,
    /// Nothing is computed: the case brings its reference, one tensor per result in the result's own element type.
    Given(Vec<Tensor>),
    /// The case has none; this says why, and is the reason to skip it once it has run.
    Absent(String),
    /// The program is invalid, and a plug-in must refuse it; this is the constraint of the specification that it breaks.
    Refused(String),
}

/// Where a case was declared, for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub file: PathBuf,
    /// 1-based.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub id: CaseId,
    pub origin: Origin,
    /// StableHLO text of a module whose public function is `main`.
    pub program: String,
    pub reference_program: ReferenceProgram,
    /// One per parameter of `main`, in order; whole, where the case runs on several devices.
    pub inputs: Vec<InputSpec>,
    /// Seed of the inputs; operand `i` draws from the stream `(seed, i)`.
    pub seed: u64,
    /// One per result of `main`, in order.
    pub tolerances: Vec<Tolerance>,
    /// Where the numbers of tolerances in ulp and norm come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_source: Option<String>,
    /// The program that gives the scales of the results from the inputs, in f64, where the reference's own on the absolute values
    /// of the inputs does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_program: Option<String>,
    /// Of a model: what each result is, in the order in which the model computes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
    /// Of a case that runs on several devices: how it lies on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Why its file holds nothing to run: the case ends at stage `load` with this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unloadable: Option<String>,
}

impl Case {
    /// BLAKE3 of the program text, in hex.
    pub fn program_hash(&self) -> String {
        blake3::hash(self.program.as_bytes()).to_hex().to_string()
    }

    /// Of a program that a plug-in must refuse: the constraint of the specification that it breaks.
    pub fn breaks(&self) -> Option<&str> {
        match &self.reference_program {
            ReferenceProgram::Refused(constraint) => Some(constraint),
            _ => None,
        }
    }

    /// How many devices it needs.
    pub fn devices(&self) -> usize {
        self.distribution.as_ref().map_or(1, Distribution::devices)
    }

    /// Element types and shapes of the results, over all devices.
    ///
    /// # Errors
    /// When the program's signature cannot be read.
    pub fn results(&self) -> Result<Vec<TensorType>, String> {
        let mut results = signature(&self.program)?.results;
        if let Some(distribution) = &self.distribution {
            for ((_, shape), spec) in results.iter_mut().zip(&distribution.outputs) {
                *shape = distribution.whole_shape(spec, shape);
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_its_suite_and_subject() {
        let id: CaseId = "stablehlo/dot_general/f32/batch2".parse().unwrap();
        assert_eq!((id.suite(), id.subject()), ("stablehlo", "dot_general"));
    }

    #[test]
    fn bad_ids_are_refused_with_the_reason() {
        for (id, reason) in [
            ("stablehlo", "at least a suite"),
            ("stablehlo//f32", "empty"),
            ("stablehlo/Add", "only a-z"),
            ("a/b c", "only a-z"),
        ] {
            let error = id.parse::<CaseId>().unwrap_err().to_string();
            assert!(error.contains(reason), "{id}: {error}");
        }
    }
}
