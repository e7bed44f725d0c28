//! The terminal report: at most 80 columns, what is unexpected first.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, presets};

use super::summary::{FailureGroup, Group, KnownGroup, NOTABLE, Section, Summary};
use super::{Colour, escape};
use crate::outcome::OutcomeKind;
use crate::track::impact::STILL_FAILING;
use crate::track::{Totals, VerdictKind, cases, thousands};

pub const WIDTH: usize = 80;

/// Rows and groups of one target; the rest is counted.
const SHOWN: usize = 25;
const CASES_SHOWN: usize = 4;
const MESSAGE: usize = 300;

pub fn render(summary: &Summary<'_>, colour: Colour) -> String {
    let mut page = Page {
        text: String::new(),
        colour,
    };
    page.head(summary);
    page.overview(summary);
    for section in &summary.sections {
        page.unexpected(section);
    }
    for section in &summary.sections {
        page.section(section, summary);
    }
    page.pytorch(summary);
    page.compiled(summary);
    if let Some(recompiles) = summary.recompiles {
        page.text.push_str(&recompiles.terminal());
        page.text.push('\n');
    }
    page.foot(summary);
    page.text
}

mod compiled;
mod pytorch;

struct Page {
    text: String,
    colour: Colour,
}

impl Page {
    fn head(&mut self, summary: &Summary<'_>) {
        let record = summary.record;
        let label = record.label.as_deref();
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        self.heading(&format!("tpu-parity: run {}{label}", record.id));
        let state = match record.finished {
            Some(finished) => format!("finished {finished:.0}"),
            None => "not finished".to_owned(),
        };
        self.lines(0, &format!("started {:.0}, {state}", record.started));
        if let Some(baseline) = &summary.judgement.baseline {
            self.lines(0, &format!("baseline {baseline}"));
        }
        self.text.push('\n');
    }

    fn overview(&mut self, summary: &Summary<'_>) {
        let mut table = self.table(&[
            "target",
            "evidence",
            "cases",
            "pass",
            "pass rate",
            "w/o known",
            "unexpected",
        ]);
        let mut sections: Vec<&Section<'_>> = summary.sections.iter().collect();
        sections.sort_by(|a, b| {
            let rate = |s: &Section<'_>| s.totals.pass_rate().unwrap_or(1.0);
            rate(a).total_cmp(&rate(b))
        });
        for section in sections {
            let unexpected: usize = section.unexpected.iter().map(|g| g.cases.len()).sum();
            table.add_row(vec![
                text(&section.label),
                text(section.evidence.as_str()),
                number(section.totals.cases),
                number(section.totals.pass),
                rate(&section.totals),
                right(section.totals.percent_without_known()),
                highlighted(unexpected, Color::Red),
            ]);
        }
        self.put(&table);
        for section in &summary.sections {
            if section.totals.skipped > 0 {
                let skipped = cases(section.totals.skipped);
                self.lines(0, &format!("skipped on {}: {skipped}", section.heading()));
            }
        }
        self.lines(
            0,
            "pass rate = pass / (cases − skipped); w/o known leaves expected failures out",
        );
        self.text.push('\n');
    }

    fn unexpected(&mut self, section: &Section<'_>) {
        if section.unexpected.is_empty() {
            return;
        }
        self.heading(&format!("Unexpected on {}", section.heading()));
        for group in section.unexpected.iter().take(SHOWN) {
            self.failure_group(group);
        }
        self.more(section.unexpected.len(), SHOWN, "groups");
        self.text.push('\n');
    }

    fn failure_group(&mut self, group: &FailureGroup<'_>) {
        let title = format!("{}: {}", failure_title(group), cases(group.cases.len()));
        let title = self.paint("31", &title);
        self.text.push_str("  ");
        self.text.push_str(&title);
        self.text.push('\n');
        for reason in [group.because, group.message.as_deref()]
            .into_iter()
            .flatten()
        {
            self.lines(4, &escape::shorten(&escape::line(reason), MESSAGE));
        }
        for case in group.cases.iter().take(CASES_SHOWN) {
            self.lines(4, case.as_str());
        }
        let rest = group.cases.len().saturating_sub(CASES_SHOWN);
        if rest > 0 {
            self.lines(4, &format!("and {} more", cases(rest)));
        }
    }

    fn section(&mut self, section: &Section<'_>, summary: &Summary<'_>) {
        self.heading(&section.heading());
        let totals = &section.totals;
        let counts = summary.issues.counts;
        let headline = format!(
            "{} ({} without known failures); {} issues reported, {} fixed",
            totals.sentence(),
            totals.percent_without_known(),
            counts.reported,
            counts.fixed
        );
        self.lines(0, &headline);
        if let Some(sentence) = section.self_reference_sentence() {
            self.lines(0, &sentence);
        }
        self.text.push_str("\nSuites, the worst first\n");
        let suites: Vec<&Group> = section.suites.iter().collect();
        self.groups("suite", &suites);
        let failing: Vec<&Group> = section.subjects.iter().filter(|g| !g.passes()).collect();
        let whole = section.subjects.len() - failing.len();
        if !failing.is_empty() {
            self.text
                .push_str("\nOperators that do not pass all, the worst first\n");
            self.groups("operator", &failing);
        }
        self.lines(
            0,
            &format!("operators that pass all their cases: {}", thousands(whole)),
        );
        self.known(section);
        for (title, kind) in NOTABLE {
            self.passes(title, section, kind);
        }
        self.skipped(section);
        self.text.push('\n');
    }

    fn groups(&mut self, name: &str, groups: &[&Group]) {
        let mut table = self.table(&[name, "cases", "pass", "pass rate", "the others"]);
        for group in groups.iter().take(SHOWN) {
            let others: Vec<String> = group
                .totals
                .others()
                .into_iter()
                .filter(|(_, n)| *n > 0)
                .map(|(outcome, n)| format!("{} {outcome}", thousands(n)))
                .collect();
            table.add_row(vec![
                text(&group.name()),
                number(group.totals.cases),
                number(group.totals.pass),
                rate(&group.totals),
                text(&others.join(", ")),
            ]);
        }
        self.put(&table);
        self.more(groups.len(), SHOWN, &format!("{name}s"));
    }

    fn known(&mut self, section: &Section<'_>) {
        if section.known.is_empty() {
            return;
        }
        self.text.push_str("\nKnown failures\n");
        let mut table = self.table(&["cases", "outcome", "reason", "issue"]);
        for group in section.known.iter().take(SHOWN) {
            table.add_row(vec![
                number(group.cases.len()),
                text(&group.outcome_words()),
                text(&escape::shorten(&known_reason(group), MESSAGE)),
                text(&known_issue(group)),
            ]);
        }
        self.put(&table);
        self.more(section.known.len(), SHOWN, "known failures");
    }

    fn passes(&mut self, title: &str, section: &Section<'_>, kind: VerdictKind) {
        let verdicts: Vec<_> = section.of(kind).collect();
        if verdicts.is_empty() {
            return;
        }
        self.text.push('\n');
        self.lines(0, &format!("{title} ({})", cases(verdicts.len())));
        for verdict in verdicts.iter().take(CASES_SHOWN) {
            self.lines(2, verdict.case.as_str());
            if let Some(because) = &verdict.because {
                self.lines(4, &escape::line(because));
            }
        }
        self.more(verdicts.len(), CASES_SHOWN, "cases");
    }

    fn skipped(&mut self, section: &Section<'_>) {
        if section.skipped.is_empty() {
            return;
        }
        self.text.push('\n');
        let title = format!("Skipped, by reason ({})", cases(section.totals.skipped));
        self.lines(0, &title);
        for group in section.skipped.iter().take(SHOWN) {
            let reason = escape::shorten(&group.reason, MESSAGE);
            self.lines(2, &format!("{}: {reason}", cases(group.cases.len())));
        }
        self.more(section.skipped.len(), SHOWN, "reasons");
    }

    fn foot(&mut self, summary: &Summary<'_>) {
        if !summary.judgement.unused.is_empty() {
            self.heading("Unused expectations: they match no case");
            for &index in summary.judgement.unused.iter().take(SHOWN) {
                let entry = &summary.judgement.expectations[index];
                self.lines(
                    2,
                    &format!("{} {}", entry.place(), escape::line(&entry.cases)),
                );
            }
            self.more(summary.judgement.unused.len(), SHOWN, "entries");
            self.text.push('\n');
        }
        self.heading("Environment");
        let environment = &summary.record.environment;
        self.lines(
            0,
            &format!(
                "tpu-parity {}, {}, {} ({} cores)",
                environment.tool_version,
                escape::line(&environment.os),
                escape::line(&environment.cpu),
                environment.cores
            ),
        );
        for plugin in &summary.plugins {
            let version = plugin.version.as_deref().unwrap_or("of unknown version");
            self.lines(
                0,
                &format!(
                    "{}: {} {version}, PJRT C API {}",
                    plugin.target, plugin.plugin, plugin.api_version
                ),
            );
            self.lines(2, &format!("sha256 {}", plugin.sha256));
            if let Some(executor) = &plugin.executor {
                let version = executor.version.as_deref().unwrap_or("of unknown version");
                let line = format!(
                    "executes on {} {version}, PJRT C API {}, matrix products: {}",
                    executor.plugin, executor.api_version, executor.numerics
                );
                self.lines(2, &line);
                self.lines(2, &format!("sha256 {}", executor.sha256));
            }
        }
    }

    fn table(&self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH as u16)
            .force_no_tty()
            .set_header(header.to_vec());
        if self.colour == Colour::On {
            table.enforce_styling();
        }
        table
    }

    fn put(&mut self, table: &Table) {
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    fn heading(&mut self, text: &str) {
        let start = self.text.len();
        self.lines(0, text);
        let plain = self.text.split_off(start);
        let bold = self.paint("1", plain.trim_end());
        self.text.push_str(&bold);
        self.text.push('\n');
    }

    fn more(&mut self, all: usize, shown: usize, what: &str) {
        if all > shown {
            self.lines(2, &format!("and {} more {what}", thousands(all - shown)));
        }
    }

    fn lines(&mut self, indent: usize, text: &str) {
        for line in wrap(text, WIDTH - indent) {
            writeln!(self.text, "{:indent$}{line}", "").ok();
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Off => text.to_owned(),
        }
    }
}

/// `new-failure: crash at compile`
pub(super) fn failure_title(group: &FailureGroup<'_>) -> String {
    let outcome = group.outcome.map(OutcomeKind::as_str);
    match (outcome, group.stage) {
        (Some(outcome), Some(stage)) => format!("{}: {outcome} at {stage}", group.kind),
        _ => group.kind.to_string(),
    }
}

pub(super) fn known_reason(group: &KnownGroup<'_>) -> String {
    let Some(entry) = group.expectation else {
        return "fails in the same way in the baseline; no expectation".to_owned();
    };
    let mut reason = escape::line(&entry.reason);
    if group.overdue
        && let Some(until) = &entry.until
    {
        reason.push_str(&format!(" [{until} is reached]"));
    }
    if group.still_failing() {
        reason.push_str(&format!(" [{STILL_FAILING}]"));
    }
    reason
}

fn known_issue(group: &KnownGroup<'_>) -> String {
    let issue = group.expectation.and_then(|entry| entry.issue.as_ref());
    match (issue, group.issue_state) {
        (Some(issue), Some(state)) => format!("{issue} ({state})"),
        (Some(issue), None) => issue.to_string(),
        (None, _) => "untracked".to_owned(),
    }
}

/// Lines of at most `width` characters; a longer word is broken.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + letters.len() > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        while letters.len() > width {
            lines.push(letters.drain(..width).collect());
        }
        line.extend(&letters);
        length += letters.len();
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fn text(text: &str) -> Cell {
    Cell::new(text)
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn number(n: usize) -> Cell {
    right(thousands(n))
}

fn highlighted(n: usize, colour: Color) -> Cell {
    match n {
        0 => number(0),
        n => number(n).fg(colour),
    }
}

fn rate(totals: &Totals) -> Cell {
    let cell = right(totals.percent());
    match totals.pass_rate() {
        Some(1.0) => cell.fg(Color::Green),
        Some(rate) if rate < 0.9 => cell.fg(Color::Red),
        Some(_) => cell.fg(Color::Yellow),
        None => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_broken() {
        assert_eq!(wrap("ab cdefgh i", 4), ["ab", "cdef", "gh i"]);
        assert!(wrap("", 4).is_empty());
    }
}
