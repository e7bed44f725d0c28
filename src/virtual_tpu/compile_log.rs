//! The compile log: one line of JSON for every program that a client of the virtual TPU had compiled, written by any number
//! of threads and processes at once, and read back as a table of recompiles.
//!
//! A *recompile* is a compilation of a function that was compiled before with other shapes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::outcome::Estimate;

pub const SCHEMA: &str = "tpu-parity/compile/1";

/// One compilation. What is not known, because a compiler failed before it could tell, is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub schema: String,
    /// When the compilation ended.
    pub time: jiff::Timestamp,
    pub process: u32,
    /// `vtpu-v6e:1x1`
    pub target: String,
    pub numerics: String,
    /// BLAKE3 of the program as the client gave it.
    pub program: String,
    /// The module's name: `jit_train_step`.
    pub function: Option<String>,
    /// File and line in the client's code, if the program says so.
    pub caller: Option<String>,
    /// Element type and shape of each parameter on one device: `f32[8,128]`.
    pub inputs: Option<Vec<String>>,
    pub replicas: usize,
    pub partitions: usize,
    pub outcome: LogOutcome,
    /// The error or the construct, where there is one.
    pub message: Option<String>,
    /// As the client saw it, waiting for a free compiler included.
    pub total_ms: f64,
    pub libtpu_ms: Option<f64>,
    pub passes_ms: Option<f64>,
    pub cpu_ms: Option<f64>,
    /// Bytes.
    pub code_size: Option<i64>,
    /// Bytes of HBM by purpose.
    pub hbm: Option<BTreeMap<String, i64>>,
    pub flops: Option<f64>,
    /// The TPU compiler's estimate of the time that one execution takes; nothing here was measured.
    pub estimate: Option<Estimate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogOutcome {
    Compiled,
    /// Compiled for the TPU; something in it has no meaning on a CPU.
    NotExecutable,
    Error,
    /// A compiler killed its process.
    Crash,
    Timeout,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot read the compile log {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: no record of a compile log: {reason}", path.display())]
    Record {
        path: PathBuf,
        line: usize,
        reason: String,
    },
}

/// Adds a line, in one write to a file opened for appending: lines of several writers do not mix.
pub fn append(path: &Path, record: &Record) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    open(path)?.write_all(&line)
}

/// To add lines to; made if it is not there.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompileLog {
    pub records: Vec<Record>,
}

/// One function of one caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Function {
    pub function: String,
    pub caller: Option<String>,
    /// In the order in which they were first seen.
    pub shapes: Vec<Shapes>,
    /// Of all compilations, in milliseconds.
    pub total_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shapes {
    pub inputs: Vec<String>,
    pub compilations: usize,
    pub total_ms: f64,
}

impl Function {
    pub fn compilations(&self) -> usize {
        self.shapes.iter().map(|shapes| shapes.compilations).sum()
    }

    /// How often it was compiled for shapes that it had not been compiled for before, beyond the first.
    pub fn recompiles(&self) -> usize {
        self.shapes.len().saturating_sub(1)
    }
}

/// Reads a log. A last line without its end is one that is being written, or whose writer died: it does not count.
pub fn read(path: &Path) -> Result<CompileLog, LogError> {
    let text = std::fs::read_to_string(path).map_err(|source| LogError::Read {
        path: path.to_owned(),
        source,
    })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let records = whole
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            parse(line).map_err(|reason| LogError::Record {
                path: path.to_owned(),
                line: index + 1,
                reason,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(CompileLog { records })
}

fn parse(line: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if record.schema != SCHEMA {
        return Err(format!(
            "its schema is '{}', and this program reads {SCHEMA}",
            record.schema
        ));
    }
    Ok(record)
}

impl CompileLog {
    /// Every function that the log names, those that took longest first. The same function compiled for several targets
    /// or with other numerics counts once for each.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions: BTreeMap<(&str, Option<&str>, &str, &str), Function> = BTreeMap::new();
        for record in &self.records {
            let (Some(function), Some(inputs)) = (&record.function, &record.inputs) else {
                continue;
            };
            let key = (
                function.as_str(),
                record.caller.as_deref(),
                record.target.as_str(),
                record.numerics.as_str(),
            );
            functions
                .entry(key)
                .or_insert_with(|| Function {
                    function: function.clone(),
                    caller: record.caller.clone(),
                    shapes: Vec::new(),
                    total_ms: 0.0,
                })
                .add(inputs, record.total_ms);
        }
        let mut functions: Vec<Function> = functions.into_values().collect();
        functions.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        functions
    }

    /// The functions that were compiled for more than one set of shapes.
    pub fn recompiles(&self) -> Vec<Function> {
        let mut functions = self.functions();
        functions.retain(|function| function.recompiles() > 0);
        functions
    }
}

impl Function {
    fn add(&mut self, inputs: &[String], milliseconds: f64) {
        self.total_ms += milliseconds;
        match self
            .shapes
            .iter_mut()
            .find(|shapes| shapes.inputs == inputs)
        {
            Some(shapes) => {
                shapes.compilations += 1;
                shapes.total_ms += milliseconds;
            }
            None => self.shapes.push(Shapes {
                inputs: inputs.to_vec(),
                compilations: 1,
                total_ms: milliseconds,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(function: &str, caller: &str, shape: &str, total_ms: f64) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            time: jiff::Timestamp::UNIX_EPOCH,
            process: 1,
            target: "vtpu-v6e:1x1".to_owned(),
            numerics: "mxu".to_owned(),
            program: "00".to_owned(),
            function: Some(function.to_owned()),
            caller: Some(caller.to_owned()),
            inputs: Some(vec![shape.to_owned()]),
            replicas: 1,
            partitions: 1,
            outcome: LogOutcome::Compiled,
            message: None,
            total_ms,
            libtpu_ms: Some(total_ms),
            passes_ms: None,
            cpu_ms: None,
            code_size: None,
            hbm: None,
            flops: None,
            estimate: None,
        }
    }

    #[test]
    fn a_function_with_other_shapes_is_a_recompile_and_with_the_same_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        for record in [
            record("jit_f", "a.py:1", "f32[8]", 10.0),
            record("jit_g", "a.py:9", "f32[8]", 1.0),
            record("jit_f", "a.py:1", "f32[16]", 20.0),
            record("jit_f", "a.py:1", "f32[8]", 5.0),
            // The same name from elsewhere is another function.
            record("jit_f", "b.py:1", "f32[32]", 40.0),
            record("jit_g", "a.py:9", "f32[8]", 1.0),
        ] {
            append(&path, &record).unwrap();
        }
        let log = read(&path).unwrap();
        assert_eq!(log.records.len(), 6);
        let recompiles = log.recompiles();
        let [f] = &recompiles[..] else {
            panic!("{recompiles:?}")
        };
        assert_eq!(
            (f.function.as_str(), f.caller.as_deref()),
            ("jit_f", Some("a.py:1"))
        );
        assert_eq!((f.compilations(), f.recompiles(), f.total_ms), (3, 1, 35.0));
        assert_eq!(f.shapes[0].inputs, ["f32[8]"]);
        assert_eq!((f.shapes[0].compilations, f.shapes[0].total_ms), (2, 15.0));
        let names: Vec<_> = log.functions().iter().map(|f| f.total_ms).collect();
        assert_eq!(names, [40.0, 35.0, 2.0]);
    }

    #[test]
    fn lines_of_many_writers_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let shape = "f32[1],".repeat(500);
                        append(path, &record(&format!("f{writer}"), "", &shape, 1.0)).unwrap();
                    }
                });
            }
        });
        assert_eq!(read(&path).unwrap().records.len(), 400);
    }

    #[test]
    fn a_cut_off_last_line_does_not_count_and_nonsense_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        append(&path, &record("f", "", "f32[]", 1.0)).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{}", &whole[..20])).unwrap();
        assert_eq!(read(&path).unwrap().records.len(), 1);
        std::fs::write(&path, format!("{whole}nonsense\n")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("log.jsonl:2:"), "{error}");
        let other = whole.replace(SCHEMA, "tpu-parity/compile/9");
        std::fs::write(&path, other).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("compile/9"), "{error}");
        assert!(read(&folder.path().join("none")).is_err());
    }
}
