//! The terms that a program's sums are made of, found by running its f64 program on one element of an operand at a time.
//!
//! A program that is linear in an operand, with the others held, gives the sum of what it gives for each element alone: a dot
//! product or a convolution the single products, a sum its terms. Which operand, and that it is so, is measured, not read off
//! the program. What is done with the terms, a sum that lacks one or adds up in another type, is not decided here.

use serde::{Deserialize, Serialize};

use super::compute::exact;
use super::device::{Stop, compile_and_load, execute, generate_inputs};
use crate::case::{Case, ReferenceProgram};
use crate::outcome::{OutcomeKind, Stage};
use crate::pjrt::{Client, Device, LoadedExecutable};
use crate::tensor::{ElementType, Tensor};

/// Elements of an operand: each costs one execution.
const MOST: usize = 4096;
/// The terms must add up to the whole this well, relative to the sum of their magnitudes: f64 sums of some thousand terms do.
const LINEAR: f64 = 1e-10;

/// The values of each result.
type Values = Vec<Vec<f64>>;

/// What one element of the operand adds to one value of a result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Term {
    pub result: usize,
    /// Index into the result's values; of a complex result, parts in turn.
    pub place: usize,
    pub value: f64,
}

/// A case's results, taken apart along the operand of which they are the longest sums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// What each result is where the operand is all zeros.
    pub base: Vec<Vec<f64>>,
    /// By element of the operand, in row-major order.
    pub elements: Vec<Vec<Term>>,
}

impl Terms {
    /// The most terms of any value.
    fn longest(&self) -> usize {
        let mut counts = std::collections::BTreeMap::<(usize, usize), usize>::new();
        for term in self.elements.iter().flatten() {
            *counts.entry((term.result, term.place)).or_default() += 1;
        }
        counts.values().copied().max().unwrap_or(0)
    }
}

pub(super) fn terms(
    client: &Client,
    device: &Device,
    case: &Case,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Terms, Stop> {
    on_stage(Stage::Compile);
    let ReferenceProgram::Widened(program) = &case.reference_program else {
        return Err(none("the case has no program in f64"));
    };
    let inputs: Vec<Tensor> = generate_inputs(case)?.iter().map(Tensor::widen).collect();
    let executable = compile_and_load(client, case, program, &exact())?;
    on_stage(Stage::Run);
    let run = |inputs: &[Tensor]| run(client, device, &executable, inputs);
    let whole = run(&inputs)?;
    let mut found: Option<Terms> = None;
    for operand in 0..inputs.len() {
        let candidate = &inputs[operand];
        let real = matches!(
            candidate.element_type(),
            ElementType::F64 | ElementType::C128
        );
        if !real || candidate.is_empty() || candidate.len() > MOST {
            continue;
        }
        if let Some(terms) = along(operand, &inputs, &whole, &run)?
            && found
                .as_ref()
                .is_none_or(|best| terms.longest() > best.longest())
        {
            found = Some(terms);
        }
    }
    found.ok_or_else(|| none("the program is linear in no operand"))
}

fn none(why: &str) -> Stop {
    Stop::new(OutcomeKind::Unsupported, Stage::Run, why)
}

fn run(
    client: &Client,
    device: &Device,
    executable: &LoadedExecutable,
    inputs: &[Tensor],
) -> Result<Values, Stop> {
    let results = execute(client, device, executable, inputs)
        .map_err(|error| Stop::plugin(Stage::Run, &error))?;
    Ok(results.iter().map(Tensor::to_f64).collect())
}

/// `None` where the program is not linear in this operand.
fn along(
    operand: usize,
    inputs: &[Tensor],
    whole: &[Vec<f64>],
    run: &dyn Fn(&[Tensor]) -> Result<Values, Stop>,
) -> Result<Option<Terms>, Stop> {
    let candidate = &inputs[operand];
    let values = candidate.to_f64();
    let parts = values.len() / candidate.len();
    let mut varied = inputs.to_vec();
    let mut with = |values: &[f64]| {
        varied[operand] =
            Tensor::from_f64(candidate.element_type(), candidate.shape().to_vec(), values)
                .map_err(|error| none(&error.to_string()))?;
        run(&varied)
    };
    let mut single = vec![0.0; values.len()];
    let base = with(&single)?;
    let mut sums = base.clone();
    let mut sizes: Vec<Vec<f64>> = base
        .iter()
        .map(|values| values.iter().map(|v| v.abs()).collect())
        .collect();
    let mut elements = Vec::with_capacity(candidate.len());
    for element in 0..candidate.len() {
        let range = element * parts..(element + 1) * parts;
        let mut terms = Vec::new();
        if values[range.clone()].iter().any(|v| *v != 0.0) {
            single[range.clone()].copy_from_slice(&values[range.clone()]);
            for (result, given) in with(&single)?.iter().enumerate() {
                for (place, (given, base)) in given.iter().zip(&base[result]).enumerate() {
                    let value = given - base;
                    if value != 0.0 {
                        sums[result][place] += value;
                        sizes[result][place] += value.abs();
                        terms.push(Term {
                            result,
                            place,
                            value,
                        });
                    }
                }
            }
            single[range].fill(0.0);
        }
        elements.push(terms);
    }
    let adds_up = sums
        .iter()
        .zip(whole)
        .zip(&sizes)
        .all(|((sums, whole), sizes)| {
            let values = sums.iter().zip(whole).zip(sizes);
            sums.len() == whole.len()
                && values.into_iter().all(|((sum, whole), size)| {
                    size.is_finite() && (sum - whole).abs() <= LINEAR * size
                })
        });
    Ok(adds_up.then_some(Terms { base, elements }))
}
