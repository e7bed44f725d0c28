//! The table of recompiles: which functions of a client's program the virtual TPU compiled for more than one set of shapes,
//! and what that cost. Drawn from a compile log.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;

use super::escape::{self, markdown_text};
use super::{summary::clean, terminal, units};
use crate::track::thousands;
use crate::virtual_tpu::compile_log::{CompileLog, Function, LogOutcome, Shapes};

/// Functions, and sets of shapes of one; the rest is counted.
const FUNCTIONS: usize = 50;
const SHAPES: usize = 8;
/// Characters of a set of shapes, and of a caller.
const LONGEST: usize = 200;

/// What a compile log comes to.
#[derive(Debug, Serialize)]
pub struct Recompiles {
    pub compilations: usize,
    /// Compilations that did not come to a program that runs.
    pub failed: usize,
    pub functions: usize,
    pub total_ms: f64,
    /// In functions that had been compiled before, for other shapes.
    pub recompile_ms: f64,
    /// Those that took longest first.
    pub recompiled: Vec<Function>,
}

/// `sum` makes -0 of nothing.
fn total(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(0.0, |total, time| total + time)
}

impl Recompiles {
    pub fn of(log: &CompileLog) -> Self {
        let recompiled = log.recompiles();
        let failed = |outcome: &LogOutcome| *outcome != LogOutcome::Compiled;
        Self {
            compilations: log.records.len(),
            failed: log.records.iter().filter(|r| failed(&r.outcome)).count(),
            functions: log.functions().len(),
            total_ms: total(log.records.iter().map(|record| record.total_ms)),
            recompile_ms: total(
                recompiled
                    .iter()
                    .flat_map(|function| function.shapes.iter().skip(1))
                    .map(|shapes| shapes.total_ms),
            ),
            recompiled,
        }
    }

    fn sentence(&self) -> String {
        format!(
            "{} compilations ({} failed) took {}; functions: {}, compiled for more than one set of shapes: {}, whose further sets \
             took {}",
            thousands(self.compilations),
            thousands(self.failed),
            units::milliseconds(self.total_ms),
            thousands(self.functions),
            thousands(self.recompiled.len()),
            units::milliseconds(self.recompile_ms)
        )
    }

    /// For a terminal of 80 columns.
    pub fn terminal(&self) -> String {
        let mut text = "Recompiles — evidence: virtual\n".to_owned();
        for line in terminal::wrap(&self.sentence(), terminal::WIDTH) {
            writeln!(text, "{line}").ok();
        }
        if self.recompiled.is_empty() {
            return text;
        }
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(terminal::WIDTH as u16)
            .force_no_tty()
            .set_header(["function, caller and shapes", "compiled", "took"]);
        for function in self.recompiled.iter().take(FUNCTIONS) {
            let name = format!("{} at {}", clean(&function.function), caller(function));
            table.add_row(row(&name, function.compilations(), function.total_ms));
            for shapes in function.shapes.iter().take(SHAPES) {
                let name = format!("  {}", inputs(shapes));
                table.add_row(row(&name, shapes.compilations, shapes.total_ms));
            }
            let rest = function.shapes.len().saturating_sub(SHAPES);
            if rest > 0 {
                let rest = format!("  and {} more sets of shapes", thousands(rest));
                table.add_row([rest]);
            }
        }
        for line in table.lines() {
            writeln!(text, "{}", line.trim_end()).ok();
        }
        if let Some(rest) = more(self.recompiled.len()) {
            writeln!(text, "  {rest}").ok();
        }
        text
    }

    pub fn markdown(&self) -> String {
        let mut text = format!(
            "## Recompiles — evidence: virtual\n\n{}.\n",
            self.sentence()
        );
        if self.recompiled.is_empty() {
            return text;
        }
        text.push_str(
            "\n| function | caller | shapes | compiled | took |\n|---|---|---|--:|--:|\n",
        );
        for function in self.recompiled.iter().take(FUNCTIONS) {
            let name = markdown_text(&clean(&function.function));
            let caller = markdown_text(&caller(function));
            for (index, shapes) in function.shapes.iter().take(SHAPES).enumerate() {
                let (name, caller) = if index == 0 {
                    (name.as_str(), caller.as_str())
                } else {
                    ("", "")
                };
                writeln!(
                    text,
                    "| {name} | {caller} | {} | {} | {} |",
                    markdown_text(&inputs(shapes)),
                    thousands(shapes.compilations),
                    units::milliseconds(shapes.total_ms)
                )
                .ok();
            }
            let rest = function.shapes.len().saturating_sub(SHAPES);
            if rest > 0 {
                writeln!(text, "| | | and {} more | | |", thousands(rest)).ok();
            }
        }
        if let Some(rest) = more(self.recompiled.len()) {
            writeln!(text, "\n{rest}").ok();
        }
        text
    }
}

fn row(name: &str, compilations: usize, total_ms: f64) -> Vec<Cell> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    vec![
        Cell::new(name),
        right(thousands(compilations)),
        right(units::milliseconds(total_ms)),
    ]
}

/// File and line, without a machine's folders.
fn caller(function: &Function) -> String {
    let caller = function.caller.as_deref().unwrap_or("an unknown place");
    escape::shorten(&clean(caller), LONGEST)
}

fn inputs(shapes: &Shapes) -> String {
    match shapes.inputs.as_slice() {
        [] => "no inputs".to_owned(),
        inputs => escape::shorten(&clean(&inputs.join(", ")), LONGEST),
    }
}

fn more(functions: usize) -> Option<String> {
    let rest = functions.checked_sub(FUNCTIONS).filter(|rest| *rest > 0)?;
    Some(format!("… and {} more functions", thousands(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_tpu::compile_log::{Record, SCHEMA};

    fn record(function: &str, shape: &str, total_ms: f64, outcome: LogOutcome) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            time: jiff::Timestamp::UNIX_EPOCH,
            process: 1,
            target: "vtpu-v6e:1x1".to_owned(),
            numerics: "mxu".to_owned(),
            program: "00".to_owned(),
            function: Some(function.to_owned()),
            caller: Some("train.py:12".to_owned()),
            inputs: Some(vec![shape.to_owned(), "s32[]".to_owned()]),
            replicas: 1,
            partitions: 1,
            outcome,
            message: None,
            total_ms,
            libtpu_ms: None,
            passes_ms: None,
            cpu_ms: None,
            code_size: None,
            hbm: None,
            flops: None,
            estimate: None,
        }
    }

    /// A step compiled for three lengths, one of them twice, and a function that is compiled once.
    fn log() -> CompileLog {
        let compiled = LogOutcome::Compiled;
        CompileLog {
            records: vec![
                record("jit_step", "f32[8,128]", 1000.0, compiled),
                record("jit_init", "f32[4]", 50.0, compiled),
                record("jit_step", "f32[8,256]", 1500.0, compiled),
                record("jit_step", "f32[8,128]", 500.0, compiled),
                record("jit_step", "f32[8,99]", 250.0, LogOutcome::Error),
            ],
        }
    }

    #[test]
    fn the_tables_have_each_set_of_shapes_and_what_it_took() {
        let recompiles = Recompiles::of(&log());
        assert_eq!(recompiles.recompile_ms, 1750.0);
        let sentence = "5 compilations (1 failed) took 3.30 s; functions: 2, compiled for more than one set of shapes: 1, whose \
                        further sets took 1.75 s";
        let terminal = recompiles.terminal();
        assert!(terminal.replace('\n', " ").contains(sentence), "{terminal}");
        for line in terminal.lines() {
            assert!(line.chars().count() <= terminal::WIDTH, "{line}");
        }
        for wanted in [
            "jit_step at",
            "train.py:12",
            "f32[8,256], s32[]",
            "1.50 s",
            "3.25 s",
        ] {
            assert!(terminal.contains(wanted), "{wanted} is not in\n{terminal}");
        }
        let wanted = "| function | caller | shapes | compiled | took |\n|---|---|---|--:|--:|\n\
            | jit\\_step | train.py:12 | f32\\[8,128\\], s32\\[\\] | 2 | 1.50 s |\n\
            |  |  | f32\\[8,256\\], s32\\[\\] | 1 | 1.50 s |\n";
        let markdown = recompiles.markdown();
        assert!(markdown.contains(wanted), "{markdown}");
        for text in [terminal, markdown] {
            assert!(
                !text.contains("/home") && !text.contains("jit_init at"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_log_without_recompiles_says_so() {
        let none = Recompiles::of(&CompileLog {
            records: Vec::new(),
        });
        let text = none.terminal();
        assert!(text.contains("0.00 s") && !text.contains("-0"), "{text}");
        let mut log = log();
        log.records.truncate(2);
        let recompiles = Recompiles::of(&log);
        let terminal = recompiles.terminal().replace('\n', " ");
        assert!(
            terminal.contains("more than one set of shapes: 0"),
            "{terminal}"
        );
        assert!(!recompiles.markdown().contains('|'));
    }
}
