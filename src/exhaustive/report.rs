//! What a run of exhaustive tests showed: as data, of which the JSON is the whole, and as tables for a terminal and for the
//! committed `exhaustive.md`.

mod markdown;
mod terminal;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::measure::{BUCKETS, Measure, figure};
use super::operators::allowance;
use super::run::Finding;
use crate::compare::Tolerance;
use crate::outcome::{Evidence, Outcome, OutcomeKind, Stage};
use crate::store::{Environment, Run, RunRecord};
use crate::target::Target;
use crate::tensor::ElementType;
use crate::track::{Expectations, VerdictKind, judge};

/// Of the JSON. Readers refuse another major number.
pub const SCHEMA: &str = "tpu-parity/exhaustive/1";

/// A tolerance this many times the worst error is wider than it need be.
const WIDE: f64 = 8.0;
/// No tolerance needs to be narrower than a correct rounding, in ulp.
const ROUNDING: f64 = 0.5;

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub started: Timestamp,
    pub environment: Environment,
    /// Upper ends of the histograms' buckets in ulp; the last bucket has none.
    pub buckets: [f64; BUCKETS.len()],
    pub targets: Vec<TargetReport>,
}

#[derive(Debug, Clone, Serialize)]
pub struct TargetReport {
    pub target: Target,
    pub evidence: Evidence,
    /// Sorted by id.
    pub rows: Vec<Row>,
}

/// One operator on one type.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub id: String,
    pub operator: String,
    /// The parts of the id behind the operand's type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    pub operands: ElementType,
    pub result: ElementType,
    /// What it was tried on, in words.
    pub tried_on: String,
    pub tolerance: Tolerance,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance_source: Option<String>,
    pub outcome: OutcomeKind,
    pub stage: Stage,
    pub verdict: VerdictKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the expectation that speaks of it says that it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub worst_ulp: f64,
    pub measure: Measure,
    pub seconds: f64,
    /// Of the seconds, on the exact results and the figures.
    pub measuring_seconds: f64,
}

impl Report {
    /// Judges the findings by the known failures.
    pub fn new(
        environment: Environment,
        targets: &[Target],
        findings: &[Finding],
        expectations: &Expectations,
    ) -> Self {
        let record = RunRecord::new(environment, targets.to_vec(), Vec::new());
        let outcomes: Vec<Outcome> = findings.iter().map(|f| f.outcome.clone()).collect();
        let mut planned: Vec<_> = findings.iter().map(|f| f.operator.id.clone()).collect();
        planned.sort();
        planned.dedup();
        let run = Run {
            record,
            planned,
            outcomes,
        };
        let judgement = judge(&run, expectations, None);
        let by_place: BTreeMap<(&str, &str), &Finding> = findings
            .iter()
            .map(|f| ((f.outcome.target.as_str(), f.outcome.case.as_str()), f))
            .collect();
        let targets = targets
            .iter()
            .map(|target| {
                let name = target.to_string();
                let rows = judgement
                    .verdicts
                    .iter()
                    .filter(|verdict| verdict.target == name)
                    .filter_map(|verdict| {
                        let finding = by_place.get(&(name.as_str(), verdict.case.as_str()))?;
                        let reason = verdict
                            .expectation
                            .map(|index| judgement.expectations[index].reason.clone());
                        Some(Row::new(finding, verdict.kind, reason))
                    })
                    .collect();
                TargetReport {
                    evidence: target.evidence(),
                    target: target.clone(),
                    rows,
                }
            })
            .collect();
        Self {
            schema: SCHEMA,
            started: run.record.started,
            environment: run.record.environment,
            buckets: BUCKETS,
            targets,
        }
    }

    /// Whether a verdict is one that nobody expected.
    pub fn is_unexpected(&self, strict: bool) -> bool {
        self.rows()
            .any(|(_, row)| row.verdict.is_unexpected(strict))
    }

    fn rows(&self) -> impl Iterator<Item = (&TargetReport, &Row)> {
        let rows_of = |target| {
            let target: &TargetReport = target;
            target.rows.iter().map(move |row| (target, row))
        };
        self.targets.iter().flat_map(rows_of)
    }

    /// Tolerances beside what was measured on all targets together, by operator and type.
    fn tolerances(&self) -> Vec<Measured<'_>> {
        let mut all: BTreeMap<&str, Measured<'_>> = BTreeMap::new();
        for (target, row) in self.rows() {
            let Tolerance::Ulp(allowed) = row.tolerance else {
                continue;
            };
            if row.measure.values == 0 {
                continue;
            }
            let entry = all.entry(&row.id).or_insert(Measured {
                row,
                target,
                allowed,
            });
            if row.worst_ulp > entry.row.worst_ulp {
                (entry.row, entry.target) = (row, target);
            }
        }
        all.into_values().collect()
    }

    /// For a terminal.
    pub fn terminal(&self) -> String {
        terminal::render(self)
    }

    /// For `exhaustive.md`.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }
}

/// A tolerance in ulp and the largest error measured, with where.
struct Measured<'a> {
    row: &'a Row,
    target: &'a TargetReport,
    allowed: f64,
}

impl Measured<'_> {
    fn is_wide(&self) -> bool {
        self.allowed >= WIDE * self.row.worst_ulp.max(ROUNDING)
    }

    fn is_narrow(&self) -> bool {
        self.row.worst_ulp > self.allowed
    }
}

impl Row {
    fn new(finding: &Finding, verdict: VerdictKind, reason: Option<String>) -> Self {
        let (operator, outcome) = (&finding.operator, &finding.outcome);
        let mut axes = operator.axes().split('/').map(str::to_owned);
        axes.next();
        Self {
            id: operator.id.to_string(),
            operator: operator.name().to_owned(),
            axes: axes.collect(),
            operands: operator.operands,
            result: operator.result,
            tried_on: operator.domain.describe(),
            tolerance: operator.tolerance.clone(),
            tolerance_source: operator.tolerance_source.clone(),
            outcome: outcome.outcome,
            stage: outcome.stage,
            verdict,
            message: outcome.message.clone(),
            reason,
            worst_ulp: finding.measure.worst_ulp(),
            measure: finding.measure.clone(),
            seconds: finding.seconds,
            measuring_seconds: finding.measuring,
        }
    }

    /// `compare float lt`, `convert to bf16`.
    fn label(&self) -> String {
        match (self.operator.as_str(), &self.axes[..]) {
            ("convert", [to]) => format!("convert to {to}"),
            (name, axes) => [&[name.to_owned()], axes].concat().join(" "),
        }
    }

    /// The worst error, with `!` where a value breaks the tolerance; the outcome where nothing was measured.
    fn cell(&self) -> String {
        if self.measure.values == 0 {
            return self.outcome.to_string();
        }
        let mark = if self.measure.faults.is_empty() {
            ""
        } else {
            " !"
        };
        format!("{}{mark}", figure(self.worst_ulp))
    }

    fn tolerance_words(&self) -> String {
        match self.tolerance {
            Tolerance::Exact => "exact".to_owned(),
            _ => format!("{} ulp", allowance(&self.tolerance)),
        }
    }
}

/// A header and a row for each operator, a column for each of the types that any of them has; nothing where there is none.
fn matrix(target: &TargetReport, types: impl Fn(ElementType) -> bool) -> Vec<Vec<String>> {
    let mut columns: Vec<ElementType> = Vec::new();
    let mut lines: BTreeMap<String, BTreeMap<ElementType, String>> = BTreeMap::new();
    for row in target.rows.iter().filter(|row| types(row.operands)) {
        if !columns.contains(&row.operands) {
            columns.push(row.operands);
        }
        lines
            .entry(row.label())
            .or_default()
            .insert(row.operands, row.cell());
    }
    if lines.is_empty() {
        return Vec::new();
    }
    columns.sort();
    let mut header = vec!["operator".to_owned()];
    header.extend(columns.iter().map(ToString::to_string));
    let mut table = vec![header];
    for (label, mut cells) in lines {
        let mut line = vec![label];
        line.extend(columns.iter().map(|t| cells.remove(t).unwrap_or_default()));
        table.push(line);
    }
    table
}

/// What a target's rows come to.
struct Totals {
    rows: usize,
    values: u64,
    seconds: f64,
    measuring: f64,
}

impl Totals {
    fn of(target: &TargetReport) -> Self {
        let rows = &target.rows;
        Self {
            rows: rows.len(),
            values: rows.iter().map(|row| row.measure.values).sum(),
            seconds: rows.iter().map(|row| row.seconds).sum(),
            measuring: rows.iter().map(|row| row.measuring_seconds).sum(),
        }
    }

    /// `312 operators by type, 41.2 million values: 1.9 million a second with compilation and reference, 5.1 million a second measured`.
    fn words(&self) -> String {
        let rate = |seconds: f64| {
            if seconds > 0.0 {
                self.values as f64 / seconds
            } else {
                0.0
            }
        };
        format!(
            "{} operators by type, {} values; a lane takes {} a second, compiler and target included, and the exact results and their \
             comparison {} a second",
            self.rows,
            millions(self.values as f64),
            millions(rate(self.seconds)),
            millions(rate(self.measuring)),
        )
    }
}

fn millions(count: f64) -> String {
    if count >= 1e5 {
        format!("{:.1} million", count / 1e6)
    } else {
        format!("{count:.0}")
    }
}
