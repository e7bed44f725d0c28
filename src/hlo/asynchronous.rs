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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, ModuleProto, PrimitiveType, array};

    fn instruction(id: i64, opcode: &str, operands: &[i64], called: &[i64]) -> Instruction {
        Instruction {
            id,
            name: format!("{opcode}.{id}"),
            opcode: opcode.to_owned(),
            operand_ids: operands.to_vec(),
            called_computation_ids: called.to_vec(),
            shape: Some(array(PrimitiveType::F32, &[4])),
            ..Default::default()
        }
    }

    /// The instructions after the pass, each with its operands' ids.
    fn rewritten(instructions: Vec<Instruction>) -> Result<Vec<(String, Vec<i64>)>, Error> {
        let mut module = Module::new(ModuleProto {
            computations: vec![Computation {
                instructions,
                execution_thread: "sparsecore".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        });
        run(&mut module)?;
        let computation = module.proto.computations.remove(0);
        assert_eq!(computation.execution_thread, "");
        let pair = |i: Instruction| (i.opcode, i.operand_ids);
        Ok(computation.instructions.into_iter().map(pair).collect())
    }

    #[test]
    fn a_copy_is_made_where_it_is_done() {
        let after = rewritten(vec![
            instruction(0, "parameter", &[], &[]),
            instruction(1, "copy-start", &[0], &[]),
            instruction(2, "negate", &[0], &[]),
            instruction(3, "copy-done", &[1], &[]),
        ]);
        let wanted = [
            ("parameter", vec![]),
            ("negate", vec![0]),
            ("copy", vec![0]),
        ];
        assert_eq!(after.unwrap(), wanted.map(|(o, ids)| (o.to_owned(), ids)));
    }

    #[test]
    fn collectives_keep_their_attributes() {
        let mut start = instruction(1, "all-reduce-start", &[0], &[7]);
        start.channel_id = 5;
        let mut module = Module::new(ModuleProto {
            computations: vec![Computation {
                instructions: vec![
                    instruction(0, "parameter", &[], &[]),
                    start,
                    instruction(2, "all-reduce-done", &[1], &[]),
                ],
                ..Default::default()
            }],
            ..Default::default()
        });
        run(&mut module).unwrap();
        let done = &module.proto.computations[0].instructions[1];
        assert_eq!(
            (done.opcode.as_str(), done.id, done.channel_id),
            ("all-reduce", 2, 5)
        );
        assert_eq!(
            (&done.operand_ids[..], &done.called_computation_ids[..]),
            (&[0][..], &[7][..])
        );
    }

    #[test]
    fn an_update_may_bring_operands() {
        let after = rewritten(vec![
            instruction(0, "parameter", &[], &[]),
            instruction(1, "async-start", &[], &[9]),
            instruction(2, "async-update", &[1, 0], &[]),
            instruction(3, "async-update", &[2], &[]),
            instruction(4, "async-done", &[3], &[]),
        ]);
        assert_eq!(after.unwrap()[1], ("call".to_owned(), vec![0]));
    }

    #[test]
    fn a_dependency_is_its_value() {
        let after = rewritten(vec![
            instruction(0, "parameter", &[], &[]),
            instruction(1, "after-all", &[0], &[]),
            instruction(2, "add-dependency", &[0, 1], &[]),
            instruction(3, "negate", &[2], &[]),
        ]);
        assert_eq!(after.unwrap()[2], ("negate".to_owned(), vec![0]));
    }

    #[test]
    fn what_is_not_started_and_what_leaves_the_program_is_named() {
        let done = rewritten(vec![instruction(3, "copy-done", &[1], &[])]).unwrap_err();
        assert!(done.to_string().contains("starts nothing"), "{done}");
        let other = rewritten(vec![
            instruction(0, "parameter", &[], &[]),
            instruction(1, "copy-start", &[0], &[]),
            instruction(2, "all-gather-done", &[1], &[]),
        ]);
        assert!(other.unwrap_err().to_string().contains("ends a copy-start"));
        let send = rewritten(vec![instruction(3, "send", &[], &[])]).unwrap_err();
        let construct = "send".to_owned();
        assert!(matches!(send, Error::NotExecutable { construct: c, .. } if c == construct));
    }
}
