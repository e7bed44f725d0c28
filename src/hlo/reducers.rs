//! XLA CPU's all-reduce knows a few reducers: sums, products, minima and maxima, and `and` and `or` of booleans. With any other
//! reducer it becomes an all-gather, and the reducer applied to the members' operands one after the other.

use std::collections::HashSet;

use pjrt_sys::protos::xla::hlo_instruction_proto::SliceDimensions;

use super::Error;
use super::groups::{self, Groups};
use super::ir::{
    Builder, Computation, Instruction, Module, PrimitiveType, Shape, array, binary_operation,
    element_type, is_tuple, shape_of,
};

/// The computations that XLA CPU takes as reducers.
pub fn known(module: &Module) -> HashSet<i64> {
    let computations = module.proto.computations.iter();
    let known = computations.filter(|computation| is_known(computation));
    known.map(|computation| computation.id).collect()
}

fn is_known(computation: &Computation) -> bool {
    let Some(root) = binary_operation(computation) else {
        return false;
    };
    let boolean = root
        .shape
        .as_ref()
        .is_some_and(|shape| element_type(shape) == PrimitiveType::Pred);
    match root.opcode.as_str() {
        "add" | "multiply" | "minimum" | "maximum" => !boolean,
        "and" | "or" => boolean,
        _ => false,
    }
}

/// In the place of an all-reduce over `groups` of two members or more.
pub fn gather_and_reduce(
    builder: &mut Builder,
    mut instruction: Instruction,
    groups: Groups,
) -> Result<(), Error> {
    let members = groups.first().map_or(0, Vec::len);
    if members < 2 || groups.iter().any(|group| group.len() != members) {
        return Err(Error::not_executable(
            &instruction,
            "all-reduce over groups of several sizes with a reducer that XLA CPU does not know",
        ));
    }
    let shape = shape_of(&instruction)?.clone();
    if is_tuple(&shape) {
        let mut results = Vec::with_capacity(instruction.operand_ids.len());
        for (operand, shape) in instruction.operand_ids.iter().zip(&shape.tuple_shapes) {
            let called = instruction.called_computation_ids.clone();
            let operands = last_two(builder, *operand, &groups, &called)?;
            results.push(builder.add_with("map", shape.clone(), &operands, |map| {
                as_map(map, called);
            }));
        }
        instruction.opcode = "tuple".to_owned();
        instruction.operand_ids = results;
        instruction.called_computation_ids.clear();
    } else {
        let operand = super::ir::operand(&instruction, 0)?;
        let called = instruction.called_computation_ids.clone();
        instruction.operand_ids = last_two(builder, operand, &groups, &called)?;
        as_map(&mut instruction, called);
    }
    instruction.collective_device_list = None;
    builder.keep(instruction);
    Ok(())
}

/// What remains to be combined of two or more members: all but the last one's operands, and the last one's.
fn last_two(
    builder: &mut Builder,
    operand: i64,
    groups: &Groups,
    called: &[i64],
) -> Result<Vec<i64>, Error> {
    let shape = builder.shape(operand)?.clone();
    let part = array(element_type(&shape), &shape.dimensions);
    let mut gathered = part.dimensions.clone();
    gathered.insert(0, 1);
    let one = builder.reshape(operand, &gathered)?;
    let members = groups.first().map_or(0, Vec::len);
    gathered[0] = members as i64;
    let all = array(element_type(&shape), &gathered);
    let all = builder.add_with("all-gather", all, &[one], |gather| {
        gather.dimensions = vec![0];
        groups::set(gather, groups.clone());
    });
    let mut combined = member(builder, all, &part, 0)?;
    for index in 1..members.saturating_sub(1) {
        let next = member(builder, all, &part, index)?;
        let operands = [combined, next];
        combined = builder.add_with("map", part.clone(), &operands, |map| {
            as_map(map, called.to_vec());
        });
    }
    let last = member(builder, all, &part, members.saturating_sub(1))?;
    Ok(vec![combined, last])
}

fn member(builder: &mut Builder, all: i64, part: &Shape, index: usize) -> Result<i64, Error> {
    let mut dimensions = part.dimensions.clone();
    dimensions.insert(0, 1);
    let starts = std::iter::once(index as i64).chain(part.dimensions.iter().map(|_| 0));
    let slices = starts
        .zip(&dimensions)
        .map(|(start, size)| SliceDimensions {
            start,
            limit: start + size,
            stride: 1,
        })
        .collect();
    let shape = array(element_type(part), &dimensions);
    let slice = builder.add_with("slice", shape, &[all], |slice| {
        slice.slice_dimensions = slices;
    });
    builder.reshape(slice, &part.dimensions)
}

fn as_map(instruction: &mut Instruction, called: Vec<i64>) {
    let rank = instruction
        .shape
        .as_ref()
        .map_or(0, |shape| shape.dimensions.len());
    instruction.opcode = "map".to_owned();
    instruction.called_computation_ids = called;
    instruction.dimensions = (0..rank as i64).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::ModuleProto;

    fn reducer(operands: [i64; 2]) -> Computation {
        let instruction = |id: i64, opcode: &str, operand_ids: &[i64]| Instruction {
            id,
            opcode: opcode.to_owned(),
            operand_ids: operand_ids.to_vec(),
            shape: Some(array(PrimitiveType::F32, &[])),
            ..Default::default()
        };
        Computation {
            instructions: vec![
                instruction(0, "parameter", &[]),
                instruction(1, "parameter", &[]),
                instruction(2, "add", &operands),
            ],
            root_id: 2,
            ..Default::default()
        }
    }

    /// `(x, y) -> y + y` is not a sum.
    #[test]
    fn an_operation_that_does_not_take_both_parameters_is_not_known() {
        for (operands, is_sum) in [([0, 1], true), ([1, 0], true), ([1, 1], false)] {
            let module = Module::new(ModuleProto {
                computations: vec![reducer(operands)],
                ..Default::default()
            });
            assert_eq!(known(&module).len(), usize::from(is_sum), "{operands:?}");
        }
    }
}
