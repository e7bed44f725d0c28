//! Where the project's files are.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    #[error(
        "no project at or above {}: no directory holds suites/ and ci/plugins.toml; change into a checkout, or set TPU_PARITY_ROOT",
        start.display()
    )]
    NotFound { start: PathBuf },
}

/// A checkout.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// `$TPU_PARITY_ROOT`, or the first ancestor of `start` that holds `suites/` and `ci/plugins.toml`.
    pub fn discover(start: &Path) -> Result<Self, ProjectError> {
        if let Some(root) = std::env::var_os("TPU_PARITY_ROOT") {
            return Ok(Self { root: root.into() });
        }
        start
            .ancestors()
            .find(|dir| dir.join("suites").is_dir() && dir.join("ci/plugins.toml").is_file())
            .map(|root| Self {
                root: root.to_owned(),
            })
            .ok_or_else(|| ProjectError::NotFound {
                start: start.to_owned(),
            })
    }

    pub fn suites(&self) -> PathBuf {
        self.root.join("suites")
    }
}
