//! Verdicts: the outcomes of a run seen through its expectations and a baseline.
//!
//! Each planned case on each target of a run gets exactly one verdict. The first rule that applies decides:
//!
//! 1. no outcome: [`missing`](VerdictKind::Missing);
//! 2. passed, but not at the first attempt: [`flaky`](VerdictKind::Flaky), whatever was expected;
//! 3. failed, and an expectation speaks of it: [`known`](VerdictKind::Known) if one of them names this outcome; if none does,
//!    the failure is another than the known one: `regressed` if the baseline passed, else `new-failure`;
//! 4. failed without an expectation: [`regressed`](VerdictKind::Regressed) if the baseline passed, `known` (inherited,
//!    untracked) if the baseline failed in the same way, else [`new-failure`](VerdictKind::NewFailure);
//! 5. passed against an expectation: [`fixed`](VerdictKind::Fixed);
//! 6. skipped, and the baseline passed: [`newly-skipped`](VerdictKind::NewlySkipped);
//! 7. passed or skipped, and the baseline has no such case: [`new`](VerdictKind::New);
//! 8. else [`ok`](VerdictKind::Ok).
//!
//! Failed means any outcome but `pass` and `skipped`. The baseline passed if its final outcome is `pass`, flaky or not.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{Expectation, Expectations, Version};
use crate::case::CaseId;
use crate::outcome::{Evidence, Outcome, OutcomeKind, Stage};
use crate::pjrt::NamedValue;
use crate::reference::is_known_unreferenced;
use crate::store::{Environment, PluginRecord, Run, RunRecord};
use crate::target::Target;

mod kind;

pub use kind::VerdictKind;

/// What is to be said of one case on one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    pub case: CaseId,
    pub target: String,
    pub evidence: Evidence,
    #[serde(rename = "verdict")]
    pub kind: VerdictKind,
    /// `None` for a missing case.
    pub outcome: Option<OutcomeKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The outcome's own message, as it came from the plug-in: anything may stand in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The outcome in the baseline, if there is a baseline and it has the case on this target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<OutcomeKind>,
    /// Index of the expectation that decided, or that was contradicted.
    #[serde(skip)]
    pub expectation: Option<usize>,
    /// Why this verdict, where the outcome alone does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Known, and the expectation's `until` is reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    #[serde(skip)]
    pub attempts: Vec<OutcomeKind>,
    /// Compile and run, all that was measured.
    #[serde(skip)]
    pub time_ms: Option<f64>,
    /// The plug-in was compared with itself: see [`Metrics::self_reference`](crate::outcome::Metrics::self_reference).
    #[serde(skip)]
    pub self_reference: bool,
}

/// All verdicts of a run, by target in the run's order, then by case.
#[derive(Debug, Clone, Default)]
pub struct Judgement {
    pub verdicts: Vec<Verdict>,
    /// The expectations that the verdicts index.
    pub expectations: Vec<Expectation>,
    /// Indices of expectations that match no planned case, though the run selected all that they could match.
    pub unused: Vec<usize>,
    /// The baseline's id.
    pub baseline: Option<String>,
    /// Cases of the baseline, on targets of this run, that this run did not plan though the suites have them; all that were
    /// not planned, until [`Judgement::know_suites`] tells which those are.
    pub unplanned: Vec<(String, CaseId)>,
    /// Cases of the baseline, on targets of this run, that the suites have no longer.
    pub removed: Vec<(String, CaseId)>,
    /// Targets of the baseline that this run has not.
    pub removed_targets: Vec<String>,
    /// Whether there is a baseline, and it has no target of this run's.
    pub shares_no_target: bool,
}

/// The verdicts on one target that rest on the same evidence.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    pub target: &'a str,
    pub evidence: Evidence,
    /// Sorted by case.
    pub verdicts: Vec<&'a Verdict>,
}

/// Judges `run`. Without a baseline there is no `regressed` and no `new`.
pub fn judge(run: &Run, expectations: &Expectations, baseline: Option<&Run>) -> Judgement {
    let before = baseline.map(index);
    let now = index(run);
    let mut verdicts = Vec::with_capacity(run.planned.len() * run.record.targets.len());
    for target in &run.record.targets {
        let versions = versions(&run.record.environment, target);
        let name = target.to_string();
        let flags = flags(&run.record.environment, target);
        let judge = Judge {
            target,
            name: &name,
            expectations,
            versions: &versions,
            flags: &flags,
            has_baseline: baseline.is_some(),
        };
        for case in cases_on(run, &name) {
            let key = (name.as_str(), case.as_str());
            let was = before.as_ref().and_then(|outcomes| outcomes.get(&key));
            verdicts.push(judge.verdict(case, now.get(&key).copied(), was.map(|o| o.outcome)));
        }
    }
    let mut judgement = Judgement {
        verdicts,
        expectations: expectations.entries().to_vec(),
        unused: unused(run, expectations),
        ..Judgement::default()
    };
    if let Some(baseline) = baseline {
        judgement.compare_plans(run, baseline);
    }
    judgement
}

/// The compiler flags that the target ran with.
fn flags(environment: &Environment, target: &Target) -> Vec<String> {
    let plugin = environment.plugin(target);
    plugin.map_or_else(Vec::new, |plugin| {
        plugin.flags.iter().map(NamedValue::to_string).collect()
    })
}

type Index<'a> = HashMap<(&'a str, &'a str), &'a Outcome>;

fn index(run: &Run) -> Index<'_> {
    run.outcomes
        .iter()
        .map(|outcome| ((outcome.target.as_str(), outcome.case.as_str()), outcome))
        .collect()
}

/// The planned cases, and any that has an outcome on the target without having been planned; sorted.
fn cases_on<'a>(run: &'a Run, target: &str) -> Vec<&'a CaseId> {
    let mut cases: Vec<&CaseId> = run
        .outcomes
        .iter()
        .filter(|outcome| outcome.target == target)
        .map(|outcome| &outcome.case)
        .chain(&run.planned)
        .collect();
    cases.sort();
    cases.dedup();
    cases
}

struct Judge<'a> {
    target: &'a Target,
    name: &'a str,
    expectations: &'a Expectations,
    versions: &'a [(String, Version)],
    /// Of the compiler, `NAME=VALUE`.
    flags: &'a [String],
    has_baseline: bool,
}

/// What a rule decides.
struct Decision {
    kind: VerdictKind,
    expectation: Option<usize>,
    because: Option<String>,
}

impl Judge<'_> {
    fn verdict(
        &self,
        case: &CaseId,
        outcome: Option<&Outcome>,
        baseline: Option<OutcomeKind>,
    ) -> Verdict {
        let decision = match outcome {
            None => Decision {
                kind: VerdictKind::Missing,
                expectation: None,
                because: Some("planned, and without an outcome".to_owned()),
            },
            Some(outcome) => self.decide(case, outcome, baseline),
        };
        let entry = decision
            .expectation
            .map(|i| &self.expectations.entries()[i]);
        let reached = entry
            .and_then(|entry| entry.until.as_ref())
            .is_some_and(|until| until.reached(self.versions));
        Verdict {
            case: case.clone(),
            target: self.name.to_owned(),
            evidence: outcome.map_or(self.target.evidence(), |o| o.evidence),
            kind: decision.kind,
            outcome: outcome.map(|o| o.outcome),
            stage: outcome.map(|o| o.stage),
            message: outcome.and_then(|o| o.message.clone()),
            baseline,
            expectation: decision.expectation,
            because: decision.because,
            overdue: decision.kind == VerdictKind::Known && reached,
            attempts: outcome.map_or_else(Vec::new, |o| o.attempts.clone()),
            time_ms: outcome.and_then(time_ms),
            self_reference: outcome.is_some_and(|o| o.metrics.self_reference),
        }
    }

    fn decide(&self, case: &CaseId, outcome: &Outcome, baseline: Option<OutcomeKind>) -> Decision {
        let matching: Vec<usize> = self
            .expectations
            .matching(case, self.name, self.flags)
            .collect();
        let first = matching.first().copied();
        let plain = |kind| Decision {
            kind,
            expectation: None,
            because: None,
        };
        if outcome.outcome == OutcomeKind::Pass {
            let failed: Vec<OutcomeKind> = outcome
                .attempts
                .iter()
                .copied()
                .filter(|&attempt| attempt != OutcomeKind::Pass)
                .collect();
            if let Some(last) = failed.last() {
                return Decision {
                    kind: VerdictKind::Flaky,
                    expectation: first,
                    because: Some(format!(
                        "passed at attempt {}; the last failure was {last}",
                        outcome.attempts.len()
                    )),
                };
            }
            if let Some(index) = first {
                let entry = &self.expectations.entries()[index];
                return Decision {
                    kind: VerdictKind::Fixed,
                    expectation: first,
                    because: Some(format!(
                        "{} expects {}: remove the entry or narrow its globs",
                        entry.place(),
                        entry.outcome_words()
                    )),
                };
            }
        }
        if is_failure(outcome.outcome) {
            return self.decide_failure(outcome.outcome, &matching, baseline);
        }
        // It ran, and there was nothing sound to compare it with: that is no result, unless none can be had.
        if outcome.outcome == OutcomeKind::Skipped
            && outcome.stage == Stage::Compare
            && !is_known_unreferenced(self.expectations, case)
        {
            return Decision {
                kind: VerdictKind::Missing,
                expectation: None,
                because: Some("ran, and was compared with nothing".to_owned()),
            };
        }
        if outcome.outcome == OutcomeKind::Skipped && baseline == Some(OutcomeKind::Pass) {
            return Decision {
                kind: VerdictKind::NewlySkipped,
                expectation: None,
                because: Some("was pass in the baseline".to_owned()),
            };
        }
        if self.has_baseline && baseline.is_none() {
            return plain(VerdictKind::New);
        }
        plain(VerdictKind::Ok)
    }

    fn decide_failure(
        &self,
        outcome: OutcomeKind,
        matching: &[usize],
        baseline: Option<OutcomeKind>,
    ) -> Decision {
        let entries = self.expectations.entries();
        let expected = matching.iter().find(|&&i| entries[i].expects(outcome));
        if let Some(&index) = expected {
            return Decision {
                kind: VerdictKind::Known,
                expectation: Some(index),
                because: None,
            };
        }
        let contradicted = matching.first().copied();
        if contradicted.is_none() && baseline == Some(outcome) {
            return Decision {
                kind: VerdictKind::Known,
                expectation: None,
                because: Some("fails in the same way in the baseline; no expectation".to_owned()),
            };
        }
        let mut because = Vec::new();
        if let Some(index) = contradicted {
            let entry = &entries[index];
            because.push(format!(
                "{} expects {}, not {outcome}",
                entry.place(),
                entry.outcome_words()
            ));
        }
        match baseline {
            Some(was) if was != outcome => because.push(format!("was {was} in the baseline")),
            Some(_) => because.push("fails in the same way in the baseline".to_owned()),
            None if self.has_baseline => because.push("not in the baseline".to_owned()),
            None => {}
        }
        Decision {
            kind: if baseline == Some(OutcomeKind::Pass) {
                VerdictKind::Regressed
            } else {
                VerdictKind::NewFailure
            },
            expectation: contradicted,
            because: (!because.is_empty()).then(|| because.join("; ")),
        }
    }
}

fn time_ms(outcome: &Outcome) -> Option<f64> {
    let metrics = &outcome.metrics;
    [
        metrics.compile_ms,
        metrics.passes_ms,
        metrics.cpu_compile_ms,
        metrics.run_ms,
    ]
    .into_iter()
    .flatten()
    .reduce(|sum, ms| sum + ms)
}

/// Any outcome but `pass` and `skipped`.
pub fn is_failure(outcome: OutcomeKind) -> bool {
    !matches!(outcome, OutcomeKind::Pass | OutcomeKind::Skipped)
}

impl Judgement {
    fn compare_plans(&mut self, run: &Run, baseline: &Run) {
        self.baseline = Some(baseline.record.id.clone());
        let has = |target| run.record.targets.contains(target);
        self.shares_no_target = !baseline.record.targets.iter().any(has);
        for target in &baseline.record.targets {
            let name = target.to_string();
            if !run.record.targets.contains(target) {
                self.removed_targets.push(name);
                continue;
            }
            let planned = cases_on(run, &name);
            for case in cases_on(baseline, &name) {
                if planned.binary_search(&case).is_err() {
                    self.unplanned.push((name.clone(), case.clone()));
                }
            }
        }
    }

    /// Tells what was planned for and is still in the suites from what is gone.
    pub fn know_suites(&mut self, suites: &[CaseId]) {
        let there: HashSet<&CaseId> = suites.iter().collect();
        let (unplanned, removed) = std::mem::take(&mut self.unplanned)
            .into_iter()
            .partition(|(_, case)| there.contains(case));
        self.unplanned = unplanned;
        self.removed.extend::<Vec<_>>(removed);
    }

    /// The targets on which every case is skipped: they show nothing, whatever their figures say.
    pub fn nothing_ran(&self) -> impl Iterator<Item = Section<'_>> {
        self.sections()
            .into_iter()
            .filter(|section| section.verdicts.iter().all(|v| v.is_skipped()))
    }

    pub fn of(&self, kind: VerdictKind) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(move |v| v.kind == kind)
    }

    pub fn expectation(&self, verdict: &Verdict) -> Option<&Expectation> {
        verdict.expectation.map(|index| &self.expectations[index])
    }

    /// The verdicts by target and evidence, in the order of targets: what may be counted together.
    pub fn sections(&self) -> Vec<Section<'_>> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        for verdict in &self.verdicts {
            let same =
                |s: &&mut Section<'_>| s.target == verdict.target && s.evidence == verdict.evidence;
            match sections.iter_mut().rev().find(same) {
                Some(section) => section.verdicts.push(verdict),
                None => sections.push(Section {
                    target: &verdict.target,
                    evidence: verdict.evidence,
                    verdicts: vec![verdict],
                }),
            }
        }
        sections
    }
}

/// The versions that an `until` may name on a target: its own plug-in's, under the name of its package, those of what executes
/// in its place, and those of packages that are no plug-in of the run.
///
/// A pin of an older version bears it in its name (`libtpu-0.0.24`): its package is `libtpu`.
fn versions(environment: &Environment, target: &Target) -> Vec<(String, Version)> {
    let names = |plugin: &PluginRecord| {
        let executor = plugin.executor.as_ref();
        [plugin.name.clone(), executor.and_then(|e| e.name.clone())]
    };
    let of = |plugins: &mut dyn Iterator<Item = &PluginRecord>| -> Vec<String> {
        plugins.flat_map(names).flatten().collect()
    };
    let own = of(&mut environment.plugin(target).into_iter());
    let plugins = of(&mut environment.plugins.iter());
    let mut versions = Vec::new();
    for (name, text) in &environment.packages {
        let Ok(version) = text.parse() else { continue };
        if own.contains(name) {
            let suffix = format!("-{text}");
            let package = name.strip_suffix(suffix.as_str()).unwrap_or(name);
            versions.push((package.to_owned(), version));
        } else if !plugins.contains(name) {
            versions.push((name.clone(), version));
        }
    }
    versions
}

fn unused(run: &Run, expectations: &Expectations) -> Vec<usize> {
    let mut unused = expectations.unused(&run.planned);
    unused.retain(|&index| selected_all(&run.record, &expectations.entries()[index].cases));
    unused
}

/// Whether a run selected every case that `glob` could match, as far as the globs show it.
fn selected_all(record: &RunRecord, glob: &str) -> bool {
    if !record.exclude.is_empty() || record.shard.is_some() {
        return false;
    }
    record.select.is_empty()
        || record.select.iter().any(|select| {
            select == "**"
                || select.strip_suffix("**").is_some_and(|prefix| {
                    prefix.ends_with('/')
                        && !prefix.contains(['*', '?', '[', '{'])
                        && glob.starts_with(prefix)
                })
        })
}

impl Verdict {
    pub fn is_skipped(&self) -> bool {
        self.outcome == Some(OutcomeKind::Skipped)
    }
}

#[cfg(test)]
mod tests;
