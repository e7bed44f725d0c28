//! The table of whole models.

use std::fmt::Write;

use super::Page;
use crate::report::escape::markdown_text;
use crate::report::summary::Summary;

impl Page {
    pub(super) fn models(&mut self, summary: &Summary<'_>) {
        if summary.models.is_empty() {
            return;
        }
        put!(self, "## Models\n");
        put!(
            self,
            "Each layer may be as many times as far from f64 as its suite says of what CPU is in the target's precision (1.00: as far); \
             a target that computes products in bf16 is measured by CPU with such products. The other figures are of the last result.\n"
        );
        put!(
            self,
            "| model | target | outcome | times CPU | at layer | relative L2 | cosine | top 1 | top 5 | KL divergence, nats |"
        );
        put!(self, "|---|---|---|---:|---:|---:|---:|---:|---:|---:|");
        for row in &summary.models {
            let predictions = row.predictions.map_or_else(
                || "– | – | –".to_owned(),
                |p| {
                    format!(
                        "{} / {} | {} / {} | {:.1e}",
                        p.top_1, p.rows, p.top_k, p.top_k_of, p.divergence
                    )
                },
            );
            put!(
                self,
                "| {} | {} | {} | {:.2} | {} of {} | {:.1e} | {:.9} | {predictions} |",
                markdown_text(row.case.as_str()),
                markdown_text(&row.target),
                row.outcome,
                row.times_cpu,
                row.worst_layer + 1,
                row.layers,
                row.relative_l2,
                row.cosine
            );
        }
        put!(self, "");
    }
}
