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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::ElementType::{self, BF16, C64, C128, F32, F64, I64};

    const IEEE: Numerics = Numerics {
        matmul_bf16_passes: false,
        flush_subnormals: false,
        f64_as_f32_pairs: false,
    };
    /// Half the distance of 1 to the next larger f32.
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

    fn tensor(element_type: ElementType, values: &[f64]) -> Tensor {
        let parts = if element_type.is_complex() { 2 } else { 1 };
        Tensor::from_f64(element_type, vec![values.len() / parts], values).unwrap()
    }

    fn judge(reference: Tensor, cpu: Tensor, device: Tensor) -> Compared {
        let tensors = [
            ("reference.out", reference),
            ("cpu.out", cpu),
            ("device.out", device),
        ];
        let tensors = tensors.map(|(name, tensor)| (name.to_owned(), tensor));
        let results = [Named {
            name: "out".to_owned(),
        }];
        compare_all(&results, tensors.into(), &IEEE)
    }

    fn kind(reference: Tensor, cpu: Tensor, device: Tensor) -> Option<OutcomeKind> {
        judge(reference, cpu, device).first.map(|(kind, _)| kind)
    }

    #[test]
    fn a_device_may_be_four_times_as_far_off_as_cpu() {
        // CPU is eight roundings of 1 off; four times that are 32.
        let run = |roundings: f64| {
            let at = |off: f64| tensor(F32, &[1.0 + off * ROUNDING]);
            kind(tensor(F64, &[1.0]), at(8.0), at(roundings))
        };
        assert_eq!(run(30.0), None);
        assert_eq!(run(36.0), Some(OutcomeKind::Fail));
    }

    #[test]
    fn a_cpu_that_is_exact_counts_as_a_rounding_off() {
        let run = |roundings: f64| {
            let device = tensor(F32, &[1.0 + roundings * ROUNDING]);
            kind(tensor(F64, &[1.0]), tensor(F32, &[1.0]), device)
        };
        assert_eq!(run(4.0), None);
        assert_eq!(run(6.0), Some(OutcomeKind::Fail));
    }

    #[test]
    fn where_cpus_own_precision_overflows_either_is_right() {
        let reference = || tensor(F64, &[1.0, 1e39, 5.0]);
        let cpu = || tensor(F32, &[1.0, f64::INFINITY, f64::NAN]);
        for (device, expected) in [
            ([1.0, f64::INFINITY, f64::NAN], None),
            ([1.0, f64::INFINITY, 5.0], None),
            ([1.0, f64::NEG_INFINITY, f64::NAN], Some(OutcomeKind::Fail)),
            ([1.0, f64::INFINITY, f64::INFINITY], Some(OutcomeKind::Fail)),
            ([f64::NAN, f64::INFINITY, 5.0], Some(OutcomeKind::Fail)),
        ] {
            assert_eq!(
                kind(reference(), cpu(), tensor(F32, &device)),
                expected,
                "{device:?}"
            );
        }
        // And where f64 alone does.
        let infinite = || tensor(F64, &[f64::INFINITY]);
        assert_eq!(
            kind(infinite(), tensor(BF16, &[2.0]), tensor(BF16, &[2.0])),
            None
        );
        let wrong = kind(infinite(), tensor(BF16, &[2.0]), tensor(BF16, &[64.0]));
        assert_eq!(wrong, Some(OutcomeKind::Fail));
    }

    #[test]
    fn integers_are_cpus_or_the_references_and_nothing_between() {
        let large = (1i64 << 53) + 1;
        let ints = |values: [i64; 2]| {
            let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Tensor::new(I64, vec![2], data).unwrap()
        };
        let run = |device| kind(ints([3, large]), ints([5, large]), ints(device));
        assert_eq!(run([3, large]), None);
        assert_eq!(run([5, large]), None);
        assert_eq!(run([4, large]), Some(OutcomeKind::Fail));
        assert_eq!(run([5, large - 1]), Some(OutcomeKind::Fail));
    }

    #[test]
    fn f64_says_nothing_of_a_shape_or_a_type_that_is_not_its_own() {
        let cpu = || tensor(F32, &[1.0, 2.0]);
        for reference in [tensor(F64, &[1.0]), tensor(I64, &[7.0, 7.0])] {
            assert_eq!(kind(reference.clone(), cpu(), cpu()), None);
            let off = tensor(F32, &[1.0, 2.5]);
            assert_eq!(kind(reference, cpu(), off), Some(OutcomeKind::Fail));
        }
    }

    #[test]
    fn complex_numbers_are_compared_by_their_size() {
        let reference = || tensor(C128, &[1.0, 1e-9]);
        let cpu = || tensor(C64, &[1.0, 1e-9]);
        assert_eq!(kind(reference(), cpu(), tensor(C64, &[1.0, 0.0])), None);
        let off = kind(reference(), cpu(), tensor(C64, &[1.0, 1e-3]));
        assert_eq!(off, Some(OutcomeKind::Fail));
    }
}
