//! `issues status` in plain text.

use std::fmt::Write;

use super::escape;
use crate::track::impact::{Blocked, Impact, IssueStatus, STILL_FAILING};
use crate::track::{IssueState, cases, thousands};

/// Cases named for each issue and target; the rest is counted.
const CASES_SHOWN: usize = 5;

pub fn render(status: &IssueStatus) -> String {
    let mut text = String::new();
    for headline in &status.headlines {
        let target = escape::line(&headline.target);
        writeln!(text, "{target} — evidence: {}", headline.evidence).ok();
        writeln!(text, "  {}", headline.text).ok();
    }
    let counts = status.counts;
    writeln!(
        text,
        "{} issues reported: {} fixed, {} open, {} declined",
        counts.reported, counts.fixed, counts.open, counts.declined
    )
    .ok();
    match &status.run {
        Some(run) => writeln!(text, "cases counted from run {run}"),
        None => writeln!(
            text,
            "no run in the store: what they block is not known; `tpu-parity run` makes one"
        ),
    }
    .ok();
    for state in [IssueState::Open, IssueState::Fixed, IssueState::Declined] {
        let of_state = || status.issues.iter().filter(|i| i.issue.state == state);
        if of_state().next().is_some() {
            writeln!(text, "\n{state}").ok();
        }
        for impact in of_state() {
            issue(&mut text, impact);
        }
    }
    if !status.untracked.is_empty() {
        let n = status.untracked.len();
        writeln!(
            text,
            "\nexpectations that name no issue, and so are untracked: {}",
            thousands(n)
        )
        .ok();
    }
    for entry in &status.untracked {
        let reason = escape::line(&entry.reason);
        writeln!(
            text,
            "  {}: {} — {reason}",
            entry.expectation,
            escape::line(&entry.cases)
        )
        .ok();
        blocks(&mut text, &entry.blocks);
    }
    text
}

fn issue(text: &mut String, impact: &Impact) {
    let title = escape::line(&impact.issue.title);
    writeln!(text, "  {} {title}", impact.issue.id).ok();
    writeln!(text, "    {}", impact.url).ok();
    let closed = impact.issue.closed.map(|date| format!(", closed {date}"));
    writeln!(
        text,
        "    opened {}{}",
        impact.issue.opened,
        closed.unwrap_or_default()
    )
    .ok();
    if impact.fixed_upstream_still_failing {
        writeln!(text, "    {STILL_FAILING}").ok();
    }
    if impact.passing > 0 {
        writeln!(
            text,
            "    {} of its expectations passed",
            cases(impact.passing)
        )
        .ok();
    }
    blocks(text, &impact.blocks);
}

fn blocks(text: &mut String, blocks: &[Blocked]) {
    for blocked in blocks {
        let n = blocked.cases.len();
        let shown: Vec<&str> = blocked
            .cases
            .iter()
            .take(CASES_SHOWN)
            .map(|c| c.as_str())
            .collect();
        let more = match n.saturating_sub(CASES_SHOWN) {
            0 => String::new(),
            n => format!(" and {} more", thousands(n)),
        };
        let target = escape::line(&blocked.target);
        writeln!(
            text,
            "    blocks {} on {target} (evidence: {}): {}{more}",
            cases(n),
            blocked.evidence,
            shown.join(", ")
        )
        .ok();
    }
}
