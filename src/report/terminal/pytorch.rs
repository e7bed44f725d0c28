//! What of PyTorch's operators to file first; the Markdown report has the tables.

use super::{MESSAGE, Page, number, text};
use crate::report::escape;
use crate::report::summary::Summary;
use crate::track::thousands;

/// Operators in the table.
const OPERATORS: usize = 15;

impl Page {
    pub(super) fn pytorch(&mut self, summary: &Summary<'_>) {
        for target in &summary.pytorch {
            if target.findings.is_empty() {
                continue;
            }
            let title = "failing operators, those that block most models first";
            self.heading(&format!("PyTorch on {}: {title}", target.target));
            let mut table =
                self.table(&["operator", "outcome", "cases", "blocks", "used by", "says"]);
            for finding in target.findings.iter().take(OPERATORS) {
                table.add_row(vec![
                    text(&finding.operator),
                    text(finding.outcome.as_str()),
                    number(finding.cases),
                    number(finding.blocks.len()),
                    number(finding.used_by),
                    text(&escape::shorten(&finding.message, MESSAGE / 4)),
                ]);
            }
            self.put(&table);
            self.more(target.findings.len(), OPERATORS, "operators");
            let models = target.models.iter();
            let whole = models.filter(|row| row.totals.all_pass()).count();
            if !target.models.is_empty() {
                let (whole, all) = (thousands(whole), thousands(target.models.len()));
                self.lines(
                    0,
                    &format!("{whole} of the {all} models pass all their cases"),
                );
            }
            self.text.push('\n');
        }
    }
}
