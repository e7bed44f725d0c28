//! Disagreements between the references and the oracle that a person has accounted for, in `oracle/explained.toml`.
//!
//! An explanation hides nothing: the disagreement is printed with it, and one that no case needs any more is an error.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use crate::case::CaseId;

#[derive(Debug, thiserror::Error)]
pub enum ExplainedError {
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    explained: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cases: String,
    reason: String,
}

/// The explanations, in the order of the file.
#[derive(Debug, Default)]
pub struct Explained(Vec<(GlobMatcher, String)>);

impl Explained {
    /// A file that is not there explains nothing.
    ///
    /// # Errors
    /// See [`ExplainedError`].
    pub fn load(path: &Path) -> Result<Self, ExplainedError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(ExplainedError::Read { path, source });
            }
        };
        Self::parse(&text).map_err(|reason| ExplainedError::Malformed {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        document
            .explained
            .into_iter()
            .map(|entry| {
                if entry.reason.trim().is_empty() {
                    return Err(format!("'{}' has no reason", entry.cases));
                }
                let glob = GlobBuilder::new(&entry.cases)
                    .literal_separator(true)
                    .build()
                    .map_err(|error| error.to_string())?;
                Ok((glob.compile_matcher(), entry.reason))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The first explanation that names the case.
    pub fn of(&self, id: &CaseId) -> Option<&str> {
        self.0
            .iter()
            .find(|(glob, _)| glob.is_match(id.as_str()))
            .map(|(_, reason)| reason.as_str())
    }

    /// The globs that name one of `asked` and none of `disagree`: of cases that now agree.
    pub fn needless<'e>(&'e self, asked: &[&CaseId], disagree: &[&CaseId]) -> Vec<&'e str> {
        let names =
            |glob: &GlobMatcher, ids: &[&CaseId]| ids.iter().any(|id| glob.is_match(id.as_str()));
        self.0
            .iter()
            .filter(|(glob, _)| names(glob, asked) && !names(glob, disagree))
            .map(|(glob, _)| glob.glob().glob())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_explains_the_cases_it_names_and_no_other() {
        let text = "[[explained]]\ncases = 's/sum/*/odd'\nreason = 'rounded twice'\n";
        let explained = Explained::parse(text).unwrap();
        let (odd, even) = (
            "s/sum/f32/odd".parse().unwrap(),
            "s/sum/f32/even".parse().unwrap(),
        );
        assert_eq!(explained.of(&odd), Some("rounded twice"));
        assert_eq!(explained.of(&even), None);
        assert_eq!(explained.needless(&[&odd, &even], &[&odd]), [""; 0]);
        assert_eq!(
            explained.needless(&[&odd, &even], &[&even]),
            ["s/sum/*/odd"]
        );
        assert_eq!(explained.needless(&[&even], &[]), [""; 0]);
    }

    #[test]
    fn a_reason_is_needed() {
        let text = "[[explained]]\ncases = 's/**'\nreason = ' '\n";
        assert_eq!(Explained::parse(text).unwrap_err(), "'s/**' has no reason");
    }
}
