//! What became of a case on a target: the outcome, how far it came, and what was measured.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::case::CaseId;
use crate::compare::Comparison;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    Pass,
    /// Numbers, shapes or element types differ from the reference.
    Fail,
    /// The plug-in answered with an error.
    Error,
    /// The plug-in answered UNIMPLEMENTED, or lacks an entry that the case needs; at stage `run` of a virtual TPU: the TPU
    /// compiler's program holds a construct that has no meaning on a CPU.
    Unsupported,
    /// The worker process died.
    Crash,
    Timeout,
    /// The plug-in answered RESOURCE_EXHAUSTED.
    Oom,
    Skipped,
}

/// How far a case came: the stage in which it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    Load,
    /// Framework to StableHLO.
    Lower,
    Compile,
    Run,
    Compare,
}

/// What an outcome rests on. Never mixed in one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The program ran on the device that the target names.
    Hardware,
    /// The TPU compiler's optimized HLO ran on CPU.
    Virtual,
    /// The program was compiled and not run.
    Compile,
}

/// Times are wall-clock milliseconds; sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Of the target's own compiler: of a virtual TPU, the TPU compiler alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_ms: Option<f64>,
    /// Of the passes that turn a virtual TPU's program into one for XLA CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes_ms: Option<f64>,
    /// Of XLA CPU, compiling what the passes made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_compile_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_size: Option<i64>,
    /// `argument`, `output`, `temp`, `alias`, … as the plug-in reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, i64>,
    /// `flops`, `bytes accessed`, `optimal_seconds`, … as the plug-in reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cost: BTreeMap<String, f64>,
    /// The TPU compiler's own, where a target compiles with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// HBM of one device that the program takes while it runs, code included, as a TPU compiler lays it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hbm: Option<i64>,
    /// Of the TPU compiler's optimized program: how many instructions of each opcode, custom calls by target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instructions: BTreeMap<String, u64>,
    /// What in the TPU compiler's program has no meaning on a CPU, for which the outcome is `unsupported` at stage `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_executable: Option<NotExecutable>,
    /// What the plug-in said when it refused a program that it must refuse: such a pass ends at stage `compile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// One per result of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Of a case of PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchMetrics>,
    /// The reference is the very same program, in the same types, from the very same plug-in (by SHA-256): a pass shows only
    /// that the plug-in still does what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_reference: bool,
}

/// What PyTorch and TorchTPU did for a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TorchMetrics {
    /// Programs compiled for the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiles: Option<u64>,
    /// That PyTorch dispatched: `aten.addmm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<String>,
    /// The names of the results, one per comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// The case's own: losses, counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<serde_json::Value>,
}

/// A figure of a cost analysis, unless a part of it is unknown: XLA counts −1 for each custom call whose cost it does not know
/// (`HloCostAnalysis::HandleCustomCall`), so that a sum below zero is none.
pub fn known_cost(cost: &BTreeMap<String, f64>, name: &str) -> Option<f64> {
    cost.get(name).copied().filter(|value| *value >= 0.0)
}

/// How long the TPU compiler thinks that one execution takes. An estimate: nothing was measured, a loop's body counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Summed over the instructions that it gives cycles for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// `optimal_seconds` of its cost analysis, as far as it knows the program: see [`known_cost`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A construct without a meaning on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExecutable {
    pub construct: String,
    /// The first instruction that has it.
    pub instruction: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub case: CaseId,
    /// The target as the user typed it, in canonical form.
    pub target: String,
    pub evidence: Evidence,
    pub outcome: OutcomeKind,
    pub stage: Stage,
    /// One line that says why, for every outcome but `pass`; of a pass, how a worker died under the case that had served
    /// others before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// PJRT's own error code, as `INVALID_ARGUMENT`; of PyTorch's cases the class of the exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default)]
    pub metrics: Metrics,
    /// The outcome of each attempt, the last being this one. An attempt in which a worker died that had served other cases
    /// is made again in a fresh one, and that counts in its place.
    pub attempts: Vec<OutcomeKind>,
}

impl OutcomeKind {
    pub const ALL: [OutcomeKind; 8] = [
        Self::Pass,
        Self::Fail,
        Self::Error,
        Self::Unsupported,
        Self::Crash,
        Self::Timeout,
        Self::Oom,
        Self::Skipped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Error => "error",
            Self::Unsupported => "unsupported",
            Self::Crash => "crash",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::Skipped => "skipped",
        }
    }
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Lower => "lower",
            Self::Compile => "compile",
            Self::Run => "run",
            Self::Compare => "compare",
        }
    }
}

impl Evidence {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Virtual => "virtual",
            Self::Compile => "compile",
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_with_unknown_parts_is_none() {
        let cost = [
            ("flops".to_owned(), 12.0),
            ("optimal_seconds".to_owned(), -2.999),
        ];
        assert_eq!(known_cost(&cost.clone().into(), "flops"), Some(12.0));
        assert_eq!(known_cost(&cost.clone().into(), "optimal_seconds"), None);
        assert_eq!(known_cost(&cost.into(), "bytes accessed"), None);
    }
}
