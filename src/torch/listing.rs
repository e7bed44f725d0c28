//! The package's cases: `python -m tpu_parity_torch list`, which opens no device and prints a JSON object a line.
//!
//! PyTorch takes minutes to draw all its samples, so a listing is kept for as long as the package, its environment and what is
//! asked of it stay the same.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde::Deserialize;
use sha2::Digest;

use super::client::{Installed, PACKAGE, command, installed};
use super::{SUITE, TorchError, TorchSource};
use crate::case::{Case, CaseId, Origin, ReferenceProgram};
use crate::line::one_line;
use crate::project::Project;
use crate::run::sys;

/// Under the project's root.
const KEPT: &str = ".tpu-parity/torch-listings";

/// A line of the listing.
#[derive(Deserialize)]
struct Line {
    id: String,
    /// What the case does, in words.
    #[serde(default)]
    about: String,
    /// Why it cannot be made.
    #[serde(default)]
    skip: Option<String>,
}

/// The cases that the package lists, in its order.
///
/// # Errors
/// When PyTorch is not installed, the package knows no such suite or fails, or lists what is no case.
pub fn load(project: &Project, source: &TorchSource) -> Result<Vec<Case>, TorchError> {
    let installed = installed(project)?;
    let kept = kept_in(project, &installed, source)?;
    if let Some(cases) = read(&kept) {
        return Ok(cases);
    }
    let text = ask(&installed, source)?;
    let cases = parse(&text)?;
    if cases.is_empty() {
        return Err(TorchError::Empty);
    }
    // What cannot be kept is asked for again.
    let _ = keep(&kept, &text);
    Ok(cases)
}

/// The cases of a listing that was kept, without asking PyTorch.
pub fn listed_before(project: &Project, source: &TorchSource) -> Option<Vec<Case>> {
    let installed = installed(project).ok()?;
    read(&kept_in(project, &installed, source).ok()?)
}

fn read(kept: &Path) -> Option<Vec<Case>> {
    let cases = parse(&std::fs::read_to_string(kept).ok()?).ok()?;
    (!cases.is_empty()).then_some(cases)
}

fn ask(installed: &Installed, source: &TorchSource) -> Result<String, TorchError> {
    let mut command = command(&installed.python, &installed.folder);
    command.arg("list");
    for suite in &source.suites {
        command.args(["--suite", suite]);
    }
    if let Some(samples) = source.samples {
        command.args(["--samples", &samples.to_string()]);
    }
    command.stdin(Stdio::null());
    sys::tie_child(&mut command, None);
    let output = command.output();
    let output = output.map_err(|source| TorchError::Start {
        python: installed.python.clone(),
        source,
    })?;
    listed(&output)
}

/// The file of a listing, named for all that it depends on.
fn kept_in(
    project: &Project,
    installed: &Installed,
    source: &TorchSource,
) -> Result<PathBuf, TorchError> {
    let mut hash = installed.hash(project)?;
    hash.update(source.to_string());
    let folder = project.root().join(KEPT);
    Ok(folder.join(format!("{}.jsonl", super::client::hex(hash))))
}

/// A reader sees all of it or nothing.
fn keep(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.persist(file)?;
    Ok(())
}

fn listed(output: &Output) -> Result<String, TorchError> {
    let failed = |words: String| Err(TorchError::Listing(words));
    if !output.status.success() {
        // The last line of a traceback, or of a usage message, is what it comes to.
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty());
        return failed(match last {
            Some(line) => one_line(line.trim_start_matches("error: ")),
            None => format!("the process ended with {}", output.status),
        });
    }
    match std::str::from_utf8(&output.stdout) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => failed(error.to_string()),
    }
}

fn parse(text: &str) -> Result<Vec<Case>, TorchError> {
    let mut cases = Vec::new();
    let mut lines: HashMap<CaseId, usize> = HashMap::new();
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let bad = |reason: String| TorchError::Line { line, reason };
        let listed: Line = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let id: CaseId = listed
            .id
            .parse()
            .map_err(|error: crate::case::CaseIdError| bad(error.to_string()))?;
        if let Some(first) = lines.insert(id.clone(), line) {
            return Err(bad(format!("case {id} stands in line {first} already")));
        }
        cases.push(case(id, listed));
    }
    Ok(cases)
}

/// Nothing of what PyTorch does is here: the worker's process finds it by the id.
fn case(id: CaseId, line: Line) -> Case {
    let module = Path::new("suites").join(SUITE).join(PACKAGE);
    Case {
        origin: Origin {
            file: origin(&module, id.suite()),
            line: 1,
        },
        program: String::new(),
        reference_program: match line.skip {
            Some(reason) => ReferenceProgram::Absent(one_line(&reason)),
            None => ReferenceProgram::Torch(one_line(&line.about)),
        },
        inputs: Vec::new(),
        seed: 0,
        tolerances: Vec::new(),
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        distribution: None,
        unloadable: None,
        id,
    }
}

/// The package has a module a suite.
fn origin(package: &Path, suite: &str) -> PathBuf {
    package.join(format!("{}.py", suite.replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_case_and_one_that_cannot_be_made_says_why() {
        let cases = parse(concat!(
            r#"{"id":"aten/add/f32/sample0/eager/forward","subject":"add","suite":"aten","about":"torch.add"}"#,
            "\n",
            r#"{"id":"aten/sort/f32/sample0/eager/forward","subject":"sort","suite":"aten","about":"x","skip":"no\nsample"}"#,
            "\n"
        ))
        .unwrap();
        assert_eq!(cases[0].id.subject(), "add");
        let torch = ReferenceProgram::Torch("torch.add".to_owned());
        assert_eq!(cases[0].reference_program, torch);
        assert_eq!(
            cases[0].origin.to_string(),
            "suites/torch/tpu_parity_torch/aten.py:1"
        );
        let absent = ReferenceProgram::Absent("no; sample".to_owned());
        assert_eq!(cases[1].reference_program, absent);
    }

    #[test]
    fn what_is_no_case_is_an_error_with_its_line() {
        let good = r#"{"id":"aten/add/f32"}"#;
        for (bad, reason) in [
            ("Downloading…", "expected value"),
            (r#"{"id":"aten/Add/f32"}"#, "only a-z"),
            (r#"{"about":"x"}"#, "missing field `id`"),
            (good, "stands in line 1 already"),
        ] {
            let error = parse(&format!("{good}\n{bad}\n")).unwrap_err().to_string();
            assert!(error.contains("line 2 of"), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }
}
