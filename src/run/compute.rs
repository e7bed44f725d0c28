//! The reference of a case, computed in a worker: the program in f64, and on absolute inputs where the tolerance needs a scale.

use super::device::{Stop, compile_and_load, execute, generate_inputs};
use crate::case::{Case, ReferenceProgram};
use crate::compare::{ReferenceTensor, Tolerance};
use crate::outcome::{OutcomeKind, Stage};
use crate::pjrt::{Client, CompileOptions, Device as PjrtDevice};
use crate::tensor::{ElementType, Tensor};

pub(super) fn reference(
    client: &Client,
    device: &PjrtDevice,
    case: &Case,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Vec<ReferenceTensor>, Stop> {
    on_stage(Stage::Compile);
    let odd = |message: String| Stop::new(OutcomeKind::Error, Stage::Compare, message);
    let own = case.results().map_err(odd)?;
    let drawn = generate_inputs(case)?;
    let (program, inputs) = match &case.reference_program {
        ReferenceProgram::Widened(program) => {
            (program.as_str(), drawn.iter().map(Tensor::widen).collect())
        }
        ReferenceProgram::Native => (case.program.as_str(), drawn),
        ReferenceProgram::Given(_) | ReferenceProgram::Absent(_) | ReferenceProgram::Refused(_) => {
            return Err(odd("no reference of this case can be computed".to_owned()));
        }
    };
    let executable = compile_and_load(client, case, program, &exact())?;
    on_stage(Stage::Run);
    let run = |inputs: &[Tensor]| {
        execute(client, device, &executable, inputs).map_err(|e| Stop::plugin(Stage::Run, &e))
    };
    let values = run(&inputs)?;
    let needs_scale = |t: &Tolerance| matches!(t, Tolerance::Accumulate { .. });
    let mut scales: Vec<Option<Tensor>> = vec![None; values.len()];
    if case.tolerances.iter().any(needs_scale) {
        let absolute: Vec<Tensor> = inputs
            .iter()
            .map(absolute)
            .collect::<Result<_, _>>()
            .map_err(odd)?;
        let wanted = case.tolerances.iter().map(needs_scale);
        for ((slot, scale), wanted) in scales.iter_mut().zip(run(&absolute)?).zip(wanted) {
            *slot = wanted.then(|| real_part(&scale)).transpose().map_err(odd)?;
        }
    }
    if values.len() != own.len() {
        return Err(odd(format!(
            "{} results, where the program declares {}",
            values.len(),
            own.len()
        )));
    }
    let widens = matches!(case.reference_program, ReferenceProgram::Widened(_));
    let mut reference = Vec::with_capacity(values.len());
    for (index, ((values, scale), (element_type, shape))) in
        values.into_iter().zip(scales).zip(own).enumerate()
    {
        let wanted = if widens {
            element_type.widened()
        } else {
            element_type
        };
        let values = as_declared(values, wanted).map_err(odd)?;
        if values.element_type() != wanted || values.shape() != shape {
            return Err(odd(format!(
                "result {index} of the reference program is {}{:?}, where the case's own result {element_type}{shape:?} asks for {wanted}",
                values.element_type(),
                values.shape()
            )));
        }
        reference.push(ReferenceTensor {
            values,
            element_type,
            scale,
        });
    }
    Ok(reference)
}

/// XLA CPU without the shortcut that it takes by default: `maximum` and `minimum` that drop a NaN in one of their operands,
/// and the sign of a zero, where StableHLO asks for IEEE 754's `maximum` and `minimum`.
fn exact() -> CompileOptions {
    CompileOptions::default().flag("xla_cpu_enable_fast_min_max", false)
}

/// An integer result in the type that the program declares: XLA's generators of random bits answer a program that declares
/// signed results with unsigned ones, whose bits are right.
fn as_declared(tensor: Tensor, declared: ElementType) -> Result<Tensor, String> {
    let given = tensor.element_type();
    if given == declared
        || !(given.is_integer() && declared.is_integer() && given.bits() == declared.bits())
    {
        return Ok(tensor);
    }
    let shape = tensor.shape().to_vec();
    Tensor::new(declared, shape, tensor.into_data()).map_err(|e| e.to_string())
}

/// Floats without their sign; a complex number becomes its modulus, so that products of moduli add up in the real part.
fn absolute(tensor: &Tensor) -> Result<Tensor, String> {
    let element_type = tensor.element_type();
    let values: Vec<f64> = if element_type.is_complex() {
        tensor
            .to_f64()
            .chunks_exact(2)
            .flat_map(|z| [z[0].hypot(z[1]), 0.0])
            .collect()
    } else if element_type.is_float() {
        tensor.to_f64().into_iter().map(f64::abs).collect()
    } else {
        return Ok(tensor.clone());
    };
    Tensor::from_f64(element_type, tensor.shape().to_vec(), &values).map_err(|e| e.to_string())
}

fn real_part(tensor: &Tensor) -> Result<Tensor, String> {
    let values: Vec<f64> = if tensor.element_type().is_complex() {
        tensor.to_f64().chunks_exact(2).map(|z| z[0]).collect()
    } else {
        tensor.to_f64()
    };
    Tensor::from_f64(ElementType::F64, tensor.shape().to_vec(), &values).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complex_number_counts_with_its_modulus() {
        let z = Tensor::from_f64(ElementType::C128, vec![2], &[3.0, -4.0, 0.0, -2.0]).unwrap();
        assert_eq!(absolute(&z).unwrap().to_f64(), [5.0, 0.0, 2.0, 0.0]);
        assert_eq!(real_part(&z).unwrap().to_f64(), [3.0, 0.0]);
    }

    #[test]
    fn indices_stay_as_they_are() {
        let index = Tensor::new(ElementType::I32, vec![1], (-3i32).to_le_bytes().to_vec()).unwrap();
        assert_eq!(absolute(&index).unwrap(), index);
    }
}
