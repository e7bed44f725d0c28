//! `list`: the cases there are.

use std::collections::BTreeMap;

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::suites::SuiteArgs;
use super::{CommandResult, Failure, Verdict, judged};
use crate::case::Case;
use crate::project::Project;
use crate::suite;

/// List the cases that a selection names.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Globs over case ids: `*` stays within a part, `**` crosses slashes [default: all]
    #[arg(value_name = "SELECT")]
    pub select: Vec<String>,
    /// Globs over case ids to leave out
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    #[command(flatten)]
    pub suites: SuiteArgs,
    /// Counts per operator, ids one a line, or everything as JSON
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Table,
    Ids,
    Json,
}

pub fn run(args: &Args) -> CommandResult {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    let project = Project::discover(&here).map_err(Failure::wrong_use)?;
    let cases = args.suites.load(&project)?;
    let cases = suite::select(cases, &args.select, &args.exclude).map_err(Failure::wrong_use)?;
    let text = match args.format {
        Format::Table => table(&cases),
        Format::Ids => cases.iter().map(|case| format!("{}\n", case.id)).collect(),
        Format::Json => json(&cases).map_err(Failure::harness)?,
    };
    judged::print(&text)?;
    Ok(Verdict::Clean)
}

fn table(cases: &[Case]) -> String {
    let mut suites: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for case in cases {
        *suites
            .entry(case.id.suite())
            .or_default()
            .entry(case.id.subject())
            .or_default() += 1;
    }
    let mut text = String::new();
    for (suite, subjects) in &suites {
        let total: usize = subjects.values().sum();
        text.push_str(&format!(
            "{suite}: {total} cases of {} subjects\n",
            subjects.len()
        ));
        text.push_str(&columns(subjects));
        text.push('\n');
    }
    text.push_str(&format!("{} cases\n", cases.len()));
    text
}

/// Two subjects side by side, so that a suite fits a screen of 80 columns.
fn columns(subjects: &BTreeMap<&str, usize>) -> String {
    let cells: Vec<(&str, usize)> = subjects
        .iter()
        .map(|(name, count)| (*name, *count))
        .collect();
    let half = cells.len().div_ceil(2);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(80)
        .set_header(["subject", "cases", "subject", "cases"]);
    for row in 0..half {
        let mut line = Vec::with_capacity(4);
        for (name, count) in [cells.get(row), cells.get(row + half)]
            .into_iter()
            .flatten()
        {
            line.push((*name).to_owned());
            line.push(count.to_string());
        }
        table.add_row(line);
    }
    for index in [1, 3] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

fn json(cases: &[Case]) -> serde_json::Result<String> {
    let list = serde_json::json!({ "schema": "tpu-parity/cases/1", "cases": cases });
    serde_json::to_string_pretty(&list).map(|text| text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Origin, ReferenceProgram};

    fn case(id: &str) -> Case {
        Case {
            id: id.parse().unwrap(),
            origin: Origin {
                file: "suites/s/f.toml".into(),
                line: 1,
            },
            program: String::new(),
            reference_program: ReferenceProgram::Native,
            inputs: Vec::new(),
            seed: 1,
            tolerances: Vec::new(),
            distribution: None,
            tolerance_source: None,
            scale_program: None,
            layers: Vec::new(),
            unloadable: None,
        }
    }

    #[test]
    fn the_table_counts_per_suite_and_subject_within_80_columns() {
        let cases = [
            "s/add/f32",
            "s/add/i32",
            "s/real_dynamic_slice/f32",
            "z/abs/f32",
        ]
        .map(case);
        let text = table(&cases);
        assert!(text.starts_with("s: 3 cases of 2 subjects\n"), "{text}");
        assert!(text.ends_with("\n4 cases\n"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let row = text.lines().find(|line| line.contains("add")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["add", "2", "real_dynamic_slice", "1"]);
    }
}
