//! The folder in shared memory through which a case's tensors come, and what became of those whose owner was killed.
//!
//! A worker that is killed cannot clean up. Each folder is locked for as long as its owner lives, so whoever can lock one
//! may remove it; process ids would not do, for containers share `/dev/shm` and do not share those.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::TorchError;
use crate::tensor::{Tensor, safetensors};

const PREFIX: &str = "tpu-parity-torch-";
/// Bytes of a file. A case's tensors are there three times over, one of them in f64.
const LARGEST: u64 = 2 << 30;

/// Removed when dropped.
pub(super) struct Exchange {
    folder: TempDir,
    /// Locked.
    _lock: File,
}

/// Shared memory where there is some.
fn parent() -> PathBuf {
    let shared = Path::new("/dev/shm");
    match tempfile::tempfile_in(shared) {
        Ok(_) => shared.to_owned(),
        Err(_) => std::env::temp_dir(),
    }
}

impl Exchange {
    pub fn new() -> Result<Self, TorchError> {
        let parent = parent();
        let make = || -> io::Result<Self> {
            loop {
                let folder = tempfile::Builder::new()
                    .prefix(PREFIX)
                    .tempdir_in(&parent)?;
                // Between its making and its locking another worker may have taken it for abandoned.
                if let Ok(lock) = File::open(folder.path())
                    && lock.try_lock().is_ok()
                    && folder.path().is_dir()
                {
                    return Ok(Self {
                        folder,
                        _lock: lock,
                    });
                }
            }
        };
        make().map_err(|source| TorchError::Exchange {
            folder: parent.clone(),
            source,
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Reads a file of the folder and removes it. One that lies elsewhere is left alone.
    ///
    /// # Errors
    /// In words.
    pub fn take(&self, file: &Path) -> Result<Vec<(String, Tensor)>, String> {
        let inside = fs::canonicalize(file)
            .and_then(|file| Ok((fs::canonicalize(self.path())?, file)))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let (folder, path) = inside;
        if path.parent() != Some(folder.as_path()) {
            return Err(format!(
                "{}: it does not lie in {}",
                file.display(),
                folder.display()
            ));
        }
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let tensors = match size {
            0..=LARGEST => safetensors::read(&path).map_err(|error| error.to_string()),
            _ => Err(format!("{size} bytes of tensors are too many")),
        };
        // It goes with the folder if not now.
        let _ = fs::remove_file(&path);
        tensors
    }
}

/// Removes the folders of workers that were killed.
pub fn clear_abandoned() {
    let Ok(entries) = fs::read_dir(parent()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder
            && name.to_string_lossy().starts_with(PREFIX)
            && let Ok(lock) = File::open(entry.path())
            && lock.try_lock().is_ok()
        {
            // Another user's, perhaps; then it is theirs to remove.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::ElementType;

    fn tensor() -> Vec<(String, Tensor)> {
        let values = Tensor::from_f64(ElementType::F32, vec![2], &[1.0, 2.0]).unwrap();
        vec![("cpu.out".to_owned(), values)]
    }

    #[test]
    fn a_file_is_read_once_and_gone() {
        let exchange = Exchange::new().unwrap();
        let file = exchange.path().join("case.safetensors");
        safetensors::write(&file, &tensor()).unwrap();
        assert_eq!(exchange.take(&file).unwrap(), tensor());
        assert!(!file.exists());
        assert!(exchange.take(&file).is_err());
    }

    #[test]
    fn a_file_elsewhere_is_refused_and_left_alone() {
        let exchange = Exchange::new().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let file = elsewhere.path().join("case.safetensors");
        safetensors::write(&file, &tensor()).unwrap();
        let link = exchange.path().join("link.safetensors");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = exchange.take(path).unwrap_err();
            assert!(error.contains("does not lie in"), "{error}");
        }
        assert!(file.exists());
    }

    #[test]
    fn what_is_no_safetensors_or_too_large_is_refused_in_words() {
        let exchange = Exchange::new().unwrap();
        let file = exchange.path().join("case.safetensors");
        fs::write(&file, b"\xff\xff\xff\xff\xff\xff\xff\x7f{}").unwrap();
        let error = exchange.take(&file).unwrap_err();
        assert!(error.contains("not a whole safetensors file"), "{error}");
        // Sparse: it takes no memory.
        File::create(&file).unwrap().set_len(LARGEST + 1).unwrap();
        let error = exchange.take(&file).unwrap_err();
        assert!(error.contains("too many"), "{error}");
        assert!(!file.exists());
    }

    #[test]
    fn folders_outlive_no_one_and_the_living_keep_theirs() {
        let living = Exchange::new().unwrap();
        let abandoned = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(parent())
            .unwrap();
        clear_abandoned();
        assert!(living.path().is_dir());
        assert!(!abandoned.path().exists());
    }
}
