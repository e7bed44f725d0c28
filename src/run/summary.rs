//! Counts of outcomes, and the table that `run` prints at the end.

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

/// A row per target, a column per kind of outcome that occurs.
pub fn summary_table(targets: &[Target], outcomes: &[Outcome]) -> String {
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
    table.trim_fmt()
}
