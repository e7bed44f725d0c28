//! Asynchronous pairs become the operation that they stand for, done where the pair ends: `copy-start`/`copy-done` a copy,
//! `all-reduce-start`/`all-reduce-done` and its kin the collective, `async-start`/`async-update`/`async-done` a call of the
//! wrapped computation. On CPU nothing overlaps, and no memory is written while a pair is open that the operation reads, so
//! when it happens within the pair makes no difference.
//!
//! `send` and `recv` pairs, and feeds, reach outside of the program: they have no meaning here.

use std::collections::HashMap;

use super::Error;
use super::ir::{Instruction, Module, operand};

pub fn run(module: &mut Module) -> Result<(), Error> {
    // Ids are unique in the module.
    let mut started: HashMap<i64, Instruction> = HashMap::new();
    module.rewrite(|builder, mut instruction| {
        match instruction.opcode.as_str() {
            "copy-start"
            | "async-start"
            | "all-reduce-start"
            | "all-gather-start"
            | "collective-permute-start" => {
                started.insert(instruction.id, instruction);
            }
            "async-update" => {
                let start = operand(&instruction, 0)?;
                let mut start = find(&started, &instruction, start)?.clone();
                // An update may bring operands that were not there at the start.
                start
                    .operand_ids
                    .extend(instruction.operand_ids.iter().skip(1));
                started.insert(instruction.id, start);
            }
            "copy-done" => {
                let start = find(&started, &instruction, operand(&instruction, 0)?)?;
                instruction.opcode = "copy".to_owned();
                instruction.operand_ids = vec![operand(start, 0)?];
                builder.keep(instruction);
            }
            "all-reduce-done" | "all-gather-done" | "collective-permute-done" => {
                let start = find(&started, &instruction, operand(&instruction, 0)?)?;
                let opcode = instruction.opcode.trim_end_matches("-done").to_owned();
                if start.opcode.trim_end_matches("-start") != opcode {
                    return Err(Error::malformed(
                        &instruction.name,
                        format!("it ends a {}", start.opcode),
                    ));
                }
                builder.keep(Instruction {
                    id: instruction.id,
                    name: instruction.name,
                    shape: instruction.shape,
                    opcode,
                    ..start.clone()
                });
            }
            "async-done" => {
                let start = find(&started, &instruction, operand(&instruction, 0)?)?;
                instruction.opcode = "call".to_owned();
                instruction.operand_ids = start.operand_ids.clone();
                instruction.called_computation_ids = start.called_computation_ids.clone();
                instruction.async_execution_thread.clear();
                builder.keep(instruction);
            }
            // Order on the device, which the operands alone give here.
            "add-dependency" | "domain" => {
                let value = operand(&instruction, 0)?;
                builder.replace(&instruction, value);
            }
            "send" | "send-done" | "recv" | "recv-done" | "infeed" | "outfeed" => {
                return Err(Error::not_executable(
                    &instruction,
                    instruction.opcode.clone(),
                ));
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
