//! What the passes take for granted about a module, checked once before them, so that none need look again: ids are there
//! and unique, operands stand before their users and callees before their callers, shapes are sane.
//!
//! Leaves to XLA what only it can say: whether an operator's shapes and attributes fit each other.

use std::collections::{HashMap, HashSet};

use super::Error;
use super::ir::{Computation, Instruction, Module, Shape, shape_of};

/// No array that a TPU's compiler emits comes near; products of sizes stay far from overflow.
const MOST_ELEMENTS: i64 = 1 << 47;

pub fn run(module: &Module) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let mut parameters: HashMap<i64, usize> = HashMap::new();
    for computation in &module.proto.computations {
        let malformed = |what: String| Error::malformed(&computation.name, what);
        if !(0..1 << 31).contains(&computation.id) {
            return Err(malformed(format!("computation id {}", computation.id)));
        }
        for instruction in &computation.instructions {
            if !seen.insert(instruction.id) {
                return Err(Error::malformed(
                    &instruction.name,
                    format!("another instruction has the id {}", instruction.id),
                ));
            }
        }
        check_computation(computation, &parameters)?;
        let count = parameter_count(computation)?;
        if parameters.insert(computation.id, count).is_some() {
            return Err(malformed("another computation has its id".to_owned()));
        }
    }
    module.entry().map(|_| ())
}

fn check_computation(
    computation: &Computation,
    callees: &HashMap<i64, usize>,
) -> Result<(), Error> {
    let mut defined = HashSet::new();
    for instruction in &computation.instructions {
        let malformed = |what: String| Error::malformed(&instruction.name, what);
        if !(0..1 << 62).contains(&instruction.id) || instruction.id & 0xffff_ffff > 1 << 31 {
            return Err(malformed(format!("instruction id {}", instruction.id)));
        }
        check_shape(instruction, shape_of(instruction)?)?;
        if let Some(id) = instruction
            .operand_ids
            .iter()
            .find(|id| !defined.contains(*id))
        {
            return Err(malformed(format!(
                "its operand {id} does not stand before it"
            )));
        }
        let called = &instruction.called_computation_ids;
        if let Some(id) = called.iter().find(|id| !callees.contains_key(*id)) {
            return Err(malformed(format!(
                "the computation {id} that it calls does not stand before its own"
            )));
        }
        defined.insert(instruction.id);
    }
    if !defined.contains(&computation.root_id) {
        return Err(Error::malformed(
            &computation.name,
            format!("there is no root {}", computation.root_id),
        ));
    }
    Ok(())
}

fn parameter_count(computation: &Computation) -> Result<usize, Error> {
    let mut numbers: Vec<i64> = computation
        .instructions
        .iter()
        .filter(|i| i.opcode == "parameter")
        .map(|i| i.parameter_number)
        .collect();
    numbers.sort_unstable();
    match numbers.iter().enumerate().all(|(i, n)| i as i64 == *n) {
        true => Ok(numbers.len()),
        false => Err(Error::malformed(
            &computation.name,
            format!("its parameters have the numbers {numbers:?}"),
        )),
    }
}

fn check_shape(instruction: &Instruction, shape: &Shape) -> Result<(), Error> {
    let malformed = |what: String| Error::malformed(&instruction.name, what);
    for element in &shape.tuple_shapes {
        check_shape(instruction, element)?;
    }
    let dimensions = &shape.dimensions;
    let elements = dimensions.iter().try_fold(1i64, |product, size| {
        let product = product.checked_mul((*size).max(1))?;
        (*size >= 0 && product <= MOST_ELEMENTS).then_some(product)
    });
    if elements.is_none() {
        return Err(malformed(format!("the dimensions {dimensions:?}")));
    }
    if let Some(layout) = &shape.layout {
        let mut order = layout.minor_to_major.clone();
        order.sort_unstable();
        let is_permutation = order.iter().enumerate().all(|(i, d)| i as i64 == *d);
        if !order.is_empty() && (order.len() != dimensions.len() || !is_permutation) {
            return Err(malformed(format!(
                "the layout {:?} of {} dimensions",
                layout.minor_to_major,
                dimensions.len()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{ModuleProto, PrimitiveType, array};
    use crate::hlo::{MxuNumerics, Options, to_cpu};
    use crate::target::Generation;
    use proptest::prelude::*;
    use prost::Message;

    const OPTIONS: Options = Options {
        generation: Generation::V6e,
        numerics: MxuNumerics::Mxu,
        replicas: 2,
        partitions: 1,
    };

    fn instruction(id: i64, opcode: &str, dimensions: &[i64], operands: &[i64]) -> Instruction {
        Instruction {
            id,
            name: format!("{opcode}.{id}"),
            opcode: opcode.to_owned(),
            shape: Some(array(PrimitiveType::F32, dimensions)),
            operand_ids: operands.to_vec(),
            ..Default::default()
        }
    }

    /// One of each construct that a pass rewrites.
    fn module() -> ModuleProto {
        let mut second = instruction(1, "parameter", &[], &[]);
        second.parameter_number = 1;
        let mut reduce = instruction(7, "reduce", &[4], &[5, 6]);
        reduce.called_computation_ids = vec![1];
        reduce.dimensions = vec![1];
        let mut fusion = instruction(8, "fusion", &[], &[6, 6]);
        fusion.called_computation_ids = vec![1];
        let mut halves = instruction(9, "bitcast", &[8], &[7]);
        halves.shape = Some(array(PrimitiveType::Bf16, &[8]));
        let mut product = instruction(10, "multiply", &[8], &[9, 9]);
        product.operand_ids = vec![9, 9];
        let computations = vec![
            Computation {
                id: 1,
                name: "add".to_owned(),
                root_id: 2,
                instructions: vec![
                    instruction(0, "parameter", &[], &[]),
                    second,
                    instruction(2, "add", &[], &[0, 1]),
                ],
                ..Default::default()
            },
            Computation {
                id: 2,
                name: "main".to_owned(),
                root_id: 11,
                instructions: vec![
                    instruction(3, "parameter", &[2, 8], &[]),
                    instruction(4, "copy-start", &[2, 8], &[3]),
                    instruction(12, "copy-done", &[2, 8], &[4]),
                    instruction(5, "bitcast", &[4, 4], &[12]),
                    instruction(6, "constant", &[], &[]),
                    reduce,
                    fusion,
                    halves,
                    product,
                    instruction(11, "all-reduce", &[8], &[10]),
                ],
                ..Default::default()
            },
        ];
        ModuleProto {
            computations,
            entry_computation_id: 2,
            entry_computation_name: "main".to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn a_sound_module_passes() {
        assert_eq!(run(&Module::new(module())), Ok(()));
    }

    #[test]
    fn each_contradiction_is_named() {
        type Break = fn(&mut ModuleProto);
        let cases: [(Break, &str); 6] = [
            (|m| m.computations[1].root_id = 99, "no root 99"),
            (
                |m| m.computations[1].instructions[3].operand_ids[0] = 10,
                "stand before it",
            ),
            (
                |m| m.computations.swap(0, 1),
                "does not stand before its own",
            ),
            (|m| m.computations[0].instructions[1].id = 0, "has the id 0"),
            (
                |m| m.computations[0].instructions[1].parameter_number = 2,
                "numbers [0, 2]",
            ),
            (
                |m| {
                    m.computations[1].instructions[0].shape = Some(array(PrimitiveType::F32, &[-1]))
                },
                "dimensions [-1]",
            ),
        ];
        for (break_it, what) in cases {
            let mut module = module();
            break_it(&mut module);
            let error = run(&Module::new(module)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Whatever the bytes say, the passes answer.
        #[test]
        fn no_module_makes_the_passes_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = module().encode_to_vec();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(module) = crate::hlo::decode(&bytes) {
                let _ = to_cpu(module, &OPTIONS);
            }
        }
    }
}
