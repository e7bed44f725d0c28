//! What `run` says at the end: counts per target and the first cases that did not pass. Judging them is `track`'s job.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::outcome::{Outcome, OutcomeKind};
use crate::target::Target;

/// How many outcomes there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([usize; OutcomeKind::ALL.len()]);

impl Counts {
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            counts.add(outcome.outcome);
        }
        counts
    }

    pub fn add(&mut self, kind: OutcomeKind) {
        self.0[kind as usize] += 1;
    }

    pub fn get(&self, kind: OutcomeKind) -> usize {
        self.0[kind as usize]
    }

    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// `3 fail, 1 crash`; empty when all pass.
    pub(super) fn not_passing(&self) -> String {
        let parts: Vec<String> = OutcomeKind::ALL
            .into_iter()
            .filter(|kind| *kind != OutcomeKind::Pass && self.get(*kind) > 0)
            .map(|kind| format!("{} {kind}", self.get(kind)))
            .collect();
        parts.join(", ")
    }
}

/// A row per target, then at most `examples` lines per target, one per case that neither passed nor was skipped.
pub fn summary_table(targets: &[Target], outcomes: &[Outcome], examples: usize) -> String {
    let shown: Vec<OutcomeKind> = OutcomeKind::ALL
        .into_iter()
        .filter(|kind| *kind == OutcomeKind::Pass || Counts::of(outcomes).get(*kind) > 0)
        .collect();
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut header = vec![
        "target".to_owned(),
        "evidence".to_owned(),
        "cases".to_owned(),
    ];
    header.extend(shown.iter().map(ToString::to_string));
    table.set_header(header);
    let of_target = |target: &Target| {
        let name = target.to_string();
        outcomes
            .iter()
            .filter(move |outcome| outcome.target == name)
    };
    for target in targets {
        let counts = Counts::of(of_target(target));
        let mut row = vec![
            target.to_string(),
            target.evidence().to_string(),
            counts.total().to_string(),
        ];
        row.extend(shown.iter().map(|kind| counts.get(*kind).to_string()));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    for target in targets {
        let notable: Vec<&Outcome> = of_target(target)
            .filter(|o| !matches!(o.outcome, OutcomeKind::Pass | OutcomeKind::Skipped))
            .collect();
        if notable.is_empty() || examples == 0 {
            continue;
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n{target}:");
        for outcome in notable.iter().take(examples) {
            let message = outcome.message.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                "  {} in {}: {}: {}",
                outcome.outcome,
                outcome.stage,
                outcome.case,
                shortened(message)
            );
        }
        if notable.len() > examples {
            let _ = writeln!(text, "  … and {} more", notable.len() - examples);
        }
    }
    text
}

fn shortened(message: &str) -> String {
    const LONGEST: usize = 160;
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
