//! `bitcast` reads the same memory as another shape, so its meaning follows the physical order of both: the operand's
//! dimensions from major to minor, read as the result's from major to minor.

use super::Error;
use super::ir::{Module, Shape, operand, shape_of};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, instruction| {
        if instruction.opcode != "bitcast" {
            builder.keep(instruction);
            return Ok(());
        }
        let from_id = operand(&instruction, 0)?;
        let (from, to) = (
            builder.shape(from_id)?.clone(),
            shape_of(&instruction)?.clone(),
        );
        if from.element_type != to.element_type {
            let mut instruction = instruction;
            instruction.opcode = "bitcast-convert".to_owned();
            builder.keep(instruction);
            return Ok(());
        }
        let (from_order, to_order) = (major_to_minor(&from), major_to_minor(&to));
        let physical: Vec<i64> = to_order
            .iter()
            .map(|d| to.dimensions[*d as usize])
            .collect();
        let mut back = vec![0; to_order.len()];
        for (place, dimension) in to_order.iter().enumerate() {
            back[*dimension as usize] = place as i64;
        }
        let ordered = builder.transpose(from_id, &from_order)?;
        let reshaped = builder.reshape(ordered, &physical)?;
        let result = builder.transpose(reshaped, &back)?;
        builder.replace(&instruction, result);
        Ok(())
    })
}

fn major_to_minor(shape: &Shape) -> Vec<i64> {
    match &shape.layout {
        Some(layout) if layout.minor_to_major.len() == shape.dimensions.len() => {
            layout.minor_to_major.iter().rev().copied().collect()
        }
        _ => (0..shape.dimensions.len() as i64).collect(),
    }
}
