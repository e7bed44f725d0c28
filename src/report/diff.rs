//! A diff of two runs in plain text, an item a line.

use std::fmt::Write;

use super::escape;
use crate::case::CaseId;
use crate::track::diff::{Change, MetricChange, RunDiff};
use crate::track::thousands;

/// Lines of each list; the rest is counted.
const SHOWN: usize = 30;
const MESSAGE: usize = 160;

pub fn render(diff: &RunDiff) -> String {
    let mut text = format!("{} → {}\n", diff.old, diff.new);
    for (targets, which) in [(&diff.added_targets, "new"), (&diff.removed_targets, "old")] {
        for target in targets {
            writeln!(
                text,
                "target {} is in the {which} run only",
                escape::line(target)
            )
            .ok();
        }
    }
    if !diff.environment.is_empty() {
        text.push_str("\nEnvironment\n");
    }
    for change in &diff.environment {
        let value = |value: &str| escape::shorten(&escape::line(value), MESSAGE);
        let what = escape::line(&change.what);
        writeln!(
            text,
            "  {what}: {} → {}",
            value(&change.old),
            value(&change.new)
        )
        .ok();
    }
    for target in diff.targets.iter().filter(|target| !target.is_empty()) {
        let name = escape::line(&target.target);
        writeln!(text, "\n{name} — evidence: {}", target.evidence).ok();
        for (title, changes) in [
            ("newly failing", &target.newly_failing),
            ("fails otherwise than before", &target.changed_failure),
            ("newly skipped", &target.newly_skipped),
            ("newly passing", &target.newly_passing),
        ] {
            list(&mut text, title, changes, change);
        }
        list(&mut text, "added", &target.added, CaseId::to_string);
        list(&mut text, "removed", &target.removed, CaseId::to_string);
        list(&mut text, "metrics", &target.metrics, metric);
    }
    if diff.is_empty() {
        text.push_str("no difference\n");
    }
    text
}

fn list<T>(text: &mut String, title: &str, items: &[T], line: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    writeln!(text, "  {title} ({})", thousands(items.len())).ok();
    for item in items.iter().take(SHOWN) {
        writeln!(text, "    {}", line(item)).ok();
    }
    if items.len() > SHOWN {
        let more = thousands(items.len() - SHOWN);
        writeln!(text, "    and {more} more; --format json has all").ok();
    }
}

fn change(change: &Change) -> String {
    let mut line = format!("{}: {} → {}", change.case, change.old, change.new);
    if let Some(message) = &change.message {
        let message = escape::shorten(&escape::line(message), MESSAGE);
        line.push_str(&format!(": {message}"));
    }
    line
}

fn metric(change: &MetricChange) -> String {
    let (old, new) = (change.old, change.new);
    let metric = escape::line(&change.metric);
    format!(
        "{}: {metric} {old} → {new} ({})",
        change.case,
        change.words()
    )
}
