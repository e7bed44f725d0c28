//! SHA-256 of files that are too large to read each time: remembered by path, size and time of change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The file's SHA-256 in lower-case hex: from the cache if the file is as it was, else read and remembered there.
pub fn sha256(cache_path: &Path, path: &Path) -> io::Result<String> {
    let key = path.canonicalize()?;
    let stamp = Stamp::of(&key)?;
    let mut cache = Verified::load(cache_path);
    let key = key.to_string_lossy().into_owned();
    if let Some(entry) = cache.0.get(&key)
        && entry.stamp == stamp
    {
        return Ok(entry.sha256.clone());
    }
    let sha256 = read_sha256(path)?;
    cache.0.insert(
        key,
        VerifiedEntry {
            stamp,
            sha256: sha256.clone(),
        },
    );
    cache.save(cache_path);
    Ok(sha256)
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
fn read_sha256(path: &Path) -> io::Result<String> {
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

#[cfg(test)]
mod cache_tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verified.json");
        let stamp = Stamp::of(folder.path()).unwrap();
        let entry = VerifiedEntry {
            stamp: stamp.clone(),
            sha256: "ab".to_owned(),
        };
        Verified(BTreeMap::from([("plugin.so".to_owned(), entry)])).save(&path);
        let again = Verified::load(&path);
        assert!(again.0.get("plugin.so").is_some_and(|e| e.stamp == stamp));
    }
}
