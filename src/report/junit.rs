//! The JUnit report, for CI systems: a test suite a target and evidence, a test case a case.
//!
//! A known failure is skipped, with its reason and issue, so that CI is red only for what is unexpected. Unexpected `fail`
//! and `unsupported` are failures; `error`, `crash`, `timeout`, `oom` and a missing outcome are errors. A case that passes
//! against its expectation is a success that says so in its output.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::ReportError;
use super::escape;
use super::summary::{self, Section, Summary};
use crate::outcome::OutcomeKind;
use crate::track::impact::STILL_FAILING;
use crate::track::{IssueState, Verdict, VerdictKind};

pub fn render(summary: &Summary<'_>) -> Result<String, ReportError> {
    let mut report = Report::new(format!("tpu-parity {}", summary.record.id));
    for section in &summary.sections {
        report.add_test_suite(test_suite(section, summary));
    }
    Ok(report.to_string()?)
}

fn test_suite(section: &Section<'_>, summary: &Summary<'_>) -> TestSuite {
    let mut suite = TestSuite::new(section.heading());
    for (name, value) in [
        ("evidence", section.evidence.as_str()),
        ("run", &summary.record.id),
        ("started", &summary.record.started.to_string()),
        ("tpu-parity", &summary.record.environment.tool_version),
    ] {
        suite.add_property((name, value));
    }
    for plugin in summary.plugins.iter().filter(|p| p.target == section.label) {
        suite.add_property(("plugin", plugin.plugin.as_str()));
        suite.add_property(("plugin sha256", plugin.sha256.as_str()));
        suite.add_property(("plugin api version", plugin.api_version.as_str()));
        if let Some(version) = &plugin.version {
            suite.add_property(("plugin version", version.as_str()));
        }
        if let Some(executor) = &plugin.executor {
            suite.add_property(("executes on", executor.plugin.as_str()));
            suite.add_property(("executor sha256", executor.sha256.as_str()));
            suite.add_property(("numerics", executor.numerics.to_string().as_str()));
        }
    }
    let target = section.label.replace('.', "_");
    for verdict in &section.verdicts {
        let case = &verdict.case;
        let mut test = TestCase::new(case.as_str(), status(verdict, summary));
        // Dots divide packages in a class name.
        let subject = case.subject().replace('.', "_");
        test.set_classname(format!("{target}.{}.{subject}", case.suite()));
        if let Some(ms) = verdict.time_ms.filter(|ms| ms.is_finite() && *ms >= 0.0) {
            test.set_time(Duration::from_micros((ms * 1000.0) as u64));
        }
        if verdict.kind == VerdictKind::Fixed {
            let because = verdict.because.as_deref().unwrap_or_default();
            test.set_system_out(escape::line(&format!("fixed: {because}")));
        }
        suite.add_test_case(test);
    }
    suite
}

fn status(verdict: &Verdict, summary: &Summary<'_>) -> TestCaseStatus {
    let message = verdict.message.as_deref().map(summary::clean);
    match verdict.kind {
        VerdictKind::Regressed | VerdictKind::NewFailure | VerdictKind::Missing => {
            let mut status = TestCaseStatus::non_success(non_success(verdict.outcome));
            status.set_type(verdict.outcome.map_or("missing", OutcomeKind::as_str));
            let reasons = [verdict.because.as_deref().map(escape::line), message];
            let reasons: Vec<String> = reasons.into_iter().flatten().collect();
            let first = escape::shorten(&reasons.join(": "), 200);
            status.set_message(format!("{}: {first}", verdict.kind));
            let mut description = reasons.join("\n");
            if let Some(stage) = verdict.stage {
                description = format!("stage: {stage}\n{description}");
            }
            status.set_description(description);
            status
        }
        VerdictKind::Flaky => {
            let mut status = TestCaseStatus::success();
            let failed = verdict.attempts.iter().filter(|a| **a != OutcomeKind::Pass);
            for attempt in failed {
                let mut rerun = TestRerun::new(non_success(Some(*attempt)));
                rerun.set_type(attempt.as_str());
                rerun.set_message(verdict.because.as_deref().unwrap_or_default());
                status.add_rerun(rerun);
            }
            status
        }
        VerdictKind::Known => skipped("known", &known(verdict, summary), message),
        _ if verdict.outcome == Some(OutcomeKind::Skipped) => skipped(
            "skipped",
            message.as_deref().unwrap_or("no reason given"),
            None,
        ),
        VerdictKind::Fixed | VerdictKind::NewlySkipped | VerdictKind::New | VerdictKind::Ok => {
            TestCaseStatus::success()
        }
    }
}

fn skipped(kind: &str, reason: &str, description: Option<String>) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_type(kind);
    status.set_message(escape::line(reason));
    if let Some(description) = description {
        status.set_description(description);
    }
    status
}

fn known(verdict: &Verdict, summary: &Summary<'_>) -> String {
    let outcome = verdict.outcome.map_or("missing", OutcomeKind::as_str);
    let Some(entry) = summary.judgement.expectation(verdict) else {
        let because = verdict.because.as_deref().unwrap_or_default();
        return format!("known {outcome}: {because}");
    };
    let mut text = format!("known {outcome}: {}", entry.reason);
    match &entry.issue {
        Some(issue) => text.push_str(&format!(" ({issue})")),
        None => text.push_str(" (untracked)"),
    }
    let issue = entry.issue.as_ref().and_then(|id| summary.ledger.get(id));
    if issue.is_some_and(|issue| issue.state == IssueState::Fixed) {
        text.push_str(&format!("; {STILL_FAILING}"));
    }
    text
}

fn non_success(outcome: Option<OutcomeKind>) -> NonSuccessKind {
    match outcome {
        Some(OutcomeKind::Fail | OutcomeKind::Unsupported) => NonSuccessKind::Failure,
        _ => NonSuccessKind::Error,
    }
}
