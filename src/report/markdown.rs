//! The Markdown report, made to be committed: bounded in size, free of a machine's paths, with nothing in it that a plug-in's
//! message could turn into markup.

use std::fmt::Write;

use super::summary::{FailureGroup, Group, NOTABLE, Section, Summary, columns};
use super::terminal::{failure_title, known_reason};
use crate::report::escape::{markdown_code, markdown_text, shorten};
use crate::track::{Totals, VerdictKind, cases, thousands};
use tail::issue_link;

macro_rules! put {
    ($page:expr, $($arg:tt)*) => {
        // Writing to a String does not fail.
        writeln!($page.text, $($arg)*).ok()
    };
}

mod across;
mod compiled;
mod models;
mod pytorch;
mod tail;

/// A report stays below this many bytes: long lists are cut until it does.
pub const SIZE_LIMIT: usize = 300_000;

/// How much of each list is shown.
#[derive(Clone, Copy)]
struct Limits {
    /// Failure groups, and rows of known failures, a target.
    groups: usize,
    /// Cases a group.
    cases: usize,
    /// Operators a table.
    subjects: usize,
    /// Of PyTorch's operators, in the one table that is of them.
    operators: usize,
    /// Characters of a message.
    message: usize,
}

const FULL: Limits = Limits {
    groups: 100,
    cases: 20,
    subjects: 300,
    operators: 1000,
    message: 500,
};

pub fn render(summary: &Summary<'_>) -> String {
    let mut limits = FULL;
    loop {
        let text = page(summary, limits);
        let least = limits.groups <= 1 && limits.subjects <= 1;
        if text.len() < SIZE_LIMIT || least {
            return text;
        }
        limits = Limits {
            groups: (limits.groups / 2).max(1),
            cases: (limits.cases / 2).max(1),
            subjects: (limits.subjects / 2).max(1),
            operators: (limits.operators / 2).max(1),
            message: (limits.message / 2).max(80),
        };
    }
}

fn page(summary: &Summary<'_>, limits: Limits) -> String {
    let mut page = Page {
        text: String::new(),
        limits,
    };
    page.head(summary);
    page.overview(summary);
    page.unexpected(summary);
    page.matrix(summary);
    page.differences(summary);
    page.models(summary);
    page.pytorch(summary);
    page.compiled(summary);
    for section in &summary.sections {
        page.section(section);
    }
    if let Some(recompiles) = summary.recompiles {
        put!(page, "{}", recompiles.markdown());
    }
    page.issues(summary);
    page.tolerances(summary);
    page.environment(summary);
    page.text
}

struct Page {
    text: String,
    limits: Limits,
}

impl Page {
    fn head(&mut self, summary: &Summary<'_>) {
        let record = summary.record;
        put!(self, "# Compatibility report\n");
        let label = record
            .label
            .as_deref()
            .map(|label| format!(" ({})", markdown_text(label)));
        put!(
            self,
            "Run `{}`{}, started {:.0}.",
            record.id,
            label.unwrap_or_default(),
            record.started
        );
        match record.finished {
            Some(finished) => put!(self, "Finished {finished:.0}."),
            None => put!(
                self,
                "**Not finished**: planned cases without an outcome are missing."
            ),
        };
        if let Some(baseline) = &summary.judgement.baseline {
            put!(self, "Baseline: run `{baseline}`.");
        }
        put!(self, "");
    }

    fn overview(&mut self, summary: &Summary<'_>) {
        put!(self, "## Targets\n");
        put!(
            self,
            "Pass rate is pass / (cases − skipped), rounded down; the second figure leaves out the failures that an expectation \
             names. Evidence says what the figures rest on: `hardware` ran on the device that the target names, `virtual` ran the \
             TPU compiler's optimized HLO on CPU, `compile` was compiled and not run. Figures of different evidence are never added up.\n"
        );
        put!(
            self,
            "| target | evidence | cases | pass | pass rate | without known | known | unexpected | fixed | flaky | skipped |"
        );
        put!(self, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let mut sections: Vec<&Section<'_>> = summary.sections.iter().collect();
        sections.sort_by(|a, b| {
            let rate = |s: &Section<'_>| s.totals.pass_rate().unwrap_or(1.0);
            rate(a).total_cmp(&rate(b))
        });
        for section in sections {
            let totals = &section.totals;
            let count = |kind| thousands(section.kinds.get(&kind).copied().unwrap_or(0));
            let unexpected: usize = section.unexpected.iter().map(|g| g.cases.len()).sum();
            put!(
                self,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                markdown_text(&section.label),
                section.evidence,
                thousands(totals.cases),
                thousands(totals.pass),
                totals.percent(),
                totals.percent_without_known(),
                count(VerdictKind::Known),
                thousands(unexpected),
                count(VerdictKind::Fixed),
                count(VerdictKind::Flaky),
                thousands(totals.skipped),
            );
        }
        put!(self, "");
    }

    fn unexpected(&mut self, summary: &Summary<'_>) {
        put!(self, "## Unexpected\n");
        if summary.sections.iter().all(|s| s.unexpected.is_empty()) {
            put!(self, "Nothing.\n");
        }
        for section in summary.sections.iter().filter(|s| !s.unexpected.is_empty()) {
            put!(self, "### {}\n", markdown_text(&section.heading()));
            for group in section.unexpected.iter().take(self.limits.groups) {
                self.failure_group(group);
            }
            self.more(
                section.unexpected.len(),
                self.limits.groups,
                "groups of failures",
            );
            put!(self, "");
        }
        if !summary.patterns.is_empty() {
            put!(self, "### What wrong results have in common\n");
            for pattern in summary.patterns.iter().take(self.limits.groups) {
                let label = markdown_text(summary.label(pattern.target));
                put!(self, "- {label}: {}", markdown_text(&pattern.to_string()));
            }
            let left = summary.patterns.len().saturating_sub(self.limits.groups);
            if left > 0 {
                put!(self, "- … and {} more", thousands(left));
            }
            put!(self, "");
        }
    }

    fn failure_group(&mut self, group: &FailureGroup<'_>) {
        put!(
            self,
            "- **{}**: {}",
            failure_title(group),
            cases(group.cases.len())
        );
        if let Some(because) = group.because {
            put!(self, "  - {}", markdown_text(because));
        }
        if let Some(message) = &group.message {
            put!(
                self,
                "  - {}",
                markdown_code(&shorten(message, self.limits.message))
            );
        }
        self.cases(
            &group
                .cases
                .iter()
                .map(|case| case.as_str())
                .collect::<Vec<_>>(),
        );
    }

    fn cases(&mut self, cases: &[&str]) {
        put!(self, "  - {}", listed(cases, self.limits.cases));
    }

    fn section(&mut self, section: &Section<'_>) {
        put!(self, "## {}\n", markdown_text(&section.heading()));
        put!(
            self,
            "{}; {} without known failures.\n",
            section.totals.sentence(),
            section.totals.percent_without_known()
        );
        if let Some(sentence) = section.self_reference_sentence() {
            put!(self, "{sentence}.\n");
        }
        put!(self, "### Suites\n");
        self.groups("suite", &section.suites.iter().collect::<Vec<_>>());
        let failing: Vec<&Group> = section.subjects.iter().filter(|g| !g.passes()).collect();
        let whole: Vec<String> = section
            .subjects
            .iter()
            .filter(|g| g.passes())
            .map(Group::name)
            .collect();
        put!(self, "### Operators, the worst first\n");
        if !failing.is_empty() {
            let shown = failing.len().min(self.limits.subjects);
            self.groups("operator", &failing[..shown]);
            self.more(failing.len(), self.limits.subjects, "operators");
        }
        if !whole.is_empty() {
            put!(
                self,
                "Operators that pass all their cases ({}): {}.\n",
                thousands(whole.len()),
                listed(&whole, self.limits.subjects)
            );
        }
        self.known(section);
        for (title, kind) in NOTABLE {
            self.passes(title, section, kind);
        }
        self.skipped(section);
    }

    fn groups(&mut self, name: &str, groups: &[&Group]) {
        let columns = columns(groups);
        let names = Totals::default().others();
        let names: String = columns
            .iter()
            .map(|&i| format!(" {} |", names[i].0))
            .collect();
        put!(
            self,
            "| {name} | cases | pass |{names} pass rate | without known |"
        );
        put!(
            self,
            "|---|--:|--:|{}--:|--:|",
            "--:|".repeat(columns.len())
        );
        for group in groups {
            let others = group.totals.others();
            let counts: String = columns
                .iter()
                .map(|&i| format!(" {} |", others[i].1))
                .collect();
            put!(
                self,
                "| `{}` | {} | {} |{counts} {} | {} |",
                group.name(),
                group.totals.cases,
                group.totals.pass,
                group.totals.percent(),
                group.totals.percent_without_known()
            );
        }
        put!(self, "");
    }

    fn known(&mut self, section: &Section<'_>) {
        if section.known.is_empty() {
            return;
        }
        put!(self, "### Known failures\n");
        put!(
            self,
            "| cases | outcome | which | reason | issue | since | until |"
        );
        put!(self, "|--:|---|---|---|---|---|---|");
        for group in section.known.iter().take(self.limits.groups) {
            let entry = group.expectation;
            let issue = entry.and_then(|entry| entry.issue.as_ref());
            put!(
                self,
                "| {} | {} | {} | {} | {} | {} | {} |",
                thousands(group.cases.len()),
                group.outcome_words(),
                entry.map_or("–".to_owned(), |entry| markdown_text(&entry.cases)),
                markdown_text(&shorten(&known_reason(group), self.limits.message)),
                issue.map_or("untracked".to_owned(), |id| issue_link(
                    id,
                    group.issue_state
                )),
                entry.map_or("–".to_owned(), |entry| entry.since.to_string()),
                entry
                    .and_then(|entry| entry.until.as_ref())
                    .map_or("–".to_owned(), |until| markdown_text(&until.to_string())),
            );
        }
        put!(self, "");
        self.more(section.known.len(), self.limits.groups, "known failures");
    }

    fn passes(&mut self, title: &str, section: &Section<'_>, kind: VerdictKind) {
        let ids: Vec<&str> = section
            .of(kind)
            .map(|verdict| verdict.case.as_str())
            .collect();
        if !ids.is_empty() {
            put!(self, "### {title}\n");
            put!(self, "- {}", cases(ids.len()));
            self.cases(&ids);
            put!(self, "");
        }
    }

    fn skipped(&mut self, section: &Section<'_>) {
        if section.skipped.is_empty() {
            return;
        }
        put!(self, "### Skipped, by reason\n");
        for group in section.skipped.iter().take(self.limits.groups) {
            let ids: Vec<&str> = group.cases.iter().map(|case| case.as_str()).collect();
            put!(
                self,
                "- {}: {}",
                cases(ids.len()),
                markdown_code(&shorten(&group.reason, self.limits.message))
            );
            self.cases(&ids);
        }
        self.more(section.skipped.len(), self.limits.groups, "reasons");
        put!(self, "");
    }

    fn more(&mut self, all: usize, shown: usize, what: &str) {
        if all > shown {
            put!(
                self,
                "\n… and {} more {what}; `tpu-parity report --format json` has all.\n",
                thousands(all - shown)
            );
        }
    }
}

/// "`a`, `b` and 3 more"; the names are ids.
fn listed<T: AsRef<str>>(names: &[T], limit: usize) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(limit)
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    let more = match names.len().saturating_sub(limit) {
        0 => String::new(),
        n => format!(" and {} more", thousands(n)),
    };
    format!("{}{more}", shown.join(", "))
}
