//! Layouts, tiles and memory spaces go: HLO's meaning does not depend on them once `bitcast` is gone, and XLA CPU chooses
//! its own. Parameters and results are row-major; a constant keeps the order that its elements are listed in. What only the TPU's code generator reads goes too: the schedule, backend
//! configurations, fusion kinds.

use super::Error;
use super::ir::{Layout, Module, ProgramShape, Shape, is_tuple, row_major};
use super::types::bit_width;

pub fn run(module: &mut Module) -> Result<(), Error> {
    let proto = &mut module.proto;
    for computation in &mut proto.computations {
        for instruction in &mut computation.instructions {
            // The custom calls that are left are XLA's own, which read theirs.
            if instruction.opcode != "custom-call" {
                instruction.backend_config.clear();
            }
            instruction.control_predecessor_ids.clear();
            // XLA reads it from the proto whatever the opcode, and dies where an opcode has none.
            if !matches!(
                instruction.opcode.as_str(),
                "dot" | "convolution" | "ragged-dot" | "scaled-dot" | "custom-call"
            ) {
                instruction.precision_config = None;
            }
            instruction.shape.as_mut().map(plain);
            instruction
                .operand_shapes_with_layout
                .iter_mut()
                .for_each(plain);
            if let Some(literal) = &mut instruction.literal {
                let order = literal.shape.as_ref().map(order);
                literal.shape.as_mut().map(plain);
                // A literal lists its elements in the order of its layout.
                for shape in [&mut instruction.shape, &mut literal.shape] {
                    if let (Some(shape), Some(Some(order))) = (shape, &order) {
                        shape.layout = Some(Box::new(order.clone()));
                    }
                }
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

/// The dimension order of an array's layout, if it has one.
fn order(shape: &Shape) -> Option<Layout> {
    let layout = shape.layout.as_ref()?;
    (layout.minor_to_major.len() == shape.dimensions.len()).then(|| Layout {
        minor_to_major: layout.minor_to_major.clone(),
        ..Default::default()
    })
}

fn plain(shape: &mut Shape) {
    if is_tuple(shape) {
        shape.tuple_shapes.iter_mut().for_each(plain);
        shape.layout = None;
    } else if bit_width(shape.element_type).is_none() {
        // A token.
        shape.layout = None;
    } else {
        shape.layout = Some(Box::new(row_major(shape.dimensions.len())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, Instruction, Literal, ModuleProto, PrimitiveType, array};
    use pjrt_sys::protos::xla::{PrecisionConfig, TileProto};

    fn column_major() -> Shape {
        let mut shape = array(PrimitiveType::F32, &[2, 3]);
        shape.layout = Some(Box::new(Layout {
            minor_to_major: vec![0, 1],
            tiles: vec![TileProto {
                dimensions: vec![8, 128],
            }],
            memory_space: 1,
            ..Default::default()
        }));
        shape
    }

    fn after(instruction: Instruction) -> Instruction {
        let mut module = Module::new(ModuleProto {
            computations: vec![Computation {
                instructions: vec![instruction],
                ..Default::default()
            }],
            ..Default::default()
        });
        run(&mut module).unwrap();
        module.proto.computations.remove(0).instructions.remove(0)
    }

    #[test]
    fn values_are_row_major_without_tiles() {
        let parameter = after(Instruction {
            opcode: "parameter".to_owned(),
            shape: Some(column_major()),
            precision_config: Some(PrecisionConfig::default()),
            ..Default::default()
        });
        assert_eq!(parameter.shape, Some(array(PrimitiveType::F32, &[2, 3])));
        assert_eq!(parameter.precision_config, None);
    }

    #[test]
    fn a_constant_keeps_the_order_of_its_elements() {
        let constant = after(Instruction {
            opcode: "constant".to_owned(),
            shape: Some(column_major()),
            literal: Some(Literal {
                shape: Some(column_major()),
                ..Default::default()
            }),
            ..Default::default()
        });
        let literal = constant.literal.unwrap().shape.unwrap();
        assert_eq!(constant.shape.as_ref(), Some(&literal));
        let layout = literal.layout.unwrap();
        assert_eq!(layout.minor_to_major, [0, 1]);
        assert!(layout.tiles.is_empty() && layout.memory_space == 0);
    }

    #[test]
    fn a_token_has_no_layout() {
        let mut token = array(PrimitiveType::Token, &[]);
        token.layout = Some(Box::default());
        let token = after(Instruction {
            opcode: "after-all".to_owned(),
            shape: Some(token),
            ..Default::default()
        });
        assert_eq!(token.shape.unwrap().layout, None);
    }
}
