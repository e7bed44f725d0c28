//! Where cases come from: the suites of the project, one of them, or a directory of tests that is not part of it.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::testdata::{self, TestdataError};
use super::{SuiteErrors, load};
use crate::case::Case;
use crate::project::Project;
use crate::torch::{self, TorchError, TorchSource, TorchSourceError};

/// The value of `--suite`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A suite of the project, by name.
    Named(String),
    /// StableHLO's interpreter tests in this directory.
    Testdata(PathBuf),
    /// PyTorch's cases, as the package in `suites/torch/` lists them.
    Torch(TorchSource),
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("'{0}' names no suite: write the name of a suite under suites/, {torch}, or {kind}:DIR", torch = torch::SUITE, kind = testdata::SUITE)]
    Bad(String),
    #[error(
        "'{kind}' in '{text}' is no kind of suite; there are {}:DIR and {}:SUITE",
        testdata::SUITE,
        torch::SUITE
    )]
    UnknownKind { kind: String, text: String },
    #[error("there is no suite '{name}'; there are: {}", known.join(", "))]
    UnknownSuite { name: String, known: Vec<String> },
    #[error("case {id} is in two of the suites, {first} and {second}; run them one at a time")]
    Twice {
        id: String,
        first: String,
        second: String,
    },
    #[error(transparent)]
    Suites(#[from] SuiteErrors),
    #[error(transparent)]
    Testdata(#[from] TestdataError),
    #[error(transparent)]
    TorchSource(#[from] TorchSourceError),
    #[error(transparent)]
    Torch(#[from] TorchError),
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((torch::SUITE, _)) => Ok(Self::Torch(text.parse()?)),
            None if text == torch::SUITE => Ok(Self::Torch(TorchSource::default())),
            Some((kind, dir)) if kind == testdata::SUITE && !dir.is_empty() => {
                Ok(Self::Testdata(dir.into()))
            }
            Some((kind, dir)) if !dir.is_empty() => Err(SourceError::UnknownKind {
                kind: kind.to_owned(),
                text: text.to_owned(),
            }),
            None if !text.is_empty() && text != testdata::SUITE => Ok(Self::Named(text.to_owned())),
            _ => Err(SourceError::Bad(text.to_owned())),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Testdata(dir) => write!(f, "{}:{}", testdata::SUITE, dir.display()),
            Self::Torch(source) => source.fmt(f),
        }
    }
}

/// The cases of each source in turn; of all suites of the project where none is named. A source named twice counts once.
pub fn load_sources(project: &Project, sources: &[Source]) -> Result<Vec<Case>, SourceError> {
    let suites_dir = &project.suites();
    if sources.is_empty() {
        return Ok(load(suites_dir)?);
    }
    let mut own: Option<Vec<Case>> = None;
    let mut cases = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        if sources[..index].contains(source) {
            continue;
        }
        match source {
            Source::Testdata(dir) => cases.extend(testdata::load(dir)?),
            Source::Torch(source) => cases.extend(torch::load(project, source)?),
            Source::Named(name) => {
                let own = match &mut own {
                    Some(own) => own,
                    none => none.insert(load(suites_dir)?),
                };
                let before = cases.len();
                cases.extend(own.iter().filter(|case| case.id.suite() == name).cloned());
                if cases.len() == before {
                    let mut known: Vec<String> =
                        own.iter().map(|case| case.id.suite().to_owned()).collect();
                    known.dedup();
                    known.sort();
                    known.dedup();
                    return Err(SourceError::UnknownSuite {
                        name: name.clone(),
                        known,
                    });
                }
            }
        }
    }
    let mut seen: HashMap<&str, &Case> = HashMap::with_capacity(cases.len());
    for case in &cases {
        if let Some(first) = seen.insert(case.id.as_str(), case) {
            return Err(SourceError::Twice {
                id: case.id.to_string(),
                first: first.origin.to_string(),
                second: case.origin.to_string(),
            });
        }
    }
    Ok(cases)
}
