//! Suites as data: reads `suites/<suite>/*.toml`, expands each operator's grid, renders its programs, and gives cases.
//!
//! A person adds an operator without touching Rust; `suites/README.md` describes the format. Nothing here runs a program or
//! generates an input: what comes out is a list of self-contained [`Case`]s, or every error that the files hold.

mod distribution;
mod document;
mod error;
mod expand;
mod fields;
mod literal;
mod select;
mod signature;
mod source;
mod template;
pub mod testdata;
mod tolerance;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::case::{Case, Origin};
use crate::torch;

pub use error::{SelectError, SuiteError, SuiteErrors};
pub use select::select;
pub use signature::{Signature, TensorType, signature};
pub use source::{Source, SourceError, load_sources};

/// What the suite files declare.
#[derive(Debug, Clone, Default)]
pub struct Suites {
    /// In the order of the files' names, then of the declarations.
    pub cases: Vec<Case>,
    /// (suite, subject) → the operator's name in the specification: `chlo.erf`, `reduce`.
    pub operators: BTreeMap<(String, String), String>,
}

/// Reads every `<suites_dir>/<suite>/*.toml` but those of `expectations/` and `torch/`. All errors of all files are reported together.
pub fn load(suites_dir: &Path) -> Result<Vec<Case>, SuiteErrors> {
    load_suites(suites_dir).map(|suites| suites.cases)
}

/// As [`load`], with the names that the specification gives to the operators.
pub fn load_suites(suites_dir: &Path) -> Result<Suites, SuiteErrors> {
    let files = suite_files(suites_dir)?;
    let base = suites_dir.parent().unwrap_or(suites_dir);
    let parts: Vec<Result<Suites, SuiteErrors>> = files
        .par_iter()
        .map(|file| load_file(file, file.strip_prefix(base).unwrap_or(file)))
        .collect();
    let mut suites = Suites::default();
    let mut errors = Vec::new();
    for part in parts {
        match part {
            Ok(part) => {
                suites.cases.extend(part.cases);
                suites.operators.extend(part.operators);
            }
            Err(SuiteErrors(more)) => errors.extend(more),
        }
    }
    errors.extend(duplicates(&suites.cases));
    if errors.is_empty() {
        Ok(suites)
    } else {
        Err(SuiteErrors(errors))
    }
}

fn load_file(path: &Path, shown: &Path) -> Result<Suites, SuiteErrors> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(shown, &error))?;
    let family = document::parse(&text, shown)?;
    let operators = family
        .ops
        .iter()
        .map(|op| ((family.suite.clone(), op.name.clone()), op.spec.clone()))
        .collect();
    let cases = expand::expand(&family)?;
    Ok(Suites { cases, operators })
}

fn suite_files(suites_dir: &Path) -> Result<Vec<PathBuf>, SuiteErrors> {
    let list = |dir: &Path| -> Result<Vec<PathBuf>, SuiteErrors> {
        let entries = std::fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        Ok(paths)
    };
    let mut files = Vec::new();
    for dir in list(suites_dir)? {
        // Known failures, and a package of Python's.
        let others = ["expectations", torch::SUITE];
        if dir.is_dir() && !others.iter().any(|other| dir.ends_with(other)) {
            let toml = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "toml");
            files.extend(list(&dir)?.into_iter().filter(toml));
        }
    }
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> SuiteErrors {
    SuiteErrors(vec![SuiteError {
        origin: Origin {
            file: path.to_owned(),
            line: 1,
        },
        case: None,
        what: format!("cannot read: {error}"),
        remedy: "check that it exists and is readable UTF-8".to_owned(),
    }])
}

fn duplicates(cases: &[Case]) -> Vec<SuiteError> {
    let mut seen: HashMap<&str, &Case> = HashMap::with_capacity(cases.len());
    let mut errors = Vec::new();
    for case in cases {
        match seen.get(case.id.as_str()) {
            Some(first) => errors.push(SuiteError {
                origin: case.origin.clone(),
                case: Some(case.id.to_string()),
                what: format!("this id is already taken by {}", first.origin),
                remedy: "rename the variant, or add an axis that tells the two apart".to_owned(),
            }),
            None => {
                seen.insert(case.id.as_str(), case);
            }
        }
    }
    errors
}
