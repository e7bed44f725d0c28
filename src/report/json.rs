//! The JSON report, `tpu-parity/report/1`, for machines: other tools read it, and the history is drawn from it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compiled::{Compiled, ESTIMATE};
use super::models::ModelRow;
use super::pytorch::PyTorch;
use super::recompiles::Recompiles;
use super::summary::{self, Group, KnownGroup, Section, Summary};
use super::{PluginLine, ReportError};
use crate::case::CaseId;
use crate::outcome::{Evidence, OutcomeKind, Stage};
use crate::store::ToleranceRecord;
use crate::track::impact::IssueStatus;
use crate::track::{IssueRef, IssueState, Totals, Verdict, VerdictKind};

pub const SCHEMA: &str = "tpu-parity/report/1";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    run: RunPart<'a>,
    /// What the two rates mean.
    rates: Rates,
    targets: Vec<TargetPart<'a>>,
    verdicts: Verdicts<'a>,
    issues: &'a IssueStatus,
    /// What the TPU compiler said; absent where no target has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    compiled: Option<CompiledPart<'a>>,
    /// Tolerances whose numbers are somebody's findings; the others follow from the arithmetic.
    tolerances: &'a [ToleranceRecord],
    #[serde(skip_serializing_if = "<[ModelRow]>::is_empty")]
    models: &'a [ModelRow<'a>],
    /// PyTorch's suites, by target.
    #[serde(skip_serializing_if = "<[PyTorch]>::is_empty")]
    pytorch: &'a [PyTorch],
    #[serde(skip_serializing_if = "Option::is_none")]
    recompiles: Option<&'a Recompiles>,
}

#[derive(Serialize)]
struct CompiledPart<'a> {
    /// What the estimates are worth.
    estimates: &'static str,
    #[serde(flatten)]
    compiled: &'a Compiled<'a>,
}

#[derive(Serialize)]
struct Rates {
    pass_rate: &'static str,
    pass_rate_without_known: &'static str,
}

#[derive(Serialize)]
struct RunPart<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    started: String,
    /// `null` while the run is open.
    finished: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a str>,
    select: &'a [String],
    exclude: &'a [String],
    environment: EnvironmentPart<'a>,
}

#[derive(Serialize)]
struct EnvironmentPart<'a> {
    tool_version: &'a str,
    os: &'a str,
    cpu: &'a str,
    cores: usize,
    plugins: &'a [PluginLine],
    packages: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct TargetPart<'a> {
    target: &'a str,
    evidence: Evidence,
    #[serde(flatten)]
    figures: Figures,
    /// Passes that compare the plug-in with itself: they show only that it still does what it did. Of hardware evidence alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    self_reference_passes: Option<usize>,
    verdicts: &'a BTreeMap<VerdictKind, usize>,
    /// The skipped cases by reason.
    skipped: Vec<SkippedPart<'a>>,
    suites: Vec<GroupPart<'a>>,
    subjects: Vec<GroupPart<'a>>,
}

#[derive(Serialize)]
struct SkippedPart<'a> {
    /// The id of the case stands in it as `CASE`.
    reason: &'a str,
    cases: &'a [&'a CaseId],
}

#[derive(Serialize)]
struct GroupPart<'a> {
    suite: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
pub(super) struct Figures {
    totals: Totals,
    pass_rate: Option<f64>,
    pass_rate_without_known: Option<f64>,
}

/// Every verdict but `ok` and `new`, whose cases need no words.
#[derive(Serialize)]
struct Verdicts<'a> {
    regressed: Vec<Entry<'a>>,
    #[serde(rename = "new-failure")]
    new_failure: Vec<Entry<'a>>,
    missing: Vec<Entry<'a>>,
    fixed: Vec<Entry<'a>>,
    #[serde(rename = "newly-skipped")]
    newly_skipped: Vec<Entry<'a>>,
    flaky: Vec<Entry<'a>>,
    known: Vec<Known<'a>>,
    /// Expectations that match no case.
    unused_expectations: Vec<String>,
}

#[derive(Serialize)]
struct Entry<'a> {
    target: &'a str,
    evidence: Evidence,
    case: &'a CaseId,
    outcome: Option<OutcomeKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<Stage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<OutcomeKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize)]
struct Known<'a> {
    target: &'a str,
    evidence: Evidence,
    /// Where the expectation stands, as `aot.toml:12`; `null` for failures that the baseline has and no expectation.
    expectation: Option<String>,
    outcomes: &'a [OutcomeKind],
    reason: Option<&'a str>,
    issue: Option<&'a IssueRef>,
    issue_state: Option<IssueState>,
    fixed_upstream_still_failing: bool,
    until: Option<String>,
    overdue: bool,
    cases: &'a [&'a CaseId],
}

pub fn render(summary: &Summary<'_>) -> Result<String, ReportError> {
    let record = summary.record;
    let environment = &record.environment;
    let report = Report {
        schema: SCHEMA,
        run: RunPart {
            id: &record.id,
            label: record.label.as_deref(),
            started: record.started.to_string(),
            finished: record.finished.map(|time| time.to_string()),
            baseline: summary.judgement.baseline.as_deref(),
            select: &record.select,
            exclude: &record.exclude,
            environment: EnvironmentPart {
                tool_version: &environment.tool_version,
                os: &environment.os,
                cpu: &environment.cpu,
                cores: environment.cores,
                plugins: &summary.plugins,
                packages: &environment.packages,
            },
        },
        rates: Rates {
            pass_rate: "pass / (cases - skipped)",
            pass_rate_without_known: "pass / (cases - skipped - failures that an expectation names)",
        },
        targets: summary.sections.iter().map(target).collect(),
        verdicts: verdicts(summary),
        issues: &summary.issues,
        compiled: (!summary.compiled.is_empty()).then_some(CompiledPart {
            estimates: ESTIMATE,
            compiled: &summary.compiled,
        }),
        tolerances: &record.tolerances,
        models: &summary.models,
        pytorch: &summary.pytorch,
        recompiles: summary.recompiles,
    };
    let mut text = serde_json::to_string_pretty(&report)?;
    text.push('\n');
    Ok(text)
}

fn target<'a>(section: &'a Section<'_>) -> TargetPart<'a> {
    TargetPart {
        target: &section.label,
        evidence: section.evidence,
        figures: Figures::of(section.totals),
        self_reference_passes: (section.evidence == Evidence::Hardware)
            .then_some(section.self_references),
        verdicts: &section.kinds,
        skipped: section
            .skipped
            .iter()
            .map(|group| SkippedPart {
                reason: &group.reason,
                cases: &group.cases,
            })
            .collect(),
        suites: section.suites.iter().map(group).collect(),
        subjects: section.subjects.iter().map(group).collect(),
    }
}

fn group(group: &Group) -> GroupPart<'_> {
    GroupPart {
        suite: &group.suite,
        subject: group.subject.as_deref(),
        figures: Figures::of(group.totals),
    }
}

impl Figures {
    pub(super) fn of(totals: Totals) -> Self {
        Self {
            totals,
            pass_rate: totals.pass_rate(),
            pass_rate_without_known: totals.pass_rate_without_known(),
        }
    }
}

fn verdicts<'a>(summary: &'a Summary<'_>) -> Verdicts<'a> {
    let of = |kind| -> Vec<Entry<'a>> {
        summary
            .judgement
            .of(kind)
            .map(|verdict| entry(verdict, summary))
            .collect()
    };
    Verdicts {
        regressed: of(VerdictKind::Regressed),
        new_failure: of(VerdictKind::NewFailure),
        missing: of(VerdictKind::Missing),
        fixed: of(VerdictKind::Fixed),
        newly_skipped: of(VerdictKind::NewlySkipped),
        flaky: of(VerdictKind::Flaky),
        known: summary
            .sections
            .iter()
            .flat_map(|section| section.known.iter().map(|group| known(section, group)))
            .collect(),
        unused_expectations: summary
            .judgement
            .unused
            .iter()
            .map(|&index| summary.judgement.expectations[index].place())
            .collect(),
    }
}

fn entry<'a>(verdict: &'a Verdict, summary: &'a Summary<'_>) -> Entry<'a> {
    Entry {
        target: summary.label(&verdict.target),
        evidence: verdict.evidence,
        case: &verdict.case,
        outcome: verdict.outcome,
        stage: verdict.stage,
        baseline: verdict.baseline,
        because: verdict.because.as_deref(),
        message: verdict.message.as_deref().map(summary::clean),
    }
}

fn known<'a>(section: &'a Section<'_>, group: &'a KnownGroup<'_>) -> Known<'a> {
    let entry = group.expectation;
    Known {
        target: &section.label,
        evidence: section.evidence,
        expectation: entry.map(|entry| entry.place()),
        outcomes: &group.outcomes,
        reason: entry.map(|entry| entry.reason.as_str()),
        issue: entry.and_then(|entry| entry.issue.as_ref()),
        issue_state: group.issue_state,
        fixed_upstream_still_failing: group.still_failing(),
        until: entry.and_then(|entry| entry.until.as_ref().map(ToString::to_string)),
        overdue: group.overdue,
        cases: &group.cases,
    }
}
