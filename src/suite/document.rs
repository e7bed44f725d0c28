//! The TOML of a suite file as typed data with line numbers. Nothing is expanded or rendered here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SuiteErrors;
use super::distribution::{self, Devices};
use super::fields::{Fields, Located, Source, article, plain};
use crate::tensor::ElementType;
use crate::text::toml_error;

pub type Bindings = BTreeMap<String, toml::Value>;

/// One file: a family of operators.
#[derive(Debug)]
pub struct Family {
    pub file: PathBuf,
    pub suite: String,
    pub seed: u64,
    pub ops: Vec<Op>,
}

#[derive(Debug)]
pub struct Op {
    pub line: usize,
    /// The subject of its cases.
    pub name: String,
    /// The operator's name in the specification.
    pub spec: String,
    pub axes: Vec<Axis>,
    pub filter: Option<Located<String>>,
    /// None where the program is to be refused.
    pub tolerance: Option<Located<toml::Value>>,
    /// Of a program that is to be refused: the constraint that it breaks, or `$name` of a binding that holds it.
    pub breaks: Option<Located<String>>,
    /// Where a tolerance in ulp or norm comes from.
    pub tolerance_source: Option<Located<String>>,
    /// The program of the scales, where the op's own on absolute inputs gives none.
    pub scale: Option<Located<String>>,
    /// What each result is, of a model.
    pub layers: Located<Vec<String>>,
    pub native: bool,
    pub program: Located<String>,
    pub inputs: Vec<Input>,
    pub bind: Bindings,
    /// Of one that runs on several.
    pub devices: Option<Devices>,
}

#[derive(Debug)]
pub struct Axis {
    pub name: String,
    pub values: Vec<AxisValue>,
}

#[derive(Debug)]
pub struct AxisValue {
    pub line: usize,
    pub id: String,
    pub bindings: Bindings,
}

#[derive(Debug)]
pub struct Input {
    pub line: usize,
    pub t: String,
    pub shape: toml::Value,
    pub domain: toml::Value,
    pub when: Option<String>,
    /// How it lies on several devices.
    pub spec: toml::Value,
}

pub fn parse(text: &str, file: &Path) -> Result<Family, SuiteErrors> {
    let mut source = Source::new(file, text);
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let (line, complaint) = toml_error(text, &error);
            let what = format!("not TOML: {complaint}");
            source.error(line, None, what, "correct the syntax");
            return Err(SuiteErrors(source.errors));
        }
    };
    let family = read_family(&mut source, document.get_ref(), file);
    if source.errors.is_empty() {
        Ok(family)
    } else {
        Err(SuiteErrors(source.errors))
    }
}

fn read_family(source: &mut Source<'_>, table: &DeTable<'_>, file: &Path) -> Family {
    let mut fields = Fields::new(table, "the file", 1);
    let suite = fields.required_string(source, "suite");
    let family = fields.required_string(source, "family");
    check_place(source, file, suite.as_ref(), family.as_ref());
    let suite = suite.map(|suite| suite.value).unwrap_or_default();
    let seed = match fields.take("seed") {
        None => 1,
        Some(value) => match plain(value.get_ref()) {
            toml::Value::Integer(seed) if seed >= 0 => seed as u64,
            _ => {
                let line = source.line(value.span().start);
                source.error(line, None, "'seed' is not a seed", "write a number from 0");
                1
            }
        },
    };
    let mut ops = Vec::new();
    match tables(source, &mut fields, "op", None) {
        Some(tables) => {
            for (table, line) in tables {
                ops.extend(read_op(source, table, line, &suite));
            }
        }
        None => fields.missing(source, "[[op]]"),
    }
    fields.finish(source);
    Family {
        file: file.to_owned(),
        suite,
        seed,
        ops,
    }
}

/// Ids must say where a case is declared, so the file's place and its own words agree.
fn check_place(
    source: &mut Source<'_>,
    file: &Path,
    suite: Option<&Located<String>>,
    family: Option<&Located<String>>,
) {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let dir = file
        .parent()
        .and_then(Path::file_name)
        .map(|dir| dir.to_string_lossy());
    for (key, said, is) in [("suite", suite, dir), ("family", family, stem)] {
        if let (Some(said), Some(is)) = (said, is)
            && said.value != is
        {
            let what = format!("{key} is '{}', but the file lies in '{is}'", said.value);
            let remedy = format!("write `{key} = \"{is}\"`, or move the file");
            source.error(said.line, None, what, remedy);
        }
    }
}

fn read_op(source: &mut Source<'_>, table: &DeTable<'_>, line: usize, suite: &str) -> Option<Op> {
    let mut fields = Fields::new(table, "[[op]]", line);
    let name = fields.required_string(source, "name")?.value;
    let case = format!("{suite}/{name}");
    fields.case = Some(case.clone());
    let spec = fields.string(source, "spec");
    let filter = fields.string(source, "where");
    let program = fields.required_string(source, "program");
    let breaks = fields.string(source, "breaks");
    let tolerance = fields.take("tolerance").map(|value| Located {
        value: plain(value.get_ref()),
        line: source.line(value.span().start),
    });
    if tolerance.is_none() && breaks.is_none() {
        fields.missing(source, "tolerance");
    }
    let tolerance_source = fields.string(source, "source");
    let scale = fields.string(source, "scale");
    let layers = read_layers(source, &mut fields, line, &case);
    let native = match fields.string(source, "reference") {
        None => false,
        Some(reference) => {
            if !matches!(reference.value.as_str(), "native" | "widened") {
                let what = format!("unknown reference '{}'", reference.value);
                source.error(
                    reference.line,
                    Some(&case),
                    what,
                    "write \"widened\" or \"native\"",
                );
            }
            reference.value == "native"
        }
    };
    let axes = read_axes(source, &mut fields, &case);
    let bind = match fields.take("bind") {
        None => Bindings::new(),
        Some(value) => bindings(source, value, &case, "[op.bind]"),
    };
    let mut inputs = Vec::new();
    for (table, line) in tables(source, &mut fields, "inputs", Some(&case)).unwrap_or_default() {
        inputs.push(read_input(source, table, line, &case));
    }
    let devices = distribution::read(source, &mut fields, line, &case);
    if native && devices.is_some() {
        let what = "a reference of its own program, and an unsharded one";
        source.error(line, Some(&case), what, "leave 'reference' out");
    }
    if breaks.is_some()
        && (tolerance.is_some() || !inputs.is_empty() || native || devices.is_some())
    {
        let what = "a program that is to be refused does not run, and has results or operands";
        let remedy = "leave out 'breaks', or all of tolerance, inputs, reference and devices";
        source.error(line, Some(&case), what, remedy);
    }
    fields.finish(source);
    Some(Op {
        devices,
        breaks,
        line,
        spec: spec.map_or_else(|| name.clone(), |spec| spec.value),
        name,
        axes,
        filter,
        tolerance,
        tolerance_source,
        scale,
        layers,
        native,
        program: program?,
        inputs,
        bind,
    })
}

fn read_layers(
    source: &mut Source<'_>,
    fields: &mut Fields<'_, '_>,
    line: usize,
    case: &str,
) -> Located<Vec<String>> {
    let Some(value) = fields.take("layers") else {
        return Located {
            value: Vec::new(),
            line,
        };
    };
    let line = source.line(value.span().start);
    let names = match plain(value.get_ref()) {
        toml::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    if names.is_none() {
        let remedy = "write a list of strings, one for each result";
        source.error(line, Some(case), "'layers' is no list of names", remedy);
    }
    Located {
        value: names.unwrap_or_default(),
        line,
    }
}

fn read_axes(source: &mut Source<'_>, fields: &mut Fields<'_, '_>, case: &str) -> Vec<Axis> {
    let names = match fields.take("axes") {
        None => vec!["t".to_owned(), "variant".to_owned()],
        Some(value) => match plain(value.get_ref()) {
            toml::Value::Array(items) if items.iter().all(toml::Value::is_str) => items
                .iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect(),
            _ => {
                let line = source.line(value.span().start);
                source.error(
                    line,
                    Some(case),
                    "'axes' is not a list of names",
                    "write `axes = [\"t\", \"variant\"]`",
                );
                return Vec::new();
            }
        },
    };
    names
        .into_iter()
        .map(|name| {
            let value = fields.take(&name);
            let before = source.errors.len();
            let values = match value {
                None => Vec::new(),
                Some(value) if name == "variant" => read_variants(source, value, case),
                Some(value) => read_axis_values(source, value, &name, case),
            };
            if values.is_empty() && source.errors.len() == before {
                let line = value.map_or(fields.line, |value| source.line(value.span().start));
                let remedy = match name.as_str() {
                    "variant" => "add a table [op.variant.<name>]".to_owned(),
                    _ => format!("add `{name} = [..]` with at least one value"),
                };
                let what = format!("axis '{name}' has no values");
                source.error(line, Some(case), what, remedy);
            }
            Axis { name, values }
        })
        .collect()
}

fn read_variants(
    source: &mut Source<'_>,
    value: &Spanned<DeValue<'_>>,
    case: &str,
) -> Vec<AxisValue> {
    let DeValue::Table(table) = value.get_ref() else {
        let line = source.line(value.span().start);
        source.error(
            line,
            Some(case),
            "'variant' is not a table of tables",
            "write [op.variant.<name>]",
        );
        return Vec::new();
    };
    let mut variants: Vec<AxisValue> = table
        .iter()
        .map(|(name, value)| AxisValue {
            line: source.line(name.span().start),
            id: name.get_ref().to_string(),
            bindings: bindings(source, value, case, "[op.variant.…]"),
        })
        .collect();
    variants.sort_by_key(|variant| variant.line);
    variants
}

fn read_axis_values(
    source: &mut Source<'_>,
    value: &Spanned<DeValue<'_>>,
    axis: &str,
    case: &str,
) -> Vec<AxisValue> {
    let DeValue::Array(items) = value.get_ref() else {
        let line = source.line(value.span().start);
        let what = format!("axis '{axis}' is {}", article(value.get_ref()));
        source.error(line, Some(case), what, "write a list of values");
        return Vec::new();
    };
    let mut values = Vec::new();
    for item in items.iter() {
        let line = source.line(item.span().start);
        let (id, bindings) = match plain(item.get_ref()) {
            toml::Value::String(id) => (id, Bindings::new()),
            toml::Value::Table(mut table) => match table.remove("id") {
                Some(toml::Value::String(id)) => (id, table.into_iter().collect()),
                _ => {
                    let what = format!("a value of axis '{axis}' has no id");
                    source.error(line, Some(case), what, "write { id = \"name\", … }");
                    continue;
                }
            },
            _ => {
                let what = format!("a value of axis '{axis}' is {}", article(item.get_ref()));
                source.error(
                    line,
                    Some(case),
                    what,
                    "write a string or { id = \"…\", … }",
                );
                continue;
            }
        };
        if axis == "t"
            && let Err(error) = id.parse::<ElementType>()
        {
            source.error(line, Some(case), error.to_string(), "write one of them");
        }
        values.push(AxisValue { line, id, bindings });
    }
    values
}

fn read_input(source: &mut Source<'_>, table: &DeTable<'_>, line: usize, case: &str) -> Input {
    let mut fields = Fields::new(table, "[[op.inputs]]", line);
    fields.case = Some(case.to_owned());
    let t = fields.string(source, "t");
    let mut value = |key: &str, default: &str| {
        fields.take(key).map_or_else(
            || toml::Value::String(default.to_owned()),
            |value| plain(value.get_ref()),
        )
    };
    let shape = value("shape", "shape");
    let domain = value("domain", "any");
    let when = fields.string(source, "when");
    let spec = distribution::spec_of(&mut fields);
    fields.finish(source);
    Input {
        line,
        t: t.map_or_else(|| "t".to_owned(), |t| t.value),
        shape,
        domain,
        when: when.map(|when| when.value),
        spec,
    }
}

fn bindings(
    source: &mut Source<'_>,
    value: &Spanned<DeValue<'_>>,
    case: &str,
    what: &str,
) -> Bindings {
    match plain(value.get_ref()) {
        toml::Value::Table(table) => table.into_iter().collect(),
        _ => {
            let line = source.line(value.span().start);
            source.error(
                line,
                Some(case),
                format!("{what} is not a table"),
                "write `name = value` lines below it",
            );
            Bindings::new()
        }
    }
}

/// The tables of an array of tables, with their lines; none where the key is absent.
pub fn tables<'t, 'a>(
    source: &mut Source<'_>,
    fields: &mut Fields<'t, 'a>,
    key: &str,
    case: Option<&str>,
) -> Option<Vec<(&'t DeTable<'a>, usize)>> {
    let value = fields.take(key)?;
    let mut found = Vec::new();
    if let DeValue::Array(items) = value.get_ref() {
        for item in items.iter() {
            if let DeValue::Table(table) = item.get_ref() {
                found.push((table, source.line(item.span().start)));
            }
        }
        if found.len() == items.len() {
            return Some(found);
        }
    }
    let line = source.line(value.span().start);
    source.error(
        line,
        case,
        format!("'{key}' is not a list of tables"),
        format!("write [[{}{key}]]", if case.is_some() { "op." } else { "" }),
    );
    Some(found)
}
