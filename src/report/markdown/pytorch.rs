//! PyTorch's operators and models: what to file first, pass rates of models, and the table of operators.

use std::fmt::Write;

use super::{Page, listed};
use crate::outcome::OutcomeKind;
use crate::report::escape::{markdown_code, markdown_text, shorten};
use crate::report::pytorch::{Finding, OperatorRow, PyTorch};
use crate::report::summary::Summary;
use crate::track::thousands;

/// Models that a row names.
const MODELS: usize = 6;
/// Characters of a message.
const MESSAGE: usize = 160;

impl Page {
    pub(super) fn pytorch(&mut self, summary: &Summary<'_>) {
        for target in &summary.pytorch {
            put!(
                self,
                "## PyTorch on {} — evidence: {}\n",
                markdown_text(&target.target),
                target.evidence
            );
            self.findings(target);
            self.model_rates(target);
            self.operators(target);
        }
    }

    fn findings(&mut self, target: &PyTorch) {
        if target.findings.is_empty() {
            return;
        }
        put!(
            self,
            "### Failing operators, those that block most models first\n"
        );
        put!(
            self,
            "A model is blocked by an operator that the message of one of its failures names; under suspicion are operators that \
             fail in cases of their own and that a model uses which does not pass.\n"
        );
        put!(
            self,
            "| operator | outcome | cases | element types | blocks | suspected in | used by | issue | says |"
        );
        put!(self, "|---|---|--:|---|---|---|--:|---|---|");
        for finding in target.findings.iter().take(self.limits.subjects) {
            put!(
                self,
                "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} |",
                finding.operator,
                finding.outcome,
                thousands(finding.cases),
                words(
                    &finding.element_types.iter().collect::<Vec<_>>(),
                    usize::MAX
                ),
                words(&finding.blocks.iter().collect::<Vec<_>>(), MODELS),
                words(&finding.suspected.iter().collect::<Vec<_>>(), MODELS),
                thousands(finding.used_by),
                issues(finding),
                markdown_code(&shorten(&finding.message, MESSAGE))
            );
        }
        put!(self, "");
        self.more(target.findings.len(), self.limits.subjects, "operators");
    }

    fn model_rates(&mut self, target: &PyTorch) {
        if target.models.is_empty() {
            return;
        }
        put!(self, "### Models, the lowest pass rate first\n");
        put!(
            self,
            "| model | cases | pass | unsupported | skipped | pass rate | blocked by |"
        );
        put!(self, "|---|--:|--:|--:|--:|--:|---|");
        let (whole, rest): (Vec<_>, Vec<_>) =
            target.models.iter().partition(|row| row.totals.all_pass());
        for row in rest.iter().take(self.limits.subjects) {
            put!(
                self,
                "| `{}/{}` | {} | {} | {} | {} | {} | {} |",
                row.suite,
                row.model,
                row.totals.cases,
                row.totals.pass,
                row.totals.unsupported,
                row.totals.skipped,
                row.totals.percent(),
                words(&row.blocked_by.iter().collect::<Vec<_>>(), MODELS)
            );
        }
        put!(self, "");
        self.more(rest.len(), self.limits.subjects, "models");
        let names: Vec<String> = whole
            .iter()
            .map(|row| format!("{}/{}", row.suite, row.model))
            .collect();
        if !names.is_empty() {
            put!(
                self,
                "Models that pass all their cases ({}): {}.\n",
                thousands(names.len()),
                listed(&names, self.limits.subjects)
            );
        }
    }

    fn operators(&mut self, target: &PyTorch) {
        if target.operators.is_empty() {
            return;
        }
        put!(self, "### Operators by element type and mode\n");
        let modes: Vec<&str> = target.modes.iter().map(String::as_str).collect();
        put!(
            self,
            "A cell has a letter for each of: {}; the worst of the samples. `P` pass, `F` fail, `E` error, `U` unsupported, `C` crash, \
             `T` timeout, `O` out of memory, `s` skipped, `.` no such case. Operators of which every case passes are below the table.\n",
            modes.join(", ")
        );
        let heads: String = target
            .element_types
            .iter()
            .map(|name| format!(" {name} |"))
            .collect();
        put!(self, "| operator |{heads} pass |");
        put!(
            self,
            "|---|{}--:|",
            "---|".repeat(target.element_types.len())
        );
        let (whole, rest): (Vec<&OperatorRow>, Vec<&OperatorRow>) = target
            .operators
            .iter()
            .partition(|row| row.totals.all_pass());
        for row in rest.iter().take(self.limits.operators) {
            let cells: String = target
                .element_types
                .iter()
                .map(|name| format!(" {} |", cell(row, name, &target.modes)))
                .collect();
            let (pass, cases) = (row.totals.pass, row.totals.cases);
            put!(self, "| `{}` |{cells} {pass} / {cases} |", row.operator);
        }
        put!(self, "");
        self.more(rest.len(), self.limits.operators, "operators");
        let names: Vec<&str> = whole.iter().map(|row| row.operator.as_str()).collect();
        if !names.is_empty() {
            put!(
                self,
                "Operators that pass all their cases ({}): {}.\n",
                thousands(names.len()),
                listed(&names, self.limits.operators)
            );
        }
    }
}

fn cell(row: &OperatorRow, element_type: &str, modes: &[String]) -> String {
    let Some(cells) = row.cells.get(element_type) else {
        return String::new();
    };
    let letters: String = modes
        .iter()
        .map(|mode| letter(cells.get(mode).copied()))
        .collect();
    format!("`{letters}`")
}

fn letter(kind: Option<OutcomeKind>) -> char {
    match kind {
        None => '.',
        Some(OutcomeKind::Pass) => 'P',
        Some(OutcomeKind::Fail) => 'F',
        Some(OutcomeKind::Error) => 'E',
        Some(OutcomeKind::Unsupported) => 'U',
        Some(OutcomeKind::Crash) => 'C',
        Some(OutcomeKind::Timeout) => 'T',
        Some(OutcomeKind::Oom) => 'O',
        Some(OutcomeKind::Skipped) => 's',
    }
}

fn words(names: &[&String], limit: usize) -> String {
    match names.is_empty() {
        true => "–".to_owned(),
        false => listed(names, limit),
    }
}

fn issues(finding: &Finding) -> String {
    let links: Vec<String> = finding
        .issues
        .iter()
        .map(|issue| super::tail::issue_link(issue, None))
        .collect();
    match links.is_empty() {
        true => "to file".to_owned(),
        false => links.join(", "),
    }
}
