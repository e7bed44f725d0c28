//! Where things are: the project's folders, the plug-ins pinned in `ci/plugins.toml`, and which plug-in a target means.
//!
//! Plug-ins are checked by SHA-256 before anything loads them; this module loads none.

mod pins;
mod verified;

use std::path::{Path, PathBuf};
use std::{fs, io};

pub use pins::Pin;

use crate::hlo::{MxuNumerics, MxuNumericsError};
use crate::oracle::{self, Arithmetic, OracleError};
use crate::pjrt::{self, Value};
use crate::target::{Generation, Target};

pub type Result<T> = std::result::Result<T, ProjectError>;

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error(
        "no tpu-parity project at {} or above it (a folder with suites/ and ci/plugins.toml); go to one or set TPU_PARITY_ROOT",
        start.display()
    )]
    NoProject { start: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {reason}", path.display())]
    Pins {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    #[error("the plug-in '{name}' is not installed ({} is missing); run ci/setup {name}", path.display())]
    NotInstalled { name: String, path: PathBuf },
    #[error(
        "the plug-in '{name}' is not the pinned one: {} has SHA-256 {found}, and ci/plugins.toml says {pinned}; delete it and run ci/setup {name}",
        path.display()
    )]
    WrongHash {
        name: String,
        path: PathBuf,
        found: String,
        pinned: String,
    },
    #[error(
        "no plug-in '{plugin}': it is neither a file nor pinned in ci/plugins.toml, whose names are {}",
        names.join(", ")
    )]
    UnknownPlugin { plugin: String, names: Vec<String> },
    #[error("ci/plugins.toml pins no plug-in '{name}', which the target '{target}' needs")]
    NotPinned { name: &'static str, target: String },
    #[error(
        "the target 'tpu' needs a TPU and this machine has none; what works here is compiling for one (aot-<gen>) and executing \
         on CPU what that gives (vtpu-<gen>), for {}",
        Generation::ALL.map(Generation::as_str).join(", ")
    )]
    NoTpu,
    #[error(transparent)]
    Oracle(#[from] OracleError),
    #[error("TPU_PARITY_NUMERICS: {0}")]
    Numerics(#[from] MxuNumericsError),
    #[error("TPU_PARITY_COMPILE_LOG: cannot write {path}: {source}")]
    CompileLog { path: PathBuf, source: io::Error },
}

/// The plug-in that a target runs on, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedPlugin {
    pub path: PathBuf,
    /// Of a pinned one.
    pub name: Option<String>,
    pub sha256: String,
    /// Whether the file is the one that `ci/plugins.toml` pins.
    pub pinned: bool,
    /// For [`pjrt::Plugin::create_client`].
    pub options: Vec<(String, Value)>,
}

/// The pinned plug-in that the `cpu` target and the references use.
pub const CPU_PLUGIN: &str = "xla-cpu";
/// The pinned plug-in that `tpu`, `aot-<gen>` and `vtpu-<gen>` use.
pub const LIBTPU: &str = "libtpu";

#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    pins: Vec<Pin>,
    /// From the environment, in place of the folders under the root.
    plugins: Option<PathBuf>,
    store: Option<PathBuf>,
}

impl Project {
    /// The project at `$TPU_PARITY_ROOT`, or else the first that holds `start`.
    pub fn discover(start: &Path) -> Result<Self> {
        let is_project = |folder: &Path| {
            folder.join("suites").is_dir() && folder.join("ci/plugins.toml").is_file()
        };
        let root = match std::env::var_os("TPU_PARITY_ROOT") {
            Some(root) => Some(PathBuf::from(root)).filter(|root| is_project(root)),
            None => start
                .ancestors()
                .find(|folder| is_project(folder))
                .map(Path::to_owned),
        };
        match root {
            Some(root) => Ok(Self {
                plugins: folder_from_env("TPU_PARITY_PLUGINS"),
                store: folder_from_env("TPU_PARITY_STORE"),
                ..Self::open(root)?
            }),
            None => Err(ProjectError::NoProject {
                start: std::env::var_os("TPU_PARITY_ROOT")
                    .map_or_else(|| start.to_owned(), PathBuf::from),
            }),
        }
    }

    fn open(root: PathBuf) -> Result<Self> {
        let path = root.join("ci/plugins.toml");
        let text = read_to_string(&path)?;
        let pins = pins::parse(&path, &text)?;
        Ok(Self {
            root,
            pins,
            plugins: None,
            store: None,
        })
    }

    /// The pins that this program was built with, for use away from any checkout. Plug-ins are in `$TPU_PARITY_PLUGINS`,
    /// or else in `plugins`.
    pub fn built_in(plugins: PathBuf) -> Result<Self> {
        let path = Path::new("ci/plugins.toml");
        Ok(Self {
            root: plugins.clone(),
            pins: pins::parse(path, include_str!("../../ci/plugins.toml"))?,
            plugins: folder_from_env("TPU_PARITY_PLUGINS").or(Some(plugins)),
            store: folder_from_env("TPU_PARITY_STORE"),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn suites(&self) -> PathBuf {
        self.root.join("suites")
    }

    /// The Python that `ci/clients/setup` installs for the second oracle, or for the target `torch-cpu`; `$TPU_PARITY_ORACLE`
    /// and `$TPU_PARITY_TORCH` name others.
    pub fn oracle_python(&self, arithmetic: Arithmetic) -> PathBuf {
        let variable = match arithmetic {
            Arithmetic::Extended => "TPU_PARITY_ORACLE",
            Arithmetic::Torch => "TPU_PARITY_TORCH",
        };
        folder_from_env(variable).unwrap_or_else(|| {
            let environment = arithmetic.environment();
            self.root
                .join(format!(".tpu-parity/clients/{environment}/bin/python"))
        })
    }

    /// What a person has written about references and the oracle.
    pub fn oracle_cases(&self) -> PathBuf {
        self.root.join("oracle/cases.toml")
    }

    pub fn references(&self) -> PathBuf {
        self.root.join("reference-outputs")
    }

    pub fn expectations(&self) -> PathBuf {
        self.root.join("suites/expectations")
    }

    pub fn reports(&self) -> PathBuf {
        self.root.join("reports")
    }

    /// `$TPU_PARITY_PLUGINS`, or `plugins/`.
    pub fn plugins(&self) -> PathBuf {
        let own = || self.root.join("plugins");
        self.plugins.clone().unwrap_or_else(own)
    }

    /// `$TPU_PARITY_STORE`, or `.tpu-parity/runs/`.
    pub fn store(&self) -> PathBuf {
        let own = || self.root.join(".tpu-parity/runs");
        self.store.clone().unwrap_or_else(own)
    }

    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    pub fn pin(&self, name: &str) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.name == name)
    }

    /// Where `ci/setup` puts a pinned plug-in.
    pub fn pinned_path(&self, pin: &Pin) -> PathBuf {
        let file = Path::new(&pin.file).file_name().unwrap_or_default();
        self.plugins().join(&pin.name).join(file)
    }

    /// The plug-in of a target: found, and checked against its pin if it has one. Hashes are remembered by size and
    /// time, so that only the first check of a file reads it.
    ///
    /// `TPU_PARITY_CPU_PLUGIN` and `TPU_PARITY_LIBTPU` name files to use in place of the pinned ones. A virtual TPU's is
    /// libtpu, which compiles; what executes is [`Target::Cpu`]'s.
    pub fn resolve(&self, target: &Target) -> Result<ResolvedPlugin> {
        if *target == Target::Tpu && !pjrt::tpu_present() {
            return Err(ProjectError::NoTpu);
        }
        let (name, variable) = match target {
            Target::Cpu => (CPU_PLUGIN, "TPU_PARITY_CPU_PLUGIN"),
            Target::Tpu | Target::Aot { .. } | Target::Virtual { .. } => {
                (LIBTPU, "TPU_PARITY_LIBTPU")
            }
            Target::Plugin(plugin) => return self.resolve_plugin(plugin),
            Target::Torch => return self.resolve_torch(),
        };
        if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
            return self.resolve_path(Path::new(&path));
        }
        match self.pin(name) {
            Some(pin) => self.resolve_pin(pin),
            None => Err(ProjectError::NotPinned {
                name,
                target: target.to_string(),
            }),
        }
    }

    /// How a virtual TPU's matrix products round: `$TPU_PARITY_NUMERICS`, or `mxu`.
    pub fn numerics(&self) -> Result<MxuNumerics> {
        match std::env::var_os("TPU_PARITY_NUMERICS") {
            Some(text) if !text.is_empty() => Ok(text.to_string_lossy().parse()?),
            _ => Ok(MxuNumerics::default()),
        }
    }

    /// No plug-in but a Python with PyTorch, and the sources of what it runs.
    fn resolve_torch(&self) -> Result<ResolvedPlugin> {
        let arithmetic = Arithmetic::Torch;
        let root = self.root.to_string_lossy().into_owned();
        Ok(ResolvedPlugin {
            path: self.oracle_python(arithmetic),
            name: None,
            sha256: oracle::sources(&self.root, arithmetic)?,
            pinned: false,
            options: vec![("root".to_owned(), Value::String(root))],
        })
    }

    /// A pinned name or a path.
    fn resolve_plugin(&self, plugin: &str) -> Result<ResolvedPlugin> {
        if let Some(pin) = self.pin(plugin) {
            return self.resolve_pin(pin);
        }
        let path = Path::new(plugin);
        if !path.is_file() {
            return Err(ProjectError::UnknownPlugin {
                plugin: plugin.to_owned(),
                names: self.pins.iter().map(|pin| pin.name.clone()).collect(),
            });
        }
        self.resolve_path(path)
    }

    /// A pinned plug-in, as installed.
    pub fn resolve_pin(&self, pin: &Pin) -> Result<ResolvedPlugin> {
        let path = self.pinned_path(pin);
        if !path.is_file() {
            return Err(ProjectError::NotInstalled {
                name: pin.name.clone(),
                path,
            });
        }
        let sha256 = self.hash(&path)?;
        if sha256 != pin.sha256 {
            return Err(ProjectError::WrongHash {
                name: pin.name.clone(),
                path,
                found: sha256,
                pinned: pin.sha256.clone(),
            });
        }
        Ok(ResolvedPlugin {
            path,
            name: Some(pin.name.clone()),
            sha256,
            pinned: true,
            options: Vec::new(),
        })
    }

    /// Any file; it counts as unpinned even if a pin has its hash.
    pub fn resolve_path(&self, path: &Path) -> Result<ResolvedPlugin> {
        Ok(ResolvedPlugin {
            path: path.to_owned(),
            name: None,
            sha256: self.hash(path)?,
            pinned: false,
            options: Vec::new(),
        })
    }

    fn hash(&self, path: &Path) -> Result<String> {
        verified::sha256(&self.plugins().join(".verified.json"), path).map_err(|source| {
            ProjectError::Read {
                path: path.to_owned(),
                source,
            }
        })
    }
}

fn read_to_string(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| ProjectError::Read {
        path: path.to_owned(),
        source,
    })
}

fn folder_from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::pins::tests::PIN;

    /// A project of one plug-in, whose content should be "hello".
    fn project(content: Option<&str>) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["suites", "ci", "plugins/fake"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("ci/plugins.toml"), PIN).unwrap();
        if let Some(content) = content {
            fs::write(folder.path().join("plugins/fake/fake.so"), content).unwrap();
        }
        let project = Project::open(folder.path().to_owned()).unwrap();
        (folder, project)
    }

    #[test]
    fn a_project_is_found_from_a_folder_inside_it() {
        let (folder, _) = project(None);
        let inside = folder.path().join("plugins/fake");
        assert_eq!(Project::discover(&inside).unwrap().root(), folder.path());
        let error = Project::discover(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("ci/plugins.toml"), "{error}");
    }

    #[test]
    fn the_right_file_resolves_by_name_and_is_remembered() {
        let (folder, project) = project(Some("hello"));
        let target = Target::Plugin("fake".to_owned());
        let resolved = project.resolve(&target).unwrap();
        assert!(resolved.pinned);
        assert_eq!(resolved.name.as_deref(), Some("fake"));
        assert!(folder.path().join("plugins/.verified.json").exists());
        assert_eq!(project.resolve(&target).unwrap(), resolved);
        // The same file by its path is not pinned.
        let path = resolved.path.to_string_lossy().into_owned();
        let by_path = project.resolve(&Target::Plugin(path)).unwrap();
        assert!(!by_path.pinned);
        assert_eq!(by_path.sha256, resolved.sha256);
    }

    #[test]
    fn a_changed_file_is_refused_also_after_it_was_right() {
        let (_folder, project) = project(Some("hello"));
        let target = Target::Plugin("fake".to_owned());
        let path = project.resolve(&target).unwrap().path;
        fs::write(path, "hello!").unwrap();
        let error = project.resolve(&target).unwrap_err();
        assert!(matches!(error, ProjectError::WrongHash { .. }));
        assert!(error.to_string().contains("ci/setup fake"), "{error}");
    }

    #[test]
    fn a_missing_plugin_names_the_remedy() {
        let (_folder, project) = project(None);
        let error = project
            .resolve(&Target::Plugin("fake".to_owned()))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("run ci/setup fake"), "{error}");
    }

    #[test]
    fn an_unknown_plugin_lists_the_pinned_ones() {
        let (_folder, project) = project(None);
        let error = project
            .resolve(&Target::Plugin("nothing".to_owned()))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("whose names are fake"), "{error}");
    }

    #[test]
    fn a_target_whose_plugin_is_not_pinned_says_so() {
        let (_folder, project) = project(None);
        let error = project.resolve(&Target::Cpu).unwrap_err().to_string();
        assert!(error.contains("pins no plug-in 'xla-cpu'"), "{error}");
    }

    #[test]
    fn a_tpu_target_without_a_tpu_names_what_works() {
        if pjrt::tpu_present() {
            return;
        }
        let (_folder, project) = project(None);
        let error = project.resolve(&Target::Tpu).unwrap_err().to_string();
        assert!(error.contains("has none"), "{error}");
        assert!(
            error.contains("aot-<gen>") && error.contains("v6e"),
            "{error}"
        );
    }

    #[test]
    fn the_projects_own_pins_are_good() {
        let project = Project::open(PathBuf::from(env!("CARGO_MANIFEST_DIR"))).unwrap();
        for name in [
            CPU_PLUGIN,
            "xla-cpu-0.106",
            "xla-cpu-0.81",
            LIBTPU,
            "libtpu-0.0.24",
        ] {
            assert!(project.pin(name).is_some(), "{name}");
        }
    }
}
