//! The keys of an `[[op]]` that runs on several devices: `replicas`, `mesh`, `partitioner`, `unsharded`, `[[op.outputs]]`
//! and each operand's `spec`. Read here, and resolved for one case.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Bindings, tables};
use super::fields::{Fields, Located, Source, plain};
use crate::distribution::{Distribution, MeshAxis, Partitioner, Spec};

/// As written; every value may be an expression.
#[derive(Debug)]
pub struct Devices {
    pub line: usize,
    pub replicas: Option<toml::Value>,
    pub mesh: Option<toml::Value>,
    pub partitioner: Option<String>,
    /// The program that computes on one device what the case's own computes on all of them.
    pub unsharded: Located<String>,
    pub outputs: Vec<Output>,
}

#[derive(Debug)]
pub struct Output {
    pub line: usize,
    pub spec: toml::Value,
}

/// None where the operator runs on one device.
pub fn read(
    source: &mut Source<'_>,
    fields: &mut Fields<'_, '_>,
    line: usize,
    case: &str,
) -> Option<Devices> {
    let value = |value: Option<&Spanned<DeValue<'_>>>| value.map(|value| plain(value.get_ref()));
    let replicas = value(fields.take("replicas"));
    let mesh = value(fields.take("mesh"));
    let partitioner = fields.string(source, "partitioner").map(|it| it.value);
    let unsharded = fields.string(source, "unsharded");
    let outputs: Vec<Output> = tables(source, fields, "outputs", Some(case))
        .unwrap_or_default()
        .into_iter()
        .map(|(table, line)| read_output(source, table, line, case))
        .collect();
    let any = replicas.is_some() || mesh.is_some() || partitioner.is_some() || !outputs.is_empty();
    if unsharded.is_none() && any {
        fields.missing(source, "unsharded");
    }
    let devices = Devices {
        line,
        replicas,
        mesh,
        partitioner,
        unsharded: unsharded?,
        outputs,
    };
    if devices.replicas.is_none() && devices.mesh.is_none() {
        source.error(
            line,
            Some(case),
            "an unsharded program, but neither 'replicas' nor 'mesh'",
            "say on how many devices it runs",
        );
    }
    Some(devices)
}

fn read_output(source: &mut Source<'_>, table: &DeTable<'_>, line: usize, case: &str) -> Output {
    let mut fields = Fields::new(table, "[[op.outputs]]", line);
    fields.case = Some(case.to_owned());
    let spec = spec_of(&mut fields);
    fields.finish(source);
    Output { line, spec }
}

/// The key `spec`; without one a tensor is the same on every device.
pub fn spec_of(fields: &mut Fields<'_, '_>) -> toml::Value {
    fields
        .take("spec")
        .map_or(toml::Value::Array(Vec::new()), |value| {
            plain(value.get_ref())
        })
}

/// Evaluates an expression to plain data.
pub type Evaluate<'e> = &'e dyn Fn(&str) -> Result<toml::Value, String>;

/// (line, what)
pub type Problem = (usize, String);

impl Devices {
    /// For one case; `inputs` are the operands' specs as written, with their lines.
    pub fn resolve(
        &self,
        inputs: &[(usize, &toml::Value)],
        bindings: &Bindings,
        evaluate: Evaluate<'_>,
    ) -> Result<Distribution, Problem> {
        let here = |what: String| (self.line, what);
        let replicas = match &self.replicas {
            None => 1,
            Some(written) => size(&value(written, evaluate).map_err(here)?)
                .ok_or_else(|| here(format!("'replicas' is {written}, not a number from 1")))?,
        };
        let mesh = match &self.mesh {
            None => Vec::new(),
            Some(written) => axes(&value(written, evaluate).map_err(here)?)
                .ok_or_else(|| here(format!("'mesh' is {written}, not a list of [name, size]")))?,
        };
        let partitioner = match self.partitioner.as_deref() {
            None => Partitioner::default(),
            Some(written) => {
                let bound = bindings.get(written).and_then(toml::Value::as_str);
                match bound.unwrap_or(written) {
                    "shardy" => Partitioner::Shardy,
                    "gspmd" => Partitioner::Gspmd,
                    other => {
                        let what = format!("unknown partitioner '{other}', not shardy or gspmd");
                        return Err(here(what));
                    }
                }
            }
        };
        let spec = |(line, written): (usize, &toml::Value)| {
            let at = |what: String| (line, what);
            let value = value(written, evaluate).map_err(at)?;
            spec(&value).ok_or_else(|| {
                at(format!(
                    "spec = {written} is not a list of mesh axes, one a dimension"
                ))
            })
        };
        Ok(Distribution {
            replicas,
            mesh,
            partitioner,
            inputs: inputs.iter().copied().map(spec).collect::<Result<_, _>>()?,
            outputs: self
                .outputs
                .iter()
                .map(|output| spec((output.line, &output.spec)))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// A string is an expression.
fn value(written: &toml::Value, evaluate: Evaluate<'_>) -> Result<toml::Value, String> {
    match written {
        toml::Value::String(expression) => evaluate(expression),
        other => Ok(other.clone()),
    }
}

fn size(value: &toml::Value) -> Option<usize> {
    let size = value.as_integer()?;
    usize::try_from(size).ok().filter(|size| *size > 0)
}

fn axes(value: &toml::Value) -> Option<Vec<MeshAxis>> {
    let axis = |pair: &toml::Value| match pair.as_array()?.as_slice() {
        [name, number] => Some(MeshAxis {
            name: name
                .as_str()
                .filter(|name| !name.is_empty() && *name != Spec::REPLICA)?
                .to_owned(),
            size: size(number)?,
        }),
        _ => None,
    };
    value.as_array()?.iter().map(axis).collect()
}

/// `["data", "", ["a", "b"]]`: of each dimension one axis, none, or several.
fn spec(value: &toml::Value) -> Option<Spec> {
    let axes = |dimension: &toml::Value| match dimension {
        toml::Value::String(axis) if axis.is_empty() => Some(Vec::new()),
        toml::Value::String(axis) => Some(vec![axis.clone()]),
        toml::Value::Array(axes) => axes
            .iter()
            .map(|axis| axis.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    value
        .as_array()?
        .iter()
        .map(axes)
        .collect::<Option<_>>()
        .map(Spec)
}
