//! A TOML table being read: takes the keys it knows, remembers lines, and reports the keys that nobody asked for.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SuiteError;
use crate::case::Origin;
use crate::text::line_of;

/// A value and the line it starts on.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    pub value: T,
    pub line: usize,
}

/// A file's text, and the errors found so far.
pub struct Source<'a> {
    file: PathBuf,
    text: &'a str,
    pub errors: Vec<SuiteError>,
}

impl<'a> Source<'a> {
    pub fn new(file: &Path, text: &'a str) -> Self {
        Self {
            file: file.to_owned(),
            text,
            errors: Vec::new(),
        }
    }

    /// 1-based.
    pub fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    pub fn error(
        &mut self,
        line: usize,
        case: Option<&str>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.errors.push(SuiteError {
            origin: Origin {
                file: self.file.clone(),
                line,
            },
            case: case.map(str::to_owned),
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// The line of a string's first character: that after the quotes where they are followed by a line break.
    fn text_line(&self, span: &Range<usize>) -> usize {
        let opening = self.text.get(span.clone()).unwrap_or_default();
        let quotes = opening.starts_with("'''") || opening.starts_with("\"\"\"");
        let broken = quotes && opening[3..].trim_start_matches('\r').starts_with('\n');
        self.line(span.start) + usize::from(broken)
    }
}

/// The keys of one table, each taken at most once.
pub struct Fields<'t, 'a> {
    table: &'t DeTable<'a>,
    /// What the table is, for messages: "the file", "[[op]]".
    what: &'static str,
    pub line: usize,
    pub case: Option<String>,
    known: Vec<String>,
}

impl<'t, 'a> Fields<'t, 'a> {
    pub fn new(table: &'t DeTable<'a>, what: &'static str, line: usize) -> Self {
        Self {
            table,
            what,
            line,
            case: None,
            known: Vec::new(),
        }
    }

    pub fn take(&mut self, key: &str) -> Option<&'t Spanned<DeValue<'a>>> {
        self.known.push(key.to_owned());
        self.table
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(_, value)| value)
    }

    pub fn string(&mut self, source: &mut Source<'_>, key: &str) -> Option<Located<String>> {
        let value = self.take(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located {
                value: text.to_string(),
                line: source.text_line(&value.span()),
            }),
            other => {
                let line = source.line(value.span().start);
                source.error(
                    line,
                    self.case.as_deref(),
                    format!("'{key}' is {}", article(other)),
                    "write a string",
                );
                None
            }
        }
    }

    pub fn required_string(
        &mut self,
        source: &mut Source<'_>,
        key: &str,
    ) -> Option<Located<String>> {
        let before = source.errors.len();
        let value = self.string(source, key);
        if value.is_none() && source.errors.len() == before {
            self.missing(source, key);
        }
        value
    }

    pub fn missing(&self, source: &mut Source<'_>, key: &str) {
        source.error(
            self.line,
            self.case.as_deref(),
            format!("{} has no '{key}'", self.what),
            format!("add `{key} = …`"),
        );
    }

    /// Reports every key that was not taken.
    pub fn finish(self, source: &mut Source<'_>) {
        for (name, _) in self.table.iter() {
            if !self.known.iter().any(|known| known == name.get_ref()) {
                let line = source.line(name.span().start);
                source.error(
                    line,
                    self.case.as_deref(),
                    format!("unknown key '{}' in {}", name.get_ref(), self.what),
                    format!("the keys are: {}", self.known.join(", ")),
                );
            }
        }
    }
}

pub fn article(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// Plain data without spans. Dates have no place in a suite; an integer past 64 bits becomes its text.
pub fn plain(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map(toml::Value::Integer)
            .unwrap_or_else(|_| toml::Value::String(integer.as_str().to_owned())),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map(toml::Value::Float)
            .unwrap_or_else(|_| toml::Value::String(float.as_str().to_owned())),
        DeValue::Boolean(boolean) => toml::Value::Boolean(*boolean),
        DeValue::Datetime(datetime) => toml::Value::String(datetime.to_string()),
        DeValue::Array(array) => {
            toml::Value::Array(array.iter().map(|item| plain(item.get_ref())).collect())
        }
        DeValue::Table(table) => toml::Value::Table(
            table
                .iter()
                .map(|(name, item)| (name.get_ref().to_string(), plain(item.get_ref())))
                .collect(),
        ),
    }
}
