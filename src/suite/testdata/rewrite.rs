//! From a test to a program with parameters: constants that are inputs become parameters of `@main`, what is checked becomes its
//! results, and what it is checked against goes.
//!
//! Only the statements that carry inputs and checks are touched. Constants that an operator needs to know when it is compiled (a
//! shape, an index that is part of a dynamic operator) stay where they are.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{Function, Module};
use super::text::{self, Value};
use super::{check, literal};
use crate::compare::Tolerance;
use crate::tensor::{Domain, InputSpec, Tensor};

/// What stands for a dimension that the file leaves open, and for an integer scalar that may name such a dimension.
const OPEN_DIMENSION: usize = 4;

pub(super) struct Program {
    pub text: String,
    pub inputs: Vec<InputSpec>,
    /// `None` where the file checks nothing.
    pub expected: Option<Vec<Tensor>>,
    pub tolerances: Vec<Tolerance>,
}

/// Operators that XLA translates only where operands that give shapes, indices or sizes are constants.
const WANT_CONSTANTS: &[&str] = &[
    "dynamic_broadcast_in_dim",
    "dynamic_conv",
    "dynamic_gather",
    "dynamic_iota",
    "dynamic_pad",
    "dynamic_reshape",
    "real_dynamic_slice",
    "set_dimension_size",
];

pub(super) fn program(module: &Module<'_>, function: &Function<'_>) -> Result<Program, String> {
    let statements = function.statements();
    let checks = statements
        .iter()
        .filter_map(|statement| check::parse(statement))
        .collect::<Result<Vec<_>, _>>()?;
    if checks.is_empty() {
        return unchecked(module, function);
    }
    if !function.parameters.trim().is_empty() {
        return Err(format!(
            "function @{} has parameters, and the file does not say what they hold",
            function.name
        ));
    }
    let sources = sources(module, &statements);
    let mut test = Test::default();
    for check in checks {
        test.add(check, &sources)?;
    }
    let kept = Kept::of(&statements, &sources, &test);
    let text = render(module, function, &kept, &test);
    Ok(Program {
        text,
        inputs: kept
            .parameters
            .iter()
            .map(|source| InputSpec::literal(source.tensor.clone()))
            .collect(),
        expected: Some(test.expected),
        tolerances: test.tolerances,
    })
}

/// A file without a check: its program as it stands, on inputs of its own.
fn unchecked(module: &Module<'_>, function: &Function<'_>) -> Result<Program, String> {
    let inputs = text::tensor_types(function.parameters)
        .into_iter()
        .map(|written| {
            let known = written.replace('?', &OPEN_DIMENSION.to_string());
            let (element_type, shape) = literal::tensor_type(&known)?;
            literal::elements(element_type, &shape)
                .map_err(|reason| format!("a parameter of {written}: {reason}"))?;
            let size = shape.is_empty() && element_type.is_integer();
            Ok(InputSpec {
                element_type,
                shape,
                domain: match size {
                    true => Domain::Values(vec![OPEN_DIMENSION as f64]),
                    false => Domain::Any,
                },
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Program {
        text: without_blank_lines(module.text),
        inputs,
        expected: None,
        tolerances: vec![Tolerance::Exact; text::tensor_types(function.results).len()],
    })
}

/// Where a value that is known before anything runs comes from.
struct Source {
    tensor: Tensor,
    /// The index of the statement that defines it.
    statement: usize,
    /// Defined by a call of `@inputs` or `@expected`, and not by a constant on the spot.
    called: bool,
}

/// The constants of the function's own statements, and the results of functions that do nothing but return constants.
fn sources(module: &Module<'_>, statements: &[&str]) -> BTreeMap<Value, Source> {
    let mut sources = BTreeMap::new();
    for (index, statement) in statements.iter().enumerate() {
        let (Some(name), operation) = text::definition(statement) else {
            continue;
        };
        let called = callee(operation);
        let tensors = match called {
            Some(callee) => module.function(callee).and_then(constants),
            None => constant(operation).map(|tensor| vec![tensor]),
        };
        for (position, tensor) in tensors.into_iter().flatten().enumerate() {
            let value = Value {
                name: name.to_owned(),
                index: position,
            };
            let source = Source {
                tensor,
                statement: index,
                called: called.is_some(),
            };
            sources.insert(value, source);
        }
    }
    sources
}

/// The name of the function that the operation calls without an argument.
fn callee(operation: &str) -> Option<&str> {
    matches!(text::operator(operation), "call" | "func.call").then_some(())?;
    let (_, name) = operation.split_once('@')?;
    let name = text::name(name.trim_start_matches('"'));
    operation.contains("() : () ->").then_some(name)
}

fn constant(operation: &str) -> Option<Tensor> {
    let is_constant = text::operator(operation).ends_with(".constant");
    is_constant
        .then(|| literal::dense_in(operation).ok())
        .flatten()
}

/// What a function returns that holds constants and nothing else.
fn constants(function: &Function<'_>) -> Option<Vec<Tensor>> {
    let mut named: BTreeMap<String, Tensor> = BTreeMap::new();
    for statement in function.statements() {
        match text::definition(statement) {
            (Some(name), operation) => {
                named.insert(name.to_owned(), constant(operation)?);
            }
            (None, operation) if is_return(operation) => {
                return text::values(operation)
                    .iter()
                    .map(|(_, value)| named.get(&value.name).cloned())
                    .collect();
            }
            _ => return None,
        }
    }
    None
}

fn is_return(operation: &str) -> bool {
    matches!(text::operator(operation), "return" | "func.return")
}

/// What a test's checks say: the values that become results, and what each should be.
#[derive(Default)]
struct Test {
    results: Vec<(Value, String)>,
    expected: Vec<Tensor>,
    tolerances: Vec<Tolerance>,
}

impl Test {
    /// By convention the second operand is what the first should be; some tests have it the other way about.
    fn add(
        &mut self,
        check: check::Check,
        sources: &BTreeMap<Value, Source>,
    ) -> Result<(), String> {
        let known = |value: &Value| sources.get(value).map(|source| source.tensor.clone());
        let (actual, expected) = match (check.operands.as_slice(), check.constant) {
            ([actual], Some(constant)) => (actual, constant),
            ([first, second], None) => match (known(first), known(second)) {
                (_, Some(tensor)) => (first, tensor),
                (Some(tensor), None) => (second, tensor),
                (None, None) => {
                    return Err("what a result is checked against is itself computed".to_owned());
                }
            },
            _ => return Err("a check has too few or too many operands".to_owned()),
        };
        self.results.push((actual.clone(), check.tensor_type));
        self.expected.push(expected);
        self.tolerances.push(check.tolerance);
        Ok(())
    }
}

/// What stays of a test's statements.
struct Kept<'a> {
    statements: Vec<&'a str>,
    /// In the order of their definition.
    parameters: Vec<&'a Source>,
    names: BTreeMap<Value, usize>,
}

impl<'a> Kept<'a> {
    fn of(statements: &[&'a str], sources: &'a BTreeMap<Value, Source>, test: &Test) -> Self {
        let defining: BTreeSet<usize> = sources.values().map(|s| s.statement).collect();
        let computes = |index: &usize| {
            let statement = statements[*index];
            let (_, operation) = text::definition(statement);
            !defining.contains(index) && !is_return(operation) && !check::is_check(statement)
        };
        let computing: Vec<&str> = (0..statements.len())
            .filter(computes)
            .map(|index| statements[index])
            .collect();
        let mut used: BTreeSet<Value> = computing
            .iter()
            .flat_map(|statement| text::values(statement))
            .map(|(_, value)| value)
            .collect();
        // A constant that is checked and does nothing else is what is tested.
        let tested: BTreeSet<Value> = test
            .results
            .iter()
            .map(|(value, _)| value.clone())
            .filter(|value| !used.contains(value))
            .collect();
        used.extend(test.results.iter().map(|(value, _)| value.clone()));
        let wanted: BTreeSet<Value> = computing
            .iter()
            .filter(|statement| {
                let (_, operation) = text::definition(statement);
                let operator = text::operator(operation).rsplit('.').next();
                operator.is_some_and(|name| WANT_CONSTANTS.contains(&name))
            })
            .flat_map(|statement| text::values(statement))
            .map(|(_, value)| value)
            .collect();

        let mut live: Vec<(&Value, &Source)> = sources
            .iter()
            .filter(|(value, _)| used.contains(value))
            .collect();
        live.sort_by_key(|(value, source)| (source.statement, value.index));
        // Where a test names its inputs, its other constants are part of the program.
        let named = live.iter().any(|(_, source)| source.called);
        let (parameters, constants): (Vec<_>, Vec<_>) =
            live.into_iter().partition(|(value, source)| {
                let is_integer = source.tensor.element_type().is_integer();
                let stays = named || tested.contains(value) || is_integer && wanted.contains(value);
                source.called || !stays
            });
        let stays: BTreeSet<usize> = constants.iter().map(|(_, s)| s.statement).collect();
        Self {
            statements: (0..statements.len())
                .filter(|index| stays.contains(index) || computes(index))
                .map(|index| statements[index])
                .collect(),
            names: parameters
                .iter()
                .enumerate()
                .map(|(position, (value, _))| ((*value).clone(), position))
                .collect(),
            parameters: parameters.into_iter().map(|(_, source)| source).collect(),
        }
    }

    /// The text with parameters in place of what they replace.
    fn renamed(&self, text: &str, prefix: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut from = 0;
        for (range, value) in text::values(text) {
            if let Some(position) = self.names.get(&value) {
                renamed.push_str(&text[from..range.start]);
                renamed.push_str(&format!("%{prefix}{position}"));
                from = range.end;
            }
        }
        renamed.push_str(&text[from..]);
        renamed
    }
}

/// The module with the test as `@main`, less the functions that only served the test or are tests themselves.
fn render(module: &Module<'_>, function: &Function<'_>, kept: &Kept<'_>, test: &Test) -> String {
    let mut prefix = "input_".to_owned();
    while function.body.contains(&format!("%{prefix}")) {
        prefix.push('_');
    }
    let parameters: Vec<String> = kept
        .parameters
        .iter()
        .enumerate()
        .map(|(index, source)| format!("%{prefix}{index}: {}", literal::type_of(&source.tensor)))
        .collect();
    let types: Vec<&str> = test.results.iter().map(|(_, t)| t.as_str()).collect();
    let types = types.join(", ");
    let mut main = format!(
        "func.func public @main({}) -> ({types}) {{\n",
        parameters.join(", ")
    );
    for statement in &kept.statements {
        main.push_str(&kept.renamed(statement, &prefix));
        main.push('\n');
    }
    let results: Vec<String> = test
        .results
        .iter()
        .map(|(value, _)| match kept.names.get(value) {
            Some(position) => format!("%{prefix}{position}"),
            None if value.index > 0 => format!("%{}#{}", value.name, value.index),
            None => written(function.body, value),
        })
        .collect();
    main.push_str(&format!(
        "    return {} : {types}\n  }}",
        results.join(", ")
    ));

    let tests: BTreeSet<&str> = module.tests().iter().map(|f| f.name.as_str()).collect();
    let called: BTreeSet<&str> = called(module, &main, &tests);
    let mut text = String::new();
    let mut from = 0;
    for other in &module.functions {
        text.push_str(&module.text[from..other.range.start]);
        if other.name == function.name {
            text.push_str(&main);
        } else if called.contains(other.name.as_str()) {
            text.push_str(&module.text[other.range.clone()]);
        }
        from = other.range.end;
    }
    text.push_str(&module.text[from..]);
    without_blank_lines(&text)
}

fn without_blank_lines(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// A result 0 is written with or without its index, as its operation defines one value or several.
fn written(body: &str, value: &Value) -> String {
    let several = format!("%{}:", value.name);
    match body.contains(&several) {
        true => format!("%{}#{}", value.name, value.index),
        false => format!("%{}", value.name),
    }
}

/// The functions that `main` needs, by way of others too.
fn called<'a>(module: &'a Module<'_>, main: &str, tests: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let names = |text: &str, found: &BTreeSet<&str>| -> Vec<&'a Function<'_>> {
        let functions = module.functions.iter();
        functions
            .filter(|f| !tests.contains(f.name.as_str()) && !found.contains(f.name.as_str()))
            .filter(|f| mentions(text, &f.name))
            .collect()
    };
    let mut found = BTreeSet::new();
    let mut pending = names(main, &found);
    while let Some(function) = pending.pop() {
        if found.insert(function.name.as_str()) {
            pending.extend(names(function.body, &found));
        }
    }
    found
}

/// Whether the text names `@function`, and not one whose name begins so.
fn mentions(text: &str, function: &str) -> bool {
    text.match_indices('@').any(|(at, _)| {
        let rest = &text[at + 1..];
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next() == Some(function),
            None => text::name(rest) == function,
        }
    })
}
