//! Collectives that the TPU compiler hands to the SparseCore take a form of their own: an `async-start` without operands
//! reserves the core's memory, an `async-update` gives the operands, and the computation that is started wraps the
//! collective's in a custom call. Here they become an ordinary `async-start` and a call.

use std::collections::HashMap;

use super::Error;
use super::ir::{Instruction, Module, operand};

/// The wrapper's target, as libtpu 0.0.52 names it. It calls its only computation with its own operands.
const WRAPPER: &str = "TODO(b/522284627)";

pub fn run(module: &mut Module) -> Result<(), Error> {
    let mut reserved: HashMap<i64, Instruction> = HashMap::new();
    module.rewrite(|builder, mut instruction| {
        match instruction.opcode.as_str() {
            "async-start" if instruction.operand_ids.is_empty() => {
                reserved.insert(instruction.id, instruction);
                return Ok(());
            }
            "async-update" => {
                if let Some(start) = reserved.get(&operand(&instruction, 0)?) {
                    instruction.opcode = "async-start".to_owned();
                    instruction.operand_ids.remove(0);
                    instruction.called_computation_ids = start.called_computation_ids.clone();
                    instruction.async_execution_thread = start.async_execution_thread.clone();
                    instruction.output_operand_aliasing.clear();
                }
            }
            "custom-call"
                if instruction.custom_call_target == WRAPPER
                    && instruction.called_computation_ids.len() == 1 =>
            {
                instruction.opcode = "call".to_owned();
                instruction.custom_call_target.clear();
                instruction.output_operand_aliasing.clear();
                instruction.frontend_attributes = None;
            }
            _ => {}
        }
        builder.keep(instruction);
        Ok(())
    })
}
