//! `rng-bit-generator` on a TPU may return the bits alone; HLO's returns the next state and the bits.
//!
//! The default algorithm is a backend's own: what the TPU's hardware would draw is not known here, and XLA CPU draws with
//! its default. The named algorithms (Philox, ThreeFry) the TPU compiler has written out before.

use super::Error;
use super::ir::{Module, is_tuple, operand, shape_of, tuple};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, mut instruction| {
        if instruction.opcode != "rng-bit-generator" || is_tuple(shape_of(&instruction)?) {
            builder.keep(instruction);
            return Ok(());
        }
        let bits = shape_of(&instruction)?.clone();
        let state = builder.shape(operand(&instruction, 0)?)?.clone();
        let replaced = instruction.clone();
        instruction.shape = Some(tuple(vec![state, bits]));
        let both = builder.add_copy(instruction);
        let bits = builder.get_tuple_element(both, 1)?;
        builder.replace(&replaced, bits);
        Ok(())
    })
}
