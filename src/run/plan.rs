//! What is to run: cases, targets, and the shard that this process takes.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::compile_log;
use crate::case::{Case, CaseId};
use crate::hlo::MxuNumerics;
use crate::outcome::Evidence;
use crate::pjrt::NamedValue;
use crate::project::{Project, ProjectError, ResolvedPlugin};
use crate::target::Target;

/// A target with the plug-in that serves it, checked and ready to be loaded.
#[derive(Debug, Clone)]
pub struct PlannedTarget {
    pub target: Target,
    pub plugin: PathBuf,
    /// Name of the pin, if the plug-in is a pinned one.
    pub name: Option<String>,
    pub sha256: String,
    /// Options for the client or the topology.
    pub options: Vec<NamedValue>,
    /// What executes, where it is not the plug-in itself: of a virtual TPU.
    pub executor: Option<Executor>,
    /// Of the compiler, for every program: `xla_backend_optimization_level`.
    pub flags: Vec<NamedValue>,
}

/// What executes the programs that a virtual TPU's compiler returns, and how their matrix products are to round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// An XLA CPU plug-in, checked.
    pub plugin: PathBuf,
    pub name: Option<String>,
    pub sha256: String,
    pub numerics: MxuNumerics,
}

impl PlannedTarget {
    pub fn new(target: Target, plugin: ResolvedPlugin) -> Self {
        let option = |(name, value)| NamedValue { name, value };
        Self {
            target,
            plugin: plugin.path,
            name: plugin.name,
            sha256: plugin.sha256,
            options: plugin.options.into_iter().map(option).collect(),
            executor: None,
            flags: Vec::new(),
        }
    }

    /// Finds and checks the plug-in, or the two plug-ins, that the target needs.
    pub fn resolve(project: &Project, target: &Target) -> Result<Self, ProjectError> {
        let mut planned = Self::new(target.clone(), project.resolve(target)?);
        if let Target::Virtual { .. } = target {
            compile_log::check()?;
            let cpu = project.resolve(&Target::Cpu)?;
            planned.executor = Some(Executor {
                plugin: cpu.path,
                name: cpu.name,
                sha256: cpu.sha256,
                numerics: project.numerics()?,
            });
        }
        Ok(planned)
    }

    /// Names of the pins behind the target.
    pub fn pins(&self) -> impl Iterator<Item = &str> {
        let executor = self.executor.as_ref();
        let names = [
            self.name.as_deref(),
            executor.and_then(|e| e.name.as_deref()),
        ];
        names.into_iter().flatten()
    }
}

/// Every case on every target, target by target, less what is done already.
#[derive(Debug, Clone)]
pub struct Plan {
    pub cases: Vec<Case>,
    pub targets: Vec<PlannedTarget>,
    /// Indices of a target and a case, in the order of execution.
    pub(super) pending: Vec<(usize, usize)>,
    /// Those whose outcome compares the plug-in with itself.
    self_references: HashSet<(usize, usize)>,
}

impl Plan {
    /// Targets stay together so that a worker's plug-in serves many cases; cases keep their order.
    pub fn new(cases: Vec<Case>, targets: Vec<PlannedTarget>) -> Self {
        let pending = (0..targets.len())
            .flat_map(|target| (0..cases.len()).map(move |case| (target, case)))
            .collect();
        Self {
            cases,
            targets,
            pending,
            self_references: HashSet::new(),
        }
    }

    /// Marks what compares a plug-in with itself, which the outcomes then say.
    pub fn with_self_references(mut self, is_self: impl Fn(&Case, &PlannedTarget) -> bool) -> Self {
        let runs = |target: &PlannedTarget| target.target.evidence() != Evidence::Compile;
        let (cases, targets) = (&self.cases, &self.targets);
        self.self_references = self
            .pending
            .iter()
            .copied()
            .filter(|&(t, c)| runs(&targets[t]) && is_self(&cases[c], &targets[t]))
            .collect();
        self
    }

    pub(super) fn is_self_reference(&self, target: usize, case: usize) -> bool {
        self.self_references.contains(&(target, case))
    }

    /// Drops what an earlier process finished.
    pub fn without(mut self, is_done: impl Fn(&CaseId, &str) -> bool) -> Self {
        let names: Vec<String> = self.targets.iter().map(|t| t.target.to_string()).collect();
        let cases = &self.cases;
        self.pending
            .retain(|(target, case)| !is_done(&cases[*case].id, &names[*target]));
        self
    }

    /// How many outcomes are to come.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

/// `I/N`, I from 1 to N: this process takes every case whose id falls to it. The choice depends on the id alone, so adding
/// a case moves no other one to another shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad shard '{0}': it is written I/N, with I from 1 to N, such as 2/4")]
pub struct ShardError(String);

impl Shard {
    /// First eight bytes of the id's BLAKE3, little-endian, modulo N.
    pub fn takes(&self, id: &CaseId) -> bool {
        let hash = blake3::hash(id.as_str().as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(first) % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ShardError(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(bad)?;
        let shard = Self {
            index: index.parse().map_err(|_| bad())?,
            count: count.parse().map_err(|_| bad())?,
        };
        if shard.index == 0 || shard.index > shard.count {
            return Err(bad());
        }
        Ok(shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_out_every_case_once_and_about_evenly() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let mut sizes = [0; 3];
        for n in 0..3000 {
            let id: CaseId = format!("stablehlo/add/f32/n{n}").parse().unwrap();
            let takers: Vec<usize> = (0..3).filter(|i| shards[*i].takes(&id)).collect();
            assert_eq!(takers.len(), 1);
            sizes[takers[0]] += 1;
        }
        assert!(
            sizes.iter().all(|size| (900..1100).contains(size)),
            "{sizes:?}"
        );
    }

    #[test]
    fn bad_shards_say_how_one_is_written() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2"] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains("such as 2/4"), "{error}");
        }
    }
}
