//! Expands an operator's grid into cases: bindings, rendered programs, inputs, tolerances, ids and seeds.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Template};

use super::distribution::Devices;
use super::document::{AxisValue, Bindings, Family, Input, Op};
use super::fields::Located;
use super::signature::{Signature, signature};
use super::template::{context, describe, environment, parse_type, plain};
use super::tolerance::{domain, impossible, tolerances};
use super::{SuiteError, SuiteErrors};
use crate::case::{Case, CaseId, Origin, ReferenceProgram};
use crate::compare::Tolerance;
use crate::distribution::Distribution;
use crate::tensor::{ElementType, InputSpec};

pub fn expand(family: &Family) -> Result<Vec<Case>, SuiteErrors> {
    let native = environment(false);
    let widened = environment(true);
    let mut cases = Vec::new();
    let mut errors = Vec::new();
    for op in &family.ops {
        let expansion = Expansion {
            family,
            op,
            native: &native,
            widened: &widened,
        };
        expansion.run(&mut cases, &mut errors);
    }
    if errors.is_empty() {
        Ok(cases)
    } else {
        Err(SuiteErrors(errors))
    }
}

/// First 8 bytes, little-endian, of BLAKE3 over `<file seed>/<case id>`.
pub fn seed(file_seed: u64, id: &CaseId) -> u64 {
    let hash = blake3::hash(format!("{file_seed}/{id}").as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

struct Expansion<'e> {
    family: &'e Family,
    op: &'e Op,
    native: &'e Environment<'e>,
    widened: &'e Environment<'e>,
}

/// A combination of the axes' values.
struct Point {
    line: usize,
    id: String,
    bindings: Bindings,
    context: Value,
}

/// (line, what, remedy)
type Problem = (usize, String, String);

impl Expansion<'_> {
    fn run(&self, cases: &mut Vec<Case>, errors: &mut Vec<SuiteError>) {
        let report = |(line, what, remedy): Problem, case: &str| SuiteError {
            origin: self.origin(line),
            case: Some(case.to_owned()),
            what,
            remedy,
        };
        let program = &self.op.program.value;
        let templates = match (
            self.native.template_from_str(program),
            self.widened.template_from_str(program),
        ) {
            (Ok(native), Ok(widened)) => (native, widened),
            (Err(error), _) | (_, Err(error)) => {
                let case = format!("{}/{}", self.family.suite, self.op.name);
                errors.push(report(self.template_problem(&error), &case));
                return;
            }
        };
        let before = cases.len() + errors.len();
        for point in self.points() {
            match self.kept(&point) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(problem) => {
                    errors.push(report(problem, &point.id));
                    continue;
                }
            }
            match self.case(&point, &templates) {
                Ok(case) => cases.push(case),
                Err(problem) => errors.push(report(problem, &point.id)),
            }
        }
        if cases.len() + errors.len() == before {
            let problem = (
                self.op.filter.as_ref().map_or(self.op.line, |f| f.line),
                "'where' drops every combination".to_owned(),
                "widen it, or remove the operator".to_owned(),
            );
            errors.push(report(
                problem,
                &format!("{}/{}", self.family.suite, self.op.name),
            ));
        }
    }

    fn origin(&self, line: usize) -> Origin {
        Origin {
            file: self.family.file.clone(),
            line,
        }
    }

    /// Every combination of the axes' values, the last axis fastest.
    fn points(&self) -> Vec<Point> {
        let mut rows: Vec<Vec<&AxisValue>> = vec![Vec::new()];
        for axis in &self.op.axes {
            rows = rows
                .iter()
                .flat_map(|row| {
                    axis.values.iter().map(move |value| {
                        let mut row = row.clone();
                        row.push(value);
                        row
                    })
                })
                .collect();
        }
        rows.iter().map(|row| self.point(row)).collect()
    }

    fn point(&self, row: &[&AxisValue]) -> Point {
        let mut id = format!("{}/{}", self.family.suite, self.op.name);
        let mut bindings = self.op.bind.clone();
        let mut line = self.op.line;
        for (axis, value) in self.op.axes.iter().zip(row) {
            id.push('/');
            id.push_str(&value.id);
            bindings.extend(value.bindings.clone());
            bindings.insert(axis.name.clone(), toml::Value::String(value.id.clone()));
            if axis.name == "variant" {
                line = value.line;
            }
        }
        Point {
            line,
            id: id.to_lowercase(),
            context: context(&bindings),
            bindings,
        }
    }

    fn kept(&self, point: &Point) -> Result<bool, Problem> {
        match &self.op.filter {
            None => Ok(true),
            Some(filter) => self
                .evaluate(&filter.value, point)
                .map(|value| value.is_true())
                .map_err(|what| (filter.line, format!("'where': {what}"), remedy_bind())),
        }
    }

    fn evaluate(&self, expression: &str, point: &Point) -> Result<Value, String> {
        self.native
            .compile_expression(expression)
            .and_then(|compiled| compiled.eval(point.context.clone()))
            .map_err(|error| format!("{} in `{expression}`", describe(&error).0))
            .and_then(|value| match value.is_undefined() {
                true => Err(format!("`{expression}` is undefined")),
                false => Ok(value),
            })
    }

    fn case(&self, point: &Point, templates: &(Template, Template)) -> Result<Case, Problem> {
        let id: CaseId = point
            .id
            .parse()
            .map_err(|error: crate::case::CaseIdError| {
                let remedy = "rename the operator, axis value or variant";
                (point.line, error.to_string(), remedy.to_owned())
            })?;
        let program = self.render(&templates.0, point)?;
        if let Some(breaks) = &self.op.breaks {
            return self.refused(id, program, breaks, point);
        }
        let reference_program = match (self.op.native, &self.op.devices) {
            (true, None) => ReferenceProgram::Native,
            (false, None) => ReferenceProgram::Widened(self.render(&templates.1, point)?),
            (_, Some(devices)) => ReferenceProgram::Widened(self.unsharded(devices, point)?),
        };
        let signature = signature(&program).map_err(|what| {
            let remedy = "write `func.func @main(…) -> …` with static tensors";
            (self.op.program.line, what, remedy.to_owned())
        })?;
        let present = self.present(point)?;
        let distribution = self.distribution(&present, point)?;
        let inputs = self.inputs(&present, point, &signature, distribution.as_ref())?;
        self.check_outputs(&signature, distribution.as_ref())?;
        let results: Vec<ElementType> = signature.results.iter().map(|result| result.0).collect();
        let count = |expression: &str| {
            let value = self.evaluate(expression, point)?;
            value
                .as_i64()
                .ok_or_else(|| format!("`{expression}` is {value}, not a whole number"))
        };
        let Some(tolerance) = &self.op.tolerance else {
            let remedy = "add `tolerance = …`".to_owned();
            return Err((self.op.line, "no tolerance".to_owned(), remedy));
        };
        let tolerances = tolerances(&tolerance.value, &point.bindings, &results, &count).map_err(
            |what| {
                let remedy = "write \"exact\", { ulp = .. }, { accumulate = .. }, { norm = .. }, or one of these per result";
                (tolerance.line, what, remedy.to_owned())
            },
        )?;
        let tolerance_source = self.op.tolerance_source.as_ref();
        if tolerance_source.is_none() && tolerances.iter().any(Tolerance::needs_source) {
            return Err((
                tolerance.line,
                "a tolerance in ulp or norm without its source".to_owned(),
                "write `source = \"…\"`: the paper, specification or derivation that gives the number".to_owned(),
            ));
        }
        let scale_program = self.scale_program(&tolerances, &results, point)?;
        let layers = &self.op.layers;
        if !layers.value.is_empty() && layers.value.len() != results.len() {
            return Err((
                layers.line,
                format!(
                    "{} layers for {} results",
                    layers.value.len(),
                    results.len()
                ),
                "name each result, in order".to_owned(),
            ));
        }
        Ok(Case {
            layers: layers.value.clone(),
            seed: seed(self.family.seed, &id),
            id,
            origin: self.origin(point.line),
            program,
            reference_program,
            inputs,
            tolerances,
            tolerance_source: tolerance_source.map(|source| source.value.clone()),
            scale_program,
            distribution,
            unloadable: None,
        })
    }

    /// A case whose program must be refused: it has no operands and no results.
    fn refused(
        &self,
        id: CaseId,
        program: String,
        breaks: &Located<String>,
        point: &Point,
    ) -> Result<Case, Problem> {
        let constraint = match breaks.value.strip_prefix('$') {
            None => breaks.value.clone(),
            Some(name) => match point.bindings.get(name).and_then(toml::Value::as_str) {
                Some(constraint) => constraint.to_owned(),
                None => {
                    let what = format!("'${name}' names no binding with a text");
                    return Err((breaks.line, what, remedy_bind()));
                }
            },
        };
        Ok(Case {
            tolerance_source: None,
            scale_program: None,
            layers: Vec::new(),
            seed: seed(self.family.seed, &id),
            id,
            origin: self.origin(point.line),
            program,
            reference_program: ReferenceProgram::Refused(constraint),
            inputs: Vec::new(),
            tolerances: Vec::new(),
            distribution: None,
            unloadable: None,
        })
    }

    fn render(&self, template: &Template, point: &Point) -> Result<String, Problem> {
        template
            .render(point.context.clone())
            .map_err(|error| self.template_problem(&error))
    }

    fn template_problem(&self, error: &minijinja::Error) -> Problem {
        self.problem_in(&self.op.program, error)
    }

    fn problem_in(&self, template: &Located<String>, error: &minijinja::Error) -> Problem {
        let (mut what, line) = describe(error);
        if let (Some(range), Some(source)) = (error.range(), error.template_source())
            && let Some(at) = source.get(range)
            && !at.is_empty()
        {
            what = format!("{what} at `{at}`");
        }
        (
            template.line + line - 1,
            format!("template: {what}"),
            remedy_bind(),
        )
    }

    /// The operands that the point has.
    fn present(&self, point: &Point) -> Result<Vec<&Input>, Problem> {
        let mut present = Vec::with_capacity(self.op.inputs.len());
        for input in &self.op.inputs {
            let wanted = match &input.when {
                None => true,
                Some(when) => self
                    .evaluate(when, point)
                    .map_err(|what| (input.line, format!("'when': {what}"), remedy_bind()))?
                    .is_true(),
            };
            if wanted {
                present.push(input);
            }
        }
        Ok(present)
    }

    fn inputs(
        &self,
        present: &[&Input],
        point: &Point,
        signature: &Signature,
        distribution: Option<&Distribution>,
    ) -> Result<Vec<InputSpec>, Problem> {
        let mut inputs = Vec::with_capacity(present.len());
        for (index, input) in present.iter().enumerate() {
            let spec = self.input(input, point)?;
            let shape = match distribution {
                None => spec.shape.clone(),
                Some(distribution) => distribution
                    .program_shape(&distribution.inputs[index], &spec.shape)
                    .map_err(|error| (input.line, error.to_string(), REMEDY_SPEC.to_owned()))?,
            };
            if let Some((element_type, parameter)) = signature.parameters.get(index)
                && (*element_type != spec.element_type || *parameter != shape)
            {
                return Err((
                    input.line,
                    format!(
                        "input {index} is {} {shape:?}, but the program's parameter is {element_type} {parameter:?}",
                        spec.element_type
                    ),
                    "make the two agree".to_owned(),
                ));
            }
            inputs.push(spec);
        }
        if inputs.len() != signature.parameters.len() {
            return Err((
                self.op.line,
                format!(
                    "{} inputs for a program of {} parameters",
                    inputs.len(),
                    signature.parameters.len()
                ),
                "write one [[op.inputs]] per parameter of @main".to_owned(),
            ));
        }
        Ok(inputs)
    }

    fn distribution(
        &self,
        present: &[&Input],
        point: &Point,
    ) -> Result<Option<Distribution>, Problem> {
        let Some(devices) = &self.op.devices else {
            return Ok(None);
        };
        let evaluate = |expression: &str| {
            let value = self.evaluate(expression, point)?;
            plain(&value).ok_or_else(|| format!("`{expression}` gives {value}"))
        };
        let specs: Vec<(usize, &toml::Value)> = present
            .iter()
            .map(|input| (input.line, &input.spec))
            .collect();
        devices
            .resolve(&specs, &point.bindings, &evaluate)
            .map(Some)
            .map_err(|(line, what)| (line, what, REMEDY_SPEC.to_owned()))
    }

    fn check_outputs(
        &self,
        signature: &Signature,
        distribution: Option<&Distribution>,
    ) -> Result<(), Problem> {
        let Some(distribution) = distribution else {
            return Ok(());
        };
        let (specs, results) = (&distribution.outputs, &signature.results);
        if specs.len() != results.len() {
            return Err((
                self.op.line,
                format!("{} outputs for {} results", specs.len(), results.len()),
                "write one [[op.outputs]] per result of @main".to_owned(),
            ));
        }
        for (spec, (_, shape)) in specs.iter().zip(results) {
            let whole = distribution.whole_shape(spec, shape);
            distribution
                .program_shape(spec, &whole)
                .map_err(|error| (self.op.line, error.to_string(), REMEDY_SPEC.to_owned()))?;
        }
        Ok(())
    }

    /// The reference's program, in f64.
    fn unsharded(&self, devices: &Devices, point: &Point) -> Result<String, Problem> {
        let located = &devices.unsharded;
        let problem = |error: minijinja::Error| self.problem_in(located, &error);
        let template = self
            .widened
            .template_from_str(&located.value)
            .map_err(problem)?;
        template.render(point.context.clone()).map_err(problem)
    }

    /// The program of the scales in f64, where the op brings one and a tolerance of the case measures by them.
    fn scale_program(
        &self,
        tolerances: &[Tolerance],
        results: &[ElementType],
        point: &Point,
    ) -> Result<Option<String>, Problem> {
        let Some(located) = &self.op.scale else {
            return Ok(None);
        };
        let problem =
            |what: &str, remedy: &str| Err((located.line, what.to_owned(), remedy.to_owned()));
        if self.op.native || self.op.devices.is_some() {
            return problem(
                "a program of scales in f64 beside a reference that is not the op's own program in f64",
                "leave out 'scale'",
            );
        }
        let measures = |t: &Tolerance| matches!(t, Tolerance::Accumulate { .. });
        if !tolerances.iter().any(measures) {
            // Of integers every tolerance is exact.
            if results.iter().all(|t| !t.is_float() && !t.is_complex()) {
                return Ok(None);
            }
            return problem(
                "a program of scales, and no tolerance that measures by them",
                "write tolerance = { accumulate = .. }, or leave out 'scale'",
            );
        }
        let template = self
            .widened
            .template_from_str(&located.value)
            .and_then(|template| template.render(point.context.clone()));
        template
            .map(Some)
            .map_err(|error| self.problem_in(located, &error))
    }

    fn input(&self, input: &Input, point: &Point) -> Result<InputSpec, Problem> {
        let at = |what: String, remedy: &str| (input.line, what, remedy.to_owned());
        let bound = point.bindings.get(&input.t).and_then(toml::Value::as_str);
        let element_type: ElementType = parse_type(bound.unwrap_or(&input.t))
            .map_err(|what| at(what, "name a binding or an element type in 't'"))?;
        let shape = self.shape(&input.shape, point).map_err(|what| {
            at(
                what,
                "write a list of sizes from 0, or an expression that gives one",
            )
        })?;
        let domain = domain(&input.domain, &point.bindings).map_err(|what| {
            at(what, "write any, positive, unit, nonzero, permutation, special, subnormal, positive_definite, triangular, { uniform = [lo, hi] }, { integers = [lo, hi] } or { values = [..] }")
        })?;
        if let Some(why) = impossible(&domain, element_type, &shape) {
            return Err(at(
                format!(
                    "the domain {} is impossible for {element_type} {shape:?}: {why}",
                    input.domain
                ),
                "choose another domain, or leave the combination out with 'where'",
            ));
        }
        Ok(InputSpec {
            element_type,
            shape,
            domain,
        })
    }

    fn shape(&self, written: &toml::Value, point: &Point) -> Result<Vec<usize>, String> {
        let list = match written {
            toml::Value::String(expression) => self.evaluate(expression, point)?,
            other => {
                let bindings = Bindings::from([("shape".to_owned(), other.clone())]);
                context(&bindings)
                    .get_attr("shape")
                    .map_err(|error| error.to_string())?
            }
        };
        let bad = || format!("shape {list} is not a list of sizes");
        // The sum of two lists is an iterable.
        if !matches!(list.kind(), ValueKind::Seq | ValueKind::Iterable) {
            return Err(bad());
        }
        list.try_iter()
            .map_err(|_| bad())?
            .map(|size| {
                size.as_i64()
                    .filter(|_| size.is_number())
                    .and_then(|size| usize::try_from(size).ok())
                    .ok_or_else(bad)
            })
            .collect()
    }
}

const REMEDY_SPEC: &str = "correct 'replicas', 'mesh', 'partitioner' or the 'spec': README.md of the suites describes them";

fn remedy_bind() -> String {
    "correct the expression, or bind the name in [op.bind], the axis value or the variant"
        .to_owned()
}
