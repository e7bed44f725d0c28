//! What the failing cases of one operator have in common that its passing ones do not: they are the larger ones, or all of one
//! element type, precision or variant.
//!
//! Wrong numbers alone count, since their causes show in the data; what does not compile or run has its reason in its message.

use std::collections::BTreeMap;
use std::fmt;

use crate::case::CaseId;
use crate::outcome::{Outcome, OutcomeKind};

/// A pattern is told only if so many failures, dealt out at random among the cases, would show it less often than this.
const CHANCE: f64 = 0.01;

/// What failing cases share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Common {
    /// All have more elements in their results than every case that passes.
    Larger {
        smallest_failing: u64,
        largest_passing: u64,
    },
    /// All have this part in their id, and no case that passes does.
    Part(String),
}

/// The failures of one operator on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern<'a> {
    pub target: &'a str,
    pub suite: &'a str,
    pub subject: &'a str,
    pub common: Common,
    pub failing: Vec<&'a CaseId>,
    pub passing: usize,
}

impl fmt::Display for Pattern<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (suite, subject) = (self.suite, self.subject);
        let (failing, passing) = (self.failing.len(), self.passing);
        match &self.common {
            Common::Larger {
                smallest_failing,
                largest_passing,
            } => write!(
                f,
                "{suite}/{subject} is wrong only above a size: {failing} cases from {smallest_failing} elements on fail, \
                 {passing} of up to {largest_passing} pass"
            ),
            Common::Part(part) => write!(
                f,
                "{suite}/{subject} is wrong in {part} alone: {failing} cases fail, and the {passing} others pass"
            ),
        }
    }
}

/// The patterns of a run, by target, suite and subject.
pub fn patterns(outcomes: &[Outcome]) -> Vec<Pattern<'_>> {
    let mut groups: BTreeMap<(&str, &str, &str), [Vec<&Outcome>; 2]> = BTreeMap::new();
    for outcome in outcomes {
        let side = match outcome.outcome {
            OutcomeKind::Fail => 0,
            OutcomeKind::Pass => 1,
            _ => continue,
        };
        let key = (
            outcome.target.as_str(),
            outcome.case.suite(),
            outcome.case.subject(),
        );
        groups.entry(key).or_default()[side].push(outcome);
    }
    groups
        .into_iter()
        .filter_map(|((target, suite, subject), [failing, passing])| {
            if coincidence(failing.len(), passing.len()) > CHANCE {
                return None;
            }
            let common = part(&failing, &passing).or_else(|| larger(&failing, &passing))?;
            Some(Pattern {
                target,
                suite,
                subject,
                common,
                failing: failing.iter().map(|outcome| &outcome.case).collect(),
                passing: passing.len(),
            })
        })
        .collect()
}

/// The chance that those which fail are a given choice of the cases: one over the number of choices.
fn coincidence(failing: usize, passing: usize) -> f64 {
    (1..=failing).fold(1.0, |chance, k| chance * k as f64 / (passing + k) as f64)
}

fn larger(failing: &[&Outcome], passing: &[&Outcome]) -> Option<Common> {
    let size = |outcome: &&Outcome| -> Option<u64> {
        let comparisons = &outcome.metrics.comparisons;
        (!comparisons.is_empty()).then(|| comparisons.iter().map(|c| c.elements).sum())
    };
    let sizes = |outcomes: &[&Outcome]| outcomes.iter().map(size).collect::<Option<Vec<u64>>>();
    let smallest_failing = sizes(failing)?.into_iter().min()?;
    let largest_passing = sizes(passing)?.into_iter().max()?;
    (smallest_failing > largest_passing).then_some(Common::Larger {
        smallest_failing,
        largest_passing,
    })
}

fn part(failing: &[&Outcome], passing: &[&Outcome]) -> Option<Common> {
    let parts = |outcome: &&Outcome| {
        outcome
            .case
            .as_str()
            .split('/')
            .skip(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let first = parts(failing.first()?);
    first.into_iter().enumerate().find_map(|(place, part)| {
        let has = |outcome: &&Outcome| parts(outcome).get(place) == Some(&part);
        (failing.iter().all(has) && !passing.iter().any(has)).then_some(Common::Part(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Comparison;
    use crate::track::fixtures::{outcome, run};

    fn patterns_of(cases: &[(&str, u64, bool)]) -> Vec<Common> {
        let ids: Vec<&str> = cases.iter().map(|(id, ..)| *id).collect();
        let mut run = run("r", &["cpu"], &ids);
        for (id, elements, passes) in cases {
            let kind = if *passes {
                OutcomeKind::Pass
            } else {
                OutcomeKind::Fail
            };
            outcome(&mut run, "cpu", id, kind);
            let comparison = Comparison {
                elements: *elements,
                mismatches: u64::from(!*passes),
                first_mismatch: None,
                max_abs: 0.0,
                max_rel: 0.0,
                max_ulp: 0.0,
                relative_l2: 0.0,
                cosine: 1.0,
                explanation: None,
                times_cpu: None,
                predictions: None,
            };
            run.outcomes.last_mut().unwrap().metrics.comparisons = vec![comparison];
        }
        patterns(&run.outcomes)
            .into_iter()
            .map(|pattern| pattern.common)
            .collect()
    }

    #[test]
    fn failures_above_a_size_alone_are_told() {
        let mut cases: Vec<(String, u64, bool)> = (1..=14)
            .map(|n| (format!("s/sort/f32/n{n}"), n, true))
            .collect();
        cases.push(("s/sort/f32/large".to_owned(), 128, false));
        cases.push(("s/sort/bf16/huge".to_owned(), 4096, false));
        let cases: Vec<_> = cases
            .iter()
            .map(|(id, n, ok)| (id.as_str(), *n, *ok))
            .collect();
        let larger = Common::Larger {
            smallest_failing: 128,
            largest_passing: 14,
        };
        assert_eq!(patterns_of(&cases), [larger]);
        // One large case that passes, and there is no such pattern.
        let mut mixed = cases;
        mixed.push(("s/sort/f32/larger", 8192, true));
        assert_eq!(patterns_of(&mixed), []);
    }

    #[test]
    fn failures_of_one_type_alone_are_told() {
        let ids: Vec<String> = ["f32", "f16", "i8", "u8", "c64"]
            .iter()
            .flat_map(|t| ["a", "b", "c"].map(|variant| format!("s/dot/{t}/{variant}")))
            .collect();
        let cases: Vec<_> = ids
            .iter()
            .map(|id| (id.as_str(), 8, !id.contains("f16")))
            .collect();
        assert_eq!(patterns_of(&cases), [Common::Part("f16".to_owned())]);
    }

    /// Three of three, or one of fifty, may be chance.
    #[test]
    fn too_few_cases_tell_nothing() {
        assert_eq!(
            patterns_of(&[("s/a/f32/x", 9, false), ("s/a/f16/x", 1, true)]),
            []
        );
        assert_eq!(coincidence(1, 49), 0.02);
        assert!((coincidence(2, 14) - 1.0 / 120.0).abs() < 1e-15);
    }
}
