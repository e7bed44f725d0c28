//! Reports: a run's verdicts in the form that a reader wants, one file a form. They decide nothing.
//!
//! Every figure belongs to one target and one evidence, and says which. Text from plug-ins and people is escaped where it is
//! put (`escape`), and absolute paths are cut to file names, so that a report can be committed and published.

pub mod compiled;
pub mod diff;
pub mod escape;
pub mod issues;
mod json;
mod junit;
mod markdown;
pub mod models;
pub mod publish;
pub mod pytorch;
pub mod recompiles;
pub mod show;
mod summary;
mod terminal;
pub mod units;

use std::fmt;
use std::str::FromStr;

use crate::store::Run;
use crate::track::{IssueLedger, Judgement};

pub use json::SCHEMA;
pub use recompiles::Recompiles;
pub use summary::{ExecutorLine, FailureGroup, Group, KnownGroup, PluginLine, Section, Summary};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Terminal,
    Markdown,
    Junit,
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no report format '{0}'; formats are terminal, markdown, junit, json")]
pub struct FormatError(pub String);

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the JUnit report cannot be written as XML: {0}")]
    Xml(#[from] quick_junit::SerializeError),
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot write {}: {source}; choose a writable path", path.display())]
    Write {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("{}:{line}: not a history of runs: {reason}; correct the file or move it away", path.display())]
    History {
        path: std::path::PathBuf,
        line: usize,
        reason: String,
    },
}

/// Escape sequences in the terminal report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    On,
    Off,
}

/// Renders one run. `colour` matters to [`Format::Terminal`] alone.
pub fn render(
    format: Format,
    run: &Run,
    judgement: &Judgement,
    ledger: &IssueLedger,
    colour: Colour,
) -> Result<String, ReportError> {
    render_with(format, run, judgement, ledger, None, colour)
}

/// As [`render`], with the table of recompiles of a compile log; [`Format::Junit`] has no place for it.
pub fn render_with(
    format: Format,
    run: &Run,
    judgement: &Judgement,
    ledger: &IssueLedger,
    recompiles: Option<&Recompiles>,
    colour: Colour,
) -> Result<String, ReportError> {
    let mut summary = Summary::new(run, judgement, ledger);
    summary.recompiles = recompiles;
    match format {
        Format::Terminal => Ok(terminal::render(&summary, colour)),
        Format::Markdown => Ok(markdown::render(&summary)),
        Format::Junit => junit::render(&summary),
        Format::Json => json::render(&summary),
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "terminal" => Ok(Self::Terminal),
            "markdown" => Ok(Self::Markdown),
            "junit" => Ok(Self::Junit),
            "json" => Ok(Self::Json),
            _ => Err(FormatError(text.to_owned())),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminal => "terminal",
            Self::Markdown => "markdown",
            Self::Junit => "junit",
            Self::Json => "json",
        })
    }
}

#[cfg(test)]
mod tests;
