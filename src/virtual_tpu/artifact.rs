//! A compiled program of the virtual TPU: XLA CPU's executable, and what the TPU's compiler said of the program.
//!
//! The same bytes travel from the compile helper to the plug-in and, as a serialised executable, from one client to
//! another. They are of use only to the same version of this project with the same XLA CPU plug-in, and say so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::slice::Slice;
use crate::hlo::MxuNumerics;
use crate::pjrt::Value;

const MAGIC: [u8; 8] = *b"tpuprty\x01";
const DIGEST: usize = 32;

/// What the TPU's compiler said of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub slice: Slice,
    pub numerics: MxuNumerics,
    /// Of the module.
    pub name: String,
    pub replicas: usize,
    pub partitions: usize,
    /// Bytes of the TPU's code.
    pub code_size: i64,
    /// Bytes by purpose; see [`crate::pjrt::Executable::memory_stats`].
    pub memory: BTreeMap<String, i64>,
    /// See [`crate::pjrt::Executable::cost_analysis`].
    pub cost: BTreeMap<String, Value>,
    /// The compiler's own estimate, summed over the program's instructions; a loop's body counts once.
    pub estimated_cycles: Option<u64>,
    #[serde(with = "base64_bytes")]
    pub fingerprint: Vec<u8>,
    /// As the client gave them.
    #[serde(with = "base64_bytes")]
    pub compile_options: Vec<u8>,
    /// Serialised `OpSharding`s, one a parameter or output, where partitioning chose them.
    pub parameter_shardings: Option<Vec<Bytes>>,
    pub output_shardings: Option<Vec<Bytes>>,
    /// Parameters whose memory an output takes over.
    pub aliased_parameters: Vec<usize>,
    /// Element type and shape of each parameter on one device: `f32[8,128]`.
    pub inputs: Vec<String>,
    /// Where the program comes from, if its operations say so: `model.py:12`.
    pub caller: Option<String>,
    /// Of the optimized program.
    pub optimized_format: String,
    pub libtpu_seconds: f64,
    pub passes_seconds: f64,
    pub cpu_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(#[serde(with = "base64_bytes")] pub Vec<u8>);

#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    pub facts: Facts,
    /// The TPU compiler's optimized program.
    pub optimized: Vec<u8>,
    /// XLA CPU's serialised executable.
    pub cpu: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: String,
    cpu_sha256: String,
    optimized: usize,
    facts: Facts,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    #[error("these bytes are no executable of tpu-parity's virtual TPU")]
    Foreign,
    #[error("the serialised executable is damaged")]
    Damaged,
    #[error(
        "the executable was serialised by version {found} of tpu-parity, and this is {}; compile the program again",
        env!("CARGO_PKG_VERSION")
    )]
    Version { found: String },
    #[error(
        "the executable was compiled by another XLA CPU plug-in (SHA-256 {found}) than the one in use ({used}); compile the program again"
    )]
    CpuPlugin { found: String, used: String },
}

impl Artifact {
    /// `cpu_sha256` is that of the XLA CPU plug-in that made the executable.
    pub fn encode(&self, cpu_sha256: &str) -> serde_json::Result<Vec<u8>> {
        let header = serde_json::to_vec(&Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cpu_sha256: cpu_sha256.to_owned(),
            optimized: self.optimized.len(),
            facts: self.facts.clone(),
        })?;
        let mut bytes = Vec::with_capacity(
            MAGIC.len() + 8 + header.len() + self.optimized.len() + self.cpu.len() + DIGEST,
        );
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.optimized);
        bytes.extend_from_slice(&self.cpu);
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        Ok(bytes)
    }

    /// # Errors
    /// Bytes that are no artifact, damaged, or of another version or XLA CPU plug-in.
    pub fn decode(bytes: &[u8], cpu_sha256: &str) -> Result<Self, ArtifactError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(ArtifactError::Foreign)?;
        let (content, digest) = bytes
            .split_last_chunk::<DIGEST>()
            .ok_or(ArtifactError::Damaged)?;
        if blake3::hash(content) != *digest {
            return Err(ArtifactError::Damaged);
        }
        let rest = &rest[..rest.len().saturating_sub(DIGEST)];
        let (length, rest) = rest.split_first_chunk().ok_or(ArtifactError::Damaged)?;
        let split = |bytes: &'_ [u8], at: usize| {
            bytes
                .split_at_checked(at)
                .map(|(head, tail)| (head.to_vec(), tail.to_vec()))
                .ok_or(ArtifactError::Damaged)
        };
        let length =
            usize::try_from(u64::from_le_bytes(*length)).map_err(|_| ArtifactError::Damaged)?;
        let (header, rest) = split(rest, length)?;
        // The version first: another one's header may be of another form.
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        let damaged = |_: serde_json::Error| ArtifactError::Damaged;
        let Version { version } = serde_json::from_slice(&header).map_err(damaged)?;
        if version != env!("CARGO_PKG_VERSION") {
            return Err(ArtifactError::Version { found: version });
        }
        let header: Header = serde_json::from_slice(&header).map_err(damaged)?;
        if header.cpu_sha256 != cpu_sha256 {
            return Err(ArtifactError::CpuPlugin {
                found: header.cpu_sha256,
                used: cpu_sha256.to_owned(),
            });
        }
        let (optimized, cpu) = split(&rest, header.optimized)?;
        Ok(Self {
            facts: header.facts,
            optimized,
            cpu,
        })
    }
}

mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn artifact() -> Artifact {
        Artifact {
            facts: Facts {
                slice: Slice::default(),
                numerics: MxuNumerics::Mxu,
                name: "jit_f".to_owned(),
                replicas: 2,
                partitions: 4,
                code_size: 1024,
                memory: BTreeMap::from([("argument".to_owned(), 64)]),
                cost: BTreeMap::from([
                    ("flops".to_owned(), Value::F32(8.0)),
                    ("optimal_seconds".to_owned(), Value::F32(1e-6)),
                ]),
                estimated_cycles: Some(100),
                fingerprint: vec![0, 255],
                compile_options: vec![1],
                parameter_shardings: Some(vec![Bytes(vec![9])]),
                output_shardings: None,
                aliased_parameters: vec![0],
                inputs: vec!["f32[2]".to_owned()],
                caller: None,
                optimized_format: "hlo_with_config".to_owned(),
                libtpu_seconds: 0.5,
                passes_seconds: 0.25,
                cpu_seconds: Some(0.125),
            },
            optimized: b"optimized".to_vec(),
            cpu: b"cpu".to_vec(),
        }
    }

    #[test]
    fn an_artifact_survives_its_bytes() {
        let bytes = artifact().encode("ab").unwrap();
        assert_eq!(Artifact::decode(&bytes, "ab").unwrap(), artifact());
    }

    #[test]
    fn foreign_damaged_and_outdated_bytes_are_told_apart() {
        let bytes = artifact().encode("ab").unwrap();
        let refused = |bytes: &[u8]| Artifact::decode(bytes, "ab").unwrap_err();
        assert_eq!(refused(b"\x7fELF and so on"), ArtifactError::Foreign);
        assert_eq!(refused(&[]), ArtifactError::Foreign);
        for end in [MAGIC.len(), 20, bytes.len() - 1] {
            assert_eq!(refused(&bytes[..end]), ArtifactError::Damaged, "{end}");
        }
        let mut changed = bytes.clone();
        changed[40] ^= 1;
        assert_eq!(refused(&changed), ArtifactError::Damaged);
        assert!(matches!(
            Artifact::decode(&bytes, "cd").unwrap_err(),
            ArtifactError::CpuPlugin { .. }
        ));
        // Another version, with a digest that fits.
        let content = &bytes[..bytes.len() - DIGEST];
        let own = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
        let at = content
            .windows(own.len())
            .position(|window| window == own.as_bytes())
            .unwrap();
        let mut other = content.to_vec();
        other[at + own.len() - 2] = b'x';
        let digest = blake3::hash(&other);
        other.extend_from_slice(digest.as_bytes());
        assert!(matches!(refused(&other), ArtifactError::Version { .. }));
    }
}
