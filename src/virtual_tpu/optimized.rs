//! What the TPU compiler's optimized program tells without being run: its instructions, and the compiler's own estimate of
//! the cycles that they take.
//!
//! The estimate is the cost model's that the compiler tiles by; nothing is measured, here or there.

use std::collections::{BTreeMap, HashSet};

use pjrt_sys::protos::xla;
use serde::Deserialize;

use super::Error;
use crate::hlo;
use crate::pjrt::Program;

/// The TPU compiler's optimized program, decoded.
pub struct Optimized {
    module: xla::HloModuleProto,
}

impl Optimized {
    /// # Errors
    /// A program in neither of the formats `hlo_with_config` and `hlo`, or bytes that are none.
    pub fn read(program: &Program) -> Result<Self, Error> {
        let module = match program.format.as_str() {
            "hlo_with_config" => hlo::decode_with_config(&program.code),
            "hlo" => hlo::decode(&program.code),
            other => return Err(Error::Unreadable(format!("its format is '{other}'"))),
        };
        let module = module.map_err(|error| Error::Unreadable(error.to_string()))?;
        Ok(Self { module })
    }

    pub fn module(&self) -> &xla::HloModuleProto {
        &self.module
    }

    /// Sum over the instructions that the compiler gives an estimate for, `window_config.estimated_cycles` of their backend
    /// configs; `None` if it gives none. Instructions without one (copies that run beside, sorts, kernels) count nothing, a
    /// loop's body counts once and a conditional's branches all: the optimized program keeps no trip counts.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let fused = self.fused();
        self.module
            .computations
            .iter()
            .filter(|computation| !fused.contains(&computation.id))
            .flat_map(|computation| &computation.instructions)
            .filter_map(cycles)
            .reduce(u64::saturating_add)
    }

    /// How many instructions of each opcode there are, those inside fusions included. A custom call counts under
    /// `custom-call` with its target: `custom-call TopK`.
    pub fn instructions(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        let computations = self.module.computations.iter();
        for instruction in computations.flat_map(|computation| &computation.instructions) {
            let name = match instruction.custom_call_target.as_str() {
                "" => instruction.opcode.clone(),
                target => format!("{} {target}", instruction.opcode),
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    /// Computations whose time is that of the fusion which calls them.
    fn fused(&self) -> HashSet<i64> {
        self.module
            .computations
            .iter()
            .flat_map(|computation| &computation.instructions)
            .filter(|instruction| instruction.opcode == "fusion")
            .flat_map(|fusion| fusion.called_computation_ids.iter().copied())
            .collect()
    }
}

fn cycles(instruction: &xla::HloInstructionProto) -> Option<u64> {
    #[derive(Deserialize)]
    struct Config {
        window_config: Option<Window>,
    }
    #[derive(Deserialize)]
    struct Window {
        estimated_cycles: Option<Cycles>,
    }
    /// Protos in JSON write 64-bit integers as text.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Cycles {
        Text(String),
        Number(u64),
    }
    /// What stands where the compiler has no estimate.
    const UNKNOWN: u64 = i64::MAX as u64;
    let config: Config = serde_json::from_slice(&instruction.backend_config).ok()?;
    let cycles = match config.window_config?.estimated_cycles? {
        Cycles::Text(text) => text.parse().ok()?,
        Cycles::Number(number) => number,
    };
    (cycles < UNKNOWN).then_some(cycles)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn instruction(opcode: &str, config: &str) -> xla::HloInstructionProto {
        xla::HloInstructionProto {
            opcode: opcode.to_owned(),
            backend_config: config.as_bytes().to_vec(),
            ..Default::default()
        }
    }

    fn with(computations: Vec<(i64, Vec<xla::HloInstructionProto>)>) -> Optimized {
        let module = xla::HloModuleProto {
            computations: computations
                .into_iter()
                .map(|(id, instructions)| xla::HloComputationProto {
                    id,
                    instructions,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let program = Program::hlo(module.encode_to_vec());
        Optimized::read(&program).unwrap()
    }

    #[test]
    fn cycles_add_up_over_instructions_and_a_fusions_own_speak_for_its_inside() {
        let config = r#"{"flag_configs":[],"window_config":{"estimated_cycles":"120"}}"#;
        let fusion = xla::HloInstructionProto {
            called_computation_ids: vec![2],
            ..instruction("fusion", config)
        };
        let inside = instruction("add", r#"{"window_config":{"estimated_cycles":"7"}}"#);
        let unknown = r#"{"window_config":{"estimated_cycles":"9223372036854775807"}}"#;
        let body = instruction("copy", r#"{"window_config":{"estimated_cycles":30}}"#);
        let optimized = with(vec![
            (
                1,
                vec![fusion, instruction("copy-start", r#"{"dma_priority":1}"#)],
            ),
            (2, vec![inside]),
            (
                3,
                vec![
                    body,
                    instruction("tuple", ""),
                    instruction("fusion", unknown),
                ],
            ),
        ]);
        assert_eq!(optimized.estimated_cycles(), Some(150));
        assert_eq!(with(vec![(1, Vec::new())]).estimated_cycles(), None);
    }

    #[test]
    fn custom_calls_are_counted_by_target() {
        let mut call = instruction("custom-call", "");
        call.custom_call_target = "TopK".to_owned();
        let add = instruction("add", "");
        let counts = with(vec![(1, vec![add.clone(), call]), (2, vec![add])]).instructions();
        let expected = [("add".to_owned(), 2), ("custom-call TopK".to_owned(), 1)];
        assert_eq!(counts, expected.into());
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        let mut program = Program::hlo(b"\xff\xff".to_vec());
        assert!(Optimized::read(&program).is_err());
        program.format = "mlir".to_owned();
        assert!(matches!(
            Optimized::read(&program),
            Err(Error::Unreadable(_))
        ));
    }
}
