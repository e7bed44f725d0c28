//! The journal of an open run: one outcome a line, appended as it comes.
//!
//! Each line is handed to the kernel in one write, so a killed supervisor loses nothing; syncing to the disk, which guards
//! against the machine's death, goes in batches and never holds up a writer.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Result, StoreError};
use crate::outcome::Outcome;

pub(super) const FILE: &str = "journal.jsonl";

const SYNC_EVERY: usize = 64;
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Append-only; shared by all lanes of a run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// A second handle, so that a sync does not keep appends waiting.
    synced: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// In bytes, of whole lines.
    length: u64,
    /// A write has failed: what follows could join the half of a line that is left of it.
    broken: bool,
    unsynced: usize,
    last_sync: Instant,
}

impl Journal {
    /// Opens the journal for appending, and cuts off a last line that a killed writer left unfinished.
    pub(super) fn open(dir: &Path, id: &str) -> Result<Self> {
        let path = dir.join(FILE);
        let unwritable = |e| StoreError::unwritable(&path, e);
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { id: id.to_owned() });
            }
            // A file system without locks: go on without.
            Err(std::fs::TryLockError::Error(_)) => {}
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|e| StoreError::unreadable(&path, e))?;
        let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(unwritable)?;
        }
        let synced = file.try_clone().map_err(unwritable)?;
        Ok(Self {
            synced,
            state: Mutex::new(State {
                file,
                length: whole as u64,
                broken: false,
                unsynced: 0,
                last_sync: Instant::now(),
            }),
            path,
        })
    }

    /// Appends a final outcome. Once this returns, the outcome survives the death of this process. After an error nothing
    /// of it is left in the file, and no more is taken: the run can be resumed.
    pub fn append(&self, outcome: &Outcome) -> Result<()> {
        let mut line = serde_json::to_vec(outcome)
            .map_err(|e| StoreError::unwritable(&self.path, e.into()))?;
        line.push(b'\n');
        let mut state = self.state();
        if state.broken {
            let error = std::io::Error::other("an earlier write to it failed");
            return Err(StoreError::unwritable(&self.path, error));
        }
        if let Err(error) = state.file.write_all(&line) {
            state.broken = true;
            // If this fails too, the half line is the last one, which every reader passes over.
            let _ = state.file.set_len(state.length);
            return Err(StoreError::unwritable(&self.path, error));
        }
        state.length += line.len() as u64;
        state.unsynced += 1;
        Ok(())
    }

    /// Syncs when 64 outcomes or half a second have gathered: to be called every now and then.
    pub fn tick(&self) -> Result<()> {
        let due = {
            let state = self.state();
            state.unsynced >= SYNC_EVERY
                || (state.unsynced > 0 && state.last_sync.elapsed() >= SYNC_AFTER)
        };
        if due { self.sync() } else { Ok(()) }
    }

    /// Brings all that was appended to the disk.
    pub fn sync(&self) -> Result<()> {
        let covered = self.state().unsynced;
        self.synced
            .sync_data()
            .map_err(|e| StoreError::unwritable(&self.path, e))?;
        let mut state = self.state();
        state.unsynced -= covered;
        state.last_sync = Instant::now();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
