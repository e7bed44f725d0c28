//! Where the parts of the virtual TPU are: the two compilers, and the program that runs them.
//!
//! The plug-in is loaded by programs that know nothing of this project, so everything is looked for from the folder of
//! the shared library itself; environment variables win.

use std::path::{Path, PathBuf};

use crate::project::{Project, ProjectError, ResolvedPlugin};
use crate::target::{Generation, Target};

const PROGRAM: &str = "TPU_PARITY_PROGRAM";

#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error("{}: no such file, which {PROGRAM} names as the tpu-parity program", .0.display())]
    NamedProgram(PathBuf),
    #[error(
        "the tpu-parity program, which compiles for the virtual TPU, is not beside the plug-in in {}; build it there \
         (cargo build --release) or set {PROGRAM} to its path",
        .0.display()
    )]
    NoProgram(PathBuf),
}

/// The pinned XLA CPU plug-in, or what `TPU_PARITY_CPU_PLUGIN` names.
pub fn cpu_plugin(home: &Path) -> Result<ResolvedPlugin, LocateError> {
    Ok(project(home)?.resolve(&Target::Cpu)?)
}

/// The pinned libtpu, or what `TPU_PARITY_LIBTPU` names.
pub fn libtpu(home: &Path) -> Result<ResolvedPlugin, LocateError> {
    let target = Target::Aot {
        generation: Generation::V6e,
        slice: None,
    };
    Ok(project(home)?.resolve(&target)?)
}

/// The project that `home` lies in, as a build's folder does, or else the working directory; outside of any, the pins of
/// this build, and plug-ins in `$TPU_PARITY_PLUGINS` or in `plugins/` beside the shared library.
fn project(home: &Path) -> Result<Project, ProjectError> {
    if let Ok(project) = Project::discover(home) {
        return Ok(project);
    }
    if let Ok(directory) = std::env::current_dir()
        && let Ok(project) = Project::discover(&directory)
    {
        return Ok(project);
    }
    Project::built_in(home.join("plugins"))
}

/// The `tpu-parity` program: `$TPU_PARITY_PROGRAM`, or beside the shared library.
pub fn program(home: &Path) -> Result<PathBuf, LocateError> {
    if let Some(path) = std::env::var_os(PROGRAM).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return match path.is_file() {
            true => Ok(path),
            false => Err(LocateError::NamedProgram(path)),
        };
    }
    // Cargo builds libraries in `deps/` and links them to the folder above, where programs are.
    [Some(home), home.parent()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("tpu-parity"))
        .find(|program| program.is_file())
        .ok_or_else(|| LocateError::NoProgram(home.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{CPU_PLUGIN, LIBTPU};

    #[test]
    fn the_program_is_found_beside_the_library_and_above_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let deps = folder.path().join("deps");
        std::fs::create_dir(&deps).unwrap();
        let error = program(&deps).unwrap_err().to_string();
        assert!(error.contains("TPU_PARITY_PROGRAM"), "{error}");
        let path = folder.path().join("tpu-parity");
        std::fs::write(&path, "").unwrap();
        assert_eq!(program(&deps).unwrap(), path);
        assert_eq!(program(folder.path()).unwrap(), path);
    }

    #[test]
    fn outside_of_a_project_the_builds_own_pins_hold() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::built_in(folder.path().join("plugins")).unwrap();
        for name in [CPU_PLUGIN, LIBTPU] {
            assert!(project.pin(name).is_some(), "{name}");
        }
    }
}
