//! Publishes a run: `latest/{report.md,report.json,junit.xml}` and a line in `history.json`, from which trends are drawn.

use std::fs;
use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Colour, Format, ReportError, Summary, render};
use crate::hlo::MxuNumerics;
use crate::outcome::Evidence;
use crate::store::Run;
use crate::track::{IssueLedger, Judgement, Totals, VerdictKind};

/// One run in `history.json`, an array sorted by start with one entry a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The run's id.
    pub run: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub started: Timestamp,
    pub tool_version: String,
    pub targets: Vec<HistoryTarget>,
    pub plugins: Vec<HistoryPlugin>,
    pub issues_reported: usize,
    pub issues_fixed: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryTarget {
    pub target: String,
    pub evidence: Evidence,
    pub cases: usize,
    pub pass: usize,
    pub skipped: usize,
    pub known: usize,
    /// Regressions, new failures and missing cases.
    pub unexpected: usize,
    pub pass_rate: Option<f64>,
    pub pass_rate_without_known: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPlugin {
    pub target: String,
    pub plugin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub api_version: String,
    pub sha256: String,
    /// Of a virtual TPU: what executes in the plug-in's place, and how its matrix products round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<HistoryExecutor>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryExecutor {
    pub plugin: String,
    pub sha256: String,
    pub numerics: MxuNumerics,
}

/// Writes the three reports and the history under `dir`, each file whole or not at all. Publishing a run again replaces what
/// it published before. Nothing is written if the history that is there cannot be read.
pub fn publish(
    dir: &Path,
    run: &Run,
    judgement: &Judgement,
    ledger: &IssueLedger,
) -> Result<(), ReportError> {
    let history_file = dir.join("history.json");
    let mut history = read_history(&history_file)?;
    let entry = history_entry(&Summary::new(run, judgement, ledger));
    history.retain(|old| old.run != entry.run);
    history.push(entry);
    history.sort_by(|a, b| (a.started, &a.run).cmp(&(b.started, &b.run)));

    let latest = dir.join("latest");
    for (name, format) in [
        ("report.md", Format::Markdown),
        ("report.json", Format::Json),
        ("junit.xml", Format::Junit),
    ] {
        let text = render(format, run, judgement, ledger, Colour::Off)?;
        write(&latest.join(name), &text)?;
    }
    write(&history_file, &history_text(&history)?)
}

/// Writes a file by way of a temporary one beside it; makes its directory. What is there already and is no plain file (a
/// device, a pipe, a link) is written to and not replaced.
pub fn write(path: &Path, text: &str) -> Result<(), ReportError> {
    let failed = |source| ReportError::Write {
        path: path.to_owned(),
        source,
    };
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(failed);
    }
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    fs::create_dir_all(dir).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".report-");
    #[cfg(unix)]
    {
        // A temporary file is the owner's alone; a report is everyone's to read.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    let mut file = builder.tempfile_in(dir).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// A history that is not there is empty.
pub fn read_history(path: &Path) -> Result<Vec<HistoryEntry>, ReportError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(ReportError::Write {
                path: path.to_owned(),
                source,
            });
        }
    };
    serde_json::from_str(&text).map_err(|error| ReportError::History {
        path: path.to_owned(),
        line: error.line(),
        reason: error.to_string().replace('\n', " "),
    })
}

/// An array with one entry a line: a new run is one new line in a diff.
fn history_text(history: &[HistoryEntry]) -> Result<String, ReportError> {
    let lines = history
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<String>, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

fn history_entry(summary: &Summary<'_>) -> HistoryEntry {
    let record = summary.record;
    HistoryEntry {
        run: record.id.clone(),
        label: record.label.clone(),
        started: record.started,
        tool_version: record.environment.tool_version.clone(),
        targets: summary
            .sections
            .iter()
            .map(|section| {
                let totals: &Totals = &section.totals;
                HistoryTarget {
                    target: section.label.clone(),
                    evidence: section.evidence,
                    cases: totals.cases,
                    pass: totals.pass,
                    skipped: totals.skipped,
                    known: section.kinds.get(&VerdictKind::Known).copied().unwrap_or(0),
                    unexpected: section.unexpected.iter().map(|g| g.cases.len()).sum(),
                    pass_rate: totals.pass_rate(),
                    pass_rate_without_known: totals.pass_rate_without_known(),
                }
            })
            .collect(),
        plugins: summary
            .plugins
            .iter()
            .map(|plugin| HistoryPlugin {
                target: plugin.target.clone(),
                plugin: plugin.plugin.clone(),
                version: plugin.version.clone(),
                api_version: plugin.api_version.clone(),
                sha256: plugin.sha256.clone(),
                executor: plugin.executor.as_ref().map(|executor| HistoryExecutor {
                    plugin: executor.plugin.clone(),
                    sha256: executor.sha256.clone(),
                    numerics: executor.numerics,
                }),
            })
            .collect(),
        issues_reported: summary.issues.counts.reported,
        issues_fixed: summary.issues.counts.fixed,
    }
}
