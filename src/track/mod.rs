//! The tracker: judges the outcomes of a run through the known failures (`expectations`), the issues that they name (`issues`)
//! and a baseline run (`verdict`), says what changed between two runs (`diff`), and what failing cases have in common (`pattern`).
//!
//! It runs nothing and prints nothing: reports and the gate read what it finds.

pub mod condition;
pub mod diff;
pub mod expectations;
#[cfg(test)]
pub mod fixtures;
pub mod impact;
pub mod issues;
pub mod pattern;
pub mod totals;
pub mod verdict;

use std::path::{Path, PathBuf};

use crate::text::{Lines, toml_error};

pub use condition::{Condition, Version};
pub use expectations::{Expectation, Expectations};
pub use issues::{Issue, IssueLedger, IssueRef, IssueState};
pub use pattern::{Common, Pattern, patterns};
pub use totals::{Totals, cases, thousands};
pub use verdict::{Judgement, Verdict, VerdictKind, judge};

/// A file of expectations or issues that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// Something in a file is wrong; `remedy` says what to write instead.
    #[error("{}:{line}: {problem}; {remedy}", file.display())]
    Entry {
        file: PathBuf,
        /// 1-based.
        line: usize,
        problem: String,
        remedy: String,
    },
    #[error("cannot read {}: {source}; check that the path exists and is readable", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The text of a TOML file, to turn the byte offsets of its parser into lines.
struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// The 1-based line of a byte offset.
    fn line(&self, offset: usize) -> usize {
        Lines::new(self.text).of(offset)
    }

    fn error(
        &self,
        offset: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> TrackError {
        TrackError::Entry {
            file: self.file.to_owned(),
            line: self.line(offset),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, remedy: &str) -> Result<T, TrackError> {
        toml::from_str(self.text).map_err(|error| {
            let (line, problem) = toml_error(self.text, &error);
            TrackError::Entry {
                file: self.file.to_owned(),
                line,
                problem,
                remedy: remedy.to_owned(),
            }
        })
    }

    /// `YYYY-MM-DD`.
    fn date(&self, date: &toml::Spanned<String>) -> Result<jiff::civil::Date, TrackError> {
        let text = date.get_ref();
        match text.parse::<jiff::civil::Date>() {
            Ok(parsed) if parsed.to_string() == *text => Ok(parsed),
            _ => Err(self.error(
                date.span().start,
                format!("bad date \"{text}\""),
                "write it as \"YYYY-MM-DD\"",
            )),
        }
    }

    /// Some text that a person must have written: a reason, a title.
    fn words(&self, text: toml::Spanned<String>, key: &str) -> Result<String, TrackError> {
        if text.get_ref().trim().is_empty() {
            return Err(self.error(
                text.span().start,
                format!("`{key}` is empty"),
                "say it in a few words",
            ));
        }
        Ok(text.into_inner())
    }
}

fn read(path: &Path) -> Result<String, TrackError> {
    std::fs::read_to_string(path).map_err(|source| TrackError::Read {
        path: path.to_owned(),
        source,
    })
}
