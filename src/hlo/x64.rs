//! 64-bit and 128-bit values, which a TPU holds as two halves, are themselves again: `X64SplitLow`, `X64SplitHigh`,
//! `X64Combine` and the `X128…` calls become ordinary HLO over XLA CPU's own s64, u64, f64, c64 and c128.
//!
//! | whole | low | high |
//! |---|---|---|
//! | s64, u64 | bits 0..32 | bits 32..64 |
//! | f64 | the value rounded to f32 | what that leaves over, rounded to f32; 0 where low is not finite |
//! | c64, c128 | the real part | the imaginary part |
//!
//! The f64 form is `SplitF64ToF32` of XLA's `ef57.h` (49 bits of significand, the exponent range of f32: what lies beyond is
//! infinite), after Dekker and Thall. That low is the leading half shows in the TPU compiler's output: its convert from f64
//! to f32 is `X64SplitLow`, and from f32 `X64Combine` of the value and 0. The arithmetic on the halves is the compiler's own
//! and stays as it is. Joining adds the halves in f64; where high is 0 the low half is taken as it is, so that -0 keeps its sign.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, Module, ModuleProto, PrimitiveType, array, element_type, like,
    operand, shape_of,
};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, mut instruction| {
        if instruction.opcode == "custom-call" {
            match instruction.custom_call_target.as_str() {
                "X64SplitLow" | "X128SplitLow" => split(builder, &mut instruction, Half::Low)?,
                "X64SplitHigh" | "X128SplitHigh" => split(builder, &mut instruction, Half::High)?,
                "X64Combine" | "X128Combine" => combine(builder, &mut instruction)?,
                _ => {}
            }
        }
        builder.keep(instruction);
        Ok(())
    })
}

/// Whether there is an f64, which the TPU can only have in halves.
pub fn splits_f64(module: &ModuleProto) -> bool {
    module
        .computations
        .iter()
        .flat_map(|computation| &computation.instructions)
        .filter_map(|instruction| instruction.shape.as_ref())
        .any(|shape| element_type(shape) == PrimitiveType::F64)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Low,
    High,
}

/// The call becomes the last operation of the split and keeps its name and its shape.
fn split(builder: &mut Builder, call: &mut Instruction, half: Half) -> Result<(), Error> {
    let whole = operand(call, 0)?;
    let whole_type = element_type(builder.shape(whole)?);
    match whole_type {
        PrimitiveType::C64 | PrimitiveType::C128 => {
            let part = if half == Half::Low { "real" } else { "imag" };
            become_operation(call, part, vec![whole]);
        }
        PrimitiveType::F64 => {
            if half == Half::Low {
                become_operation(call, "convert", vec![whole]);
            } else {
                let (finite, left, zero) = left_over(builder, whole)?;
                become_operation(call, "select", vec![finite, left, zero]);
            }
        }
        PrimitiveType::S64 | PrimitiveType::U64 => {
            let bits = builder.bitcast_convert(whole, PrimitiveType::U64)?;
            let bits = match half {
                Half::Low => bits,
                Half::High => shifted(builder, "shift-right-logical", bits)?,
            };
            if element_type(shape_of(call)?) == PrimitiveType::U32 {
                become_operation(call, "convert", vec![bits]);
            } else {
                let word = builder.convert(bits, PrimitiveType::U32)?;
                become_operation(call, "bitcast-convert", vec![word]);
            }
        }
        other => return Err(unexpected(call, other)),
    }
    Ok(())
}

/// Whether the leading half is finite, what it leaves over of the value, and 0 for where it is not finite; all of f32 or pred.
fn left_over(builder: &mut Builder, whole: i64) -> Result<(i64, i64, i64), Error> {
    let dimensions = builder.shape(whole)?.dimensions.clone();
    let leading = builder.convert(whole, PrimitiveType::F32)?;
    let finite = builder.elementwise("is-finite", PrimitiveType::Pred, &[leading])?;
    let leading = builder.convert(leading, PrimitiveType::F64)?;
    let left = builder.elementwise("subtract", PrimitiveType::F64, &[whole, leading])?;
    let left = builder.convert(left, PrimitiveType::F32)?;
    let zero = zeros(builder, &dimensions)?;
    Ok((finite, left, zero))
}

fn zeros(builder: &mut Builder, dimensions: &[i64]) -> Result<i64, Error> {
    let zero = builder.constant(Literal {
        shape: Some(array(PrimitiveType::F32, &[])),
        f32s: vec![0.0],
        ..Default::default()
    });
    builder.splat(zero, dimensions)
}

fn combine(builder: &mut Builder, call: &mut Instruction) -> Result<(), Error> {
    let (low, high) = (operand(call, 0)?, operand(call, 1)?);
    let whole = shape_of(call)?.clone();
    match element_type(&whole) {
        PrimitiveType::C64 | PrimitiveType::C128 => {
            become_operation(call, "complex", vec![low, high]);
        }
        PrimitiveType::F64 => {
            let zero = zeros(builder, &whole.dimensions)?;
            let single = like(builder.shape(high)?, PrimitiveType::Pred);
            let single = builder.add_with("compare", single, &[high, zero], |compare| {
                compare.comparison_direction = "EQ".to_owned();
                compare.comparison_type = "FLOAT".to_owned();
            });
            let low = builder.convert(low, PrimitiveType::F64)?;
            let high = builder.convert(high, PrimitiveType::F64)?;
            let sum = builder.elementwise("add", PrimitiveType::F64, &[low, high])?;
            become_operation(call, "select", vec![single, low, sum]);
        }
        PrimitiveType::S64 | PrimitiveType::U64 => {
            let low = word(builder, low)?;
            let high = word(builder, high)?;
            let high = shifted(builder, "shift-left", high)?;
            if element_type(&whole) == PrimitiveType::U64 {
                become_operation(call, "or", vec![high, low]);
            } else {
                let bits = builder.elementwise("or", PrimitiveType::U64, &[high, low])?;
                become_operation(call, "bitcast-convert", vec![bits]);
            }
        }
        other => return Err(unexpected(call, other)),
    }
    Ok(())
}

/// A half of an integer, s32 or u32, in the lower bits of a u64.
fn word(builder: &mut Builder, half: i64) -> Result<i64, Error> {
    let word = builder.bitcast_convert(half, PrimitiveType::U32)?;
    builder.convert(word, PrimitiveType::U64)
}

/// By 32 bits.
fn shifted(builder: &mut Builder, direction: &str, bits: i64) -> Result<i64, Error> {
    let dimensions = builder.shape(bits)?.dimensions.clone();
    let width = builder.constant(Literal {
        shape: Some(array(PrimitiveType::U64, &[])),
        u64s: vec![32],
        ..Default::default()
    });
    let width = builder.splat(width, &dimensions)?;
    builder.elementwise(direction, PrimitiveType::U64, &[bits, width])
}

fn become_operation(call: &mut Instruction, opcode: &str, operands: Vec<i64>) {
    call.opcode = opcode.to_owned();
    call.operand_ids = operands;
    super::custom_call::forget(call);
}

fn unexpected(call: &Instruction, found: PrimitiveType) -> Error {
    Error::malformed(
        &call.name,
        format!(
            "{} of the element type {}",
            call.custom_call_target,
            found.as_str_name()
        ),
    )
}
