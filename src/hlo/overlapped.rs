//! Collectives that the TPU compiler overlaps with computation ("async collective fusion"). One is spread over several
//! fusions: the first ends in the custom call `AsyncCollectiveStart`, any number after it do a step of it beside their own
//! work, and the last ends in `AsyncCollectiveDone`. Each holds the collective whole, on the same operand.
//!
//! So the start hands on the operand, the result's buffer and flags, and the done is the collective that stands before it;
//! what the steps compute of it goes unused.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, Module, PrimitiveType, array, element_type, shape_of,
};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, instruction| {
        match (
            instruction.opcode.as_str(),
            instruction.custom_call_target.as_str(),
        ) {
            ("custom-call", "AsyncCollectiveStart") => start(builder, instruction),
            ("custom-call", "AsyncCollectiveDone") => done(builder, instruction),
            _ => {
                builder.keep(instruction);
                Ok(())
            }
        }
    })
}

/// (operand, result, flags…)
fn start(builder: &mut Builder, mut start: Instruction) -> Result<(), Error> {
    let other =
        |start: &Instruction| Error::not_executable(start, "AsyncCollectiveStart of another form");
    let collective = collective(builder, &start)?;
    let &[operand] = &builder.get(collective)?.operand_ids[..] else {
        return Err(other(&start));
    };
    let shape = shape_of(&start)?.clone();
    let [first, second, flags @ ..] = &shape.tuple_shapes[..] else {
        return Err(other(&start));
    };
    let mut elements = vec![operand, collective];
    for (id, shape) in elements.iter().zip([first, second]) {
        if builder.shape(*id)?.dimensions != shape.dimensions {
            return Err(other(&start));
        }
    }
    for flag in flags {
        let zero = zero(builder, element_type(flag)).ok_or_else(|| other(&start))?;
        elements.push(builder.splat(zero, &flag.dimensions)?);
    }
    start.opcode = "tuple".to_owned();
    start.operand_ids = elements;
    start.custom_call_target.clear();
    builder.keep(start);
    Ok(())
}

fn done(builder: &mut Builder, mut done: Instruction) -> Result<(), Error> {
    let collective = collective(builder, &done)?;
    if builder.shape(collective)?.dimensions != shape_of(&done)?.dimensions {
        return Err(Error::not_executable(
            &done,
            "AsyncCollectiveDone of another form",
        ));
    }
    done.opcode = "copy".to_owned();
    done.operand_ids = vec![collective];
    done.custom_call_target.clear();
    done.output_operand_aliasing.clear();
    builder.keep(done);
    Ok(())
}

/// The operand that is a collective.
fn collective(builder: &Builder, custom_call: &Instruction) -> Result<i64, Error> {
    for id in &custom_call.operand_ids {
        if matches!(
            builder.get(*id)?.opcode.as_str(),
            "all-gather" | "all-reduce" | "reduce-scatter" | "all-to-all" | "collective-permute"
        ) {
            return Ok(*id);
        }
    }
    Err(Error::not_executable(
        custom_call,
        format!("{} without a collective", custom_call.custom_call_target),
    ))
}

fn zero(builder: &mut Builder, element_type: PrimitiveType) -> Option<i64> {
    let mut literal = Literal {
        shape: Some(array(element_type, &[])),
        ..Default::default()
    };
    match element_type {
        PrimitiveType::S32 => literal.s32s = vec![0],
        PrimitiveType::U32 => literal.u32s = vec![0],
        _ => return None,
    }
    Some(builder.constant(literal))
}
