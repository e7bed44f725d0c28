//! What each issue costs: the cases that it blocks, from the expectations and the verdicts of a run, and the headline.

use std::collections::BTreeMap;

use serde::Serialize;

use super::issues::IssueCounts;
use super::{Expectation, Issue, IssueLedger, IssueState, Judgement, Totals, Verdict, VerdictKind};
use crate::case::CaseId;
use crate::outcome::Evidence;

pub const SCHEMA: &str = "tpu-parity/issues/1";

#[derive(Debug, Clone, Serialize)]
pub struct IssueStatus {
    pub schema: &'static str,
    /// The run whose outcomes are counted, if there is one.
    pub run: Option<String>,
    pub counts: IssueCounts,
    /// One per target: figures of different evidence are never added up.
    pub headlines: Vec<Headline>,
    /// Those that block most cases first.
    pub issues: Vec<Impact>,
    /// Expectations that name no issue.
    pub untracked: Vec<Untracked>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Headline {
    pub target: String,
    pub evidence: Evidence,
    pub tests: usize,
    pub pass_rate: Option<f64>,
    pub text: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Impact {
    #[serde(flatten)]
    pub issue: Issue,
    pub url: String,
    pub blocks: Vec<Blocked>,
    /// Cases that an expectation with this issue names, and that pass.
    pub passing: usize,
    /// The issue is fixed, and cases that name it still fail.
    pub fixed_upstream_still_failing: bool,
    /// Where the expectations stand that name it, as `aot.toml:12`.
    pub expectations: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Untracked {
    pub expectation: String,
    pub cases: String,
    pub targets: String,
    pub reason: String,
    pub blocks: Vec<Blocked>,
}

/// The known failures on one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    pub target: String,
    pub evidence: Evidence,
    pub cases: Vec<CaseId>,
}

/// What is known of a failure whose issue is said to be fixed.
pub const STILL_FAILING: &str = "fixed upstream, still failing here";

/// `run` is the judgement of a run and the run's id; without one the ledger alone is shown.
pub fn issue_status(
    run: Option<(&str, &Judgement)>,
    expectations: &[Expectation],
    ledger: &IssueLedger,
) -> IssueStatus {
    let verdicts = run.map_or(&[][..], |(_, judgement)| &judgement.verdicts);
    let mut issues: Vec<Impact> = ledger
        .iter()
        .map(|issue| impact(issue, verdicts, expectations))
        .collect();
    issues.sort_by_key(|impact| std::cmp::Reverse(impact.blocked()));
    let untracked = expectations
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.issue.is_none())
        .map(|(index, entry)| Untracked {
            expectation: entry.place(),
            cases: entry.cases.clone(),
            targets: entry.targets.clone(),
            reason: entry.reason.clone(),
            blocks: blocked(verdicts, |i| i == index),
        })
        .collect();
    IssueStatus {
        schema: SCHEMA,
        run: run.map(|(id, _)| id.to_owned()),
        counts: ledger.counts(),
        headlines: run.map_or_else(Vec::new, |(_, judgement)| headlines(judgement, ledger)),
        issues,
        untracked,
    }
}

fn impact(issue: &Issue, verdicts: &[Verdict], expectations: &[Expectation]) -> Impact {
    let names = |index: usize| expectations[index].issue.as_ref() == Some(&issue.id);
    let blocks = blocked(verdicts, names);
    let passing = verdicts
        .iter()
        .filter(|v| v.kind == VerdictKind::Fixed && v.expectation.is_some_and(names))
        .count();
    Impact {
        url: issue.url(),
        passing,
        fixed_upstream_still_failing: issue.state == IssueState::Fixed && !blocks.is_empty(),
        blocks,
        expectations: expectations
            .iter()
            .filter(|entry| entry.issue.as_ref() == Some(&issue.id))
            .map(Expectation::place)
            .collect(),
        issue: issue.clone(),
    }
}

/// The known failures whose expectation is one of `chosen`, by target.
pub fn blocked(verdicts: &[Verdict], chosen: impl Fn(usize) -> bool) -> Vec<Blocked> {
    let mut by_target: BTreeMap<(&str, Evidence), Blocked> = BTreeMap::new();
    for verdict in verdicts {
        if verdict.kind == VerdictKind::Known && verdict.expectation.is_some_and(&chosen) {
            by_target
                .entry((&verdict.target, verdict.evidence))
                .or_insert_with(|| Blocked {
                    target: verdict.target.clone(),
                    evidence: verdict.evidence,
                    cases: Vec::new(),
                })
                .cases
                .push(verdict.case.clone());
        }
    }
    by_target.into_values().collect()
}

/// "aot-v6e — evidence: compile: 96.5% of the 1,512 tests that run pass; 34 issues reported, 19 fixed", a target a line.
/// Tests that run are the cases not skipped; the issues are those of the whole ledger.
pub fn headlines(judgement: &Judgement, ledger: &IssueLedger) -> Vec<Headline> {
    let counts = ledger.counts();
    judgement
        .sections()
        .into_iter()
        .map(|section| {
            let totals = Totals::of(section.verdicts);
            Headline {
                target: section.target.to_owned(),
                evidence: section.evidence,
                tests: totals.tests(),
                pass_rate: totals.pass_rate(),
                text: format!(
                    "{}; {} issues reported, {} fixed",
                    totals.sentence(),
                    counts.reported,
                    counts.fixed
                ),
            }
        })
        .collect()
}

impl Impact {
    /// Known failures over all targets: an order of importance, not a figure to publish.
    fn blocked(&self) -> usize {
        self.blocks.iter().map(|blocked| blocked.cases.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeKind::{Error, Pass};
    use crate::track::fixtures::{expect, expectations, ledger, outcome, run};
    use crate::track::judge;

    #[test]
    fn issues_show_what_they_block_and_the_headline_counts_the_run() {
        let all = expectations(
            &(expect("s/a/**", "error", "issue = \"openxla/xla#7\"")
                + &expect("s/b/**", "error", "issue = \"openxla/xla#8\"")
                + &expect("s/c/**", "error", "")),
        );
        let cases = ["s/a/x", "s/a/y", "s/b/x", "s/c/x", "s/d/x"];
        let mut run = run("r", &["cpu", "aot-v6e"], &cases);
        for case in cases {
            outcome(&mut run, "cpu", case, Pass);
            let kind = if case == "s/d/x" { Pass } else { Error };
            outcome(&mut run, "aot-v6e", case, kind);
        }
        let judgement = judge(&run, &all, None);
        let status = issue_status(Some(("r", &judgement)), all.entries(), &ledger());
        let texts: Vec<String> = status
            .headlines
            .iter()
            .map(|h| format!("{} {}: {}", h.target, h.evidence, h.text))
            .collect();
        assert_eq!(
            texts,
            [
                "cpu hardware: 100.0% of the 5 tests that run pass; 2 issues reported, 1 fixed",
                "aot-v6e compile: 20.0% of the 5 tests that run pass; 2 issues reported, 1 fixed",
            ]
        );
        let [open, fixed] = &status.issues[..] else {
            panic!("two issues");
        };
        assert_eq!(open.issue.id.number, 7);
        assert_eq!(open.blocks.len(), 1);
        assert_eq!(open.blocks[0].cases.len(), 2);
        assert_eq!(open.passing, 2);
        assert!(!open.fixed_upstream_still_failing && fixed.fixed_upstream_still_failing);
        assert_eq!(status.untracked.len(), 1);
        assert_eq!(status.untracked[0].blocks[0].cases.len(), 1);
    }

    #[test]
    fn without_a_run_the_ledger_is_shown_alone() {
        let status = issue_status(None, &[], &ledger());
        assert_eq!((status.counts.reported, status.headlines.len()), (2, 0));
        assert!(status.issues.iter().all(|impact| impact.blocks.is_empty()));
    }
}
