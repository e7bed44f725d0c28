//! The end of the report: issues, unused expectations, and what the figures were made with.

use std::fmt::Write;

use super::Page;
use crate::report::escape::{markdown_code, markdown_text, shorten};
use crate::report::summary::{PluginLine, Summary};
use crate::track::{IssueRef, IssueState, cases};

impl Page {
    pub(super) fn issues(&mut self, summary: &Summary<'_>) {
        let counts = summary.issues.counts;
        put!(self, "## Issues\n");
        put!(
            self,
            "{} reported, {} fixed, {} open, {} declined; untracked expectations: {}.\n",
            counts.reported,
            counts.fixed,
            counts.open,
            counts.declined,
            summary.issues.untracked.len()
        );
        if !summary.issues.issues.is_empty() {
            put!(self, "| issue | state | title | blocks |");
            put!(self, "|---|---|---|---|");
        }
        for impact in summary.issues.issues.iter().take(self.limits.groups) {
            let blocks: Vec<String> = impact
                .blocks
                .iter()
                .map(|b| {
                    format!(
                        "{} on {} (evidence: {})",
                        cases(b.cases.len()),
                        markdown_text(&b.target),
                        b.evidence
                    )
                })
                .collect();
            let state = if impact.fixed_upstream_still_failing {
                crate::track::impact::STILL_FAILING
            } else {
                impact.issue.state.as_str()
            };
            put!(
                self,
                "| {} | {state} | {} | {} |",
                issue_link(&impact.issue.id, None),
                markdown_text(&shorten(&impact.issue.title, self.limits.message)),
                blocks.join("; ")
            );
        }
        put!(self, "");
        self.more(summary.issues.issues.len(), self.limits.groups, "issues");
        let unused = &summary.judgement.unused;
        if !unused.is_empty() {
            put!(self, "Expectations that match no case:\n");
            for &index in unused.iter().take(self.limits.groups) {
                let entry = &summary.judgement.expectations[index];
                put!(
                    self,
                    "- {}: {}",
                    markdown_text(&entry.place()),
                    markdown_code(&entry.cases)
                );
            }
            self.more(unused.len(), self.limits.groups, "entries");
            put!(self, "");
        }
    }

    /// The tolerances that do not follow from the arithmetic, each with where its number comes from.
    pub(super) fn tolerances(&mut self, summary: &Summary<'_>) {
        let tolerances = &summary.record.tolerances;
        if tolerances.is_empty() {
            return;
        }
        put!(self, "## Tolerances\n");
        put!(
            self,
            "Everything else is compared exactly, or as a sum whose bound follows from its length, types and precision.\n"
        );
        put!(
            self,
            "<details><summary>Tolerances in ulp and norm, with their sources: {}</summary>\n",
            tolerances.len()
        );
        put!(self, "| operator | results | tolerance | cases | source |");
        put!(self, "|---|---|---|---:|---|");
        for row in tolerances {
            let types: Vec<&str> = row.element_types.iter().map(|t| t.name()).collect();
            put!(
                self,
                "| {} | {} | {} | {} | {} |",
                markdown_text(&row.operator),
                types.join(", "),
                markdown_text(&row.tolerance),
                row.cases,
                markdown_text(&row.source)
            );
        }
        put!(self, "\n</details>\n");
    }

    pub(super) fn environment(&mut self, summary: &Summary<'_>) {
        let environment = &summary.record.environment;
        put!(self, "## Environment\n");
        put!(
            self,
            "tpu-parity {}, {}, {} ({} cores).\n",
            markdown_text(&environment.tool_version),
            markdown_text(&environment.os),
            markdown_text(&environment.cpu),
            environment.cores
        );
        put!(
            self,
            "| target | plug-in | version | PJRT C API | StableHLO | platform | SHA-256 |"
        );
        put!(self, "|---|---|---|---|---|---|---|");
        for plugin in &summary.plugins {
            put!(
                self,
                "| {} | {} | {} | {} | {} | {} | `{}` |",
                markdown_text(&plugin.target),
                markdown_text(&plugin.plugin),
                markdown_text(plugin.version.as_deref().unwrap_or("–")),
                plugin.api_version,
                markdown_text(plugin.stablehlo_version.as_deref().unwrap_or("–")),
                markdown_text(&platform(plugin)),
                plugin.sha256
            );
            if let Some(executor) = &plugin.executor {
                put!(
                    self,
                    "| {} executes on | {} | {} | {} | – | {} | `{}` |",
                    markdown_text(&plugin.target),
                    markdown_text(&executor.plugin),
                    markdown_text(executor.version.as_deref().unwrap_or("–")),
                    executor.api_version,
                    markdown_text(&format!(
                        "{} {}, matrix products: {}",
                        executor.platform, executor.platform_version, executor.numerics
                    )),
                    executor.sha256
                );
            }
        }
    }
}

pub(super) fn issue_link(id: &IssueRef, state: Option<IssueState>) -> String {
    let state = state.map(|state| format!(" ({state})")).unwrap_or_default();
    format!("[{}]({}){state}", markdown_text(&id.to_string()), id.url())
}

/// What the plug-in says that it is, and the flags that its compiler was given.
fn platform(plugin: &PluginLine) -> String {
    let said = format!("{} {}", plugin.platform, plugin.platform_version);
    let said = shorten(&said, 120);
    if plugin.flags.is_empty() {
        return said;
    }
    format!("{said}, with {}", plugin.flags.join(" "))
}
