//! The reference of a case, computed in a worker: the program in f64, and on absolute inputs where the tolerance needs a scale.

use super::device::{Stop, compile_and_load, execute, generate_inputs};
use crate::case::{Case, ReferenceProgram};
use crate::compare::{Errors, ReferenceTensor, Tolerance, Yardstick, flushable};
use crate::outcome::{OutcomeKind, Stage};
use crate::pjrt::{Client, CompileOptions, Device as PjrtDevice};
use crate::reference::matrix_unit;
use crate::tensor::{ElementType, Tensor};

pub(super) fn reference(
    client: &Client,
    device: &PjrtDevice,
    case: &Case,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Vec<ReferenceTensor>, Stop> {
    on_stage(Stage::Compile);
    let odd = |message: String| Stop::new(OutcomeKind::Error, Stage::Compare, message);
    let drawn = generate_inputs(case)?;
    let widens = matches!(case.reference_program, ReferenceProgram::Widened(_));
    let in_type = |inputs: &[Tensor]| -> Vec<Tensor> {
        match widens {
            true => inputs.iter().map(Tensor::widen).collect(),
            false => inputs.to_vec(),
        }
    };
    let program = match &case.reference_program {
        ReferenceProgram::Widened(program) => program.as_str(),
        ReferenceProgram::Native => case.program.as_str(),
        ReferenceProgram::Given(_) | ReferenceProgram::Absent(_) | ReferenceProgram::Refused(_) => {
            return Err(odd("no reference of this case can be computed".to_owned()));
        }
    };
    let inputs = in_type(&drawn);
    let executable = compile_and_load(client, case, program, &exact())?;
    on_stage(Stage::Run);
    let run = |inputs: &[Tensor]| {
        execute(client, device, &executable, inputs).map_err(|e| Stop::plugin(Stage::Run, &e))
    };
    let values = run(&inputs)?;
    let flushed = match without_subnormals(&drawn).map_err(odd)? {
        Some(zeroed) => Some(run(&in_type(&zeroed))?),
        None => None,
    };
    let mut scales = None;
    if case.tolerances.iter().any(needs_scale) {
        let absolute: Vec<Tensor> = inputs
            .iter()
            .map(absolute)
            .collect::<Result<_, _>>()
            .map_err(odd)?;
        let found = match &case.scale_program {
            None => run(&absolute)?,
            Some(program) => {
                let executable = compile_and_load(client, case, program, &exact())?;
                execute(client, device, &executable, &inputs)
                    .map_err(|e| Stop::plugin(Stage::Run, &e))?
            }
        };
        let found = found.iter().zip(&case.tolerances).map(|(scale, of)| {
            let wanted = needs_scale(of).then(|| real_part(scale));
            wanted.unwrap_or_else(|| Ok(scale.clone()))
        });
        let found: Result<Vec<Tensor>, String> = found.collect();
        scales = Some(found.map_err(odd)?);
    }
    let mut reference = as_reference(case, values, scales, flushed).map_err(odd)?;
    if case.tolerances.iter().any(needs_yardstick) {
        let own = in_own_precision(client, device, case, &case.program, &drawn, &reference)?;
        let passes = matrix_unit::in_bf16_passes(&case.program).map_err(odd)?;
        let unit = in_own_precision(client, device, case, &passes, &drawn, &reference)?;
        for (((result, tolerance), own), matrix_unit) in reference
            .iter_mut()
            .zip(&case.tolerances)
            .zip(own)
            .zip(unit)
        {
            result.yardstick = needs_yardstick(tolerance).then_some(Yardstick { own, matrix_unit });
        }
    }
    Ok(reference)
}

/// What a computation of a case's reference gave, if it is of the types and shapes that the case declares: the values; for the
/// results whose tolerance measures by them, the scales; and where they differ, the values for inputs without subnormals.
pub(crate) fn as_reference(
    case: &Case,
    values: Vec<Tensor>,
    scales: Option<Vec<Tensor>>,
    flushed: Option<Vec<Tensor>>,
) -> Result<Vec<ReferenceTensor>, String> {
    let own = case.results()?;
    if values.len() != own.len() {
        return Err(format!(
            "{} results, where the program declares {}",
            values.len(),
            own.len()
        ));
    }
    let widens = matches!(case.reference_program, ReferenceProgram::Widened(_));
    let each = |tensors: Option<Vec<Tensor>>| -> Vec<Option<Tensor>> {
        let mut each: Vec<_> = tensors.unwrap_or_default().into_iter().map(Some).collect();
        each.resize(own.len(), None);
        each
    };
    let (scales, flushed) = (each(scales), each(flushed));
    let mut reference = Vec::with_capacity(own.len());
    for (index, (((values, scale), flushed), (element_type, shape))) in values
        .into_iter()
        .zip(scales)
        .zip(flushed)
        .zip(own)
        .enumerate()
    {
        let wanted = match widens {
            true => element_type.widened(),
            false => element_type,
        };
        let values = as_declared(values, wanted)?;
        if values.element_type() != wanted || values.shape() != shape {
            return Err(format!(
                "result {index} is {}{:?}, where the case's own result {element_type}{shape:?} asks for {wanted}",
                values.element_type(),
                values.shape()
            ));
        }
        let flushed = match flushed {
            Some(flushed) => Some(as_declared(flushed, wanted)?),
            None => None,
        };
        let scale = scale.filter(|_| case.tolerances.get(index).is_some_and(needs_scale));
        reference.push(ReferenceTensor {
            flushed: flushed.filter(|flushed| differs(flushed, &values)),
            values,
            element_type,
            scale,
            yardstick: None,
        });
    }
    Ok(reference)
}

pub(crate) fn needs_scale(tolerance: &Tolerance) -> bool {
    matches!(tolerance, Tolerance::Accumulate { .. })
}

fn needs_yardstick(tolerance: &Tolerance) -> bool {
    matches!(tolerance, Tolerance::Yardstick { .. })
}

/// How far off each result of the program in its own types is.
fn in_own_precision(
    client: &Client,
    device: &PjrtDevice,
    case: &Case,
    program: &str,
    inputs: &[Tensor],
    reference: &[ReferenceTensor],
) -> Result<Vec<Errors>, Stop> {
    let executable = compile_and_load(client, case, program, &exact())?;
    let results =
        execute(client, device, &executable, inputs).map_err(|e| Stop::plugin(Stage::Run, &e))?;
    let errors = results.iter().zip(reference).map(|(result, reference)| {
        Errors::of(result, reference)
            .map_err(|e| Stop::new(OutcomeKind::Error, Stage::Compare, e.to_string()))
    });
    errors.collect()
}

/// XLA CPU without the shortcut that it takes by default: `maximum` and `minimum` that drop a NaN in one of their operands,
/// and the sign of a zero, where StableHLO asks for IEEE 754's `maximum` and `minimum`.
pub(super) fn exact() -> CompileOptions {
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

/// The inputs with every subnormal that a target may flush replaced by a zero of its sign; `None` where there is none.
pub(crate) fn without_subnormals(inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>, String> {
    let mut any = false;
    let mut zeroed = Vec::with_capacity(inputs.len());
    for input in inputs {
        let Some(limit) = input
            .element_type()
            .float_format()
            .and_then(|f| flushable(&f))
        else {
            zeroed.push(input.clone());
            continue;
        };
        let mut values = input.to_f64();
        for value in &mut values {
            if *value != 0.0 && value.abs() < limit {
                any = true;
                *value = 0.0_f64.copysign(*value);
            }
        }
        let shape = input.shape().to_vec();
        let tensor = Tensor::from_f64(input.element_type(), shape, &values);
        zeroed.push(tensor.map_err(|e| e.to_string())?);
    }
    Ok(any.then_some(zeroed))
}

/// Whether any element is another value, a zero of another sign included.
fn differs(a: &Tensor, b: &Tensor) -> bool {
    let same = |(x, y): (f64, f64)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    a.element_type() != b.element_type()
        || a.shape() != b.shape()
        || !a.to_f64().into_iter().zip(b.to_f64()).all(same)
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
    fn subnormals_of_the_types_that_targets_flush_become_zeros_of_their_sign() {
        let input = |t, values: &[f64]| Tensor::from_f64(t, vec![values.len()], values).unwrap();
        let (tiny, small) = (2f64.powi(-127), 2f64.powi(-126));
        let f32s = input(ElementType::F32, &[tiny, -tiny, small, 0.0, f64::INFINITY]);
        // 2⁻²⁰ is a subnormal of f16, which is computed in f32.
        let f16s = input(ElementType::F16, &[2f64.powi(-20)]);
        assert_eq!(without_subnormals(std::slice::from_ref(&f16s)), Ok(None));
        let zeroed = without_subnormals(&[f32s, f16s.clone()]).unwrap().unwrap();
        let bits: Vec<u64> = zeroed[0].to_f64().iter().map(|v| v.to_bits()).collect();
        let expected = [0.0, -0.0, small, 0.0, f64::INFINITY].map(f64::to_bits);
        assert_eq!(bits, expected);
        assert_eq!(zeroed[1], f16s);
    }

    #[test]
    fn indices_stay_as_they_are() {
        let index = Tensor::new(ElementType::I32, vec![1], (-3i32).to_le_bytes().to_vec()).unwrap();
        assert_eq!(absolute(&index).unwrap(), index);
    }
}
