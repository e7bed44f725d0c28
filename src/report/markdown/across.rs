//! What the targets show side by side: pass rates by operator, and where targets of one kind differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Page;
use crate::case::CaseId;
use crate::outcome::Evidence;
use crate::report::escape::{markdown_text, shorten};
use crate::report::summary::{Section, Summary};
use crate::track::{Totals, VerdictKind, thousands};

impl Page {
    /// Operators by targets. With one target the section of the target says it all.
    pub(super) fn matrix(&mut self, summary: &Summary<'_>) {
        let sections = &summary.sections;
        if sections.len() < 2 {
            return;
        }
        let (rows, whole) = operators(sections);
        put!(self, "## Operators by target, the worst first\n");
        if !rows.is_empty() {
            let heads: String = sections
                .iter()
                .map(|s| format!(" {} ({}) |", markdown_text(&s.label), s.evidence))
                .collect();
            put!(self, "| operator |{heads}");
            put!(self, "|---|{}", "--:|".repeat(sections.len()));
            for (name, totals) in rows.iter().take(self.limits.subjects) {
                let cells: String = totals.iter().map(|t| format!(" {} |", cell(*t))).collect();
                put!(self, "| `{name}` |{cells}");
            }
            put!(self, "");
            self.more(rows.len(), self.limits.subjects, "operators");
        }
        put!(
            self,
            "{} of the {} operators pass all their cases on every target.\n",
            thousands(whole),
            thousands(whole + rows.len())
        );
    }

    /// Known failures that only some of the hardware targets of one kind have.
    pub(super) fn differences(&mut self, summary: &Summary<'_>) {
        for sections in kinds(summary) {
            let differences = Differences::between(&sections);
            let names: Vec<&str> = sections.iter().map(|s| s.label.as_str()).collect();
            put!(
                self,
                "## Differences between {} — evidence: {}\n",
                markdown_text(&names.join(", ")),
                Evidence::Hardware
            );
            put!(
                self,
                "Known failures on some of these targets and not on all, by reason; a cell counts cases. Known failures on all of \
                 them: {}.\n",
                thousands(differences.alike)
            );
            if differences.rows.is_empty() {
                continue;
            }
            let heads: String = names
                .iter()
                .map(|name| format!(" {} ({}) |", markdown_text(name), Evidence::Hardware))
                .collect();
            put!(self, "| reason |{heads}");
            put!(self, "|---|{}", "--:|".repeat(names.len()));
            for (reason, counts) in differences.rows.iter().take(self.limits.groups) {
                let cells: String = counts
                    .iter()
                    .map(|&n| format!(" {} |", thousands(n)))
                    .collect();
                let reason = shorten(reason, self.limits.message);
                put!(self, "| {} |{cells}", markdown_text(&reason));
            }
            put!(self, "");
            self.more(differences.rows.len(), self.limits.groups, "reasons");
        }
    }
}

type Row = (String, Vec<Option<Totals>>);

/// The operators that do not pass all their cases on every target that has them, the worst first, and how many others there
/// are.
fn operators(sections: &[Section<'_>]) -> (Vec<Row>, usize) {
    let mut rows: BTreeMap<String, Vec<Option<Totals>>> = BTreeMap::new();
    for (index, section) in sections.iter().enumerate() {
        for group in &section.subjects {
            let row = rows
                .entry(group.name())
                .or_insert_with(|| vec![None; sections.len()]);
            row[index] = Some(group.totals);
        }
    }
    let all = rows.len();
    let mut rows: Vec<Row> = rows
        .into_iter()
        .filter(|(_, totals)| !totals.iter().flatten().all(Totals::all_pass))
        .collect();
    // Rates of different evidence are not added up: the lowest decides, then the next.
    let rates = |row: &Row| {
        let mut rates: Vec<f64> = row
            .1
            .iter()
            .flatten()
            .filter_map(Totals::pass_rate)
            .collect();
        rates.sort_by(f64::total_cmp);
        rates
    };
    rows.sort_by(|a, b| {
        let (a, b) = (rates(a), rates(b));
        a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal)
    });
    let whole = all - rows.len();
    (rows, whole)
}

fn cell(totals: Option<Totals>) -> String {
    match totals {
        None => "–".to_owned(),
        Some(totals) if totals.skipped > 0 => format!(
            "{} ({} skipped)",
            totals.percent(),
            thousands(totals.skipped)
        ),
        Some(totals) => totals.percent(),
    }
}

/// The sections of hardware evidence whose plug-ins are of one platform, where there are several.
fn kinds<'s, 'a>(summary: &'s Summary<'a>) -> Vec<Vec<&'s Section<'a>>> {
    let mut kinds: BTreeMap<&str, Vec<&Section<'a>>> = BTreeMap::new();
    for section in &summary.sections {
        let plugin = summary.plugins.iter().find(|p| p.target == section.label);
        if let Some(plugin) = plugin
            && section.evidence == Evidence::Hardware
        {
            kinds.entry(&plugin.platform).or_default().push(section);
        }
    }
    kinds.into_values().filter(|s| s.len() > 1).collect()
}

struct Differences {
    /// A reason, and on each target the cases that fail for it there and do not fail, as known, on all the targets. The
    /// largest first.
    rows: Vec<(String, Vec<usize>)>,
    /// Cases that fail, as known, on all the targets.
    alike: usize,
}

impl Differences {
    fn between(sections: &[&Section<'_>]) -> Self {
        let mut failing: BTreeMap<&CaseId, BTreeSet<usize>> = BTreeMap::new();
        for (index, section) in sections.iter().enumerate() {
            for verdict in section.of(VerdictKind::Known) {
                failing.entry(&verdict.case).or_default().insert(index);
            }
        }
        let everywhere = |case: &CaseId| failing[case].len() == sections.len();
        let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, section) in sections.iter().enumerate() {
            for group in &section.known {
                let differing = group.cases.iter().filter(|case| !everywhere(case)).count();
                if differing > 0 {
                    let row = rows
                        .entry(super::known_reason(group))
                        .or_insert_with(|| vec![0; sections.len()]);
                    row[index] += differing;
                }
            }
        }
        let mut rows: Vec<(String, Vec<usize>)> = rows.into_iter().collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<usize>()));
        let alike = failing.keys().filter(|case| everywhere(case)).count();
        Self { rows, alike }
    }
}
