//! A fusion is a call: what the TPU compiler emits as one kernel has the meaning of the computation that it wraps. XLA CPU
//! inlines the call and fuses as suits it.

use super::Error;
use super::ir::Module;

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, mut instruction| {
        if instruction.opcode == "fusion" {
            instruction.opcode = "call".to_owned();
            instruction.fusion_kind.clear();
            instruction.output_operand_aliasing.clear();
        }
        builder.keep(instruction);
        Ok(())
    })?;
    for computation in &mut module.proto.computations {
        computation.is_fusion_computation = false;
    }
    Ok(())
}
