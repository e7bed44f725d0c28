//! `exhaustive.md`: what was tried, the worst errors, every failure with its reason, and the tolerances beside what was measured.

use super::{BUCKETS, Measured, Report, Row, TargetReport, Totals, WIDE, figure, matrix};
use crate::report::escape::{markdown_code, markdown_text, shorten};
use crate::tensor::ElementType;
use crate::track::VerdictKind;

/// How many characters of a message are shown.
const LONGEST: usize = 300;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::from("# Exhaustive tests\n\n");
    let environment = &report.environment;
    out += &format!(
        "Run on {} with tpu-parity {}, {} cores of {}.\n\n",
        report.started.strftime("%Y-%m-%d"),
        environment.tool_version,
        environment.cores,
        markdown_text(&environment.cpu),
    );
    out += "Each operator ran on all values of its type in one program: all 65,536 of bf16 and f16, all of the types of 8 bits \
        and fewer; of f32 a sample of 2^20 that holds every exponent with both signs, subnormals, the neighbours of powers of two and of \
        ties, and the operators' own hard points. Operators of two operands ran on all pairs of 512 hard values, or of all values of a type \
        of 8 bits and fewer. Errors are in ulp of the result's type against a result computed in f64 or better without any \
        compiler. A result that is right for a subnormal operand taken as zero, or zero for a subnormal one, counts as flushed where the \
        target flushes, and in no error. Evidence `virtual` is the TPU compiler's optimized program executed by XLA CPU: it shows what the \
        compiler made of the operator, not the hardware's arithmetic.\n\n";
    for target in &report.targets {
        of_target(&mut out, report, target);
    }
    tolerances(&mut out, report);
    out
}

fn of_target(out: &mut String, report: &Report, target: &TargetReport) {
    out.push_str(&format!("## {} ({})\n\n", target.target, target.evidence));
    if let Some(plugin) = report.environment.plugin(&target.target) {
        let name = plugin.name.as_deref().unwrap_or("unpinned");
        let executor = plugin
            .executor
            .as_ref()
            .map_or_else(String::new, |executor| {
                let name = executor.name.as_deref().unwrap_or("unpinned");
                format!(", executed by {}", markdown_code(name))
            });
        out.push_str(&format!(
            "Plug-in {}, SHA-256 {}{executor}.\n",
            markdown_code(name),
            markdown_code(&plugin.sha256),
        ));
    }
    out.push_str(&format!("{}.\n\n", Totals::of(target).words()));
    out.push_str("Worst error in ulp; `!` marks values that break the tolerance, a word what happened where nothing was measured.\n\n");
    let large = |t: ElementType| t.bits() > 8;
    for wanted in [true, false] {
        let rows = matrix(target, |t| large(t) == wanted);
        let right = rows.first().map_or(0, Vec::len).saturating_sub(1);
        table(out, rows, right);
    }
    histograms(out, target);
    failures(out, target);
}

/// Of f32, where the errors spread.
fn histograms(out: &mut String, target: &TargetReport) {
    let rows: Vec<&Row> = target
        .rows
        .iter()
        .filter(|row| row.result == ElementType::F32 && row.operands == row.result)
        .filter(|row| row.measure.values > 0)
        .collect();
    if rows.is_empty() {
        return;
    }
    out.push_str("How many f32 results lie within so many ulp, beyond the column before:\n\n");
    let mut header = vec!["operator".to_owned()];
    header.extend(BUCKETS.iter().map(|end| end.to_string()));
    header.extend(["more", "subnormal", "left open"].map(str::to_owned));
    let columns = header.len() - 1;
    let mut lines = vec![header];
    for row in rows {
        let measure = &row.measure;
        let mut line = vec![row.label()];
        let flushed =
            measure.operands_subnormal + measure.operands_flushed + measure.results_flushed;
        let counts = measure
            .histogram
            .iter()
            .copied()
            .chain([flushed, measure.open]);
        line.extend(counts.map(|count| match count {
            0 => String::new(),
            count => count.to_string(),
        }));
        lines.push(line);
    }
    table(out, lines, columns);
}

fn failures(out: &mut String, target: &TargetReport) {
    let rows: Vec<&Row> = target
        .rows
        .iter()
        .filter(|row| !matches!(row.verdict, VerdictKind::Ok))
        .collect();
    if rows.is_empty() {
        out.push_str("No value breaks its tolerance.\n\n");
        return;
    }
    out.push_str("What broke a tolerance or did not run:\n\n");
    let mut lines = vec![
        ["id", "verdict", "outcome", "tolerance", "what", "reason"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in rows {
        let message = row.message.as_deref().unwrap_or_default();
        lines.push(vec![
            markdown_code(&row.id),
            row.verdict.to_string(),
            row.outcome.to_string(),
            row.tolerance_words(),
            markdown_text(&shorten(message, LONGEST)),
            markdown_text(row.reason.as_deref().unwrap_or_default()),
        ]);
    }
    table(out, lines, 0);
}

fn tolerances(out: &mut String, report: &Report) {
    let measured = report.tolerances();
    let section = |out: &mut String, title: &str, wanted: &dyn Fn(&Measured<'_>) -> bool| {
        let rows: Vec<&Measured<'_>> = measured.iter().filter(|m| wanted(m)).collect();
        out.push_str(&format!("{title}\n\n"));
        if rows.is_empty() {
            out.push_str("None.\n\n");
            return;
        }
        let mut lines = vec![
            [
                "id",
                "tolerance (ulp)",
                "worst (ulp)",
                "on",
                "where",
                "source of the tolerance",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for m in rows {
            let place = m
                .row
                .measure
                .worst
                .as_ref()
                .map_or_else(String::new, |worst| worst.describe());
            lines.push(vec![
                markdown_code(&m.row.id),
                m.allowed.to_string(),
                figure(m.row.worst_ulp),
                m.target.target.to_string(),
                markdown_text(&place),
                markdown_text(m.row.tolerance_source.as_deref().unwrap_or_default()),
            ]);
        }
        table(out, lines, 0);
    };
    out.push_str("## Tolerances beside what was measured\n\n");
    section(out, "Narrower than the worst error measured:", &|m| {
        m.is_narrow()
    });
    let wide = format!(
        "At least {WIDE} times the worst error measured on any of these targets (or {WIDE} half ulps):"
    );
    section(out, &wide, &|m| m.is_wide());
}

/// The first row is the header; the last `right` columns are aligned right.
fn table(out: &mut String, rows: Vec<Vec<String>>, right: usize) {
    let mut rows = rows.into_iter();
    let Some(header) = rows.next() else {
        return;
    };
    let columns = header.len();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(header));
    let rule = (0..columns).map(|column| {
        if column + right >= columns {
            "--:"
        } else {
            "---"
        }
    });
    out.push_str(&line(rule.map(str::to_owned).collect()));
    for row in rows {
        out.push_str(&line(row));
    }
    out.push('\n');
}
