//! The list of operators: what `suites/specification.toml` says, checked when it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};
use serde::Deserialize;

use crate::tensor::ElementType;

/// What a value of an operator may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Element(ElementType),
    /// Quantized, whatever stores and whatever is expressed.
    Quantized,
}

impl Kind {
    pub fn all() -> impl Iterator<Item = Kind> {
        ElementType::all()
            .map(Self::Element)
            .chain([Self::Quantized])
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(element_type) => f.pad(element_type.name()),
            Self::Quantized => f.pad("quantized"),
        }
    }
}

#[derive(Debug)]
pub struct Specification {
    pub source: SourceOf,
    pub operators: Vec<Operator>,
    pub uncovered: Vec<Uncovered>,
    pub beyond: Vec<Beyond>,
    pub corners: Vec<Corner>,
}

/// Which version of which documents the list was made from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceOf {
    /// `owner/name` on GitHub.
    pub repository: String,
    pub commit: String,
    /// Of StableHLO.
    pub version: String,
}

#[derive(Debug)]
pub struct Operator {
    /// Without the dialect where it is StableHLO's: `add`, `chlo.erf`, `func.call`.
    pub name: String,
    /// Path in the repository, with the heading: `docs/spec.md#add`.
    pub source: String,
    pub values: Vec<Value>,
}

/// An operand or result with a type of its own.
#[derive(Debug)]
pub struct Value {
    /// As the specification names it.
    pub name: String,
    pub at: Place,
    /// What the constraints allow.
    pub kinds: BTreeSet<Kind>,
}

/// Where in an operator's signature a value stands; tuples are counted by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Operand(usize),
    Result(usize),
    AnyOperand,
    AnyResult,
}

/// Cells without a case, and why.
#[derive(Debug)]
pub struct Uncovered {
    pub operators: Vec<String>,
    matchers: Vec<GlobMatcher>,
    pub kinds: BTreeSet<Kind>,
    pub reason: String,
}

/// Cases outside the list, and why.
#[derive(Debug)]
pub struct Beyond {
    pub operators: Vec<String>,
    matchers: Vec<GlobMatcher>,
    /// Empty: of subjects that are no operators.
    pub kinds: BTreeSet<Kind>,
    pub reason: String,
}

/// What an attribute or a value may be at its edge, and the cases that show it.
#[derive(Debug)]
pub struct Corner {
    pub what: String,
    pub source: String,
    /// Globs over case ids, each of which names a case.
    pub cases: Vec<String>,
    pub(super) matchers: Vec<GlobMatcher>,
}

#[derive(Debug, thiserror::Error)]
pub enum SpecificationError {
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {what}", path.display())]
    Malformed { path: PathBuf, what: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    source: SourceOf,
    groups: BTreeMap<String, Vec<String>>,
    operator: Vec<OperatorEntry>,
    #[serde(default)]
    uncovered: Vec<Entry>,
    #[serde(default)]
    beyond: Vec<Entry>,
    #[serde(default)]
    corner: Vec<CornerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorEntry {
    name: String,
    source: String,
    values: Vec<ValueEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueEntry {
    name: String,
    at: String,
    types: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    operators: Vec<String>,
    #[serde(default)]
    types: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CornerEntry {
    what: String,
    source: String,
    cases: Vec<String>,
}

const SCHEMA: &str = "tpu-parity/specification/1";

impl Specification {
    /// Under the folder of the suites.
    pub const FILE: &str = "specification.toml";

    /// # Errors
    /// When the file cannot be read, is no list of this schema, or names an unknown type, place or glob.
    pub fn load(suites: &Path) -> Result<Self, SpecificationError> {
        let path = suites.join(Self::FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| SpecificationError::Read {
            path: path.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|what| SpecificationError::Malformed { path, what })
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        if document.schema != SCHEMA {
            return Err(format!("its schema is '{}', not {SCHEMA}", document.schema));
        }
        let groups = Groups(&document.groups);
        let mut operators: Vec<Operator> = Vec::with_capacity(document.operator.len());
        for entry in &document.operator {
            if operators.iter().any(|known| known.name == entry.name) {
                return Err(format!("{} stands twice in the list", entry.name));
            }
            operators.push(operator(entry, &groups)?);
        }
        let uncovered = document.uncovered.iter().map(|entry| {
            Ok(Uncovered {
                matchers: matchers(&entry.operators)?,
                operators: entry.operators.clone(),
                kinds: groups.kinds(&entry.types)?,
                reason: entry.reason.clone(),
            })
        });
        let beyond = document.beyond.iter().map(|entry| {
            Ok(Beyond {
                matchers: matchers(&entry.operators)?,
                operators: entry.operators.clone(),
                kinds: groups.kinds(&entry.types)?,
                reason: entry.reason.clone(),
            })
        });
        let corners = document.corner.iter().map(|entry| {
            Ok(Corner {
                what: entry.what.clone(),
                source: entry.source.clone(),
                cases: entry.cases.clone(),
                matchers: matchers(&entry.cases)?,
            })
        });
        Ok(Self {
            uncovered: uncovered.collect::<Result<_, String>>()?,
            beyond: beyond.collect::<Result<_, String>>()?,
            corners: corners.collect::<Result<_, String>>()?,
            source: document.source,
            operators,
        })
    }

    pub fn operator(&self, name: &str) -> Option<&Operator> {
        self.operators.iter().find(|operator| operator.name == name)
    }

    /// The first entry that says why there is no case; `value` and `kind` are none of an operator without values.
    pub fn uncovered(
        &self,
        operator: &Operator,
        value: Option<&Value>,
        kind: Option<Kind>,
    ) -> Option<usize> {
        let label = value.map(|value| operator.label(value));
        self.uncovered.iter().position(|entry| {
            entry.matchers.iter().any(|glob| {
                glob.is_match(&operator.name)
                    || label.as_ref().is_some_and(|label| glob.is_match(label))
            }) && fits(&entry.kinds, kind)
        })
    }

    /// The first entry that says why there is a case outside the list; `kind` is none of a subject that is no operator.
    pub fn beyond(&self, operator: &str, kind: Option<Kind>) -> Option<usize> {
        self.beyond.iter().position(|entry| {
            entry.matchers.iter().any(|glob| glob.is_match(operator)) && fits(&entry.kinds, kind)
        })
    }
}

impl Operator {
    /// As programs write it: `stablehlo.add`, `chlo.erf`.
    pub fn full_name(&self) -> String {
        match self.name.contains('.') {
            true => self.name.clone(),
            false => format!("stablehlo.{}", self.name),
        }
    }

    /// The operator, and the value where it has several: `add`, `gather.start_indices`.
    pub fn label(&self, value: &Value) -> String {
        match self.values.len() {
            1 => self.name.clone(),
            _ => format!("{}.{}", self.name, value.name),
        }
    }
}

/// An entry without types is of what has none.
fn fits(kinds: &BTreeSet<Kind>, kind: Option<Kind>) -> bool {
    match kind {
        Some(kind) => kinds.contains(&kind),
        None => kinds.is_empty(),
    }
}

fn operator(entry: &OperatorEntry, groups: &Groups<'_>) -> Result<Operator, String> {
    let values = entry.values.iter().map(|value| {
        Ok(Value {
            name: value.name.clone(),
            at: place(&value.at).ok_or_else(|| {
                format!(
                    "{}: '{}' is no place: write `operand 0`, `result 0`, `operand *` or `result *`",
                    entry.name, value.at
                )
            })?,
            kinds: groups.kinds(&value.types)?,
        })
    });
    Ok(Operator {
        values: values.collect::<Result<_, String>>()?,
        name: entry.name.clone(),
        source: entry.source.clone(),
    })
}

fn place(text: &str) -> Option<Place> {
    let (side, index) = text.split_once(' ')?;
    match (side, index) {
        ("operand", "*") => Some(Place::AnyOperand),
        ("result", "*") => Some(Place::AnyResult),
        ("operand", index) => index.parse().ok().map(Place::Operand),
        ("result", index) => index.parse().ok().map(Place::Result),
        _ => None,
    }
}

fn matchers(globs: &[String]) -> Result<Vec<GlobMatcher>, String> {
    let compile = |glob: &String| -> Result<GlobMatcher, globset::Error> {
        let built: Glob = GlobBuilder::new(glob).literal_separator(true).build()?;
        Ok(built.compile_matcher())
    };
    globs
        .iter()
        .map(|glob| compile(glob).map_err(|error| error.to_string()))
        .collect()
}

/// Names of sets of types; a set may hold others.
struct Groups<'a>(&'a BTreeMap<String, Vec<String>>);

impl Groups<'_> {
    fn kinds(&self, names: &[String]) -> Result<BTreeSet<Kind>, String> {
        let mut kinds = BTreeSet::new();
        for name in names {
            self.add(name, &mut kinds, 0)?;
        }
        Ok(kinds)
    }

    fn add(&self, name: &str, kinds: &mut BTreeSet<Kind>, depth: usize) -> Result<(), String> {
        if depth > self.0.len() {
            return Err(format!("the group '{name}' holds itself"));
        }
        if let Some(members) = self.0.get(name) {
            return members
                .iter()
                .try_for_each(|member| self.add(member, kinds, depth + 1));
        }
        let kind = match name {
            "quantized" => Kind::Quantized,
            name => Kind::Element(
                name.parse()
                    .map_err(|_| format!("'{name}' is neither a group nor an element type"))?,
            ),
        };
        kinds.insert(kind);
        Ok(())
    }
}
