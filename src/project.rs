//! Where things are: the project's folders, the plug-ins pinned in `ci/plugins.toml`, and which plug-in a target means.
//!
//! Plug-ins are checked by SHA-256 before anything loads them; this module loads none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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
        "the target 'tpu' needs a TPU and this machine has none; what works here is compiling for one: {}",
        Generation::ALL.map(|generation| format!("aot-{}", generation.as_str())).join(", ")
    )]
    NoTpu,
}

/// One plug-in that `ci/setup` installs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub name: String,
    /// The package on PyPI.
    pub wheel: String,
    pub version: String,
    pub wheel_file: String,
    pub wheel_sha256: String,
    /// Inside the wheel.
    pub file: String,
    /// Of that file, in lower-case hex.
    pub sha256: String,
    /// Whose terms the download comes under.
    pub terms: String,
    pub python: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    plugin: Vec<Pin>,
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
/// The pinned plug-in that `tpu` and `aot-<gen>` use.
pub const LIBTPU: &str = "libtpu";

#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    pins: Vec<Pin>,
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
            Some(root) => Self::open(root),
            None => Err(ProjectError::NoProject {
                start: std::env::var_os("TPU_PARITY_ROOT")
                    .map_or_else(|| start.to_owned(), PathBuf::from),
            }),
        }
    }

    fn open(root: PathBuf) -> Result<Self> {
        let path = root.join("ci/plugins.toml");
        let text = read_to_string(&path)?;
        let pins = parse_pins(&path, &text)?;
        Ok(Self { root, pins })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn suites(&self) -> PathBuf {
        self.root.join("suites")
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
        self.or_env("TPU_PARITY_PLUGINS", "plugins")
    }

    /// `$TPU_PARITY_STORE`, or `.tpu-parity/runs/`.
    pub fn store(&self) -> PathBuf {
        self.or_env("TPU_PARITY_STORE", ".tpu-parity/runs")
    }

    fn or_env(&self, variable: &str, folder: &str) -> PathBuf {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map_or_else(|| self.root.join(folder), PathBuf::from)
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
    /// `TPU_PARITY_CPU_PLUGIN` and `TPU_PARITY_LIBTPU` name files to use in place of the pinned ones.
    pub fn resolve(&self, target: &Target) -> Result<ResolvedPlugin> {
        if *target == Target::Tpu && !pjrt::tpu_present() {
            return Err(ProjectError::NoTpu);
        }
        let (name, variable) = match target {
            Target::Cpu => (CPU_PLUGIN, "TPU_PARITY_CPU_PLUGIN"),
            Target::Tpu | Target::Aot { .. } => (LIBTPU, "TPU_PARITY_LIBTPU"),
            Target::Plugin(plugin) => return self.resolve_plugin(plugin),
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
        let read_error = |source| ProjectError::Read {
            path: path.to_owned(),
            source,
        };
        let key = path.canonicalize().map_err(read_error)?;
        let stamp = Stamp::of(&key).map_err(read_error)?;
        let cache_path = self.plugins().join(".verified.json");
        let mut cache = Verified::load(&cache_path);
        let key = key.to_string_lossy().into_owned();
        if let Some(entry) = cache.0.get(&key)
            && entry.stamp == stamp
        {
            return Ok(entry.sha256.clone());
        }
        let sha256 = sha256(path).map_err(read_error)?;
        cache.0.insert(
            key,
            VerifiedEntry {
                stamp,
                sha256: sha256.clone(),
            },
        );
        cache.save(&cache_path);
        Ok(sha256)
    }
}

/// What tells a file from itself after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        Ok(Self {
            size: metadata.len(),
            modified,
        })
    }
}

/// Hashes of files that have been read before. A cache: one that cannot be read or written is only slower.
#[derive(Default, Serialize, Deserialize)]
struct Verified(BTreeMap<String, VerifiedEntry>);

#[derive(Serialize, Deserialize)]
struct VerifiedEntry {
    #[serde(flatten)]
    stamp: Stamp,
    sha256: String,
}

impl Verified {
    fn load(path: &Path) -> Self {
        fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// By rename, for several processes may write it at once.
    fn save(&self, path: &Path) {
        let Some(folder) = path.parent() else { return };
        let Ok(json) = serde_json::to_vec_pretty(self) else {
            return;
        };
        if let Ok(file) = tempfile::NamedTempFile::new_in(folder)
            && fs::write(file.path(), json).is_ok()
        {
            let _ = file.persist(path);
        }
    }
}

/// In lower-case hex.
fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            break;
        }
        hasher.update(&block[..read]);
    }
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read_to_string(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| ProjectError::Read {
        path: path.to_owned(),
        source,
    })
}

fn parse_pins(path: &Path, text: &str) -> Result<Vec<Pin>> {
    let bad = |line, reason: String| ProjectError::Pins {
        path: path.to_owned(),
        line,
        reason,
    };
    let pins: Pins = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..start]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        bad(line, error.message().to_owned())
    })?;
    let line_of = |needle: &str| {
        text.lines()
            .position(|line| line.contains(needle))
            .map_or(1, |line| line + 1)
    };
    for (index, pin) in pins.plugin.iter().enumerate() {
        if pins.plugin[..index]
            .iter()
            .any(|other| other.name == pin.name)
        {
            return Err(bad(1, format!("the name '{}' is pinned twice", pin.name)));
        }
        let is_plain = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        if !is_plain(&pin.name) || pin.name.starts_with('.') {
            return Err(bad(
                line_of(&pin.name),
                format!("'{}' is no name for a folder", pin.name),
            ));
        }
        for hash in [&pin.sha256, &pin.wheel_sha256] {
            let is_hash =
                hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !is_hash {
                return Err(bad(
                    line_of(hash),
                    format!("'{hash}' is not a SHA-256 in lower-case hex"),
                ));
            }
        }
    }
    Ok(pins.plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = r#"
[[plugin]]
name = "fake"
wheel = "fake"
version = "1"
wheel_file = "fake-1.whl"
wheel_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
file = "fake/fake.so"
sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
terms = "none"
"#;

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
    fn bad_pins_name_file_and_line() {
        let path = Path::new("ci/plugins.toml");
        for (text, expected) in [
            (
                PIN.replace("version = \"1\"", "version = 1"),
                "ci/plugins.toml:5: ",
            ),
            (PIN.replace("2cf2", "2CF2"), "ci/plugins.toml:9: '2CF2"),
            (
                PIN.replace("\"fake\"\nwheel", "\"../x\"\nwheel"),
                "ci/plugins.toml:3: '../x'",
            ),
            (format!("{PIN}{PIN}"), "pinned twice"),
            (
                PIN.replace("terms", "term"),
                "ci/plugins.toml:10: unknown field",
            ),
        ] {
            let error = parse_pins(path, &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
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
