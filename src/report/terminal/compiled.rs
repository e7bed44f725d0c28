//! What the TPU compiler said, and its estimates across generations, within 80 columns.

use super::{Page, number, right, text};
use crate::report::compiled::ESTIMATE;
use crate::report::escape;
use crate::report::summary::{Summary, clean};
use crate::report::units;
use crate::track::{cases, thousands};

/// Operators in the table of estimates; the Markdown report has more.
const SUBJECTS: usize = 10;
/// Targets whose estimates stand side by side.
const SIDE_BY_SIDE: usize = 4;
const CONSTRUCTS: usize = 10;
const CONSTRUCT: usize = 200;

impl Page {
    pub(super) fn compiled(&mut self, summary: &Summary<'_>) {
        let compiled = &summary.compiled;
        if compiled.is_empty() {
            return;
        }
        self.heading("What the TPU compiler says (medians; HBM of the largest)");
        let mut table = self.table(&["target", "evidence", "compiled", "in", "code", "HBM", "of"]);
        for target in &compiled.targets {
            let most = target.most_hbm.as_ref();
            table.add_row(vec![
                text(&target.target),
                text(target.evidence.as_str()),
                number(target.compiled),
                right(units::or_dash(target.compile_ms.map(units::milliseconds))),
                right(units::or_dash(target.code_size.map(units::bytes))),
                right(units::or_dash(most.map(|most| units::bytes(most.bytes)))),
                right(units::or_dash(target.hbm_limit.map(units::bytes))),
            ]);
        }
        self.put(&table);
        for target in &compiled.targets {
            let (name, evidence) = (&target.target, target.evidence);
            if target.out_of_memory > 0 {
                let many = cases(target.out_of_memory);
                self.lines(0, &format!("too large for {name} ({evidence}): {many}"));
            }
            if let Some(executed) = target.executed {
                let line = format!(
                    "of the {} that compile for {name} ({evidence}), {} ran on CPU",
                    cases(target.compiled),
                    thousands(executed)
                );
                self.lines(0, &line);
            }
            for construct in target.not_executable.iter().take(CONSTRUCTS) {
                let what = escape::shorten(&clean(construct.construct), CONSTRUCT);
                let many = cases(construct.cases.len());
                self.lines(2, &format!("not executable: {what}: {many}"));
            }
            self.more(target.not_executable.len(), CONSTRUCTS, "constructs");
        }
        self.estimates(summary);
        self.text.push('\n');
    }

    fn estimates(&mut self, summary: &Summary<'_>) {
        let compiled = &summary.compiled;
        if compiled.common_cases == 0 {
            return;
        }
        let shown = &compiled.targets[..compiled.targets.len().min(SIDE_BY_SIDE)];
        self.text.push_str("\nEstimated time by generation\n");
        let mut header = vec!["operator".to_owned(), "cases".to_owned()];
        header.extend(
            shown
                .iter()
                .map(|t| format!("{} ({})", t.target, t.evidence)),
        );
        let names: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = self.table(&names);
        let time = |seconds: Option<f64>| right(units::or_dash(seconds.map(units::seconds)));
        let mut row = vec![text("all"), number(compiled.common_cases)];
        row.extend(shown.iter().map(|target| time(target.estimate.seconds)));
        table.add_row(row);
        for subject in compiled.subjects.iter().take(SUBJECTS) {
            let name = format!("{}/{}", subject.suite, subject.subject);
            let mut row = vec![text(&name), number(subject.cases)];
            let estimates = subject.estimates.iter().take(SIDE_BY_SIDE);
            row.extend(estimates.map(|estimate| time(estimate.seconds)));
            table.add_row(row);
        }
        self.put(&table);
        self.more(compiled.subjects.len(), SUBJECTS, "operators");
        self.more(compiled.targets.len(), SIDE_BY_SIDE, "targets");
        self.lines(0, ESTIMATE);
    }
}
