//! What became of each case on each target, from a published report (`reports/latest/report.json`).
//!
//! A report names the cases that did not pass and counts the rest. So an outcome is known where the report has as many cases
//! of a subject as the suites have, and unknown where the subject's cases have changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::case::CaseId;

#[derive(Debug, Default)]
pub struct Outcomes {
    /// Id of the run; empty without a report.
    pub run: String,
    pub targets: Vec<TargetOutcomes>,
}

#[derive(Debug)]
pub struct TargetOutcomes {
    pub target: String,
    pub evidence: String,
    /// (suite, subject) → number of cases.
    counts: BTreeMap<(String, String), usize>,
    not_passed: BTreeSet<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OutcomesError {
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is no report of this tool: {source}", path.display())]
    Malformed {
        path: PathBuf,
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Report {
    run: Run,
    targets: Vec<Target>,
    verdicts: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Run {
    id: String,
}

#[derive(Deserialize)]
struct Target {
    target: String,
    evidence: String,
    skipped: Vec<Group>,
    subjects: Vec<Subject>,
}

#[derive(Deserialize)]
struct Group {
    cases: Vec<String>,
}

#[derive(Deserialize)]
struct Subject {
    suite: String,
    subject: String,
    totals: Totals,
}

#[derive(Deserialize)]
struct Totals {
    cases: usize,
}

/// An entry of the report's verdicts: of one case, or of several.
#[derive(Deserialize)]
struct Entry {
    target: String,
    case: Option<String>,
    #[serde(default)]
    cases: Vec<String>,
    outcome: Option<String>,
}

impl Outcomes {
    /// # Errors
    /// When the file cannot be read or is no report.
    pub fn load(path: &Path) -> Result<Self, OutcomesError> {
        let text = std::fs::read_to_string(path).map_err(|source| OutcomesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|source| OutcomesError::Malformed {
            path: path.to_owned(),
            source,
        })
    }

    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let report: Report = serde_json::from_str(text)?;
        let mut entries: Vec<Entry> = Vec::new();
        for (kind, value) in report.verdicts {
            if kind != "unused_expectations" {
                entries.extend(serde_json::from_value::<Vec<Entry>>(value)?);
            }
        }
        let targets = report.targets.into_iter().map(|target| {
            let mut not_passed: BTreeSet<String> = target
                .skipped
                .into_iter()
                .flat_map(|group| group.cases)
                .collect();
            // An entry of `fixed` passes; one of `missing` has no outcome, and does not.
            for entry in entries.iter().filter(|entry| entry.target == target.target) {
                not_passed.extend(entry.cases.iter().cloned());
                if entry.outcome.as_deref() != Some("pass") {
                    not_passed.extend(entry.case.clone());
                }
            }
            let counts = target
                .subjects
                .into_iter()
                .map(|subject| ((subject.suite, subject.subject), subject.totals.cases));
            TargetOutcomes {
                target: target.target,
                evidence: target.evidence,
                counts: counts.collect(),
                not_passed,
            }
        });
        Ok(Self {
            run: report.run.id,
            targets: targets.collect(),
        })
    }
}

impl TargetOutcomes {
    /// Whether the case passed; none where the subject's cases, `now` in number, are not those of the report.
    pub fn passed(&self, case: &CaseId, now: usize) -> Option<bool> {
        let subject = (case.suite().to_owned(), case.subject().to_owned());
        (self.counts.get(&subject) == Some(&now)).then(|| !self.not_passed.contains(case.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"run": {"id": "r1"}, "other": 1,
      "targets": [{"target": "cpu", "evidence": "hardware", "skipped": [{"reason": "none", "cases": ["s/add/f32/c"]}],
        "subjects": [{"suite": "s", "subject": "add", "totals": {"cases": 4, "pass": 2}}]}],
      "verdicts": {"unused_expectations": ["a.toml:1"], "fixed": [{"target": "cpu", "case": "s/add/f32/a", "outcome": "pass"}],
        "known": [{"target": "cpu", "expectation": "a.toml:3", "outcomes": ["fail"], "cases": ["s/add/f32/b"]},
                  {"target": "vtpu-v6e", "cases": ["s/add/f32/d"]}]}}"#;

    #[test]
    fn what_a_report_does_not_name_has_passed() {
        let outcomes = Outcomes::parse(REPORT).unwrap();
        assert_eq!(outcomes.run, "r1");
        let cpu = &outcomes.targets[0];
        let passed = |id: &str, now| cpu.passed(&id.parse().unwrap(), now);
        assert_eq!(passed("s/add/f32/a", 4), Some(true));
        assert_eq!(passed("s/add/f32/b", 4), Some(false));
        assert_eq!(passed("s/add/f32/c", 4), Some(false));
        assert_eq!(passed("s/add/f32/d", 4), Some(true));
    }

    #[test]
    fn cases_that_came_or_went_since_leave_it_unknown() {
        let outcomes = Outcomes::parse(REPORT).unwrap();
        let cpu = &outcomes.targets[0];
        assert_eq!(cpu.passed(&"s/add/f32/a".parse().unwrap(), 5), None);
        assert_eq!(cpu.passed(&"s/mul/f32/a".parse().unwrap(), 1), None);
    }
}
