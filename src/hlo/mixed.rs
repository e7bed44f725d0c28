//! Mixed precision: on a TPU an operator may take floating-point operands of several types and give another; XLA CPU wants
//! one type throughout.
//!
//! The TPU widens operands exactly and rounds once, at the result. So the operator runs here in the widest of its types,
//! with a `convert` before each narrower operand and after a narrower result; a `copy` or `reshape` that changes the type is
//! a `convert` besides. Where neither type holds the other (f16 and bf16), f32 holds both. Reductions and their kin run in
//! the types of the computation that they apply. Integers narrower than a byte are widened for products, which XLA CPU does
//! not have for them. Products of floats are left alone: [`super::mxu`] says how they round.

use std::collections::HashMap;

use super::Error;
use super::ir::{Builder, Instruction, Module, PrimitiveType, Shape, Signature, operand, shape_of};
use super::types::{bit_width, is_float, is_tuple};

pub fn run(module: &mut Module) -> Result<(), Error> {
    let signatures = module.signatures();
    module.rewrite(|builder, instruction| {
        match instruction.opcode.as_str() {
            // No operand of theirs need have the type of another, or of the result.
            "parameter"
            | "constant"
            | "iota"
            | "tuple"
            | "get-tuple-element"
            | "convert"
            | "bitcast-convert"
            | "bitcast"
            | "is-finite"
            | "custom-call"
            | "while"
            | "conditional"
            | "rng"
            | "rng-bit-generator"
            | "infeed"
            | "outfeed"
            | "send"
            | "recv"
            | "after-all"
            | "opt-barrier"
            | "domain"
            | "stochastic-convert"
            | "sort"
            | "scan"
            | "topk"
            | "all-reduce"
            | "all-gather"
            | "all-to-all"
            | "reduce-scatter"
            | "collective-permute"
            | "collective-broadcast"
            | "ragged-all-to-all" => {
                builder.keep(instruction);
                Ok(())
            }
            "copy" => copy(builder, instruction),
            "dot" | "convolution" => product(builder, instruction),
            "call" | "map" => call(builder, instruction, &signatures),
            "reduce" | "reduce-window" | "scatter" | "select-and-scatter" => {
                reduction(builder, instruction, &signatures)
            }
            _ => one_type(builder, instruction),
        }
    })
}

/// The narrowest type that holds both exactly.
fn widest(a: i32, b: i32) -> i32 {
    const F32: i32 = PrimitiveType::F32 as i32;
    match (bit_width(a), bit_width(b)) {
        (Some(wa), Some(wb)) if wa == wb && a != b => F32,
        (Some(wa), Some(wb)) if wa < wb => b,
        _ => a,
    }
}

/// The operand as the element type, by a `convert` where it has another.
fn as_type(builder: &mut Builder, id: i64, element_type: i32) -> Result<i64, Error> {
    let shape = builder.shape(id)?;
    if shape.element_type == element_type {
        return Ok(id);
    }
    let shape = Shape {
        element_type,
        ..shape.clone()
    };
    Ok(builder.add("convert", shape, &[id]))
}

/// Keeps `instruction` with its result computed as `element_type`, and rounds that to the type that its users expect.
fn keep_as(
    builder: &mut Builder,
    mut instruction: Instruction,
    element_type: i32,
) -> Result<(), Error> {
    let declared = shape_of(&instruction)?.clone();
    if declared.element_type == element_type {
        builder.keep(instruction);
        return Ok(());
    }
    if let Some(shape) = &mut instruction.shape {
        shape.element_type = element_type;
    }
    let replaced = instruction.clone();
    // The users ask for the old id, and are to get the rounded value.
    let computed = builder.add_copy(instruction);
    let rounded = as_type(builder, computed, declared.element_type)?;
    builder.replace(&replaced, rounded);
    Ok(())
}

fn copy(builder: &mut Builder, mut copy: Instruction) -> Result<(), Error> {
    let from = builder.shape(operand(&copy, 0)?)?.element_type;
    if from != shape_of(&copy)?.element_type {
        copy.opcode = "convert".to_owned();
    }
    builder.keep(copy);
    Ok(())
}

fn one_type(builder: &mut Builder, mut instruction: Instruction) -> Result<(), Error> {
    let declared = shape_of(&instruction)?.element_type;
    let mut common = is_float(declared).then_some(declared);
    let mut is_mixed = false;
    for id in &instruction.operand_ids {
        let operand = builder.shape(*id)?.element_type;
        if is_float(operand) {
            let wider = common.map_or(operand, |common| widest(common, operand));
            is_mixed |= common.is_some_and(|common| common != operand);
            common = Some(wider);
        }
    }
    let Some(common) = common.filter(|_| is_mixed) else {
        builder.keep(instruction);
        return Ok(());
    };
    for id in &mut instruction.operand_ids {
        if is_float(builder.shape(*id)?.element_type) {
            *id = as_type(builder, *id, common)?;
        }
    }
    match is_float(declared) {
        true => keep_as(builder, instruction, common),
        false => {
            builder.keep(instruction);
            Ok(())
        }
    }
}

fn product(builder: &mut Builder, mut instruction: Instruction) -> Result<(), Error> {
    for id in &mut instruction.operand_ids {
        // s4, u4, s2, u2, s1, u1
        let byte = match builder.shape(*id)?.element_type {
            21 | 26 | 30 => PrimitiveType::S8,
            22 | 27 | 31 => PrimitiveType::U8,
            _ => continue,
        };
        *id = as_type(builder, *id, byte.into())?;
    }
    builder.keep(instruction);
    Ok(())
}

/// Operands as the callee's parameters, the result as its root.
fn call(
    builder: &mut Builder,
    mut instruction: Instruction,
    signatures: &HashMap<i64, Signature>,
) -> Result<(), Error> {
    let callee = instruction.called_computation_ids.first();
    let Some(signature) = callee.and_then(|id| signatures.get(id)) else {
        builder.keep(instruction);
        return Ok(());
    };
    for (id, parameter) in instruction
        .operand_ids
        .iter_mut()
        .zip(&signature.parameters)
    {
        if is_float(parameter.element_type) && is_float(builder.shape(*id)?.element_type) {
            *id = as_type(builder, *id, parameter.element_type)?;
        }
    }
    match is_float(signature.root.element_type) {
        true => keep_as(builder, instruction, signature.root.element_type),
        false => {
            builder.keep(instruction);
            Ok(())
        }
    }
}

/// `reduce`, `reduce-window`, `scatter` and `select-and-scatter`: for n results, operands, results and initial values i
/// have the type of the computation's parameter i. Indices stay.
fn reduction(
    builder: &mut Builder,
    mut instruction: Instruction,
    signatures: &HashMap<i64, Signature>,
) -> Result<(), Error> {
    let callee = instruction.called_computation_ids.last();
    let Some(signature) = callee.and_then(|id| signatures.get(id)) else {
        return Err(Error::malformed(
            &instruction.name,
            "it applies no computation",
        ));
    };
    let accumulators = signature.parameters.len() / 2;
    let wanted: Vec<i32> = signature
        .parameters
        .iter()
        .take(accumulators)
        .map(|parameter| parameter.element_type)
        .collect();
    let operands = instruction.operand_ids.len();
    for (place, id) in instruction.operand_ids.iter_mut().enumerate() {
        // One type for all, or n operands, for a scatter the indices, and n more.
        let of = match place {
            _ if accumulators == 1 => 0,
            place if place < accumulators => place,
            place => place.wrapping_sub(operands - accumulators.min(operands)),
        };
        let own = builder.shape(*id)?.element_type;
        if let Some(wanted) = wanted.get(of)
            && is_float(own)
            && is_float(*wanted)
        {
            *id = as_type(builder, *id, *wanted)?;
        }
    }
    let declared = shape_of(&instruction)?.clone();
    if !is_tuple(declared.element_type) {
        return match wanted.first() {
            Some(wanted) if is_float(*wanted) => keep_as(builder, instruction, *wanted),
            _ => {
                builder.keep(instruction);
                Ok(())
            }
        };
    }
    let results = declared.tuple_shapes.iter().map(|s| s.element_type);
    if results.eq(wanted.iter().copied()) {
        builder.keep(instruction);
        return Ok(());
    }
    if let Some(shape) = &mut instruction.shape {
        for (result, wanted) in shape.tuple_shapes.iter_mut().zip(&wanted) {
            result.element_type = *wanted;
        }
    }
    let replaced = instruction.clone();
    let computed = builder.add_copy(instruction);
    let mut elements = Vec::with_capacity(accumulators);
    for (index, result) in declared.tuple_shapes.iter().enumerate() {
        let element = builder.get_tuple_element(computed, index)?;
        elements.push(as_type(builder, element, result.element_type)?);
    }
    let rounded = builder.tuple(&elements)?;
    builder.replace(&replaced, rounded);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, ModuleProto, array};

    const F32: PrimitiveType = PrimitiveType::F32;
    const BF16: PrimitiveType = PrimitiveType::Bf16;
    const F16: PrimitiveType = PrimitiveType::F16;

    fn instruction(
        id: i64,
        opcode: &str,
        element_type: PrimitiveType,
        operands: &[i64],
    ) -> Instruction {
        Instruction {
            id,
            name: format!("{opcode}.{id}"),
            opcode: opcode.to_owned(),
            operand_ids: operands.to_vec(),
            shape: Some(array(element_type, &[4])),
            parameter_number: id,
            ..Default::default()
        }
    }

    fn computation(id: i64, instructions: Vec<Instruction>) -> Computation {
        Computation {
            id,
            root_id: instructions.last().unwrap().id,
            instructions,
            ..Default::default()
        }
    }

    /// The last computation after the pass, an instruction a line: `f32 multiply(bf16 f32)`.
    fn rewritten(computations: Vec<Computation>) -> Vec<String> {
        let mut module = Module::new(ModuleProto {
            computations,
            ..Default::default()
        });
        run(&mut module).unwrap();
        let computation = module.proto.computations.pop().unwrap();
        let name = |shape: &Shape| match PrimitiveType::try_from(shape.element_type) {
            Ok(element_type) => element_type.as_str_name().to_lowercase(),
            Err(_) => shape.element_type.to_string(),
        };
        let of = |id: &i64| {
            let operand = computation.instructions.iter().find(|i| i.id == *id);
            name(operand.unwrap().shape.as_ref().unwrap())
        };
        let line = |i: &Instruction| {
            let operands: Vec<String> = i.operand_ids.iter().map(of).collect();
            let result = name(i.shape.as_ref().unwrap());
            format!("{result} {}({})", i.opcode, operands.join(" "))
        };
        let lines = computation
            .instructions
            .iter()
            .filter(|i| i.opcode != "parameter");
        lines.map(line).collect()
    }

    fn parameters(types: [PrimitiveType; 2]) -> Vec<Instruction> {
        let parameter =
            |(id, t): (usize, PrimitiveType)| instruction(id as i64, "parameter", t, &[]);
        types.into_iter().enumerate().map(parameter).collect()
    }

    fn binary(types: [PrimitiveType; 2], opcode: &str, result: PrimitiveType) -> Vec<String> {
        let mut instructions = parameters(types);
        instructions.push(instruction(2, opcode, result, &[0, 1]));
        instructions.push(instruction(3, "tuple", result, &[2]));
        rewritten(vec![computation(0, instructions)])
    }

    #[test]
    fn narrow_operands_are_widened_and_the_result_is_rounded_once() {
        assert_eq!(
            binary([BF16, F32], "multiply", F32)[..2],
            ["f32 convert(bf16)", "f32 multiply(f32 f32)"]
        );
        assert_eq!(
            binary([BF16, F32], "multiply", BF16),
            [
                "f32 convert(bf16)",
                "f32 multiply(f32 f32)",
                "bf16 convert(f32)",
                "bf16 tuple(bf16)"
            ]
        );
        assert_eq!(
            binary([BF16, BF16], "add", F32)[..3],
            ["f32 convert(bf16)", "f32 convert(bf16)", "f32 add(f32 f32)"]
        );
    }

    #[test]
    fn neither_half_holds_the_other() {
        let after = binary([BF16, F16], "add", F16);
        assert_eq!(after[2..4], ["f32 add(f32 f32)", "f16 convert(f32)"]);
    }

    #[test]
    fn a_comparison_is_made_in_the_wider_type() {
        let after = binary([BF16, F32], "compare", PrimitiveType::Pred);
        assert_eq!(after[..2], ["f32 convert(bf16)", "pred compare(f32 f32)"]);
    }

    #[test]
    fn one_type_is_left_alone() {
        assert_eq!(binary([BF16, BF16], "add", BF16)[0], "bf16 add(bf16 bf16)");
        assert_eq!(binary([F32, BF16], "dot", F32)[0], "f32 dot(f32 bf16)");
    }

    #[test]
    fn a_copy_to_another_type_converts() {
        let mut instructions = parameters([F32, F32]);
        instructions.push(instruction(2, "copy", BF16, &[0]));
        let after = rewritten(vec![computation(0, instructions)]);
        assert_eq!(after, ["bf16 convert(f32)"]);
    }

    #[test]
    fn products_of_less_than_a_byte_are_of_bytes() {
        let after = binary(
            [PrimitiveType::S4, PrimitiveType::U4],
            "dot",
            PrimitiveType::S32,
        );
        assert_eq!(
            after[..3],
            ["s8 convert(s4)", "u8 convert(u4)", "s32 dot(s8 u8)"]
        );
    }

    #[test]
    fn a_reduction_runs_in_the_type_of_its_computation() {
        let mut add = parameters([F32, F32]);
        add.push(instruction(2, "add", F32, &[0, 1]));
        let mut instructions: Vec<Instruction> = parameters([BF16, BF16]);
        for parameter in &mut instructions {
            parameter.id += 10;
        }
        let mut reduce = instruction(12, "reduce", BF16, &[10, 11]);
        reduce.called_computation_ids = vec![1];
        instructions.push(reduce);
        let after = rewritten(vec![computation(1, add), computation(2, instructions)]);
        assert_eq!(after[2..], ["f32 reduce(f32 f32)", "bf16 convert(f32)"]);
    }
}
