//! Which operators of the specification the suites cover, for which element types.
//!
//! `suites/specification.toml` lists the operators and what their constraints allow; the suites' programs say what they use.
//! Where the two part ways without a written reason, that is a [`Problem`]. Nothing here runs a program: outcomes come from a
//! published report, and only for the table.

mod outcomes;
mod render;
mod specification;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use globset::GlobMatcher;

use crate::case::{Case, CaseId};
use crate::suite::Suites;

pub use outcomes::{Outcomes, OutcomesError};
pub use render::{outline, render};
pub use specification::{
    Beyond, Corner, Kind, Operator, Place, Specification, SpecificationError, Uncovered, Value,
};
pub use uses::{Uses, uses};

/// The suites held against the specification.
#[derive(Debug)]
pub struct Coverage<'a> {
    pub specification: &'a Specification,
    /// In the order of the list.
    pub rows: Vec<Row<'a>>,
    /// Of each corner, the cases that show it.
    pub corners: Vec<(&'a Corner, Vec<&'a CaseId>)>,
    /// Programs that must be refused, by operator.
    pub refused: BTreeMap<&'a str, usize>,
    pub problems: Vec<Problem>,
}

/// One operator; of those with several values that have a type of their own, one of these.
#[derive(Debug)]
pub struct Row<'a> {
    pub operator: &'a Operator,
    /// None of an operator that takes and gives nothing but tokens.
    pub value: Option<&'a Value>,
    /// All cases of the operator.
    pub cases: Vec<&'a CaseId>,
    pub cells: BTreeMap<Kind, Cell<'a>>,
}

/// An operator and an element type that its constraints allow.
#[derive(Debug)]
pub enum Cell<'a> {
    Cases(Vec<&'a CaseId>),
    /// The index of the entry that says why.
    Uncovered(usize),
    /// Neither a case nor a reason.
    Missing,
}

/// Where the list and the suites part ways.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error(
        "{operator} on {kinds} has no case: add one, or an [[uncovered]] entry with the reason"
    )]
    NoCase { operator: String, kinds: String },
    #[error(
        "{case}: '{subject}' is no operator of the list: add it there, or a [[beyond]] entry with the reason"
    )]
    NoOperator { case: CaseId, subject: String },
    #[error(
        "{case}: {operator} does not take {kind}: the constraints do not allow it; add a [[beyond]] entry with the reason"
    )]
    NotAllowed {
        case: CaseId,
        operator: String,
        kind: Kind,
    },
    #[error("{case}: its program does not use {operator}")]
    Unused { case: CaseId, operator: String },
    #[error("entry {index} of [[{list}]] ({what}) fits nothing: take it out")]
    Idle {
        list: &'static str,
        index: usize,
        what: String,
    },
    #[error("the corner '{what}' of {source_section} has no case that {glob} names")]
    NoCorner {
        what: String,
        source_section: String,
        glob: String,
    },
}

impl<'a> Coverage<'a> {
    pub fn new(specification: &'a Specification, suites: &'a Suites) -> Self {
        let mut problems = Vec::new();
        let mut idle_uncovered = vec![true; specification.uncovered.len()];
        let mut idle_beyond = vec![true; specification.beyond.len()];
        let mut by_operator: BTreeMap<&str, Vec<(&Case, Uses)>> = BTreeMap::new();
        let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &suites.cases {
            let named = suites
                .operators
                .get(&(case.id.suite().to_owned(), case.id.subject().to_owned()))
                .map_or(case.id.subject(), String::as_str);
            if case.breaks().is_some() {
                *refused.entry(case.id.subject()).or_default() += 1;
                continue;
            }
            match specification.operator(named) {
                Some(operator) => {
                    let uses = uses(&case.program, &operator.full_name());
                    if uses.is_empty() {
                        problems.push(Problem::Unused {
                            case: case.id.clone(),
                            operator: operator.name.clone(),
                        });
                    }
                    by_operator
                        .entry(&operator.name)
                        .or_default()
                        .push((case, uses));
                }
                None => match specification.beyond(named, None) {
                    Some(index) => idle_beyond[index] = false,
                    None => problems.push(Problem::NoOperator {
                        case: case.id.clone(),
                        subject: named.to_owned(),
                    }),
                },
            }
        }
        let mut rows = Vec::new();
        for operator in &specification.operators {
            let empty = Vec::new();
            let found = by_operator.get(operator.name.as_str()).unwrap_or(&empty);
            let cases: Vec<&CaseId> = found.iter().map(|(case, _)| &case.id).collect();
            if operator.values.is_empty() {
                if cases.is_empty() {
                    match specification.uncovered(operator, None, None) {
                        Some(index) => idle_uncovered[index] = false,
                        None => problems.push(Problem::NoCase {
                            operator: operator.name.clone(),
                            kinds: "any program".to_owned(),
                        }),
                    }
                }
                rows.push(Row {
                    operator,
                    value: None,
                    cases,
                    cells: BTreeMap::new(),
                });
                continue;
            }
            for value in &operator.values {
                let mut held: BTreeMap<Kind, Vec<&CaseId>> = BTreeMap::new();
                for (case, uses) in found {
                    for kind in uses.at(value.at) {
                        if value.kinds.contains(&kind) {
                            held.entry(kind).or_default().push(&case.id);
                            continue;
                        }
                        match specification.beyond(&operator.name, Some(kind)) {
                            Some(index) => idle_beyond[index] = false,
                            None => problems.push(Problem::NotAllowed {
                                case: case.id.clone(),
                                operator: operator.label(value),
                                kind,
                            }),
                        }
                    }
                }
                let mut missing = Vec::new();
                let mut cells = BTreeMap::new();
                for kind in &value.kinds {
                    let cell = match held.remove(kind) {
                        Some(cases) => Cell::Cases(cases),
                        None => match specification.uncovered(operator, Some(value), Some(*kind)) {
                            Some(index) => {
                                idle_uncovered[index] = false;
                                Cell::Uncovered(index)
                            }
                            None => {
                                missing.push(kind.to_string());
                                Cell::Missing
                            }
                        },
                    };
                    cells.insert(*kind, cell);
                }
                if !missing.is_empty() {
                    problems.push(Problem::NoCase {
                        operator: operator.label(value),
                        kinds: missing.join(", "),
                    });
                }
                rows.push(Row {
                    operator,
                    value: Some(value),
                    cases: cases.clone(),
                    cells,
                });
            }
        }
        for (list, idle, what) in [
            (
                "uncovered",
                idle_uncovered,
                specification
                    .uncovered
                    .iter()
                    .map(|e| e.operators.join(", "))
                    .collect::<Vec<_>>(),
            ),
            (
                "beyond",
                idle_beyond,
                specification
                    .beyond
                    .iter()
                    .map(|e| e.operators.join(", "))
                    .collect(),
            ),
        ] {
            for (index, (idle, what)) in idle.into_iter().zip(what).enumerate() {
                if idle {
                    let index = index + 1;
                    problems.push(Problem::Idle { list, index, what });
                }
            }
        }
        let corners = corners(specification, suites, &mut problems);
        problems.sort();
        Self {
            specification,
            rows,
            corners,
            refused,
            problems,
        }
    }
}

fn corners<'a>(
    specification: &'a Specification,
    suites: &'a Suites,
    problems: &mut Vec<Problem>,
) -> Vec<(&'a Corner, Vec<&'a CaseId>)> {
    let named_by = |glob: &GlobMatcher| -> BTreeSet<&'a CaseId> {
        let ids = suites.cases.iter().map(|case| &case.id);
        ids.filter(|id| glob.is_match(id.as_str())).collect()
    };
    let mut found = Vec::with_capacity(specification.corners.len());
    for corner in &specification.corners {
        let mut cases = BTreeSet::new();
        for (glob, matcher) in corner.cases.iter().zip(&corner.matchers) {
            let named = named_by(matcher);
            if named.is_empty() {
                problems.push(Problem::NoCorner {
                    what: corner.what.clone(),
                    source_section: corner.source.clone(),
                    glob: glob.clone(),
                });
            }
            cases.extend(named);
        }
        found.push((corner, cases.into_iter().collect()));
    }
    found
}

#[cfg(test)]
mod tests;
