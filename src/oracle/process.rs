//! One process: `python -m oracle` in the project's root, a JSON object a line each way (`oracle/worker.py` has the format).

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Arithmetic, OracleCommand};
use crate::run::Interrupt;
use crate::tensor::{ElementType, Tensor};

/// Why the oracle cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    #[error("{} is missing; run ci/clients/setup {environment}", python.display())]
    NotInstalled {
        python: PathBuf,
        environment: &'static str,
    },
    #[error("cannot start {}: {source}; run ci/clients/setup {environment}", python.display())]
    Start {
        python: PathBuf,
        environment: &'static str,
        source: std::io::Error,
    },
    #[error("cannot read the oracle's sources in {}: {source}", folder.display())]
    Sources {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("`{} -m oracle` does not start; run ci/clients/setup {environment}. Its last words: {words}", python.display())]
    NotReady {
        python: PathBuf,
        environment: &'static str,
        words: String,
    },
}

pub(crate) struct Request {
    pub program: String,
    pub inputs: Vec<Tensor>,
    /// Whether the program is to be evaluated on the absolute values of the inputs too.
    pub scale: bool,
    /// The program to evaluate for that on the inputs as they are, in place of its own on their absolute values.
    pub scale_program: Option<String>,
    /// Other inputs to evaluate it on.
    pub flushed: Option<Vec<Tensor>>,
}

pub(crate) enum Answer {
    Results {
        values: Vec<Tensor>,
        scale: Option<Vec<Tensor>>,
        flushed: Option<Vec<Tensor>>,
    },
    /// It has no answer, for this reason.
    None(String),
    /// It failed, and serves on.
    Failed(String),
    /// The process died, hung or talked nonsense, and is gone.
    Lost(String),
    Stopped,
}

#[derive(Serialize, Deserialize)]
struct WireTensor {
    element_type: ElementType,
    shape: Vec<usize>,
    /// Base64 of the little-endian buffer.
    data: String,
}

#[derive(Serialize)]
struct WireRequest<'r> {
    program: &'r str,
    inputs: Vec<WireTensor>,
    scale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale_program: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flushed: Option<Vec<WireTensor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
struct WireAnswer {
    ready: Option<std::collections::BTreeMap<String, String>>,
    values: Option<Vec<WireTensor>>,
    scale: Option<Vec<WireTensor>>,
    flushed: Option<Vec<WireTensor>>,
    none: Option<String>,
    error: Option<String>,
}

impl WireTensor {
    fn new(tensor: &Tensor) -> Self {
        Self {
            element_type: tensor.element_type(),
            shape: tensor.shape().to_vec(),
            data: STANDARD.encode(tensor.data()),
        }
    }

    fn read(self) -> Result<Tensor, String> {
        let data = STANDARD.decode(self.data).map_err(|e| e.to_string())?;
        Tensor::new(self.element_type, self.shape, data).map_err(|e| e.to_string())
    }
}

/// How often a waiting lane looks whether it is to stop.
const GLANCE: Duration = Duration::from_millis(50);
/// For the imports of the packages: PyTorch takes a minute on a machine that has other work.
const STARTUP: Duration = Duration::from_secs(300);

/// Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    packages: Vec<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to do about one that cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub fn start(command: &OracleCommand) -> Result<Self, OracleError> {
        let python = &command.python;
        let environment = command.arithmetic.environment();
        if !python.exists() {
            return Err(OracleError::NotInstalled {
                python: python.clone(),
                environment,
            });
        }
        let mut child = Command::new(python)
            .args(["-P", "-m", "oracle", command.arithmetic.as_str()])
            .current_dir(&command.root)
            .env("PYTHONPATH", &command.root)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Lanes are processes; threads of a linear algebra library would fight over the cores.
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| OracleError::Start {
                python: python.clone(),
                environment,
                source,
            })?;
        let (send, answers) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let (last_words, said) = mpsc::channel();
        if let Some(mut stderr) = child.stderr.take() {
            thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.read_to_end(&mut text);
                let _ = last_words.send(String::from_utf8_lossy(&text).trim().to_owned());
            });
        }
        let mut process = Self {
            requests: child.stdin.take(),
            child,
            answers,
            packages: Vec::new(),
        };
        let hello = process.answers.recv_timeout(STARTUP).ok();
        let hello = hello.and_then(|line| serde_json::from_str::<WireAnswer>(&line).ok());
        match hello.and_then(|answer| answer.ready) {
            Some(versions) => {
                process.packages = versions
                    .into_iter()
                    .map(|(package, version)| format!("{package} {version}"))
                    .collect();
                Ok(process)
            }
            None => {
                drop(process);
                let words = said
                    .recv_timeout(Duration::from_secs(1))
                    .unwrap_or_default();
                Err(OracleError::NotReady {
                    python: python.clone(),
                    environment,
                    words: words.lines().last().unwrap_or("none").to_owned(),
                })
            }
        }
    }

    pub fn packages(&self) -> &[String] {
        &self.packages
    }

    pub fn ask(&mut self, request: &Request, timeout: Duration, interrupt: &Interrupt) -> Answer {
        let wire = |tensors: &[Tensor]| tensors.iter().map(WireTensor::new).collect();
        let request = WireRequest {
            program: &request.program,
            inputs: wire(&request.inputs),
            scale: request.scale,
            scale_program: request.scale_program.as_deref(),
            flushed: request.flushed.as_deref().map(wire),
        };
        let mut line = match serde_json::to_string(&request) {
            Ok(line) => line,
            Err(error) => return Answer::None(error.to_string()),
        };
        line.push('\n');
        let sent = self
            .requests
            .as_mut()
            .is_some_and(|stdin| stdin.write_all(line.as_bytes()).is_ok() && stdin.flush().is_ok());
        if !sent {
            return Answer::Lost("the Python process died before it took the case up".to_owned());
        }
        let start = Instant::now();
        loop {
            if interrupt.is_raised() {
                return Answer::Stopped;
            }
            match self.answers.recv_timeout(GLANCE) {
                Ok(line) => return read(&line),
                Err(RecvTimeoutError::Timeout) if start.elapsed() < timeout => {}
                Err(RecvTimeoutError::Timeout) => {
                    let limit = timeout.as_secs_f64();
                    return Answer::Lost(format!(
                        "the Python process had no answer after {limit} s"
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let end = self
                        .child
                        .wait()
                        .map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Answer::Lost(format!("the Python process died: {end}"));
                }
            }
        }
    }
}

fn read(line: &str) -> Answer {
    let nonsense =
        |why: String| Answer::Lost(format!("the Python process's answer cannot be read: {why}"));
    let answer: WireAnswer = match serde_json::from_str(line) {
        Ok(answer) => answer,
        Err(error) => return nonsense(error.to_string()),
    };
    if let Some(why) = answer.none {
        return Answer::None(why);
    }
    if let Some(what) = answer.error {
        return Answer::Failed(what);
    }
    let tensors = |wire: Vec<WireTensor>| -> Result<Vec<Tensor>, String> {
        wire.into_iter().map(WireTensor::read).collect()
    };
    let Some(values) = answer.values else {
        return nonsense("it has no values".to_owned());
    };
    let read = || -> Result<Answer, String> {
        Ok(Answer::Results {
            values: tensors(values)?,
            scale: answer.scale.map(tensors).transpose()?,
            flushed: answer.flushed.map(tensors).transpose()?,
        })
    };
    read().unwrap_or_else(nonsense)
}

/// SHA-256 of the arithmetic's name and of the modules of the package `oracle` in `root`, in hex: names and contents, in the
/// order of their names.
///
/// # Errors
/// When they cannot be read.
pub fn sources(root: &Path, arithmetic: Arithmetic) -> Result<String, OracleError> {
    let folder = root.join("oracle");
    let read = || -> std::io::Result<String> {
        let mut files: Vec<_> = std::fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "py"));
        files.sort();
        let mut hash = Sha256::new();
        hash.update(arithmetic.as_str());
        hash.update([0]);
        for file in files {
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update([0]);
            hash.update(std::fs::read(&file)?);
            hash.update([0]);
        }
        Ok(hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    };
    read().map_err(|source| OracleError::Sources {
        folder: folder.clone(),
        source,
    })
}
