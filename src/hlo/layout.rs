//! Layouts, tiles and memory spaces go: HLO's meaning does not depend on them once `bitcast` is gone, and XLA CPU chooses
//! its own. Parameters and results are row-major. What only the TPU's code generator reads goes too: the schedule, backend
//! configurations, fusion kinds.

use super::Error;
use super::ir::{Module, ProgramShape, Shape, is_tuple, row_major};

pub fn run(module: &mut Module) -> Result<(), Error> {
    let proto = &mut module.proto;
    for computation in &mut proto.computations {
        for instruction in &mut computation.instructions {
            instruction.backend_config.clear();
            instruction.control_predecessor_ids.clear();
            instruction.shape.as_mut().map(plain);
            instruction
                .operand_shapes_with_layout
                .iter_mut()
                .for_each(plain);
            if let Some(literal) = &mut instruction.literal {
                literal.shape.as_mut().map(plain);
            }
        }
        computation.program_shape.as_mut().map(plain_program);
    }
    proto.host_program_shape.as_mut().map(plain_program);
    proto.schedule = None;
    proto.buffer_donor = None;
    Ok(())
}

fn plain_program(program: &mut ProgramShape) {
    program.parameters.iter_mut().for_each(plain);
    program.result.as_mut().map(plain);
}

fn plain(shape: &mut Shape) {
    if is_tuple(shape) {
        shape.tuple_shapes.iter_mut().for_each(plain);
        shape.layout = None;
    } else {
        shape.layout = Some(Box::new(row_major(shape.dimensions.len())));
    }
}
