//! What the TPU compiler said of the cases that it compiled, target by target, and side by side where generations compile
//! the same cases: compile times, code, HBM, and its own estimates of the time that a program takes.
//!
//! Times of compiling are measured. The time of a program is the compiler's estimate and nothing else: no TPU ran.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::case::CaseId;
use crate::outcome::{Estimate, Evidence, Outcome, OutcomeKind, Stage, known_cost};
use crate::store::Run;

/// Said wherever an estimate is shown.
pub const ESTIMATE: &str = "Cycles and times are the TPU compiler's estimates: no program ran on a TPU. Cycles are summed over the instructions \
                            that it gives cycles for, times are the cost analysis's optimal_seconds, where it knows the whole program; a loop's body counts once.";

/// The targets that compile with the TPU compiler.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Compiled<'a> {
    pub targets: Vec<CompiledTarget<'a>>,
    /// Cases that every one of these targets has a time for; the sums of `subjects` and of each target's `estimate` are over
    /// them, and those of cycles over the ones among them for which all have cycles, so that targets compare.
    pub common_cases: usize,
    /// By the first target's time, the longest first.
    pub subjects: Vec<SubjectEstimates<'a>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CompiledTarget<'a> {
    /// Without a machine's paths.
    pub target: String,
    pub evidence: Evidence,
    /// Cases that the TPU compiler compiled, and that fit into a device.
    pub compiled: usize,
    /// Of those, how many then ran on CPU; of a virtual TPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed: Option<usize>,
    /// Programs that do not fit into a device's HBM.
    pub out_of_memory: usize,
    /// Medians over the compiled cases, in milliseconds; of the TPU compiler, the passes and XLA CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_compile_ms: Option<f64>,
    /// Median, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_size: Option<i64>,
    /// Of the case that takes most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_hbm: Option<MostHbm<'a>>,
    /// Bytes that a program can have on one device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hbm_limit: Option<i64>,
    /// Sums over the common cases.
    pub flops: f64,
    pub estimate: Estimate,
    /// Constructs without a meaning on a CPU, and the cases that stop at them; the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_executable: Vec<Construct<'a>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct MostHbm<'a> {
    pub bytes: i64,
    pub case: &'a CaseId,
}

#[derive(Debug, Clone, Serialize)]
pub struct Construct<'a> {
    pub construct: &'a str,
    pub cases: Vec<&'a CaseId>,
}

/// Sums over the common cases of one subject, a sum a target.
#[derive(Debug, Clone, Serialize)]
pub struct SubjectEstimates<'a> {
    pub suite: &'a str,
    pub subject: &'a str,
    pub cases: usize,
    pub estimates: Vec<Estimate>,
}

impl<'a> Compiled<'a> {
    /// `label` gives a target's name without a machine's paths.
    pub fn new(run: &'a Run, label: impl Fn(&str) -> String) -> Self {
        let mut of_target: Vec<(String, Vec<&'a Outcome>)> = Vec::new();
        for target in &run.record.targets {
            if target.generation().is_some() {
                let name = target.to_string();
                let outcomes = run.outcomes.iter().filter(|o| o.target == name).collect();
                of_target.push((name, outcomes));
            }
        }
        of_target.retain(|(_, outcomes)| outcomes.iter().any(|o| o.metrics.compile_ms.is_some()));
        let common = Common::of(&of_target);
        let targets = run.record.targets.iter().filter_map(|target| {
            let name = target.to_string();
            let (_, outcomes) = of_target.iter().find(|(other, _)| *other == name)?;
            let plugin = run.record.environment.plugin(target);
            Some(CompiledTarget {
                target: label(&name),
                evidence: target.evidence(),
                hbm_limit: plugin.and_then(|plugin| plugin.memory_limit),
                ..CompiledTarget::of(outcomes, target.evidence(), &common)
            })
        });
        Self {
            targets: targets.collect(),
            common_cases: common.seconds.len(),
            subjects: subjects(&of_target, &common),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// How much longer or shorter than on the first target, in estimated time.
    pub fn relative(&self, target: usize) -> Option<f64> {
        let first = self.targets.first()?.estimate.seconds?;
        let this = self.targets.get(target)?.estimate.seconds?;
        (first > 0.0).then(|| this / first)
    }
}

/// The cases that every target has an estimate for, of time and of cycles.
struct Common<'a> {
    seconds: BTreeSet<&'a CaseId>,
    cycles: BTreeSet<&'a CaseId>,
}

impl<'a> Common<'a> {
    fn of(of_target: &[(String, Vec<&'a Outcome>)]) -> Self {
        let all_have = |has: fn(&Estimate) -> bool| {
            let estimated = |outcomes: &Vec<&'a Outcome>| -> BTreeSet<&'a CaseId> {
                let with = outcomes
                    .iter()
                    .filter(|o| o.metrics.estimate.as_ref().is_some_and(has));
                with.map(|outcome| &outcome.case).collect()
            };
            let mut sets = of_target.iter().map(|(_, outcomes)| estimated(outcomes));
            let first = sets.next().unwrap_or_default();
            sets.fold(first, |all, set| all.intersection(&set).copied().collect())
        };
        Self {
            seconds: all_have(|estimate| estimate.seconds.is_some()),
            cycles: all_have(|estimate| estimate.cycles.is_some()),
        }
    }

    /// What of an outcome's estimate is common.
    fn estimate(&self, outcome: &Outcome) -> Estimate {
        let own = outcome.metrics.estimate.unwrap_or_default();
        Estimate {
            cycles: own.cycles.filter(|_| self.cycles.contains(&outcome.case)),
            seconds: own.seconds.filter(|_| self.seconds.contains(&outcome.case)),
        }
    }
}

fn subjects<'a>(
    of_target: &[(String, Vec<&'a Outcome>)],
    common: &Common<'a>,
) -> Vec<SubjectEstimates<'a>> {
    let mut rows: BTreeMap<(&str, &str), SubjectEstimates<'a>> = BTreeMap::new();
    for (index, (_, outcomes)) in of_target.iter().enumerate() {
        for outcome in outcomes.iter().filter(|o| common.seconds.contains(&o.case)) {
            let (suite, subject) = (outcome.case.suite(), outcome.case.subject());
            let row = rows
                .entry((suite, subject))
                .or_insert_with(|| SubjectEstimates {
                    suite,
                    subject,
                    cases: 0,
                    estimates: vec![Estimate::default(); of_target.len()],
                });
            row.cases += usize::from(index == 0);
            row.estimates[index] = sum(row.estimates[index], common.estimate(outcome));
        }
    }
    let mut rows: Vec<SubjectEstimates<'a>> = rows.into_values().collect();
    let time = |row: &SubjectEstimates<'_>| {
        let first = row.estimates.first().copied().unwrap_or_default();
        first.seconds.unwrap_or_default()
    };
    rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
    rows
}

fn sum(total: Estimate, more: Estimate) -> Estimate {
    let cycles = [total.cycles, more.cycles].into_iter().flatten();
    let seconds = [total.seconds, more.seconds].into_iter().flatten();
    Estimate {
        cycles: cycles.reduce(u64::saturating_add),
        seconds: seconds.reduce(|a, b| a + b),
    }
}

impl<'a> CompiledTarget<'a> {
    /// Name and limit are the caller's to fill in.
    fn of(outcomes: &[&'a Outcome], evidence: Evidence, common: &Common<'a>) -> Self {
        let is_oom = |o: &&&Outcome| o.outcome == OutcomeKind::Oom && o.stage == Stage::Compile;
        let compiled: Vec<&'a Outcome> = outcomes
            .iter()
            .copied()
            .filter(|o| o.metrics.compile_ms.is_some() && !is_oom(&o))
            .collect();
        let executed = compiled.iter().filter(|o| o.metrics.run_ms.is_some());
        let times = |of: fn(&Outcome) -> Option<f64>| median(compiled.iter().filter_map(|o| of(o)));
        let most_hbm = compiled
            .iter()
            .filter_map(|o| {
                Some(MostHbm {
                    bytes: o.metrics.hbm?,
                    case: &o.case,
                })
            })
            .max_by_key(|most| (most.bytes, std::cmp::Reverse(most.case)));
        let shared = || compiled.iter().filter(|o| common.seconds.contains(&o.case));
        Self {
            target: String::new(),
            evidence,
            compiled: compiled.len(),
            executed: (evidence == Evidence::Virtual).then(|| executed.count()),
            out_of_memory: outcomes.iter().filter(is_oom).count(),
            compile_ms: times(|o| o.metrics.compile_ms),
            passes_ms: times(|o| o.metrics.passes_ms),
            cpu_compile_ms: times(|o| o.metrics.cpu_compile_ms),
            code_size: times(|o| o.metrics.code_size.map(|n| n as f64)).map(|n| n as i64),
            most_hbm,
            hbm_limit: None,
            flops: shared()
                .filter_map(|o| known_cost(&o.metrics.cost, "flops"))
                .fold(0.0, |sum, flops| sum + flops),
            estimate: shared().fold(Estimate::default(), |all, o| sum(all, common.estimate(o))),
            not_executable: constructs(&compiled),
        }
    }
}

fn constructs<'a>(outcomes: &[&'a Outcome]) -> Vec<Construct<'a>> {
    let mut constructs: BTreeMap<&'a str, Vec<&'a CaseId>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(found) = &outcome.metrics.not_executable {
            let cases = constructs.entry(&found.construct).or_default();
            cases.push(&outcome.case);
        }
    }
    let mut constructs: Vec<Construct<'a>> = constructs
        .into_iter()
        .map(|(construct, cases)| Construct { construct, cases })
        .collect();
    constructs.sort_by_key(|construct| std::cmp::Reverse(construct.cases.len()));
    constructs
}

/// The lower of the two in the middle of an even number.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::outcome::NotExecutable;
    use crate::outcome::OutcomeKind::{Crash, Oom, Pass, Unsupported};
    use crate::track::fixtures::{outcome, run};

    /// `s/dot/b` crashes the older compiler, `s/dot/c` does not run on CPU, and `s/big/a` does not fit there.
    pub fn two_generations() -> Run {
        let cases = ["s/big/a", "s/dot/a", "s/dot/b", "s/dot/c", "s/tanh/a"];
        let mut run = run("r", &["cpu", "aot-v5e", "vtpu-v6e"], &cases);
        for case in cases {
            outcome(&mut run, "cpu", case, Pass);
            let (old, new) = match case {
                "s/big/a" => (Pass, Oom),
                "s/dot/b" => (Crash, Pass),
                "s/dot/c" => (Pass, Unsupported),
                _ => (Pass, Pass),
            };
            outcome(&mut run, "aot-v5e", case, old);
            outcome(&mut run, "vtpu-v6e", case, new);
        }
        for outcome in &mut run.outcomes {
            let (id, metrics) = (outcome.case.as_str(), &mut outcome.metrics);
            let compiled = outcome.target != "cpu" && !matches!(outcome.outcome, Crash | Oom);
            if !compiled {
                continue;
            }
            metrics.compile_ms = Some(25.0);
            let scale = if outcome.target == "aot-v5e" { 4 } else { 1 };
            let cycles = scale * if id == "s/tanh/a" { 1000 } else { 100 };
            metrics.estimate = Some(Estimate {
                cycles: Some(cycles),
                seconds: Some(cycles as f64 * 1e-9),
            });
            metrics.hbm = Some(1 << 20);
            if outcome.outcome == Unsupported {
                metrics.run_ms = None;
                metrics.not_executable = Some(NotExecutable {
                    construct: "custom call tpu_custom_call".to_owned(),
                    instruction: "kernel.1".to_owned(),
                });
            }
        }
        run
    }

    #[test]
    fn targets_compare_over_the_cases_that_all_of_them_compile() {
        let run = two_generations();
        let compiled = Compiled::new(&run, str::to_owned);
        let names: Vec<&str> = compiled.targets.iter().map(|t| t.target.as_str()).collect();
        assert_eq!(names, ["aot-v5e", "vtpu-v6e"]);
        // dot/a, dot/c and tanh/a.
        assert_eq!(compiled.common_cases, 3);
        let cycles: Vec<_> = compiled.targets.iter().map(|t| t.estimate.cycles).collect();
        assert_eq!(cycles, [Some(4800), Some(1200)]);
        assert_eq!(compiled.relative(1), Some(0.25));
        let subjects: Vec<_> = compiled
            .subjects
            .iter()
            .map(|s| (s.subject, s.cases))
            .collect();
        assert_eq!(subjects, [("tanh", 1), ("dot", 2)]);
        assert_eq!(compiled.subjects[1].estimates[1].cycles, Some(200));
    }

    #[test]
    fn a_case_that_is_unknown_on_one_target_counts_on_none() {
        let mut run = two_generations();
        let of = |run: &mut Run, target: &str, id: &str, estimate: Estimate| {
            let mut outcomes = run.outcomes.iter_mut();
            let found = outcomes.find(|o| o.target == target && o.case.as_str() == id);
            found.unwrap().metrics.estimate = Some(estimate);
        };
        let (cycles, seconds) = (Some(1), Some(1e-9));
        let unknown = |cycles, seconds| Estimate { cycles, seconds };
        of(&mut run, "aot-v5e", "s/dot/a", unknown(cycles, None));
        of(&mut run, "vtpu-v6e", "s/dot/c", unknown(None, seconds));
        let compiled = Compiled::new(&run, str::to_owned);
        assert_eq!(compiled.common_cases, 2);
        let cycles: Vec<_> = compiled.targets.iter().map(|t| t.estimate.cycles).collect();
        assert_eq!(cycles, [Some(4000), Some(1000)]);
    }

    #[test]
    fn what_does_not_fit_and_what_does_not_run_is_counted() {
        let run = two_generations();
        let compiled = Compiled::new(&run, str::to_owned);
        let [v5e, v6e] = &compiled.targets[..] else {
            panic!("{:?}", compiled.targets)
        };
        assert_eq!(
            (v5e.compiled, v5e.executed, v5e.out_of_memory),
            (4, None, 0)
        );
        assert_eq!(
            (v6e.compiled, v6e.executed, v6e.out_of_memory),
            (4, Some(3), 1)
        );
        assert_eq!(
            v6e.not_executable[0].construct,
            "custom call tpu_custom_call"
        );
        assert_eq!(v6e.not_executable[0].cases.len(), 1);
        assert_eq!(v6e.compile_ms, Some(25.0));
        let most = v6e.most_hbm.as_ref().unwrap();
        assert_eq!((most.bytes, most.case.as_str()), (1 << 20, "s/dot/a"));
    }

    #[test]
    fn a_run_without_the_tpu_compiler_has_nothing_to_say() {
        let mut run = run("r", &["cpu"], &["s/a"]);
        outcome(&mut run, "cpu", "s/a", Pass);
        let compiled = Compiled::new(&run, str::to_owned);
        assert!(compiled.is_empty() && compiled.subjects.is_empty());
    }
}
