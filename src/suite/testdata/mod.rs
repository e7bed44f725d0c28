//! StableHLO's interpreter tests as a suite: `.mlir` files that hold a program, its inputs and what it should give.
//!
//! Every file ends up in at least one case. Inputs become parameters of the program, so that a compiler cannot fold it, and the
//! expected values become the case's own reference. A file that cannot be read so is a case that says why it is not run. The files
//! themselves belong to openxla/stablehlo and are not part of this project.

mod check;
mod id;
mod literal;
mod module;
mod rewrite;
mod text;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::case::{Case, CaseId, Origin, ReferenceProgram};

/// The name of the suite, and of the kind of source in `--suite`.
pub const SUITE: &str = "stablehlo-testdata";

#[derive(Debug, thiserror::Error)]
pub enum TestdataError {
    #[error(
        "cannot read {path}: {source}; name the directory stablehlo/testdata of a checkout of openxla/stablehlo"
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{path} holds no .mlir file; name the directory stablehlo/testdata of a checkout of openxla/stablehlo"
    )]
    NoFiles { path: PathBuf },
}

/// The cases of every `.mlir` file under `dir`, in the order of the files' names.
///
/// # Errors
/// When a directory cannot be listed, or there is no such file. What is wrong with one file is in its case.
pub fn load(dir: &Path) -> Result<Vec<Case>, TestdataError> {
    let mut files = Vec::new();
    find(dir, &mut files)?;
    if files.is_empty() {
        return Err(TestdataError::NoFiles {
            path: dir.to_owned(),
        });
    }
    files.sort();
    let parts: Vec<Vec<Case>> = files
        .par_iter()
        .map(|path| {
            let relative = path.strip_prefix(dir).unwrap_or(path);
            match read(path).map(String::from_utf8) {
                Ok(Ok(text)) => file_cases(path, relative, &text),
                Ok(Err(_)) => vec![unloadable(path, relative, "the file is not UTF-8 text")],
                Err(error) => {
                    vec![unloadable(path, relative, &format!("cannot read: {error}"))]
                }
            }
        })
        .collect();
    let mut cases: Vec<Case> = parts.into_iter().flatten().collect();
    tell_apart(&mut cases, dir);
    Ok(cases)
}

/// A pipe would be waited for, and a device read for ever.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Does not follow links to directories, which may lead in a circle.
fn find(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), TestdataError> {
    let unreadable = |source| TestdataError::Unreadable {
        path: dir.to_owned(),
        source,
    };
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|ext| ext == "mlir") {
            files.push(path);
        }
    }
    Ok(())
}

/// What a test holds once its text has been taken apart.
struct Test {
    /// The function, if the file has several tests.
    function: Option<String>,
    /// 1-based.
    line: usize,
    content: Result<rewrite::Program, String>,
}

fn file_cases(path: &Path, relative: &Path, text: &str) -> Vec<Case> {
    let tests = tests(text);
    if tests.is_empty() {
        return vec![unloadable(
            path,
            relative,
            "no function has a check, and none is called main",
        )];
    }
    tests
        .into_iter()
        .map(|test| {
            let id = id::case_id(relative, test.function.as_deref());
            let origin = Origin {
                file: path.to_owned(),
                line: test.line,
            };
            match test.content {
                Ok(program) => Case {
                    id,
                    origin,
                    program: program.text,
                    reference_program: match program.expected {
                        Some(tensors) => ReferenceProgram::Given(tensors),
                        None => ReferenceProgram::Absent(
                            "the file does not say what the program should give".to_owned(),
                        ),
                    },
                    inputs: program.inputs,
                    seed: 0,
                    tolerances: program.tolerances,
                    tolerance_source: None,
                    scale_program: None,
                    layers: Vec::new(),
                    unloadable: None,
                    distribution: None,
                },
                Err(reason) => refused(id, origin, &reason),
            }
        })
        .collect()
}

/// Each function that checks something; or, where none does, `main`.
fn tests(text: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    for (line, part) in text::parts(text) {
        let part = text::without_comments(part);
        let module = match module::Module::parse(&part) {
            Ok(module) => module,
            Err(reason) => {
                tests.push(Test {
                    function: None,
                    line,
                    content: Err(reason),
                });
                continue;
            }
        };
        for function in module.tests() {
            tests.push(Test {
                function: Some(function.name.clone()),
                line: line + part[..function.range.start].matches('\n').count(),
                content: rewrite::program(&module, function),
            });
        }
    }
    if let [test] = tests.as_mut_slice() {
        test.function = None;
    }
    tests
}

fn unloadable(path: &Path, relative: &Path, reason: &str) -> Case {
    let origin = Origin {
        file: path.to_owned(),
        line: 1,
    };
    refused(id::case_id(relative, None), origin, reason)
}

fn refused(id: CaseId, origin: Origin, reason: &str) -> Case {
    Case {
        id,
        program: String::new(),
        reference_program: ReferenceProgram::Absent(reason.to_owned()),
        inputs: Vec::new(),
        seed: 0,
        tolerances: Vec::new(),
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        unloadable: Some(format!("{origin}: {reason}")),
        distribution: None,
        origin,
    }
}

/// Names that differ only in what an id cannot hold get a hash of the file's path and the place within it.
fn tell_apart(cases: &mut [Case], dir: &Path) {
    let mut count: HashMap<CaseId, usize> = HashMap::with_capacity(cases.len());
    for case in cases.iter() {
        *count.entry(case.id.clone()).or_default() += 1;
    }
    for case in cases.iter_mut().filter(|case| count[&case.id] > 1) {
        let file = &case.origin.file;
        let place = format!(
            "{}:{}",
            file.strip_prefix(dir).unwrap_or(file).display(),
            case.origin.line
        );
        case.id = id::with_hash(&case.id, &place);
    }
}
