//! For a terminal: the worst errors, what is unexpected, and the throughput.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::{Report, TargetReport, Totals, matrix};
use crate::report::escape;
use crate::track::VerdictKind;

/// How many failures are shown per target.
const SHOWN: usize = 20;
/// How many characters of a message.
const LONGEST: usize = 220;

pub(super) fn render(report: &Report) -> String {
    let mut lines = Vec::new();
    for target in &report.targets {
        lines.push(format!(
            "worst error in ulp on {} (evidence: {}); ! breaks the tolerance",
            target.target, target.evidence
        ));
        for small in [false, true] {
            let table = matrix(target, |t| (t.bits() <= 8) == small);
            if !table.is_empty() {
                lines.push(aligned(table));
            }
        }
        lines.extend(failures(target));
        let of = |kind| target.rows.iter().filter(|row| row.verdict == kind).count();
        lines.push(format!(
            "{}: {}; {} known failures, {} unexpected\n",
            target.target,
            Totals::of(target).words(),
            of(VerdictKind::Known),
            of(VerdictKind::NewFailure),
        ));
    }
    lines.join("\n")
}

fn aligned(rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut rows = rows.into_iter();
    if let Some(header) = rows.next() {
        table.set_header(header);
    }
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt() + "\n"
}

fn failures(target: &TargetReport) -> Vec<String> {
    let unexpected = |kind| matches!(kind, VerdictKind::NewFailure | VerdictKind::Fixed);
    let rows: Vec<_> = target
        .rows
        .iter()
        .filter(|row| unexpected(row.verdict))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("unexpected on {}:", target.target)];
    lines.extend(rows.iter().take(SHOWN).map(|row| {
        let message = row.message.as_deref().unwrap_or_default();
        let message = escape::shorten(&escape::line(message), LONGEST);
        format!(
            "  {} {} {} (tolerance {}): {message}",
            row.verdict,
            row.outcome,
            row.id,
            row.tolerance_words()
        )
    }));
    if rows.len() > SHOWN {
        lines.push(format!("  … and {} more", rows.len() - SHOWN));
    }
    lines.push(String::new());
    lines
}
