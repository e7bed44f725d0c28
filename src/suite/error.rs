//! What can be wrong with suite files and with selections of cases; each message is one line with its remedy.

use std::fmt;

use crate::case::Origin;
use crate::line::one_line;

/// `suites/stablehlo/x.toml:LINE: case ID: what, remedy`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SuiteError {
    pub origin: Origin,
    /// The id of the case, or as much of it as is known.
    pub case: Option<String>,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for SuiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(case) = &self.case {
            write!(f, "case {case}: ")?;
        }
        write!(f, "{}; {}", one_line(&self.what), one_line(&self.remedy))
    }
}

/// Every error found in the suite files, one a line; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SuiteErrors(pub Vec<SuiteError>);

impl fmt::Display for SuiteErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One mistake in an operator shows in each of its cases: say it once.
        let mut groups: Vec<(&SuiteError, usize)> = Vec::new();
        for error in &self.0 {
            let same =
                |first: &SuiteError| (&first.origin, &first.what) == (&error.origin, &error.what);
            match groups.iter_mut().find(|(first, _)| same(first)) {
                Some((_, more)) => *more += 1,
                None => groups.push((error, 0)),
            }
        }
        for (index, (error, more)) in groups.iter().enumerate() {
            let end = if index + 1 < groups.len() { "\n" } else { "" };
            match more {
                0 => write!(f, "{error}{end}")?,
                1 => write!(f, "{error} (and so 1 more case){end}")?,
                _ => write!(f, "{error} (and so {more} more cases){end}")?,
            }
        }
        Ok(())
    }
}

/// Why a selection of cases is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("'{glob}' is not a glob: {reason}; see `tpu-parity list --help`")]
    BadGlob { glob: String, reason: String },
    #[error("'{glob}' selects no case; {remedy}")]
    NoMatch { glob: String, remedy: String },
    #[error("--exclude leaves no case of the selection; drop one of: {}", excludes.join(" "))]
    AllExcluded { excludes: Vec<String> },
}
