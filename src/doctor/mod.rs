//! Examines the plug-ins, the virtual TPU and the tools of this machine, and names the remedy for what is missing.
//!
//! Each plug-in is asked in a process of its own, so that one that aborts or hangs costs only its own row.

mod render;
mod virtual_tpu;

pub use render::render;
pub use virtual_tpu::VirtualReport;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pjrt::{self, Probe};
use crate::project::{CPU_PLUGIN, LIBTPU, Project, ProjectError, ResolvedPlugin};

/// Begins the line on which a probing process answers: plug-ins write to standard output too.
const MARKER: &str = "tpu-parity-probe ";

/// How long a plug-in may take to load and answer. libtpu takes two seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    pub schema: &'static str,
    pub plugins: Vec<PluginReport>,
    pub tools: Vec<ToolReport>,
    pub virtual_tpu: VirtualReport,
    /// Whether this machine has a TPU.
    pub tpu: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct PluginReport {
    /// Of a pinned one; for another, its path.
    pub name: String,
    pub path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether `ci/plugins.toml` pins exactly this file.
    pub pinned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ToolReport {
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

impl Diagnosis {
    /// Examines every pinned plug-in and the files in `more`. `program` is this program, to be run for each of them as
    /// `PROGRAM doctor --probe PATH`, which calls [`answer_probe`].
    pub fn make(project: &Project, more: &[PathBuf], program: &Path) -> Self {
        let pinned = project.pins().iter().map(|pin| {
            let report = PluginReport::new(&pin.name, project.pinned_path(pin));
            report.examine(project.resolve_pin(pin), program)
        });
        let more = more.iter().map(|path| {
            let report = PluginReport::new(&path.to_string_lossy(), path.clone());
            report.examine(project.resolve_path(path), program)
        });
        Self {
            schema: "tpu-parity/doctor/1",
            plugins: pinned.chain(more).collect(),
            tools: tools(),
            virtual_tpu: VirtualReport::make(project, program),
            tpu: pjrt::tpu_present(),
        }
    }

    /// The plug-ins without which there is nothing to run, and the virtual TPU where both of them are sound: the names of
    /// those that cannot be used.
    pub fn unusable(&self) -> Vec<&str> {
        let mut names: Vec<&str> = [CPU_PLUGIN, LIBTPU]
            .into_iter()
            .filter(|name| {
                !self
                    .plugins
                    .iter()
                    .any(|plugin| plugin.name == *name && plugin.is_usable())
            })
            .collect();
        if names.is_empty() && !self.virtual_tpu.works {
            names.push("the virtual TPU");
        }
        names
    }
}

impl PluginReport {
    fn new(name: &str, path: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            path,
            sha256: None,
            pinned: false,
            probe: None,
            problem: None,
            remedy: None,
        }
    }

    fn is_usable(&self) -> bool {
        self.probe.as_ref().is_some_and(Probe::is_usable)
    }

    fn examine(mut self, resolved: Result<ResolvedPlugin, ProjectError>, program: &Path) -> Self {
        match resolved {
            Ok(resolved) => {
                self.sha256 = Some(resolved.sha256);
                self.pinned = resolved.pinned;
                self.ask(program);
            }
            Err(ProjectError::NotInstalled { name, .. }) => {
                self.problem = Some("not installed".to_owned());
                self.remedy = Some(format!("run ci/setup {name}"));
            }
            Err(ProjectError::WrongHash { name, found, .. }) => {
                self.sha256 = Some(found);
                self.problem = Some("not the file that ci/plugins.toml pins".to_owned());
                self.remedy = Some(format!("run ci/setup {name}, which installs it anew"));
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    fn ask(&mut self, program: &Path) {
        match probe_in_child(program, &self.path) {
            Ok(probe) => {
                if !probe.is_usable() {
                    self.problem = Some(match &probe.client_error {
                        Some(error) => format!("no devices: {error}"),
                        None => "no devices and no topologies".to_owned(),
                    });
                }
                self.probe = Some(probe);
            }
            Err(problem) => self.problem = Some(problem),
        }
        if self.problem.is_some() {
            self.remedy = Some(match self.pinned {
                true => format!(
                    "the file is the pinned one, so this machine may lack what it needs: try ldd {}",
                    self.path.display()
                ),
                false => "give the path of a PJRT plug-in built for this machine".to_owned(),
            });
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Probe(Box<Probe>),
    Problem(String),
}

/// The child's part: loads the plug-in, and writes one line that its parent reads.
pub fn answer_probe(path: &Path) {
    let answer = match Probe::load(path) {
        Ok(probe) => Answer::Probe(Box::new(probe)),
        Err(error) => Answer::Problem(error.to_string()),
    };
    if let Ok(json) = serde_json::to_string(&answer) {
        // On a line of its own, whatever the plug-in wrote last.
        println!("\n{MARKER}{json}");
    }
}

fn probe_in_child(program: &Path, plugin: &Path) -> Result<Probe, String> {
    let mut child = Command::new(program)
        .args(["doctor", "--probe"])
        .arg(plugin)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start a process to load it in: {error}"))?;
    let stderr = drain(child.stderr.take());
    let answer = read_answer(&mut child);
    match answer.recv_timeout(PATIENCE) {
        Ok(Some(Answer::Probe(probe))) => {
            end(&mut child);
            Ok(*probe)
        }
        Ok(Some(Answer::Problem(problem))) => {
            end(&mut child);
            Err(problem)
        }
        Ok(None) => {
            let how = match child.wait() {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let said = stderr.recv_timeout(Duration::from_secs(1));
            let last = said.unwrap_or_default();
            Err(
                match last.lines().rev().find(|line| !line.trim().is_empty()) {
                    Some(line) => format!("it killed its process ({how}): {}", line.trim()),
                    None => format!("it killed its process ({how})"),
                },
            )
        }
        Err(_) => {
            end(&mut child);
            Err(format!("no answer in {} s", PATIENCE.as_secs()))
        }
    }
}

/// It has said what it had to say; some plug-ins take long to go, or abort on the way.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads to the answer's line, or to the end without one.
fn read_answer(child: &mut Child) -> mpsc::Receiver<Option<Answer>> {
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        let answer = stdout.and_then(|stdout| {
            BufReader::new(stdout)
                .split(b'\n')
                .map_while(io::Result::ok)
                .find_map(|line| {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    serde_json::from_str(line.strip_prefix(MARKER)?).ok()
                })
        });
        let _ = sender.send(answer);
    });
    receiver
}

/// Reads to the end, so that the child never blocks on a full pipe.
fn drain(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn tools() -> Vec<ToolReport> {
    let tool = |name, purpose, path: Option<PathBuf>, remedy| ToolReport {
        name,
        purpose,
        remedy: path.is_none().then_some(remedy),
        path,
    };
    vec![
        tool("libclang", "build", libclang(), "run ci/setup"),
        tool(
            "protoc",
            "build",
            on_path("PROTOC", "protoc"),
            "run ci/setup",
        ),
        tool(
            "python3",
            "ci/setup",
            on_path("", "python3"),
            "run ci/setup",
        ),
    ]
}

/// As `ci/setup` looks for it, and bindgen.
fn libclang() -> Option<PathBuf> {
    let is_libclang = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("libclang") && name.contains(".so"))
    };
    let list = |folder: PathBuf| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    let given = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let llvm = list(PathBuf::from("/usr/lib")).map(|folder| folder.join("lib"));
    let multiarch = list(PathBuf::from("/usr/lib"));
    let fixed = ["/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    given
        .into_iter()
        .chain(llvm)
        .chain(multiarch)
        .chain(fixed)
        .flat_map(list)
        .find(is_libclang)
}

fn on_path(variable: &str, program: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable).filter(|_| !variable.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_dies_or_says_nothing_is_a_problem_not_an_error() {
        let problem = probe_in_child(Path::new("/bin/false"), Path::new("x")).unwrap_err();
        assert!(problem.starts_with("it killed its process"), "{problem}");
        let problem = probe_in_child(Path::new("/nowhere"), Path::new("x")).unwrap_err();
        assert!(problem.starts_with("cannot start a process"), "{problem}");
    }
}
