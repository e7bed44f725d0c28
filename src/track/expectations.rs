//! Known failures, `suites/expectations/*.toml`: which cases on which targets fail, how, why, and until when.
//!
//! Globs over case ids: `*` stays within a part, `**` crosses parts. Globs over targets see a target as one word, so that
//! `plugin:*` covers every plug-in.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};
use jiff::civil::Date;
use serde::Deserialize;
use toml::Spanned;

use super::{Condition, IssueLedger, IssueRef, Source, TrackError, read};
use crate::case::{CaseId, Origin};
use crate::outcome::OutcomeKind;
use crate::pjrt::NamedValue;
use crate::target::Target;

/// The file beside the expectations that holds the issue ledger.
pub const ISSUES_FILE: &str = "issues.toml";

/// One known failure.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// The glob over case ids, as written.
    pub cases: String,
    /// Globs over canonical target names, as written.
    pub targets: String,
    /// The failures that are expected; never `pass` or `skipped`.
    pub outcomes: Vec<OutcomeKind>,
    /// Without one the expectation is untracked.
    pub issue: Option<IssueRef>,
    pub reason: String,
    pub since: Date,
    pub until: Option<Condition>,
    /// Compiler flags, `NAME=VALUE`, that a target must have run with.
    pub flags: Vec<String>,
    pub origin: Origin,
    case_glob: GlobMatcher,
    target_globs: Vec<GlobMatcher>,
}

/// All known failures, in the order of their files' names and their lines.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    entries: Vec<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    expect: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cases: Spanned<String>,
    targets: Spanned<String>,
    outcome: Spanned<toml::Value>,
    issue: Option<Spanned<String>>,
    reason: Spanned<String>,
    since: Spanned<String>,
    until: Option<Spanned<String>>,
    flags: Option<Spanned<String>>,
}

const KEYS: &str = "an [[expect]] has cases, targets, outcome, reason, since, and optionally issue, until and flags";

impl Expectations {
    /// Every `*.toml` in `dir` but the issue ledger. A directory that is not there holds none.
    pub fn load(dir: &Path) -> Result<Self, TrackError> {
        let mut all = Self::default();
        for file in toml_files(dir)? {
            all.entries
                .extend(Self::parse(&read(&file)?, &file)?.entries);
        }
        Ok(all)
    }

    pub fn parse(text: &str, file: &Path) -> Result<Self, TrackError> {
        let source = Source { file, text };
        let entries = source
            .parse::<File>(KEYS)?
            .expect
            .into_iter()
            .map(|entry| expectation(&source, entry))
            .collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    pub fn entries(&self) -> &[Expectation] {
        &self.entries
    }

    /// The expectations, by index into [`entries`](Self::entries), that speak of `case` on `target` where it runs with these
    /// compiler flags, `NAME=VALUE`.
    pub fn matching(
        &self,
        case: &CaseId,
        target: &str,
        flags: &[String],
    ) -> impl Iterator<Item = usize> {
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| entry.matches(case, target) && entry.holds_with(flags))
            .map(|(index, _)| index)
    }

    /// The expectations, by index, that match none of `cases`: all cases of the suites. Their globs are stale or misspelt.
    pub fn unused(&self, cases: &[CaseId]) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|&index| {
                !cases
                    .iter()
                    .any(|case| self.entries[index].matches_case(case))
            })
            .collect()
    }

    /// Checks that each issue named is in the ledger.
    pub fn check_issues(&self, ledger: &IssueLedger) -> Result<(), TrackError> {
        for entry in &self.entries {
            if let Some(issue) = &entry.issue
                && ledger.get(issue).is_none()
            {
                return Err(TrackError::Entry {
                    file: entry.origin.file.clone(),
                    line: entry.origin.line,
                    problem: format!("issue {issue} is not in the ledger"),
                    remedy: format!("add an [[issue]] for it to {ISSUES_FILE} beside this file"),
                });
            }
        }
        Ok(())
    }
}

impl Expectation {
    pub fn matches_case(&self, case: &CaseId) -> bool {
        self.case_glob.is_match(case.as_str())
    }

    pub fn matches_target(&self, target: &str) -> bool {
        self.target_globs.iter().any(|glob| glob.is_match(target))
    }

    pub fn matches(&self, case: &CaseId, target: &str) -> bool {
        self.matches_target(target) && self.matches_case(case)
    }

    /// Whether all the flags that the entry names are among these.
    pub fn holds_with(&self, flags: &[String]) -> bool {
        self.flags.iter().all(|flag| flags.contains(flag))
    }

    pub fn expects(&self, outcome: OutcomeKind) -> bool {
        self.outcomes.contains(&outcome)
    }

    /// `fail or crash`, for messages.
    pub fn outcome_words(&self) -> String {
        let words: Vec<&str> = self.outcomes.iter().map(|o| o.as_str()).collect();
        words.join(" or ")
    }

    /// `aot.toml:12`, the file without its directory.
    pub fn place(&self) -> String {
        let file = self.origin.file.file_name().unwrap_or_default();
        format!("{}:{}", file.to_string_lossy(), self.origin.line)
    }
}

fn toml_files(dir: &Path) -> Result<Vec<PathBuf>, TrackError> {
    let failed = |source| TrackError::Read {
        path: dir.to_owned(),
        source,
    };
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        if is_toml && path.file_name().is_some_and(|name| name != ISSUES_FILE) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn expectation(source: &Source<'_>, entry: Spanned<Entry>) -> Result<Expectation, TrackError> {
    let line = source.line(entry.span().start);
    let entry = entry.into_inner();
    let issue = match &entry.issue {
        None => None,
        Some(text) => Some(text.get_ref().parse().map_err(|_| {
            source.error(
                text.span().start,
                format!("bad issue \"{}\"", text.get_ref()),
                "write it as \"owner/name#123\", or leave `issue` out",
            )
        })?),
    };
    let until = match &entry.until {
        None => None,
        Some(text) => Some(text.get_ref().parse().map_err(|_| {
            source.error(
                text.span().start,
                format!("bad condition \"{}\"", text.get_ref()),
                "write until = \"name >= version\", as in \"libtpu >= 0.0.60\"",
            )
        })?),
    };
    let flags = match &entry.flags {
        None => Vec::new(),
        Some(text) => flags(source, text)?,
    };
    Ok(Expectation {
        case_glob: case_glob(source, &entry.cases)?,
        target_globs: target_globs(source, &entry.targets)?,
        outcomes: outcomes(source, &entry.outcome)?,
        cases: entry.cases.into_inner(),
        targets: entry.targets.into_inner(),
        issue,
        reason: source.words(entry.reason, "reason")?,
        since: source.date(&entry.since)?,
        until,
        flags,
        origin: Origin {
            file: source.file.to_owned(),
            line,
        },
    })
}

/// `NAME=VALUE`, separated by commas, each in the form that a run records.
fn flags(source: &Source<'_>, text: &Spanned<String>) -> Result<Vec<String>, TrackError> {
    let parse = |word: &str| word.trim().parse::<NamedValue>();
    let parsed: Result<Vec<NamedValue>, _> = text.get_ref().split(',').map(parse).collect();
    match parsed {
        Ok(flags) => Ok(flags.iter().map(NamedValue::to_string).collect()),
        Err(error) => Err(source.error(
            text.span().start,
            error.to_string(),
            "write flags = \"xla_cpu_enable_fast_math=true\"",
        )),
    }
}

fn case_glob(source: &Source<'_>, glob: &Spanned<String>) -> Result<GlobMatcher, TrackError> {
    let text = glob.get_ref();
    let start = glob.span().start;
    // A glob that no id can match is a mistake that would otherwise hide as an unused entry.
    let impossible = |c: &char| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '/' | '*' | '?' | '[' | ']' | '{' | '}' | ',' | '!');
    if let Some(c) = text.chars().find(impossible) {
        return Err(source.error(
            start,
            format!("bad glob \"{text}\": no case id has {c:?}"),
            "ids are suite/subject/variant in a-z, 0-9, '.', '_' and '-'",
        ));
    }
    if text.is_empty() {
        return Err(source.error(
            start,
            "`cases` is empty",
            "write a glob over case ids, as \"stablehlo/fft/**\"",
        ));
    }
    match GlobBuilder::new(text).literal_separator(true).build() {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => Err(source.error(
            start,
            format!("bad glob \"{text}\": {}", error.kind()),
            "`*` stays within a part of the id, `**` crosses parts",
        )),
    }
}

fn target_globs(
    source: &Source<'_>,
    globs: &Spanned<String>,
) -> Result<Vec<GlobMatcher>, TrackError> {
    let start = globs.span().start;
    split_globs(globs.get_ref())
        .into_iter()
        .map(|text| {
            if text.is_empty() {
                return Err(source.error(
                    start,
                    "`targets` has an empty part",
                    "separate targets by single commas, as \"cpu, aot-*\"",
                ));
            }
            if !text.contains(['*', '?', '[', '{']) {
                let target: Result<Target, _> = text.parse();
                if let Err(error) = target {
                    return Err(source.error(
                        start,
                        format!("unknown target '{text}': {}", error.reason),
                        "targets are cpu, tpu, aot-<gen>, plugin:<path or name>, and globs such as \"aot-*\"",
                    ));
                }
            }
            match Glob::new(text) {
                Ok(glob) => Ok(glob.compile_matcher()),
                Err(error) => Err(source.error(
                    start,
                    format!("bad glob \"{text}\": {}", error.kind()),
                    "write targets or globs over them, as \"cpu, aot-*\"",
                )),
            }
        })
        .collect()
}

/// Splits at commas that do not stand in braces.
fn split_globs(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn outcomes(
    source: &Source<'_>,
    value: &Spanned<toml::Value>,
) -> Result<Vec<OutcomeKind>, TrackError> {
    const REMEDY: &str = "write one or a list of \"fail\", \"error\", \"unsupported\", \"crash\", \"timeout\", \"oom\"";
    let bad = |problem: String| source.error(value.span().start, problem, REMEDY);
    let words = match value.get_ref() {
        toml::Value::Array(words) => words.as_slice(),
        word => std::slice::from_ref(word),
    };
    if words.is_empty() {
        return Err(bad("`outcome` is an empty list".to_owned()));
    }
    words
        .iter()
        .map(|word| {
            let word = word
                .as_str()
                .ok_or_else(|| bad(format!("bad outcome {word}")))?;
            match OutcomeKind::ALL.into_iter().find(|o| o.as_str() == word) {
                None => Err(bad(format!("there is no outcome \"{word}\""))),
                Some(OutcomeKind::Pass | OutcomeKind::Skipped) => {
                    Err(bad(format!("\"{word}\" is not a failure")))
                }
                Some(outcome) => Ok(outcome),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
