//! Runs on disk: how they are named, found, written and read.
//!
//! A run is a directory `<store>/<run-id>/`: `run.json` says what ran where, `plan.jsonl` which cases, and the outcomes are
//! in `journal.jsonl` while the run is open and in `outcomes.jsonl`, sorted by target and case, once it is sealed. An open
//! run is readable at every moment, its writer dead or alive. Judging outcomes is `track`'s job, not the store's.

mod error;
mod journal;
mod record;
mod run;
mod seal;
mod tolerances;

use std::fs;
use std::path::{Path, PathBuf};

pub use error::StoreError;
pub use journal::Journal;
pub use record::{Environment, ExecutorRecord, PluginRecord, RUN_SCHEMA, RunRecord};
pub use run::{Run, RunDir};
pub use seal::RunWriter;
pub use tolerances::ToleranceRecord;

use crate::case::CaseId;

pub type Result<T> = std::result::Result<T, StoreError>;

/// A directory of runs. It need not exist until a run is created in it.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

/// A run as `store ls` lists it; one whose record cannot be read keeps its error.
#[derive(Debug)]
pub struct Listed {
    pub dir: RunDir,
    pub record: Result<RunRecord>,
}

impl Store {
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a run: makes its directory, writes its record and plan, and opens its journal, locked against other writers.
    pub fn create(&self, record: RunRecord, planned: &[CaseId]) -> Result<RunWriter> {
        if let Some(label) = &record.label {
            check_label(label)?;
        }
        fs::create_dir_all(&self.path).map_err(|e| StoreError::unwritable(&self.path, e))?;
        RunWriter::create(&self.path, record, planned)
    }

    /// All runs, oldest first. A store that does not exist yet is empty.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::unreadable(&self.path, e)),
        };
        let mut runs = Vec::new();
        for entry in entries {
            let path = entry
                .map_err(|e| StoreError::unreadable(&self.path, e))?
                .path();
            if path.join(record::FILE).is_file() {
                runs.push(RunDir::new(path));
            }
        }
        runs.sort();
        Ok(runs
            .into_iter()
            .map(|dir| Listed {
                record: RunRecord::read(&dir),
                dir,
            })
            .collect())
    }

    /// Finds a run by `latest`, `latest~N` (the Nth before it), id, label (the newest that bears it) or path.
    pub fn resolve(&self, name: &str) -> Result<RunDir> {
        let missing = |detail: String| StoreError::NoSuchRun {
            name: name.to_owned(),
            store: self.path.clone(),
            detail,
        };
        if name == "latest" || name.starts_with("latest~") {
            let back: usize = match name.strip_prefix("latest~") {
                None => 0,
                Some(n) => n.parse().map_err(|_| {
                    missing(format!("'{n}' after 'latest~' is not a number of runs"))
                })?,
            };
            let runs = self.list()?;
            return match back
                .checked_add(1)
                .and_then(|back| runs.len().checked_sub(back))
            {
                Some(index) => Ok(runs[index].dir.clone()),
                None => Err(missing(format!("the store holds {} runs", runs.len()))),
            };
        }
        let by_id = self.path.join(name);
        if !name.contains('/') && by_id.join(record::FILE).is_file() {
            return Ok(RunDir::new(by_id));
        }
        let labelled = self.list()?.into_iter().rev().find(|run| {
            run.record
                .as_ref()
                .is_ok_and(|record| record.label.as_deref() == Some(name))
        });
        if let Some(run) = labelled {
            return Ok(run.dir);
        }
        let path = Path::new(name);
        if path.join(record::FILE).is_file() {
            return Ok(RunDir::new(path.to_owned()));
        }
        Err(missing("no run has this id, label or path".to_owned()))
    }
}

/// A label must be told from an id, from `latest~N` and from a path.
fn check_label(label: &str) -> Result<()> {
    let bad = |reason| {
        Err(StoreError::BadLabel {
            label: label.to_owned(),
            reason,
        })
    };
    if label.is_empty() {
        return bad("it is empty");
    }
    if label == "latest" || label.starts_with("latest~") {
        return bad("'latest' already names the newest run");
    }
    if !label
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-+@#:".contains(c))
    {
        return bad("only letters, digits and '._-+@#:' may stand in it");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
