//! What the TPU compiler said, and its estimates across generations.

use std::fmt::Write;

use super::Page;
use crate::outcome::Estimate;
use crate::report::compiled::{Compiled, CompiledTarget, ESTIMATE};
use crate::report::escape::{markdown_code, markdown_text, shorten};
use crate::report::summary::{Summary, clean};
use crate::report::units;
use crate::track::{cases, thousands};

/// Operators in the table of estimates.
const SUBJECTS: usize = 50;

impl Page {
    pub(super) fn compiled(&mut self, summary: &Summary<'_>) {
        let compiled = &summary.compiled;
        if compiled.is_empty() {
            return;
        }
        put!(self, "## What the TPU compiler says\n");
        put!(
            self,
            "Times of compiling and code size are medians over the compiled cases. HBM is that of the case which takes most, on one \
             device, buffers and code.\n"
        );
        put!(
            self,
            "| target | evidence | compiled | ran on CPU | too large | TPU compiler | passes | XLA CPU | code | most HBM | of |"
        );
        put!(self, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        for target in &compiled.targets {
            put!(self, "{}", row(target));
        }
        put!(self, "");
        self.not_executable(compiled);
        self.estimates(compiled);
    }

    fn not_executable(&mut self, compiled: &Compiled<'_>) {
        for target in compiled
            .targets
            .iter()
            .filter(|t| !t.not_executable.is_empty())
        {
            put!(
                self,
                "### Not executable on CPU — {}, evidence: {}\n",
                markdown_text(&target.target),
                target.evidence
            );
            for construct in target.not_executable.iter().take(self.limits.groups) {
                let name = shorten(&clean(construct.construct), self.limits.message);
                put!(
                    self,
                    "- {}: {}",
                    markdown_code(&name),
                    cases(construct.cases.len())
                );
                let ids: Vec<&str> = construct.cases.iter().map(|case| case.as_str()).collect();
                self.cases(&ids);
            }
            self.more(
                target.not_executable.len(),
                self.limits.groups,
                "constructs",
            );
            put!(self, "");
        }
    }

    fn estimates(&mut self, compiled: &Compiled<'_>) {
        if compiled.common_cases == 0 {
            return;
        }
        put!(self, "### Estimates by generation\n");
        put!(
            self,
            "{ESTIMATE} The sums are over the {} cases that have an estimated time on every target here.\n",
            thousands(compiled.common_cases)
        );
        put!(
            self,
            "| target | evidence | estimated cycles | estimated time | against the first | flops |"
        );
        put!(self, "|---|---|--:|--:|--:|--:|");
        for (index, target) in compiled.targets.iter().enumerate() {
            put!(
                self,
                "| {} | {} | {} | {} | {} | {} |",
                markdown_text(&target.target),
                target.evidence,
                units::or_dash(target.estimate.cycles.map(|n| units::count(n as f64))),
                units::or_dash(target.estimate.seconds.map(units::seconds)),
                units::or_dash(compiled.relative(index).map(|ratio| format!("×{ratio:.2}"))),
                units::count(target.flops)
            );
        }
        put!(self, "");
        let heads: String = compiled
            .targets
            .iter()
            .map(|t| format!(" {} ({}), estimate |", markdown_text(&t.target), t.evidence))
            .collect();
        put!(self, "| operator | cases |{heads}");
        put!(self, "|---|--:|{}", "--:|".repeat(compiled.targets.len()));
        let limit = self.limits.subjects.min(SUBJECTS);
        for subject in compiled.subjects.iter().take(limit) {
            let cells: String = subject.estimates.iter().map(|e| cell(*e)).collect();
            put!(
                self,
                "| `{}/{}` | {} |{cells}",
                subject.suite,
                subject.subject,
                thousands(subject.cases)
            );
        }
        put!(self, "");
        self.more(compiled.subjects.len(), limit, "operators");
    }
}

fn row(target: &CompiledTarget<'_>) -> String {
    let time = |ms: Option<f64>| units::or_dash(ms.map(units::milliseconds));
    let share = target.executed.map(|executed| match target.compiled {
        0 => "0".to_owned(),
        compiled => {
            // Rounded down, as pass rates are.
            let percent = (1000 * executed / compiled) as f64 / 10.0;
            format!("{} ({percent:.1}%)", thousands(executed))
        }
    });
    let (most, limit) = (target.most_hbm.as_ref(), target.hbm_limit);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        markdown_text(&target.target),
        target.evidence,
        thousands(target.compiled),
        units::or_dash(share),
        thousands(target.out_of_memory),
        time(target.compile_ms),
        time(target.passes_ms),
        time(target.cpu_compile_ms),
        units::or_dash(target.code_size.map(units::bytes)),
        units::or_dash(most.map(|most| units::bytes(most.bytes))),
        units::or_dash(limit.map(units::bytes)),
    )
}

fn cell(estimate: Estimate) -> String {
    let time = units::or_dash(estimate.seconds.map(units::seconds));
    match estimate.cycles {
        Some(cycles) => format!(" {time}, {} cycles |", units::count(cycles as f64)),
        None => format!(" {time} |"),
    }
}
