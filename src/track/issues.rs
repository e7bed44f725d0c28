//! The issue ledger, `suites/expectations/issues.toml`: the issues that expectations name, with their state.
//!
//! The file is the source of truth here and works offline. Synchronising it with GitHub is another module's job; nothing
//! in the format stands in its way.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Source, TrackError, read};

/// `owner/name#123`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IssueRef {
    /// `owner/name`.
    pub repository: String,
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad issue '{0}': write it as owner/name#123")]
pub struct IssueRefError(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IssueState {
    Open,
    /// Closed, and said to be fixed.
    Fixed,
    /// Closed without a fix: as intended, or will not be done.
    Declined,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Issue {
    #[serde(rename = "issue")]
    pub id: IssueRef,
    pub title: String,
    pub state: IssueState,
    pub opened: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Date>,
}

/// Every issue reported, by repository and number.
#[derive(Debug, Clone, Default)]
pub struct IssueLedger {
    issues: BTreeMap<IssueRef, Issue>,
}

/// How many issues there are of each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct IssueCounts {
    pub reported: usize,
    pub fixed: usize,
    pub open: usize,
    pub declined: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    issue: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    repository: Spanned<String>,
    number: u64,
    title: Spanned<String>,
    state: IssueState,
    opened: Spanned<String>,
    closed: Option<Spanned<String>>,
}

const KEYS: &str = "an [[issue]] has repository, number, title, state (\"open\", \"fixed\" or \"declined\"), opened and, once it \
                    is closed, closed";

impl IssueLedger {
    /// A ledger that is not there is an empty one.
    pub fn load(path: &Path) -> Result<Self, TrackError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        Self::parse(&read(path)?, path)
    }

    pub fn parse(text: &str, file: &Path) -> Result<Self, TrackError> {
        let source = Source { file, text };
        let mut issues = BTreeMap::new();
        for entry in source.parse::<File>(KEYS)?.issue {
            let start = entry.span().start;
            let issue = issue(&source, entry)?;
            if issues.contains_key(&issue.id) {
                return Err(source.error(
                    start,
                    format!("issue {} is listed twice", issue.id),
                    "keep one of the entries",
                ));
            }
            issues.insert(issue.id.clone(), issue);
        }
        Ok(Self { issues })
    }

    pub fn get(&self, id: &IssueRef) -> Option<&Issue> {
        self.issues.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.values()
    }

    pub fn counts(&self) -> IssueCounts {
        let of = |state| self.iter().filter(|issue| issue.state == state).count();
        IssueCounts {
            reported: self.issues.len(),
            fixed: of(IssueState::Fixed),
            open: of(IssueState::Open),
            declined: of(IssueState::Declined),
        }
    }
}

fn issue(source: &Source<'_>, entry: Spanned<Entry>) -> Result<Issue, TrackError> {
    let start = entry.span().start;
    let entry = entry.into_inner();
    let repository = entry.repository.get_ref();
    let id: IssueRef = format!("{repository}#{}", entry.number)
        .parse()
        .map_err(|_| {
            source.error(
                entry.repository.span().start,
                format!("bad issue \"{repository}\" number {}", entry.number),
                "write the repository as \"owner/name\" and a number above 0",
            )
        })?;
    let opened = source.date(&entry.opened)?;
    let closed = entry
        .closed
        .as_ref()
        .map(|date| source.date(date))
        .transpose()?;
    match (entry.state, closed) {
        (IssueState::Open, Some(_)) => {
            return Err(source.error(
                start,
                format!("{id} is open and has a date of closing"),
                "remove `closed` or set `state`",
            ));
        }
        (IssueState::Fixed | IssueState::Declined, None) => {
            return Err(source.error(
                start,
                format!("{id} is closed and has no date of closing"),
                "add closed = \"YYYY-MM-DD\"",
            ));
        }
        (_, Some(closed)) if closed < opened => {
            return Err(source.error(
                start,
                format!("{id} was closed before it was opened"),
                "correct one of the dates",
            ));
        }
        _ => {}
    }
    Ok(Issue {
        id,
        title: source.words(entry.title, "title")?,
        state: entry.state,
        opened,
        closed,
    })
}

impl Issue {
    pub fn url(&self) -> String {
        self.id.url()
    }
}

impl IssueRef {
    pub fn url(&self) -> String {
        format!(
            "https://github.com/{}/issues/{}",
            self.repository, self.number
        )
    }
}

impl FromStr for IssueRef {
    type Err = IssueRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || IssueRefError(text.to_owned());
        let (repository, number) = text.split_once('#').ok_or_else(bad)?;
        let (owner, name) = repository.split_once('/').ok_or_else(bad)?;
        let word = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if !word(owner) || !word(name) || !digits {
            return Err(bad());
        }
        match number.parse() {
            Ok(number) if number > 0 => Ok(Self {
                repository: repository.to_owned(),
                number,
            }),
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for IssueRef {
    type Error = IssueRefError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IssueRef> for String {
    fn from(id: IssueRef) -> Self {
        id.to_string()
    }
}

impl fmt::Display for IssueRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repository, self.number)
    }
}

impl IssueState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Fixed => "fixed",
            Self::Declined => "declined",
        }
    }
}

impl fmt::Display for IssueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<IssueLedger, String> {
        IssueLedger::parse(text, Path::new("issues.toml")).map_err(|error| error.to_string())
    }

    const OPEN: &str = "[[issue]]\nrepository = \"openxla/xla\"\nnumber = 7\ntitle = \"dot on s64\"\nstate = \"open\"\n\
                        opened = \"2026-11-30\"\n";

    #[test]
    fn an_issue_has_its_address_and_counts_by_state() {
        let fixed = OPEN
            .replace("= 7", "= 8")
            .replace("\"open\"", "\"fixed\"\nclosed = \"2026-12-01\"");
        let ledger = parse(&format!("{OPEN}{fixed}")).unwrap();
        let id: IssueRef = "openxla/xla#7".parse().unwrap();
        let issue = ledger.get(&id).unwrap();
        assert_eq!(issue.url(), "https://github.com/openxla/xla/issues/7");
        let counts = IssueCounts {
            reported: 2,
            fixed: 1,
            open: 1,
            declined: 0,
        };
        assert_eq!(ledger.counts(), counts);
    }

    #[test]
    fn bad_entries_name_the_line_and_the_remedy() {
        let change = |from: &str, to: &str| OPEN.replace(from, to);
        for (text, line, what) in [
            (change("\"openxla/xla\"", "\"xla\""), 2, "owner/name"),
            (change("= 7", "= 0"), 2, "above 0"),
            (change("\"open\"", "\"done\""), 5, "unknown variant `done`"),
            (change("\"open\"", "\"fixed\""), 1, "add closed"),
            (change("11-30", "13-30"), 6, "YYYY-MM-DD"),
            (
                format!("{OPEN}closed = \"2026-12-01\"\n"),
                1,
                "remove `closed`",
            ),
            (format!("{OPEN}lables = []\n"), 7, "unknown field `lables`"),
            (change("dot on s64", " "), 4, "`title` is empty"),
            (format!("{OPEN}{OPEN}"), 7, "listed twice"),
            ("[[issue]\n".to_owned(), 1, "an [[issue]] has"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(
                error.starts_with(&format!("issues.toml:{line}: ")) && error.contains(what),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn references_are_written_as_they_are_read() {
        assert_eq!(
            "a-b/c.d#12".parse::<IssueRef>().unwrap().to_string(),
            "a-b/c.d#12"
        );
        for text in [
            "a#1", "a/b", "a/b#", "a/b#x", "a/b#0", "a/b/c#1", "/b#1", "a/b#1 ", "a/b#+1",
        ] {
            assert!(text.parse::<IssueRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_ledger_that_is_not_there_is_empty() {
        let ledger = IssueLedger::load(Path::new("/nonexistent/issues.toml")).unwrap();
        assert_eq!(ledger.counts().reported, 0);
    }
}
