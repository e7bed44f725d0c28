//! Where a case runs: the target and its written form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::outcome::Evidence;

/// A TPU generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    V4,
    V5e,
    V5p,
    V6e,
    V7x,
}

impl Generation {
    pub const ALL: [Generation; 5] = [Self::V4, Self::V5e, Self::V5p, Self::V6e, Self::V7x];

    /// As written in a target: `v6e`, `7x`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V5e => "v5e",
            Self::V5p => "v5p",
            Self::V6e => "v6e",
            Self::V7x => "7x",
        }
    }

    /// The topology name that libtpu takes for a slice: `v6e:2x4`, `tpu7x:2x2x1`.
    pub fn topology(self, slice: Option<&str>) -> String {
        let (prefix, default) = match self {
            Self::V4 => ("v4", "2x2x1"),
            Self::V5e => ("v5e", "2x2"),
            Self::V5p => ("v5p", "2x2x1"),
            Self::V6e => ("v6e", "2x2"),
            Self::V7x => ("tpu7x", "2x2x1"),
        };
        format!("{prefix}:{}", slice.unwrap_or(default))
    }

    /// Bytes of HBM on one chip, from Google Cloud's pages on each generation (cloud.google.com/tpu/docs/v4, …/v5e, …/v5p,
    /// …/v6e, …/tpu7x): 32, 16, 95, 32 and 192 GiB, rounded by whoever wrote them. A chip shows as one device or as two, and some of
    /// it is libtpu's own: what a program can have, libtpu says itself where it is recent enough.
    pub fn hbm_per_chip(self) -> i64 {
        let gib = match self {
            Self::V4 | Self::V6e => 32,
            Self::V5e => 16,
            Self::V5p => 95,
            Self::V7x => 192,
        };
        gib << 30
    }

    fn dimensions(self) -> usize {
        match self {
            Self::V5e | Self::V6e => 2,
            Self::V4 | Self::V5p | Self::V7x => 3,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// The pinned XLA CPU plug-in.
    Cpu,
    /// libtpu on hardware.
    Tpu,
    /// Compiled by libtpu for a generation and slice, not run.
    Aot {
        generation: Generation,
        slice: Option<String>,
    },
    /// Compiled by libtpu for a generation and slice, its optimized HLO then executed on XLA CPU.
    Virtual {
        generation: Generation,
        slice: Option<String>,
    },
    /// PyTorch on CPU, which evaluates the program operator by operator in its own element types: an implementation to hold the
    /// suites against, that shares no code with XLA.
    Torch,
    /// Any PJRT plug-in: the name of a pinned one, or a path.
    Plugin(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown target '{target}': {reason}; targets are cpu, tpu, torch-cpu, aot-<gen>[:<slice>] and vtpu-<gen>[:<slice>] with <gen> one of \
     v4, v5e, v5p, v6e, 7x (aot-v6e, vtpu-v5e:2x4), and plugin:<path or name>"
)]
pub struct TargetError {
    pub target: String,
    pub reason: String,
}

impl Target {
    pub fn evidence(&self) -> Evidence {
        match self {
            Self::Cpu | Self::Tpu | Self::Torch | Self::Plugin(_) => Evidence::Hardware,
            Self::Virtual { .. } => Evidence::Virtual,
            Self::Aot { .. } => Evidence::Compile,
        }
    }

    /// The TPU generation that the target stands for, where its name says so.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Self::Aot { generation, .. } | Self::Virtual { generation, .. } => Some(*generation),
            Self::Cpu | Self::Tpu | Self::Torch | Self::Plugin(_) => None,
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(target: &str) -> Result<Self, Self::Err> {
        let bad = |reason: &str| TargetError {
            target: target.to_owned(),
            reason: reason.to_owned(),
        };
        if target == "cpu" {
            return Ok(Self::Cpu);
        }
        if target == "tpu" {
            return Ok(Self::Tpu);
        }
        if target == "torch-cpu" {
            return Ok(Self::Torch);
        }
        if let Some(plugin) = target.strip_prefix("plugin:") {
            if plugin.is_empty() {
                return Err(bad(
                    "'plugin:' needs a path or the name of a pinned plug-in",
                ));
            }
            return Ok(Self::Plugin(plugin.to_owned()));
        }
        if let Some(rest) = target.strip_prefix("aot-") {
            let (generation, slice) = parse_slice(rest).map_err(|reason| bad(&reason))?;
            return Ok(Self::Aot { generation, slice });
        }
        if let Some(rest) = target.strip_prefix("vtpu-") {
            let (generation, slice) = parse_slice(rest).map_err(|reason| bad(&reason))?;
            return Ok(Self::Virtual { generation, slice });
        }
        Err(bad("no such kind of target"))
    }
}

/// `<gen>[:<slice>]`, as it follows a target's prefix.
fn parse_slice(text: &str) -> Result<(Generation, Option<String>), String> {
    let (name, slice) = match text.split_once(':') {
        Some((name, slice)) => (name, Some(slice)),
        None => (text, None),
    };
    let generation = Generation::ALL
        .into_iter()
        .find(|g| g.as_str() == name)
        .ok_or_else(|| format!("there is no generation '{name}'"))?;
    if let Some(slice) = slice {
        let sizes: Vec<&str> = slice.split('x').collect();
        let positive = |s: &&str| s.parse::<u32>().is_ok_and(|n| n > 0);
        if sizes.len() != generation.dimensions() || !sizes.iter().all(positive) {
            return Err(format!(
                "a slice of {name} has {} positive sizes separated by 'x', not '{slice}'",
                generation.dimensions()
            ));
        }
    }
    Ok((generation, slice.map(str::to_owned)))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, generation, slice) = match self {
            Self::Cpu => return f.write_str("cpu"),
            Self::Tpu => return f.write_str("tpu"),
            Self::Torch => return f.write_str("torch-cpu"),
            Self::Plugin(plugin) => return write!(f, "plugin:{plugin}"),
            Self::Aot { generation, slice } => ("aot", generation, slice),
            Self::Virtual { generation, slice } => ("vtpu", generation, slice),
        };
        write!(f, "{prefix}-{}", generation.as_str())?;
        match slice {
            Some(slice) => write!(f, ":{slice}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(target: String) -> Result<Self, Self::Error> {
        target.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

/// Whether this is the name by which PJRT clients of TPUs call their platform (`TpuName()` in XLA).
pub fn is_tpu(platform: &str) -> bool {
    platform.eq_ignore_ascii_case("tpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_they_are_read() {
        for text in [
            "cpu",
            "tpu",
            "torch-cpu",
            "aot-v4",
            "aot-7x",
            "aot-v6e:2x4",
            "aot-v5p:2x2x1",
            "vtpu-v5e",
            "vtpu-v6e:2x4",
            "vtpu-7x:2x2x1",
            "plugin:xla-cpu-0.81",
            "plugin:/opt/x.so",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn unknown_targets_say_what_there_is() {
        for text in [
            "gpu",
            "aot-v9",
            "aot-v6e:2x2x1",
            "aot-v6e:0x2",
            "aot-v6e:",
            "plugin:",
            "aot-",
            "vtpu",
            "vtpu-v9",
            "vtpu-v6e:2x2x1",
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("unknown target '{text}'"))
                    && error.contains("aot-v6e")
                    && error.contains("vtpu-v5e:2x4"),
                "{error}"
            );
        }
    }

    #[test]
    fn topologies_have_libtpus_names() {
        assert_eq!(Generation::V7x.topology(None), "tpu7x:2x2x1");
        assert_eq!(Generation::V6e.topology(Some("2x4")), "v6e:2x4");
    }
}
