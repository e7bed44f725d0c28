//! What can be wrong with a store, in one line each.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no run '{name}' in {}: {detail}; 'tpu-parity store ls' lists the runs", store.display())]
    NoSuchRun {
        name: String,
        store: PathBuf,
        detail: String,
    },
    #[error("bad label '{label}': {reason}")]
    BadLabel { label: String, reason: &'static str },
    #[error("cannot write {}: {source}; choose a writable store with --store or TPU_PARITY_STORE", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}:{line}: corrupt: {reason}; delete the line to go on without it, or run the cases again", path.display())]
    CorruptLine {
        path: PathBuf,
        /// 1-based.
        line: usize,
        reason: String,
    },
    #[error("{}: not a run record: {reason}", path.display())]
    BadRecord { path: PathBuf, reason: String },
    #[error("run '{id}' is finished: nothing is left to resume; start a new one without --resume")]
    Finished { id: String },
    #[error("run '{id}' is being written by another process: wait for it or stop it, then resume")]
    InUse { id: String },
    #[error("run '{id}' cannot be sealed: {missing} planned outcomes are missing")]
    Incomplete { id: String, missing: usize },
}

impl StoreError {
    pub(super) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }
}
