//! `issues status` in plain text.

use std::fmt::Write;

use super::escape;
use super::terminal::{WIDTH, wrap};
use crate::track::impact::{Impact, IssueStatus, STILL_FAILING, Untracked};
use crate::track::{IssueState, cases, thousands};

/// Cases named for each issue and target; the rest is counted.
const CASES_SHOWN: usize = 3;

/// Fits [`WIDTH`] columns.
pub fn render(status: &IssueStatus) -> String {
    let mut text = String::new();
    for headline in &status.headlines {
        let target = escape::line(&headline.target);
        put(
            &mut text,
            0,
            &format!("{target} — evidence: {}", headline.evidence),
        );
        put(&mut text, 2, &headline.text);
    }
    let counts = status.counts;
    put(
        &mut text,
        0,
        &format!(
            "{} issues reported: {} fixed, {} open, {} declined",
            counts.reported, counts.fixed, counts.open, counts.declined
        ),
    );
    let source = match &status.run {
        Some(run) => format!("cases counted from run {run}"),
        None => "no run in the store: what they block is not known; `tpu-parity run` makes one"
            .to_owned(),
    };
    put(&mut text, 0, &source);
    for state in [IssueState::Open, IssueState::Fixed, IssueState::Declined] {
        let of_state = || status.issues.iter().filter(|i| i.issue.state == state);
        if of_state().next().is_some() {
            text.push('\n');
            put(&mut text, 0, &state.to_string());
        }
        for impact in of_state() {
            issue(&mut text, impact);
        }
    }
    untracked(&mut text, &status.untracked);
    text
}

/// Known failures without an issue: those that block something, and how many others there are.
fn untracked(text: &mut String, entries: &[Untracked]) {
    if entries.is_empty() {
        return;
    }
    text.push('\n');
    let title = "known failures that name no issue, and so are untracked";
    put(text, 0, &format!("{title}: {}", thousands(entries.len())));
    let blocking = || entries.iter().filter(|entry| !entry.blocks.is_empty());
    for entry in blocking() {
        let reason = escape::shorten(&escape::line(&entry.reason), 200);
        put(text, 2, &format!("{}: {reason}", entry.expectation));
        let blocked: Vec<String> = entry
            .blocks
            .iter()
            .map(|blocked| {
                let target = escape::line(&blocked.target);
                format!("{} on {target}", cases(blocked.cases.len()))
            })
            .collect();
        put(text, 4, &format!("blocks {}", blocked.join(", ")));
    }
    let idle = entries.len() - blocking().count();
    if idle > 0 {
        put(
            text,
            2,
            &format!("{} of them block nothing that is known", thousands(idle)),
        );
    }
}

/// As many lines as the text needs.
fn put(text: &mut String, indent: usize, line: &str) {
    for line in wrap(line, WIDTH - indent) {
        writeln!(text, "{:indent$}{line}", "").ok();
    }
}

fn issue(text: &mut String, impact: &Impact) {
    let title = escape::line(&impact.issue.title);
    put(text, 2, &format!("{} {title}", impact.issue.id));
    put(text, 4, &impact.url);
    let closed = impact.issue.closed.map(|date| format!(", closed {date}"));
    let opened = impact.issue.opened;
    put(
        text,
        4,
        &format!("opened {opened}{}", closed.unwrap_or_default()),
    );
    if impact.fixed_upstream_still_failing {
        put(text, 4, STILL_FAILING);
    }
    if impact.passing > 0 {
        put(
            text,
            4,
            &format!("{} of its expectations passed", cases(impact.passing)),
        );
    }
    for blocked in &impact.blocks {
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
        let line = format!(
            "blocks {} on {} (evidence: {}): {}{more}",
            cases(n),
            escape::line(&blocked.target),
            blocked.evidence,
            shown.join(", ")
        );
        put(text, 4, &line);
    }
}
