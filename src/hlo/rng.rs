//! Random numbers: the forms that a TPU has and XLA CPU has not.
//!
//! `rng-bit-generator` on a TPU may return the bits alone; HLO's returns the next state and the bits. The default algorithm
//! is a backend's own: what the TPU's hardware would draw is not known here, and XLA CPU draws with its default. The named
//! algorithms (Philox, ThreeFry) the TPU compiler has written out before. `rng` of integers of 16 bits or fewer, which XLA
//! CPU's expander aborts on, draws 32 bits within the same bounds.

use super::Error;
use super::ir::{
    Builder, Instruction, Module, PrimitiveType, Shape, is_tuple, operand, shape_of, tuple,
};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, instruction| {
        let shape = shape_of(&instruction)?;
        match (instruction.opcode.as_str(), wide(shape.element_type)) {
            ("rng-bit-generator", _) if !is_tuple(shape) => bits(builder, instruction),
            ("rng", Some(wide)) => draw(builder, instruction, wide),
            _ => {
                builder.keep(instruction);
                Ok(())
            }
        }
    })
}

fn bits(builder: &mut Builder, mut generator: Instruction) -> Result<(), Error> {
    let bits = shape_of(&generator)?.clone();
    let state = builder.shape(operand(&generator, 0)?)?.clone();
    let replaced = generator.clone();
    generator.shape = Some(tuple(vec![state, bits]));
    let both = builder.add_copy(generator);
    let bits = builder.get_tuple_element(both, 1)?;
    builder.replace(&replaced, bits);
    Ok(())
}

/// The type of 32 bits for the narrow integers' numbers.
fn wide(element_type: i32) -> Option<PrimitiveType> {
    match element_type {
        // s8, s16, s4
        2 | 3 | 21 => Some(PrimitiveType::S32),
        // u8, u16, u4
        6 | 7 | 22 => Some(PrimitiveType::U32),
        _ => None,
    }
}

fn draw(builder: &mut Builder, mut rng: Instruction, wide: PrimitiveType) -> Result<(), Error> {
    let narrow = shape_of(&rng)?.clone();
    let replaced = rng.clone();
    for bound in &mut rng.operand_ids {
        *bound = builder.convert(*bound, wide)?;
    }
    rng.shape = Some(Shape {
        element_type: wide.into(),
        ..narrow.clone()
    });
    let drawn = builder.add_copy(rng);
    let narrowed = builder.add("convert", narrow, &[drawn]);
    builder.replace(&replaced, narrowed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, ModuleProto, array};

    /// Opcodes and element types after the pass of `opcode(parameters of the shape `operand`)`.
    fn rewritten(opcode: &str, operand: Shape, result: Shape) -> Vec<(String, i32)> {
        let instruction = |id, opcode: &str, shape, operand_ids| Instruction {
            id,
            opcode: opcode.to_owned(),
            shape: Some(shape),
            operand_ids,
            ..Default::default()
        };
        let mut module = Module::new(ModuleProto {
            computations: vec![Computation {
                instructions: vec![
                    instruction(0, "parameter", operand, vec![]),
                    instruction(1, opcode, result, vec![0, 0]),
                ],
                root_id: 1,
                ..Default::default()
            }],
            ..Default::default()
        });
        run(&mut module).unwrap();
        let instructions = module.proto.computations.remove(0).instructions;
        let pair = |i: Instruction| (i.opcode, i.shape.unwrap().element_type);
        instructions.into_iter().skip(1).map(pair).collect()
    }

    #[test]
    fn bits_come_with_a_state_that_goes_unused() {
        let state = array(PrimitiveType::U64, &[2]);
        let bits = array(PrimitiveType::U32, &[64]);
        let wanted = [
            ("rng-bit-generator", PrimitiveType::Tuple),
            ("get-tuple-element", PrimitiveType::U32),
        ];
        assert_eq!(
            rewritten("rng-bit-generator", state, bits),
            wanted.map(|(opcode, t)| (opcode.to_owned(), t as i32))
        );
    }

    #[test]
    fn narrow_integers_are_drawn_as_wide_ones() {
        let u8s = |dimensions: &[i64]| array(PrimitiveType::U8, dimensions);
        let wanted = [
            ("convert", PrimitiveType::U32),
            ("convert", PrimitiveType::U32),
            ("rng", PrimitiveType::U32),
            ("convert", PrimitiveType::U8),
        ];
        assert_eq!(
            rewritten("rng", u8s(&[]), u8s(&[256])),
            wanted.map(|(opcode, t)| (opcode.to_owned(), t as i32))
        );
        let f32s = array(PrimitiveType::F32, &[]);
        assert_eq!(rewritten("rng", f32s.clone(), f32s).len(), 1);
    }
}
