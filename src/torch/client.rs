//! What a process of the package needs to be started: a Python, the package's folder, and the environment in which TorchTPU
//! takes the virtual TPU, or libtpu, for its TPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::TorchError;
use crate::oracle::Arithmetic;
use crate::project::Project;
use crate::target::Target;
use crate::virtual_tpu::COMPILE_LOG;

/// The package, a folder of `suites/torch/`.
pub const PACKAGE: &str = "tpu_parity_torch";
/// The versions of what it imports, pinned.
const REQUIREMENTS: &str = "ci/clients/torch.txt";
/// The virtual TPU, for TorchTPU to load.
const PLUGIN: &str = "TPU_PARITY_PLUGIN";
const PLUGIN_FILE: &str = "libtpu_parity.so";

/// How processes of the package are started for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub python: PathBuf,
    /// The folder that the package lies in.
    pub folder: PathBuf,
    /// Beside what is inherited.
    pub environment: BTreeMap<String, String>,
    /// Of all that its outcomes depend on: the package's sources, the pinned versions, the plug-ins. In hex.
    pub sha256: String,
}

impl Client {
    /// Finds all that the target needs.
    ///
    /// # Errors
    /// When something is missing, with what to do; and for a target that PyTorch has no device for.
    pub fn resolve(project: &Project, target: &Target) -> Result<Self, TorchError> {
        let installed = installed(project)?;
        let mut hash = installed.hash(project)?;
        let mut environment = BTreeMap::new();
        let mut set = |name: &str, value: &str| {
            environment.insert(name.to_owned(), value.to_owned());
        };
        if let Some(log) = std::env::var_os(COMPILE_LOG).filter(|log| !log.is_empty())
            && let Ok(log) = std::path::absolute(log)
        {
            // The process works in another folder.
            set(COMPILE_LOG, &log.to_string_lossy());
        }
        match target {
            Target::Cpu => {}
            Target::Tpu => {
                let libtpu = project.resolve(target)?;
                hash.update(&libtpu.sha256);
                set("TPU_LIBRARY_PATH", &libtpu.path.to_string_lossy());
            }
            Target::Virtual { .. } => {
                let plugin = project.resolve_path(&virtual_plugin(project)?)?;
                let libtpu = project.resolve(target)?;
                let cpu = project.resolve(&Target::Cpu)?;
                let numerics = project.numerics()?.to_string();
                for part in [&plugin.sha256, &libtpu.sha256, &cpu.sha256, &numerics] {
                    hash.update(part);
                    hash.update([0]);
                }
                let target = target.to_string();
                let slice = target.strip_prefix("vtpu-").unwrap_or(&target);
                set("TPU_LIBRARY_PATH", &plugin.path.to_string_lossy());
                set("TPU_PARITY_GENERATION", slice);
                set("TPU_PARITY_LIBTPU", &libtpu.path.to_string_lossy());
                set("TPU_PARITY_CPU_PLUGIN", &cpu.path.to_string_lossy());
                set("TPU_PARITY_NUMERICS", &numerics);
                // No metadata server to ask, and another process may have libtpu loaded.
                set("TPU_SKIP_MDS_QUERY", "1");
                set("ALLOW_MULTIPLE_LIBTPU_LOAD", "1");
            }
            Target::Aot { .. } | Target::Torch | Target::Plugin(_) => {
                return Err(TorchError::Target(target.clone()));
            }
        }
        Ok(Self {
            python: installed.python,
            folder: installed.folder,
            environment,
            sha256: hex(hash),
        })
    }

    /// `python -m tpu_parity_torch …` for the target.
    pub(super) fn command(&self) -> Command {
        let mut command = command(&self.python, &self.folder);
        command.envs(&self.environment);
        command
    }
}

/// `python -m tpu_parity_torch`, for a listing or with a device.
pub(super) fn command(python: &Path, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .args(["-m", PACKAGE])
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1")
        // TorchTPU, loaded by itself, would look for a TPU; the package opens it.
        .env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0");
    if std::env::var_os("OMP_NUM_THREADS").is_none() {
        // Lanes are processes; threads of a linear algebra library would fight over the cores.
        command.env("OMP_NUM_THREADS", "1");
    }
    command
}

/// The Python with PyTorch, and the folder that the package lies in.
pub(super) struct Installed {
    pub python: PathBuf,
    pub folder: PathBuf,
}

impl Installed {
    /// Of the package's sources, and of the versions that are pinned and were installed.
    pub fn hash(&self, project: &Project) -> Result<Sha256, TorchError> {
        let mut hash = Sha256::new();
        hash_sources(&self.folder.join(PACKAGE), &mut hash)?;
        let environment = self.python.parent().and_then(Path::parent);
        let installed = environment.map(|environment| environment.join("installed"));
        for file in [Some(project.root().join(REQUIREMENTS)), installed] {
            // An environment of somebody's own has neither.
            let text = file.and_then(|file| fs::read(file).ok());
            hash.update(text.unwrap_or_default());
            hash.update([0]);
        }
        hash.update(self.python.as_os_str().as_encoded_bytes());
        Ok(hash)
    }
}

pub(super) fn installed(project: &Project) -> Result<Installed, TorchError> {
    let folder = project.suites().join(super::SUITE);
    if !folder.join(PACKAGE).is_dir() {
        return Err(TorchError::NoPackage {
            folder: folder.join(PACKAGE),
        });
    }
    let python = project.oracle_python(Arithmetic::Torch);
    if !python.exists() {
        return Err(TorchError::NotInstalled { python });
    }
    // It is started in another folder than this one.
    let python = std::path::absolute(&python).unwrap_or(python);
    Ok(Installed { python, folder })
}

/// Whether the package has a suite of this name: a suite is a module.
pub fn has_suite(project: &Project, name: &str) -> bool {
    let package = project.suites().join(super::SUITE).join(PACKAGE);
    let module = name.replace('-', "_");
    let is_name = !module.is_empty() && !module.contains(['/', '.']);
    is_name && (package.join(format!("{module}.py")).is_file() || package.join(module).is_dir())
}

/// What `TPU_PARITY_PLUGIN` names, or the file beside this program, or else the release build's.
fn virtual_plugin(project: &Project) -> Result<PathBuf, TorchError> {
    let named = std::env::var_os(PLUGIN).filter(|path| !path.is_empty());
    let beside = || Some(std::env::current_exe().ok()?.with_file_name(PLUGIN_FILE));
    let release = || project.root().join("target/release").join(PLUGIN_FILE);
    let path = match named {
        Some(named) => PathBuf::from(named),
        None => beside()
            .filter(|path| path.is_file())
            .unwrap_or_else(release),
    };
    match path.is_file() {
        true => Ok(std::path::absolute(&path).unwrap_or(path)),
        false => Err(TorchError::NoPlugin { path }),
    }
}

/// Names and contents of the package's modules, in the order of their paths.
fn hash_sources(package: &Path, hash: &mut Sha256) -> Result<(), TorchError> {
    let mut files = Vec::new();
    find(package, &mut files)?;
    files.sort();
    for file in files {
        let name = file.strip_prefix(package).unwrap_or(&file);
        hash.update(name.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(fs::read(&file).map_err(|source| unreadable(&file, source))?);
        hash.update([0]);
    }
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), TorchError> {
    for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, source))? {
        let entry = entry.map_err(|source| unreadable(folder, source))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}

fn unreadable(path: &Path, source: std::io::Error) -> TorchError {
    TorchError::Read {
        path: path.to_owned(),
        source,
    }
}

pub(super) fn hex(hash: Sha256) -> String {
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
