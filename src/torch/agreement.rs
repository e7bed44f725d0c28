//! Whether the device's results agree with CPU's: each may be no worse than a small constant times what PyTorch on CPU is in
//! the same precision, both against f64.
//!
//! Integers, bools, shapes and element types are exact. Where CPU in the case's own precision has an infinity, a NaN or another
//! integer than f64, f64 does not say what is right in that precision, and either is.

use super::protocol::Named;
use crate::compare::{
    CompareError, Comparison, Errors, Known, Numerics, ReferenceTensor, Tolerance, Yardstick,
    compare, explain,
};
use crate::outcome::OutcomeKind;
use crate::tensor::Tensor;

/// How many times as far off as CPU a device may be. A CPU that is exact counts as one rounding of the largest value off.
const FACTOR: f64 = 4.0;

/// Of a result that has classes along its last dimension.
const LOGITS: &str = "logits";

/// What each result's comparison came to, and the first that does not agree.
#[derive(Default)]
pub(super) struct Compared {
    pub comparisons: Vec<Comparison>,
    /// The outcome, and one line that says why.
    pub first: Option<(OutcomeKind, String)>,
}

struct Parts {
    reference: Tensor,
    cpu: Tensor,
    device: Tensor,
}

/// Compares the results that a file holds.
pub(super) fn compare_all(
    results: &[Named],
    mut tensors: Vec<(String, Tensor)>,
    numerics: &Numerics,
) -> Compared {
    let mut parts = Vec::with_capacity(results.len());
    for result in results {
        let mut take = |part: &str| {
            let name = format!("{part}.{}", result.name);
            let index = tensors.iter().position(|(other, _)| *other == name);
            let index = index.ok_or_else(|| format!("its tensors lack '{name}'"))?;
            Ok::<Tensor, String>(tensors.swap_remove(index).1)
        };
        let read = take("reference").and_then(|reference| {
            Ok(Parts {
                reference,
                cpu: take("cpu")?,
                device: take("device")?,
            })
        });
        match read {
            Ok(read) => parts.push(read),
            Err(reason) => {
                return Compared {
                    comparisons: Vec::new(),
                    first: Some((OutcomeKind::Error, reason)),
                };
            }
        }
    }
    let mut compared = Compared::default();
    for (index, (result, part)) in results.iter().zip(&parts).enumerate() {
        let name = match results.len() {
            1 => String::new(),
            _ => format!("{}: ", result.name),
        };
        let tolerance = Tolerance::Yardstick {
            factor: FACTOR,
            logits: result.name == LOGITS,
        };
        let others = results.iter().zip(&parts).enumerate();
        let known: Vec<Known<'_>> = others
            .filter(|(other, _)| *other != index)
            .map(|(_, (other, part))| Known {
                name: other.name.clone(),
                tensor: &part.device,
            })
            .collect();
        match one(part, &tolerance, numerics, &known) {
            Ok(comparison) => {
                if comparison.mismatches > 0 {
                    let words = || {
                        (
                            OutcomeKind::Fail,
                            format!("{name}{}", describe(&comparison)),
                        )
                    };
                    compared.first.get_or_insert_with(words);
                }
                compared.comparisons.push(comparison);
            }
            Err(
                error @ (CompareError::ElementTypeMismatch { .. }
                | CompareError::ShapeMismatch { .. }),
            ) => {
                let words = || (OutcomeKind::Fail, format!("{name}{error}"));
                compared.first.get_or_insert_with(words);
            }
            Err(error) => {
                let words = || (OutcomeKind::Error, format!("{name}{error}"));
                compared.first.get_or_insert_with(words);
            }
        }
    }
    compared
}

fn one(
    part: &Parts,
    tolerance: &Tolerance,
    numerics: &Numerics,
    known: &[Known<'_>],
) -> Result<Comparison, CompareError> {
    let reference = reference(part)?;
    let mut comparison = compare(&part.device, &reference, tolerance, numerics)?;
    if comparison.mismatches > 0 {
        comparison.explanation =
            explain(&part.device, &reference, tolerance, numerics, known).unwrap_or_default();
    }
    Ok(comparison)
}

fn reference(part: &Parts) -> Result<ReferenceTensor, CompareError> {
    let Parts {
        reference,
        cpu,
        device,
    } = part;
    let own = cpu.element_type();
    // Shapes that depend on values, and what is bound to its element type, f64 says nothing about.
    let fits = reference.shape() == cpu.shape()
        && [own, own.widened()].contains(&reference.element_type());
    let values = if fits { reference } else { cpu };
    let of = |values: &Tensor| ReferenceTensor {
        values: values.clone(),
        element_type: own,
        scale: None,
        flushed: None,
        yardstick: None,
    };
    let errors = Errors::of(cpu, &of(values))?;
    let comparable = device.element_type() == own && device.shape() == cpu.shape();
    let mut reference = match comparable {
        true => of(&either(values, cpu, device)),
        false => of(values),
    };
    // CPU computed with the precision that the case asks of the device, so there is one yardstick.
    reference.yardstick = Some(Yardstick {
        own: errors,
        matrix_unit: errors,
    });
    Ok(reference)
}

/// The reference, with CPU's own elements where those are no number, or no other integer, and the device has the same.
fn either(reference: &Tensor, cpu: &Tensor, device: &Tensor) -> Tensor {
    let own = cpu.element_type();
    if own.float_format().is_none() && !own.is_complex() {
        if reference.element_type() != own {
            return reference.clone();
        }
        let size = own.bytes();
        let mut data = reference.data().to_vec();
        let parts = cpu
            .data()
            .chunks_exact(size)
            .zip(device.data().chunks_exact(size));
        for (element, (cpu, device)) in data.chunks_exact_mut(size).zip(parts) {
            if cpu == device {
                element.copy_from_slice(cpu);
            }
        }
        let shape = reference.shape().to_vec();
        return Tensor::new(own, shape, data).unwrap_or_else(|_| reference.clone());
    }
    let mut values = reference.to_f64();
    let (cpu, device) = (cpu.to_f64(), device.to_f64());
    let mut changed = false;
    for (value, (cpu, device)) in values.iter_mut().zip(cpu.into_iter().zip(device)) {
        let agree = value.is_finite() && cpu.is_finite() || same(*value, cpu);
        let takes_cpus = if cpu.is_finite() {
            device.is_finite()
        } else {
            same(cpu, device)
        };
        if !agree && takes_cpus {
            *value = cpu;
            changed = true;
        }
    }
    if !changed {
        return reference.clone();
    }
    let shape = reference.shape().to_vec();
    Tensor::from_f64(reference.element_type(), shape, &values).unwrap_or_else(|_| reference.clone())
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

fn describe(comparison: &Comparison) -> String {
    let mut text = format!(
        "{} of {} elements differ",
        comparison.mismatches, comparison.elements
    );
    match &comparison.first_mismatch {
        Some(first) => text.push_str(&format!(
            ", first at {:?}: {}, expected {}",
            first.index, first.got, first.expected
        )),
        None => text.push_str(&format!(
            " too far together: {:.3e} in the relative 2-norm",
            comparison.relative_l2
        )),
    }
    if let Some(times) = comparison.times_cpu {
        text.push_str(&format!("; {times:.3} times as far off as CPU"));
    }
    if let Some(explanation) = &comparison.explanation {
        text.push_str(&format!(". {}", explanation.text));
    }
    text
}
