//! Writing a run: creation, resumption, sealing.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::run::{read_lines, sorted};
use super::{Journal, Result, Run, RunDir, RunRecord, StoreError, journal};
use crate::case::CaseId;
use crate::outcome::Outcome;

pub(super) const PLAN_FILE: &str = "plan.jsonl";
pub(super) const OUTCOMES_FILE: &str = "outcomes.jsonl";

/// An open run, held by this process alone.
#[derive(Debug)]
pub struct RunWriter {
    dir: RunDir,
    record: RunRecord,
    planned: Vec<CaseId>,
    journal: Journal,
    /// Case and target of the outcomes that an earlier process wrote.
    done: HashSet<(CaseId, String)>,
}

impl RunWriter {
    pub(super) fn create(store: &Path, record: RunRecord, planned: &[CaseId]) -> Result<Self> {
        let path = store.join(&record.id);
        fs::create_dir(&path).map_err(|e| StoreError::unwritable(&path, e))?;
        let mut plan = Vec::new();
        for id in planned {
            plan.extend_from_slice(format!("\"{id}\"\n").as_bytes());
        }
        write_atomically(&path.join(PLAN_FILE), &plan)?;
        let journal = Journal::open(&path, &record.id)?;
        // The record comes last: a directory is a run once it has one.
        record.write(&path)?;
        sync_dir(store);
        Ok(Self {
            dir: RunDir::new(path),
            record,
            planned: planned.to_vec(),
            journal,
            done: HashSet::new(),
        })
    }

    /// Opens an unsealed run to go on with it.
    pub fn resume(dir: &RunDir) -> Result<Self> {
        let record = RunRecord::read(dir)?;
        if record.finished.is_some() {
            return Err(StoreError::Finished { id: record.id });
        }
        let journal = Journal::open(dir.path(), &record.id)?;
        let run = Run::load(dir)?;
        let done = run
            .outcomes
            .into_iter()
            .map(|outcome| (outcome.case, outcome.target))
            .collect();
        Ok(Self {
            dir: dir.clone(),
            record,
            planned: run.planned,
            journal,
            done,
        })
    }

    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    pub fn planned(&self) -> &[CaseId] {
        &self.planned
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether an earlier process already wrote the final outcome.
    pub fn is_done(&self, case: &CaseId, target: &str) -> bool {
        self.done.contains(&(case.clone(), target.to_owned()))
    }

    /// Closes the run for good: sorts the outcomes into `outcomes.jsonl` and dates the record. Each step is atomic and
    /// leaves a readable run. Refused, with the run left open, while a planned outcome is missing.
    pub fn seal(mut self) -> Result<Run> {
        self.journal.sync()?;
        let journal = self.dir.path().join(journal::FILE);
        let sealed = self.dir.path().join(OUTCOMES_FILE);
        // A sealing that died half-way has left the outcomes in the sealed file.
        let source = if sealed.is_file() { &sealed } else { &journal };
        let mut run = Run {
            record: self.record.clone(),
            planned: std::mem::take(&mut self.planned),
            outcomes: sorted(read_lines::<Outcome>(source)?),
        };
        let missing = run.missing().len();
        if missing > 0 {
            return Err(StoreError::Incomplete {
                id: run.record.id,
                missing,
            });
        }
        let mut text = Vec::new();
        for outcome in &run.outcomes {
            serde_json::to_writer(&mut text, outcome)
                .map_err(|e| StoreError::unwritable(&sealed, e.into()))?;
            text.push(b'\n');
        }
        write_atomically(&sealed, &text)?;
        run.record.finished = Some(Timestamp::now());
        run.record.write(self.dir.path())?;
        fs::remove_file(&journal).map_err(|e| StoreError::unwritable(&journal, e))?;
        Ok(run)
    }
}

/// Writes beside the file, syncs, and renames: a reader sees the old file or the new one, whole.
pub(super) fn write_atomically(path: &Path, data: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary: PathBuf = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(data)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| StoreError::unwritable(path, e))?;
    if let Some(dir) = path.parent() {
        sync_dir(dir);
    }
    Ok(())
}

/// Makes a rename durable. Some file systems refuse to sync a directory; the rename itself has then still happened.
fn sync_dir(dir: &Path) {
    if let Ok(dir) = File::open(dir) {
        let _ = dir.sync_all();
    }
}
