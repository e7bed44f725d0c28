//! Reading a run, sealed or open.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{Result, RunRecord, StoreError, journal, seal};
use crate::case::CaseId;
use crate::line::one_line;
use crate::outcome::Outcome;
use crate::target::Target;

/// The directory of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's name, which is the run's id.
    pub fn id(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// A run as reports, the gate and the tracker see it.
#[derive(Debug, Clone)]
pub struct Run {
    pub record: RunRecord,
    /// Every one of these is planned on every target of the record.
    pub planned: Vec<CaseId>,
    /// At most one per planned case and target, sorted by target and case.
    pub outcomes: Vec<Outcome>,
}

impl Run {
    /// Reads a run. Of an open one the outcomes so far; a last journal line cut short by a killed writer is passed over,
    /// any other line that cannot be read is an error with its number.
    pub fn load(dir: &RunDir) -> Result<Self> {
        let record = RunRecord::read(dir)?;
        let planned = read_lines(&dir.path.join(seal::PLAN_FILE))?;
        let sealed = dir.path.join(seal::OUTCOMES_FILE);
        let outcomes = if sealed.is_file() {
            read_lines(&sealed)?
        } else {
            read_lines(&dir.path.join(journal::FILE))?
        };
        Ok(Self {
            record,
            planned,
            outcomes: sorted(outcomes),
        })
    }

    pub fn is_sealed(&self) -> bool {
        self.record.finished.is_some()
    }

    /// Planned cases and targets that have no outcome, in plan order, target by target.
    pub fn missing(&self) -> Vec<(&CaseId, &Target)> {
        let done: HashSet<(&str, &str)> = self
            .outcomes
            .iter()
            .map(|outcome| (outcome.case.as_str(), outcome.target.as_str()))
            .collect();
        let mut missing = Vec::new();
        for target in &self.record.targets {
            let name = target.to_string();
            missing.extend(
                self.planned
                    .iter()
                    .filter(|case| !done.contains(&(case.as_str(), name.as_str())))
                    .map(|case| (case, target)),
            );
        }
        missing
    }
}

/// One outcome per target and case, in that order; of several the last, which is the one that a resumed run added.
pub(super) fn sorted(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let by_key: BTreeMap<(String, CaseId), Outcome> = outcomes
        .into_iter()
        .map(|outcome| ((outcome.target.clone(), outcome.case.clone()), outcome))
        .collect();
    by_key.into_values().collect()
}

pub(super) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = fs::read(path).map_err(|e| StoreError::unreadable(path, e))?;
    let mut values = Vec::new();
    let mut lines = text.split_inclusive(|b| *b == b'\n').enumerate();
    for (index, line) in &mut lines {
        match serde_json::from_slice(line) {
            Ok(value) => values.push(value),
            Err(_) if !line.ends_with(b"\n") => break,
            Err(e) => {
                return Err(StoreError::CorruptLine {
                    path: path.to_owned(),
                    line: index + 1,
                    reason: one_line(&e.to_string()),
                });
            }
        }
    }
    Ok(values)
}
