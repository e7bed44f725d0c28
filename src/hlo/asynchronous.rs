//! Asynchronous pairs become the operation that they stand for, done where the pair ends: `copy-start`/`copy-done` a copy,
//! `async-start`/`async-update`/`async-done` a call of the wrapped computation. On CPU nothing overlaps, and no memory is
//! written while a pair is open that the operation reads, so when it happens within the pair makes no difference.

use std::collections::HashMap;

use super::Error;
use super::ir::{Instruction, Module, operand};

pub fn run(module: &mut Module) -> Result<(), Error> {
    // Ids are unique in the module.
    let mut started: HashMap<i64, Instruction> = HashMap::new();
    module.rewrite(|builder, mut instruction| {
        match instruction.opcode.as_str() {
            "copy-start" | "async-start" => {
                started.insert(instruction.id, instruction);
            }
            "async-update" => {
                let start = operand(&instruction, 0)?;
                let start = find(&started, &instruction, start)?.clone();
                started.insert(instruction.id, start);
            }
            "copy-done" => {
                let start = find(&started, &instruction, operand(&instruction, 0)?)?;
                instruction.opcode = "copy".to_owned();
                instruction.operand_ids = vec![operand(start, 0)?];
                builder.keep(instruction);
            }
            "async-done" => {
                let start = find(&started, &instruction, operand(&instruction, 0)?)?;
                instruction.opcode = "call".to_owned();
                instruction.operand_ids = start.operand_ids.clone();
                instruction.called_computation_ids = start.called_computation_ids.clone();
                instruction.async_execution_thread.clear();
                builder.keep(instruction);
            }
            _ => {
                builder.keep(instruction);
            }
        }
        Ok(())
    })?;
    for computation in &mut module.proto.computations {
        computation.execution_thread.clear();
    }
    Ok(())
}

fn find<'a>(
    started: &'a HashMap<i64, Instruction>,
    done: &Instruction,
    id: i64,
) -> Result<&'a Instruction, Error> {
    started
        .get(&id)
        .ok_or_else(|| Error::malformed(&done.name, format!("its operand {id} starts nothing")))
}
