//! The gate: whether a run may pass, judged through its expectations and a baseline, and a short list of what got worse.
//!
//! Unexpected, and so a failed gate: `regressed`, `new-failure`, `missing`, and a target on which nothing ran. A strict gate
//! also holds the expectations to what the run showed: `fixed`, and known failures whose `until` is reached, fail it; and the
//! run to what the baseline showed: `newly-skipped`, cases that are in the suites and were not planned, and targets that the
//! run has not, fail it. Everything else is a note.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use crate::case::CaseId;
use crate::outcome::OutcomeKind;
use crate::report::escape;
use crate::track::impact::STILL_FAILING;
use crate::track::{
    Expectation, IssueLedger, IssueState, Judgement, Verdict, VerdictKind, cases, thousands,
};

/// Lines shown of each kind; the rest is counted.
const SHOWN: usize = 20;

#[derive(Debug, Clone)]
pub struct Gate {
    /// The run's id.
    pub run: String,
    pub baseline: Option<String>,
    pub strict: bool,
    /// What fails the gate, the worst kind first.
    pub unexpected: Vec<Verdict>,
    /// What fails the gate and is no single case's verdict: a line each.
    pub gaps: Vec<String>,
    /// What does not, and should be known.
    pub notes: Vec<String>,
}

impl Gate {
    pub fn new(run: &str, judgement: &Judgement, ledger: &IssueLedger, strict: bool) -> Self {
        let mut unexpected: Vec<Verdict> = judgement
            .verdicts
            .iter()
            .filter(|v| v.kind.is_unexpected(strict) || (strict && v.overdue))
            .cloned()
            .collect();
        unexpected.sort_by_key(|verdict| verdict.kind);
        Self {
            run: run.to_owned(),
            baseline: judgement.baseline.clone(),
            strict,
            unexpected,
            gaps: gaps(judgement, strict),
            notes: notes(judgement, ledger, strict),
        }
    }

    pub fn passed(&self) -> bool {
        self.unexpected.is_empty() && self.gaps.is_empty()
    }

    /// For a terminal or a log; one line an item.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for kind in VerdictKind::ALL {
            let of_kind: Vec<&Verdict> =
                self.unexpected.iter().filter(|v| v.kind == kind).collect();
            if of_kind.is_empty() {
                continue;
            }
            let heading = if kind == VerdictKind::Known {
                "known, and past their 'until'"
            } else {
                kind.as_str()
            };
            writeln!(text, "{heading} ({}):", thousands(of_kind.len())).ok();
            let groups = alike(&of_kind);
            for group in groups.iter().take(SHOWN) {
                writeln!(text, "  {}", line(group)).ok();
            }
            if groups.len() > SHOWN {
                let rest = groups[SHOWN..].iter().map(Vec::len).sum();
                writeln!(text, "  and {} more", cases(rest)).ok();
            }
        }
        if !self.gaps.is_empty() {
            writeln!(text, "not covered ({}):", thousands(self.gaps.len())).ok();
        }
        for gap in &self.gaps {
            writeln!(text, "  {}", escape::line(gap)).ok();
        }
        for note in &self.notes {
            writeln!(text, "note: {}", escape::line(note)).ok();
        }
        let against = match &self.baseline {
            Some(baseline) => format!("against {baseline}"),
            None => "without a baseline".to_owned(),
        };
        let strict = if self.strict { "strict gate" } else { "gate" };
        let run = &self.run;
        match self.unexpected.len() + self.gaps.len() {
            0 => writeln!(
                text,
                "{strict} passed: run {run} {against}: nothing unexpected"
            ),
            n => writeln!(
                text,
                "{strict} FAILED: run {run} {against}: {} unexpected",
                thousands(n)
            ),
        }
        .ok();
        text
    }
}

/// Verdicts that differ in their case alone, together; in the order of their first.
fn alike<'a>(verdicts: &[&'a Verdict]) -> Vec<Vec<&'a Verdict>> {
    let mut groups: Vec<Vec<&Verdict>> = Vec::new();
    let mut places = HashMap::new();
    for &verdict in verdicts {
        let key = (
            &verdict.target,
            verdict.evidence,
            verdict.outcome,
            verdict.stage,
            &verdict.because,
            &verdict.message,
        );
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(verdict),
            None => groups.push(vec![verdict]),
        }
    }
    groups
}

/// One line for verdicts that are alike.
fn line(group: &[&Verdict]) -> String {
    let verdict = group[0];
    let more = match group.len() - 1 {
        0 => String::new(),
        n => format!(" and {} more", thousands(n)),
    };
    let mut text = format!(
        "{}{more} [{}] on {} (evidence: {})",
        verdict.case,
        verdict.outcome.map_or("no outcome", OutcomeKind::as_str),
        verdict.target,
        verdict.evidence
    );
    if let Some(stage) = verdict.stage {
        write!(text, " at {stage}").ok();
    }
    let reasons = [verdict.because.as_deref(), verdict.message.as_deref()];
    for reason in reasons.into_iter().flatten() {
        write!(text, ": {reason}").ok();
    }
    escape::shorten(&escape::line(&text), 300)
}

/// What of the targets and cases is not covered, and must be.
fn gaps(judgement: &Judgement, strict: bool) -> Vec<String> {
    let mut gaps: Vec<String> = judgement
        .nothing_ran()
        .map(|section| {
            let why = section.verdicts.iter().find_map(|v| v.message.as_deref());
            let why = escape::shorten(&escape::line(why.unwrap_or("no reason given")), 200);
            format!(
                "nothing ran on {} (evidence: {}): all of its {} are skipped: {why}",
                section.target,
                section.evidence,
                cases(section.verdicts.len())
            )
        })
        .collect();
    if strict {
        gaps.extend(uncovered(judgement));
        gaps.extend(unused(judgement));
    } else if judgement.shares_no_target {
        gaps.push("this run has no target of the baseline: nothing was compared".to_owned());
    }
    gaps
}

/// What the baseline covers, the suites still have, and the run leaves out.
fn uncovered(judgement: &Judgement) -> Vec<String> {
    let mut lines: Vec<String> = judgement
        .removed_targets
        .iter()
        .map(|target| format!("target {target} of the baseline is not in this run"))
        .collect();
    let mut by_target: BTreeMap<&str, Vec<&CaseId>> = BTreeMap::new();
    for (target, case) in &judgement.unplanned {
        by_target.entry(target).or_default().push(case);
    }
    lines.extend(by_target.into_iter().map(|(target, missing)| {
        let more = match missing.len() - 1 {
            0 => String::new(),
            n => format!(" and {} more", thousands(n)),
        };
        format!(
            "{}{more} of the baseline not planned on {target}, and still in the suites",
            missing[0]
        )
    }));
    lines
}

fn notes(judgement: &Judgement, ledger: &IssueLedger, strict: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |what: &dyn Fn(&&Verdict) -> bool| judgement.verdicts.iter().filter(what).count();
    let mut note = |n: usize, text: &str| {
        if n > 0 {
            notes.push(format!("{} {text}", cases(n)));
        }
    };
    if !strict {
        note(
            count(&|v| v.kind == VerdictKind::Fixed),
            "passed against an expectation (fixed): remove the entry; --strict fails on it",
        );
    }
    note(
        count(&|v| v.kind == VerdictKind::Flaky),
        "passed only at a later attempt (flaky)",
    );
    note(
        count(&|v| v.kind == VerdictKind::Known && v.expectation.is_none()),
        "failed as in the baseline, without an expectation (untracked)",
    );
    if !strict {
        note(
            count(&|v| v.kind == VerdictKind::NewlySkipped),
            "skipped here, passed in the baseline (newly-skipped); --strict fails on it",
        );
    }
    note(
        judgement.removed.len(),
        "of the baseline no longer in the suites",
    );
    if !strict {
        notes.extend(
            uncovered(judgement)
                .into_iter()
                .map(|line| format!("{line}; --strict fails on it")),
        );
        notes.extend(entries(judgement, |v| v.overdue).map(|entry| {
            let until = entry
                .until
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            format!(
                "{}: `until` {until} is reached, and its cases still fail: {}",
                entry.place(),
                entry.reason
            )
        }));
    }
    notes.extend(still_failing(judgement, ledger).map(|entry| {
        let issue = entry
            .issue
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("{}: {issue} is {STILL_FAILING}", entry.place())
    }));
    if !strict {
        notes.extend(unused(judgement).map(|line| format!("{line}; --strict fails on it")));
    }
    notes
}

/// The expectations whose globs match no case of the suites.
fn unused(judgement: &Judgement) -> impl Iterator<Item = String> {
    judgement.unused.iter().map(|&index| {
        let entry = &judgement.expectations[index];
        format!(
            "{}: unused: `{}` matches no case; correct its glob or remove it",
            entry.place(),
            entry.cases
        )
    })
}

/// The expectations of the known failures that `chosen` chooses, each once, in order.
fn entries(
    judgement: &Judgement,
    chosen: impl Fn(&Verdict) -> bool,
) -> impl Iterator<Item = &Expectation> {
    let indices: BTreeSet<usize> = judgement
        .of(VerdictKind::Known)
        .filter(|verdict| chosen(verdict))
        .filter_map(|verdict| verdict.expectation)
        .collect();
    indices
        .into_iter()
        .map(|index| &judgement.expectations[index])
}

/// The expectations whose issue is fixed and whose cases fail.
pub fn still_failing<'a>(
    judgement: &'a Judgement,
    ledger: &'a IssueLedger,
) -> impl Iterator<Item = &'a Expectation> {
    entries(judgement, |_| true).filter(|entry| {
        let issue = entry.issue.as_ref().and_then(|id| ledger.get(id));
        issue.is_some_and(|issue| issue.state == IssueState::Fixed)
    })
}

#[cfg(test)]
mod tests;
