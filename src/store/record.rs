//! `run.json`: what a run was asked to do, and everything about its surroundings that an outcome may depend on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Result, RunDir, StoreError, ToleranceRecord, seal};
use crate::hlo::MxuNumerics;
use crate::pjrt::NamedValue;
use crate::target::Target;

pub(super) const FILE: &str = "run.json";

/// Of `run.json`. A reader refuses another major number.
pub const RUN_SCHEMA: &str = "tpu-parity/run/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub schema: String,
    /// `20261130-120301-3fa2`: the start in UTC, the last four digits being 65536ths of a second in hex; ids sort by start.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub started: Timestamp,
    /// Set when the run is sealed.
    #[serde(default)]
    pub finished: Option<Timestamp>,
    pub environment: Environment,
    /// In the order they were asked for.
    pub targets: Vec<Target>,
    /// What `--suite` named, directories as absolute paths; none: every suite of the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<String>,
    /// Globs over case ids, as typed.
    pub select: Vec<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    /// `I/N` when the run is one shard of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Of the planned cases, so that a run is resumed with the same ones only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases_hash: Option<String>,
    /// The planned cases' tolerances in ulp and norm, whose numbers are somebody's findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerances: Vec<ToleranceRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of tpu-parity.
    pub tool_version: String,
    /// `linux x86_64`, with the kernel's release where it is known.
    pub os: String,
    /// The CPU's model name.
    pub cpu: String,
    pub cores: usize,
    /// One per target, in the run's order.
    pub plugins: Vec<PluginRecord>,
    /// Versions by name: of each pinned plug-in by the name of its pin (`libtpu`, `libtpu-0.0.24`), and of whatever else an
    /// expectation's `until` may name (`torch_tpu`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

/// The plug-in behind a target, as it described itself when it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginRecord {
    pub target: Target,
    /// Name of the pin in `ci/plugins.toml`, if the plug-in is a pinned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub path: PathBuf,
    pub sha256: String,
    /// Major, minor.
    pub api_version: (i32, i32),
    pub platform: String,
    pub platform_version: String,
    /// The newest StableHLO version that it accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stablehlo_version: Option<String>,
    /// How many devices of each kind.
    #[serde(default)]
    pub devices: BTreeMap<String, usize>,
    /// Bytes of HBM that programs can have on one device of the TPU that the target compiles for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<i64>,
    /// What executes in its place: of a virtual TPU, whose plug-in compiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ExecutorRecord>,
    /// Of its compiler, set for every program of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<NamedValue>,
}

/// The XLA CPU plug-in that executes what a virtual TPU's compiler returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub path: PathBuf,
    pub sha256: String,
    pub api_version: (i32, i32),
    pub platform: String,
    pub platform_version: String,
    /// How matrix products round their operands.
    pub numerics: MxuNumerics,
}

impl RunRecord {
    /// A record that starts now, its id made up.
    pub fn new(environment: Environment, targets: Vec<Target>, select: Vec<String>) -> Self {
        let started = Timestamp::now();
        Self {
            schema: RUN_SCHEMA.to_owned(),
            id: new_id(started),
            label: None,
            started,
            finished: None,
            environment,
            targets,
            suites: Vec::new(),
            select,
            exclude: Vec::new(),
            shard: None,
            cases_hash: None,
            tolerances: Vec::new(),
        }
    }

    pub fn read(dir: &RunDir) -> Result<Self> {
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).map_err(|e| StoreError::unreadable(&path, e))?;
        let bad = |reason: String| StoreError::BadRecord {
            path: path.clone(),
            reason,
        };
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if head.schema != RUN_SCHEMA {
            return Err(bad(format!(
                "its schema is '{}', and this tpu-parity reads '{RUN_SCHEMA}'",
                head.schema
            )));
        }
        serde_json::from_str(&text).map_err(|e| bad(e.to_string()))
    }

    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| StoreError::BadRecord {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        text.push('\n');
        seal::write_atomically(&path, text.as_bytes())
    }
}

impl Environment {
    /// This machine and this tool; plug-ins are added as they are loaded.
    pub fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let os = format!(
            "{} {} {}",
            std::env::consts::OS,
            release.trim(),
            std::env::consts::ARCH
        );
        let cpu = fs::read_to_string("/proc/cpuinfo")
            .unwrap_or_default()
            .lines()
            .find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == "model name").then(|| value.trim().to_owned())
            })
            .unwrap_or_else(|| "unknown".to_owned());
        Self {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            os: os.split_whitespace().collect::<Vec<_>>().join(" "),
            cpu,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            plugins: Vec::new(),
            packages: BTreeMap::new(),
        }
    }

    pub fn plugin(&self, target: &Target) -> Option<&PluginRecord> {
        self.plugins.iter().find(|plugin| plugin.target == *target)
    }
}

/// The fraction of the second counts in 65536ths, so that ids sort by start within a second too. `Store::create` refuses an
/// id that is taken: a clash is an error and never a mixture.
fn new_id(started: Timestamp) -> String {
    let fraction = i64::from(started.subsec_nanosecond()) * 65_536 / 1_000_000_000;
    format!("{}-{fraction:04x}", started.strftime("%Y%m%d-%H%M%S"))
}
