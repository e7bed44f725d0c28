//! What changed between two runs, target by target. No expectations here: outcomes, metrics and environments only.

use std::collections::BTreeMap;

use serde::Serialize;

use super::verdict::is_failure;
use crate::case::CaseId;
use crate::outcome::{Evidence, Metrics, Outcome, OutcomeKind};
use crate::store::{PluginRecord, Run};
use crate::target::Target;

pub const SCHEMA: &str = "tpu-parity/diff/1";

#[derive(Debug, Clone, Serialize)]
pub struct RunDiff {
    pub schema: &'static str,
    pub old: String,
    pub new: String,
    /// Differences of machine, tool and plug-ins.
    pub environment: Vec<EnvironmentChange>,
    /// The targets of both runs.
    pub targets: Vec<TargetDiff>,
    pub added_targets: Vec<String>,
    pub removed_targets: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvironmentChange {
    /// `aot-v6e SHA-256`, `operating system`.
    pub what: String,
    pub old: String,
    pub new: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct TargetDiff {
    pub target: String,
    pub evidence: Evidence,
    /// Passed or was skipped, and fails.
    pub newly_failing: Vec<Change>,
    /// Failed or was skipped, and passes.
    pub newly_passing: Vec<Change>,
    /// Fails in both, with another outcome.
    pub changed_failure: Vec<Change>,
    /// Ran, and is skipped.
    pub newly_skipped: Vec<Change>,
    /// Has an outcome in the new run only.
    pub added: Vec<CaseId>,
    /// Has an outcome in the old run only.
    pub removed: Vec<CaseId>,
    /// The largest first.
    pub metrics: Vec<MetricChange>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub case: CaseId,
    pub old: OutcomeKind,
    pub new: OutcomeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricChange {
    pub case: CaseId,
    /// `code_size`, `compile_ms`, `temp memory`, `flops`, …
    pub metric: String,
    pub old: f64,
    pub new: f64,
}

/// How much a metric must change to be worth a line: by a factor, and for a metric that is noisy by an amount as well.
struct Threshold {
    factor: f64,
    amount: f64,
}

/// Sizes and counts are computed and so exact: a tenth is a change. Times are measured: double, and a fifth of a second.
const EXACT: Threshold = Threshold {
    factor: 1.1,
    amount: 0.0,
};
const TIME_MS: Threshold = Threshold {
    factor: 2.0,
    amount: 200.0,
};

/// The figures of a cost analysis that are compared; others vary in meaning between plug-ins.
const COSTS: [&str; 3] = ["flops", "bytes accessed", "optimal_seconds"];

pub fn diff(old: &Run, new: &Run) -> RunDiff {
    let names =
        |run: &Run| -> Vec<String> { run.record.targets.iter().map(Target::to_string).collect() };
    let (was, is) = (names(old), names(new));
    let only = |these: &[String], others: &[String]| -> Vec<String> {
        these
            .iter()
            .filter(|t| !others.contains(t))
            .cloned()
            .collect()
    };
    RunDiff {
        schema: SCHEMA,
        old: old.record.id.clone(),
        new: new.record.id.clone(),
        environment: environment(old, new),
        targets: new
            .record
            .targets
            .iter()
            .filter(|target| old.record.targets.contains(target))
            .map(|target| target_diff(target, old, new))
            .collect(),
        added_targets: only(&is, &was),
        removed_targets: only(&was, &is),
    }
}

impl RunDiff {
    pub fn is_empty(&self) -> bool {
        self.environment.is_empty()
            && self.added_targets.is_empty()
            && self.removed_targets.is_empty()
            && self.targets.iter().all(TargetDiff::is_empty)
    }
}

impl TargetDiff {
    pub fn is_empty(&self) -> bool {
        self.newly_failing.is_empty()
            && self.newly_passing.is_empty()
            && self.changed_failure.is_empty()
            && self.newly_skipped.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.metrics.is_empty()
    }
}

fn target_diff(target: &Target, old: &Run, new: &Run) -> TargetDiff {
    let name = target.to_string();
    let (was, is) = (outcomes(old, &name), outcomes(new, &name));
    let only = |these: &BTreeMap<&CaseId, &Outcome>, others: &BTreeMap<&CaseId, &Outcome>| {
        these
            .keys()
            .filter(|case| !others.contains_key(**case))
            .map(|case| (*case).clone())
            .collect::<Vec<_>>()
    };
    let mut found = TargetDiff {
        evidence: is.values().next().map_or(target.evidence(), |o| o.evidence),
        target: name,
        newly_failing: Vec::new(),
        newly_passing: Vec::new(),
        changed_failure: Vec::new(),
        newly_skipped: Vec::new(),
        added: only(&is, &was),
        removed: only(&was, &is),
        metrics: Vec::new(),
    };
    for (case, now) in &is {
        let Some(before) = was.get(case) else {
            continue;
        };
        found.metrics.extend(metric_changes(before, now));
        if before.outcome == now.outcome {
            continue;
        }
        let list = match (is_failure(before.outcome), now.outcome) {
            (_, OutcomeKind::Pass) => &mut found.newly_passing,
            (_, OutcomeKind::Skipped) => &mut found.newly_skipped,
            (true, _) => &mut found.changed_failure,
            (false, _) => &mut found.newly_failing,
        };
        list.push(Change {
            case: (*case).clone(),
            old: before.outcome,
            new: now.outcome,
            message: now.message.clone(),
        });
    }
    found
        .metrics
        .sort_by(|a, b| b.magnitude().total_cmp(&a.magnitude()));
    found
}

fn outcomes<'a>(run: &'a Run, target: &str) -> BTreeMap<&'a CaseId, &'a Outcome> {
    run.outcomes
        .iter()
        .filter(|outcome| outcome.target == target)
        .map(|outcome| (&outcome.case, outcome))
        .collect()
}

fn metric_changes(old: &Outcome, new: &Outcome) -> Vec<MetricChange> {
    let (was, is) = (&old.metrics, &new.metrics);
    let size = |n: Option<i64>| n.map(|n| n as f64);
    let mut pairs = vec![
        (
            "compile_ms".to_owned(),
            was.compile_ms,
            is.compile_ms,
            TIME_MS,
        ),
        (
            "code_size".to_owned(),
            size(was.code_size),
            size(is.code_size),
            EXACT,
        ),
    ];
    for (name, bytes) in &was.memory {
        let now = is.memory.get(name).map(|&n| n as f64);
        pairs.push((format!("{name} memory"), Some(*bytes as f64), now, EXACT));
    }
    let cycles = |metrics: &Metrics| metrics.estimate?.cycles.map(|n| n as f64);
    pairs.push((
        "estimated cycles".to_owned(),
        cycles(was),
        cycles(is),
        EXACT,
    ));
    for name in COSTS {
        let of = |costs: &BTreeMap<String, f64>| costs.get(name).copied();
        pairs.push((name.to_owned(), of(&was.cost), of(&is.cost), EXACT));
    }
    pairs
        .into_iter()
        .filter_map(|(metric, old, now, threshold)| {
            let (old, now) = (old?, now?);
            threshold.exceeded(old, now).then(|| MetricChange {
                case: new.case.clone(),
                metric,
                old,
                new: now,
            })
        })
        .collect()
}

impl Threshold {
    fn exceeded(&self, old: f64, new: f64) -> bool {
        let (low, high) = (old.min(new), old.max(new));
        low >= 0.0 && high > low && high - low >= self.amount && high >= low * self.factor
    }
}

impl MetricChange {
    /// `+12%`, `×3.1`, `new` from zero.
    pub fn words(&self) -> String {
        if self.old == 0.0 {
            return "from 0".to_owned();
        }
        let ratio = self.new / self.old;
        if ratio >= 3.0 {
            format!("×{ratio:.1}")
        } else {
            format!("{:+.0}%", (ratio - 1.0) * 100.0)
        }
    }

    fn magnitude(&self) -> f64 {
        let (low, high) = (self.old.min(self.new), self.old.max(self.new));
        high / low
    }
}

fn environment(old: &Run, new: &Run) -> Vec<EnvironmentChange> {
    let (was, is) = (&old.record.environment, &new.record.environment);
    let mut changes = Vec::new();
    let mut compare = |what: String, old: &str, new: &str| {
        if old != new {
            changes.push(EnvironmentChange {
                what,
                old: old.to_owned(),
                new: new.to_owned(),
            });
        }
    };
    compare("tpu-parity".to_owned(), &was.tool_version, &is.tool_version);
    compare("operating system".to_owned(), &was.os, &is.os);
    compare("CPU".to_owned(), &was.cpu, &is.cpu);
    for plugin in &is.plugins {
        let Some(before) = was.plugin(&plugin.target) else {
            continue;
        };
        let target = &plugin.target;
        let api = |p: &PluginRecord| format!("{}.{}", p.api_version.0, p.api_version.1);
        let stablehlo = |p: &PluginRecord| {
            p.stablehlo_version
                .clone()
                .unwrap_or_else(|| "unknown".to_owned())
        };
        compare(format!("{target} SHA-256"), &before.sha256, &plugin.sha256);
        let executor = |p: &PluginRecord| {
            let executor = p.executor.as_ref();
            executor.map_or_else(Default::default, |e| {
                (e.sha256.clone(), e.numerics.to_string())
            })
        };
        let ((old_sha256, old_numerics), (sha256, numerics)) = (executor(before), executor(plugin));
        compare(format!("{target} executor's SHA-256"), &old_sha256, &sha256);
        compare(format!("{target} numerics"), &old_numerics, &numerics);
        compare(format!("{target} PJRT C API"), &api(before), &api(plugin));
        compare(
            format!("{target} platform version"),
            &before.platform_version,
            &plugin.platform_version,
        );
        compare(
            format!("{target} StableHLO"),
            &stablehlo(before),
            &stablehlo(plugin),
        );
    }
    for name in was.packages.keys().chain(
        is.packages
            .keys()
            .filter(|name| !was.packages.contains_key(*name)),
    ) {
        let of = |packages: &BTreeMap<String, String>| {
            packages
                .get(name)
                .cloned()
                .unwrap_or_else(|| "absent".to_owned())
        };
        compare(
            format!("{name} version"),
            &of(&was.packages),
            &of(&is.packages),
        );
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeKind::{Crash, Error, Pass, Skipped};
    use crate::track::fixtures::{outcome, run};

    const CASES: [&str; 7] = ["s/a", "s/b", "s/c", "s/d", "s/e", "s/f", "s/g"];

    #[test]
    fn changes_are_told_apart_by_kind() {
        let mut old = run("old", &["cpu", "tpu"], &CASES);
        let mut new = run("new", &["cpu", "aot-v4"], &CASES);
        for (case, was, is) in [
            ("s/a", Some(Pass), Some(Crash)),
            ("s/b", Some(Error), Some(Pass)),
            ("s/c", Some(Error), Some(Crash)),
            ("s/d", Some(Pass), Some(Skipped)),
            ("s/e", None, Some(Pass)),
            ("s/f", Some(Pass), None),
            ("s/g", Some(Pass), Some(Pass)),
        ] {
            if let Some(was) = was {
                outcome(&mut old, "cpu", case, was);
            }
            if let Some(is) = is {
                outcome(&mut new, "cpu", case, is);
            }
        }
        let found = diff(&old, &new);
        let target = &found.targets[0];
        let ids = |changes: &[Change]| -> Vec<String> {
            changes.iter().map(|c| c.case.to_string()).collect()
        };
        assert_eq!(ids(&target.newly_failing), ["s/a"]);
        assert_eq!(ids(&target.newly_passing), ["s/b"]);
        assert_eq!(ids(&target.changed_failure), ["s/c"]);
        assert_eq!(ids(&target.newly_skipped), ["s/d"]);
        assert_eq!(target.added, ["s/e".parse().unwrap()]);
        assert_eq!(target.removed, ["s/f".parse().unwrap()]);
        assert_eq!(
            (found.added_targets, found.removed_targets),
            (vec!["aot-v4".to_owned()], vec!["tpu".to_owned()])
        );
        assert!(found.environment.is_empty() && target.metrics.is_empty());
    }

    #[test]
    fn large_changes_of_metrics_and_plugins_are_shown() {
        let mut old = run("old", &["cpu"], &["s/a"]);
        outcome(&mut old, "cpu", "s/a", Pass);
        let mut new = old.clone();
        let metrics = &mut new.outcomes[0].metrics;
        metrics.code_size = Some(1100);
        // Ten times, and yet too short to be more than noise.
        metrics.compile_ms = Some(200.0);
        metrics.cost.insert("flops".to_owned(), 64.0);
        old.outcomes[0]
            .metrics
            .cost
            .insert("flops".to_owned(), 16.0);
        new.record.environment.plugins[0].sha256 = "00".to_owned();
        new.record
            .environment
            .packages
            .insert("libtpu".to_owned(), "0.0.53".to_owned());
        let found = diff(&old, &new);
        let words: Vec<String> = found.targets[0]
            .metrics
            .iter()
            .map(|m| format!("{} {}", m.metric, m.words()))
            .collect();
        assert_eq!(words, ["flops ×4.0", "code_size +10%"]);
        let what: Vec<&str> = found.environment.iter().map(|c| c.what.as_str()).collect();
        assert_eq!(what, ["cpu SHA-256", "libtpu version"]);
        new.outcomes[0].metrics.code_size = Some(1099);
        assert_eq!(diff(&old, &new).targets[0].metrics.len(), 1);
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let mut run = run("r", &["cpu"], &["s/a"]);
        outcome(&mut run, "cpu", "s/a", Error);
        assert!(diff(&run, &run).is_empty());
    }
}
