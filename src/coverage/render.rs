//! The coverage as a page of Markdown, and its outline: the page without outcomes, which the suites alone decide.

use std::fmt::Write;

use super::{Cell, Coverage, Kind, Outcomes, Row};
use crate::case::CaseId;

/// The page. Each target has a table, for outcomes of different evidence are never mixed.
pub fn render(coverage: &Coverage<'_>, outcomes: &Outcomes) -> String {
    let mut page = String::new();
    head(coverage, &mut page);
    for target in &outcomes.targets {
        let passed = |case: &CaseId, now: usize| target.passed(case, now);
        let title = format!("`{}` (evidence: {})", target.target, target.evidence);
        let _ = writeln!(
            page,
            "\n## {title}\n\nOutcomes of run `{}`.\n",
            outcomes.run
        );
        table(coverage, &passed, &mut page);
    }
    if outcomes.targets.is_empty() {
        let _ = writeln!(
            page,
            "\n## Cases\n\nThere is no report yet, and so no outcome.\n"
        );
        table(coverage, &|_, _| None, &mut page);
    }
    rest(coverage, &mut page);
    page
}

/// What the page says of the suites: the same for two pages of the same suites, whatever the outcomes.
pub fn outline(page: &str) -> String {
    let mut tables = 0;
    let mut skipping = false;
    let mut kept = String::new();
    for line in page.lines() {
        if line.starts_with("## ") {
            let of_target = line.contains("(evidence: ") || line == "## Cases";
            tables += usize::from(of_target);
            skipping = of_target && tables > 1;
            if of_target {
                kept.push_str(if skipping { "" } else { "## Cases\n" });
                continue;
            }
        }
        if skipping || line.starts_with("Outcomes of run") || line.starts_with("There is no report")
        {
            continue;
        }
        // Marks of outcomes stand for cases.
        kept.extend(line.chars().map(|c| match c {
            '◐' | '✗' | '?' if line.starts_with("    ") => '✓',
            c => c,
        }));
        kept.push('\n');
    }
    kept
}

fn head(coverage: &Coverage<'_>, page: &mut String) {
    let source = &coverage.specification.source;
    let allowed = |row: &Row<'_>| row.cells.len();
    let with_cases = |row: &Row<'_>| {
        let cells = row.cells.values();
        cells.filter(|cell| matches!(cell, Cell::Cases(_))).count()
    };
    let cells: usize = coverage.rows.iter().map(allowed).sum();
    let covered: usize = coverage.rows.iter().map(with_cases).sum();
    let refused: usize = coverage.refused.values().sum();
    let commit = source.commit.get(..12).unwrap_or(&source.commit);
    let _ = write!(
        page,
        "# Coverage of the specification\n\n\
         Made by `tpu-parity coverage` from the suites, from `suites/specification.toml` (StableHLO {} and CHLO, {} at {commit})\n\
         and from the latest report. A test fails when the suites and this page part ways.\n\n\
         {} operators. Their constraints allow {cells} pairs of an operator (or of one of its operands or results that has a type of\n\
         its own) and an element type: {covered} have cases, {} have a written reason why not. {refused} programs must be refused.\n\n\
         In the tables: `✓` every case passes, `◐` some do, `✗` none does (each failure is a known one, with its reason, or stands in\n\
         the report), `?` the cases have changed since the report, a letter: no case, for the reason below. A blank: the\n\
         constraints do not allow it. The number is that of the operator's cases.\n",
        source.version,
        source.repository,
        coverage.specification.operators.len(),
        cells - covered,
    );
}

fn table(
    coverage: &Coverage<'_>,
    passed: &dyn Fn(&CaseId, usize) -> Option<bool>,
    page: &mut String,
) {
    let width = coverage
        .rows
        .iter()
        .map(|row| label(row).len())
        .max()
        .unwrap_or(0);
    let kinds: Vec<Kind> = Kind::all().collect();
    let tallest = kinds.iter().map(|kind| kind.to_string().len()).max();
    let tallest = tallest.unwrap_or(0);
    for line in 0..tallest {
        let mut text = format!("    {:width$}  {:5}", "", "");
        for kind in &kinds {
            let name = format!("{:>tallest$}", kind.to_string());
            text.push(' ');
            text.extend(name.chars().nth(line));
        }
        let _ = writeln!(page, "{}", text.trim_end());
    }
    for row in &coverage.rows {
        let mut text = format!("    {:width$}  {:>5}", label(row), row.cases.len());
        for kind in &kinds {
            text.push(' ');
            text.push(match row.cells.get(kind) {
                None => ' ',
                Some(Cell::Missing) => '!',
                Some(Cell::Uncovered(index)) => letter(*index),
                Some(Cell::Cases(cases)) => mark(cases, row, passed),
            });
        }
        if row.value.is_none() && !row.cases.is_empty() {
            text.push_str("  (no element type)");
        }
        let _ = writeln!(page, "{}", text.trim_end());
    }
}

fn label(row: &Row<'_>) -> String {
    match row.value {
        None => row.operator.name.clone(),
        Some(value) => row.operator.label(value),
    }
}

fn mark(cases: &[&CaseId], row: &Row<'_>, passed: &dyn Fn(&CaseId, usize) -> Option<bool>) -> char {
    let now = |case: &CaseId| {
        let of_subject =
            |other: &&&CaseId| other.suite() == case.suite() && other.subject() == case.subject();
        row.cases.iter().filter(of_subject).count()
    };
    let outcomes: Option<Vec<bool>> = cases.iter().map(|case| passed(case, now(case))).collect();
    match outcomes {
        None => '?',
        Some(outcomes) if outcomes.iter().all(|passed| *passed) => '✓',
        Some(outcomes) if outcomes.iter().any(|passed| *passed) => '◐',
        Some(_) => '✗',
    }
}

/// a, b, … z, A, B, …
fn letter(index: usize) -> char {
    let letters = ('a'..='z').chain('A'..='Z');
    letters.clone().nth(index).unwrap_or('*')
}

fn rest(coverage: &Coverage<'_>, page: &mut String) {
    let specification = coverage.specification;
    page.push_str("\n## Without a case\n\n");
    for (index, entry) in specification.uncovered.iter().enumerate() {
        let is_this = |cell: &Cell<'_>| matches!(cell, Cell::Uncovered(of) if *of == index);
        let cells = coverage.rows.iter().flat_map(|row| row.cells.values());
        let count = cells.filter(|cell| is_this(cell)).count();
        let _ = writeln!(
            page,
            "- `{}` ({count}) {}: {}",
            letter(index),
            code(&entry.operators),
            entry.reason
        );
    }
    page.push_str("\n## Cases outside the specification\n\n");
    for entry in &specification.beyond {
        let _ = writeln!(page, "- {}: {}", code(&entry.operators), entry.reason);
    }
    page.push_str("\n## Corners\n\n| corner | source | cases |\n|---|---|--:|\n");
    for (corner, cases) in &coverage.corners {
        let _ = writeln!(
            page,
            "| {} | `{}` | {} |",
            corner.what,
            corner.source,
            cases.len()
        );
    }
    page.push_str("\n## Programs that must be refused\n\n| operator | programs |\n|---|--:|\n");
    for (operator, count) in &coverage.refused {
        let _ = writeln!(page, "| `{operator}` | {count} |");
    }
}

fn code(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
