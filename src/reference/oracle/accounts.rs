//! What a person has written about the oracle's cases, in `oracle/cases.toml`: which references are the oracle's own, since
//! the CPU plug-in gives none or a wrong one, and why a reference disagrees with the oracle without being wrong.
//!
//! An explanation hides nothing: the disagreement is printed with it, and one that no case needs any more is an error.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use crate::case::CaseId;

#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
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
    reference: Vec<Entry>,
    #[serde(default)]
    explained: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cases: String,
    reason: String,
}

/// The entries of both kinds, in the order of the file.
#[derive(Debug, Default)]
pub struct Accounts {
    references: Vec<(GlobMatcher, String)>,
    explained: Vec<(GlobMatcher, String)>,
}

impl Accounts {
    /// A file that is not there says nothing.
    ///
    /// # Errors
    /// See [`AccountsError`].
    pub fn load(path: &Path) -> Result<Self, AccountsError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(AccountsError::Read { path, source });
            }
        };
        Self::parse(&text).map_err(|reason| AccountsError::Malformed {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self {
            references: compile(document.reference)?,
            explained: compile(document.explained)?,
        })
    }

    /// Why the reference of the case is to be the oracle's, if it is.
    pub fn reference(&self, id: &CaseId) -> Option<&str> {
        first(&self.references, id)
    }

    /// Why the reference of the case may disagree with the oracle.
    pub fn explanation(&self, id: &CaseId) -> Option<&str> {
        first(&self.explained, id)
    }

    /// The explanations, by glob, that name one of `asked` and none of `disagree`: of cases that now agree.
    pub fn needless(&self, asked: &[&CaseId], disagree: &[&CaseId]) -> Vec<&str> {
        let names =
            |glob: &GlobMatcher, ids: &[&CaseId]| ids.iter().any(|id| glob.is_match(id.as_str()));
        self.explained
            .iter()
            .filter(|(glob, _)| names(glob, asked) && !names(glob, disagree))
            .map(|(glob, _)| glob.glob().glob())
            .collect()
    }
}

fn compile(entries: Vec<Entry>) -> Result<Vec<(GlobMatcher, String)>, String> {
    entries
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
        .collect()
}

fn first<'e>(entries: &'e [(GlobMatcher, String)], id: &CaseId) -> Option<&'e str> {
    entries
        .iter()
        .find(|(glob, _)| glob.is_match(id.as_str()))
        .map(|(_, reason)| reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_speaks_for_the_cases_it_names_and_no_other() {
        let text = "[[explained]]\ncases = 's/sum/*/odd'\nreason = 'rounded twice'\n\
                    [[reference]]\ncases = 's/sum/*/even'\nreason = 'flushed'\n";
        let accounts = Accounts::parse(text).unwrap();
        let odd = "s/sum/f32/odd".parse().unwrap();
        let even = "s/sum/f32/even".parse().unwrap();
        assert_eq!(accounts.explanation(&odd), Some("rounded twice"));
        assert_eq!(accounts.explanation(&even), None);
        assert_eq!(accounts.reference(&odd), None);
        assert_eq!(accounts.reference(&even), Some("flushed"));
    }

    #[test]
    fn an_explanation_is_needless_where_all_its_cases_agree() {
        let text = "[[explained]]\ncases = 's/sum/*/odd'\nreason = 'rounded twice'\n";
        let accounts = Accounts::parse(text).unwrap();
        let odd: CaseId = "s/sum/f32/odd".parse().unwrap();
        let even: CaseId = "s/sum/f32/even".parse().unwrap();
        assert_eq!(accounts.needless(&[&odd, &even], &[&odd]), [""; 0]);
        assert_eq!(accounts.needless(&[&odd, &even], &[&even]), ["s/sum/*/odd"]);
        assert_eq!(accounts.needless(&[&even], &[]), [""; 0]);
    }

    #[test]
    fn a_reason_is_needed() {
        let text = "[[reference]]\ncases = 's/**'\nreason = ' '\n";
        assert_eq!(Accounts::parse(text).unwrap_err(), "'s/**' has no reason");
    }
}
