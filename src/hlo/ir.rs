//! An editing layer over `HloModuleProto`: walks each computation in order, hands every instruction to a pass, and lets it
//! keep, change, drop or replace it and put new ones before it.
//!
//! It knows ids, names, shapes and operands, and no operator's meaning. Ids follow XLA's form: the computation's id in the
//! upper 32 bits, the instruction's in the lower.

use std::collections::{HashMap, HashSet};

pub use pjrt_sys::protos::xla::{
    HloComputationProto as Computation, HloInstructionProto as Instruction,
    HloModuleProto as ModuleProto, LayoutProto as Layout, LiteralProto as Literal, PaddingConfig,
    PrimitiveType, ProgramShapeProto as ProgramShape, ShapeProto as Shape,
};

use super::Error;
pub use super::builder::Builder;

/// A module under change.
pub struct Module {
    pub proto: ModuleProto,
    names: HashSet<String>,
    next_computation: i64,
}

impl Module {
    pub fn new(proto: ModuleProto) -> Self {
        let names = proto
            .computations
            .iter()
            .flat_map(|c| {
                std::iter::once(&c.name)
                    .chain(c.instructions.iter().map(|instruction| &instruction.name))
            })
            .cloned()
            .collect();
        let last = proto.computations.iter().map(|c| c.id).max();
        let next_computation = last.unwrap_or(0).saturating_add(1);
        Self {
            proto,
            names,
            next_computation,
        }
    }

    pub fn into_proto(self) -> ModuleProto {
        self.proto
    }

    pub fn computation(&self, id: i64) -> Result<&Computation, Error> {
        self.proto
            .computations
            .iter()
            .find(|computation| computation.id == id)
            .ok_or_else(|| Error::malformed("", format!("there is no computation {id}")))
    }

    pub fn entry(&self) -> Result<&Computation, Error> {
        self.computation(self.proto.entry_computation_id)
    }

    /// Of every computation, by its id.
    pub fn signatures(&self) -> HashMap<i64, Signature> {
        let computations = self.proto.computations.iter();
        computations.map(|c| (c.id, Signature::of(c))).collect()
    }

    /// Hands each instruction of each computation, operands before users, to `pass`, which puts what takes its place into
    /// the [`Builder`]: [`Builder::keep`] for the instruction itself, as it is or changed, [`Builder::replace`] for another
    /// one that computes its value. One that is neither kept nor replaced is gone, and must have no user left.
    pub fn rewrite(
        &mut self,
        mut pass: impl FnMut(&mut Builder, Instruction) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let computations = std::mem::take(&mut self.proto.computations);
        let mut rewritten = Vec::with_capacity(computations.len());
        for mut computation in computations {
            let mut added = Vec::new();
            let instructions = std::mem::take(&mut computation.instructions);
            let next = 1 + instructions.iter().map(|i| local(i.id)).max().unwrap_or(0);
            let mut builder = Builder {
                computation: computation.id,
                is_fusion: computation.is_fusion_computation,
                instructions: Vec::with_capacity(instructions.len()),
                index: HashMap::with_capacity(instructions.len()),
                replaced: HashMap::new(),
                next,
                names: &mut self.names,
                next_computation: &mut self.next_computation,
                added: &mut added,
            };
            for mut instruction in instructions {
                for operand in &mut instruction.operand_ids {
                    *operand = builder.current(*operand);
                }
                for before in &mut instruction.control_predecessor_ids {
                    *before = builder.current(*before);
                }
                pass(&mut builder, instruction)?;
            }
            computation.root_id = builder.current(computation.root_id);
            computation.instructions = builder.instructions;
            // Callees stand before their callers, and may call what stood before.
            rewritten.append(&mut added);
            rewritten.push(computation);
        }
        self.proto.computations = rewritten;
        Ok(())
    }

    /// Drops what no root, parameter or side effect needs, and computations that nothing calls.
    pub fn remove_dead(&mut self) {
        for computation in &mut self.proto.computations {
            let by_id: HashMap<i64, &Instruction> =
                computation.instructions.iter().map(|i| (i.id, i)).collect();
            let mut live = HashSet::new();
            let mut pending: Vec<i64> = computation
                .instructions
                .iter()
                .filter(|i| i.opcode == "parameter" || has_side_effect(i))
                .map(|i| i.id)
                .chain([computation.root_id])
                .collect();
            while let Some(id) = pending.pop() {
                if live.insert(id)
                    && let Some(instruction) = by_id.get(&id)
                {
                    pending.extend(&instruction.operand_ids);
                    pending.extend(&instruction.control_predecessor_ids);
                }
            }
            computation.instructions.retain(|i| live.contains(&i.id));
        }
        let mut called = HashSet::new();
        let mut pending = vec![self.proto.entry_computation_id];
        while let Some(id) = pending.pop() {
            if called.insert(id)
                && let Ok(computation) = self.computation(id)
            {
                let callees = computation.instructions.iter();
                pending.extend(callees.flat_map(|i| &i.called_computation_ids));
            }
        }
        self.proto.computations.retain(|c| called.contains(&c.id));
    }
}

/// What a computation takes and returns.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// By parameter number.
    pub parameters: Vec<Shape>,
    pub root: Shape,
}

impl Signature {
    fn of(computation: &Computation) -> Self {
        let mut parameters: Vec<(i64, Shape)> = computation
            .instructions
            .iter()
            .filter(|i| i.opcode == "parameter")
            .map(|i| (i.parameter_number, i.shape.clone().unwrap_or_default()))
            .collect();
        parameters.sort_by_key(|(number, _)| *number);
        let root = computation
            .instructions
            .iter()
            .find(|i| i.id == computation.root_id);
        Self {
            parameters: parameters.into_iter().map(|(_, shape)| shape).collect(),
            root: root.and_then(|root| root.shape.clone()).unwrap_or_default(),
        }
    }
}

/// The one operation on its two parameters that a computation is, such as a reducer.
pub fn binary_operation(computation: &Computation) -> Option<&Instruction> {
    let [first, second, root] = &computation.instructions[..] else {
        return None;
    };
    let are_parameters = first.opcode == "parameter" && second.opcode == "parameter";
    let takes_both = matches!(
        root.operand_ids[..],
        [a, b] if [a, b] == [first.id, second.id] || [b, a] == [first.id, second.id]
    );
    (root.id == computation.root_id && are_parameters && takes_both).then_some(root)
}

fn has_side_effect(instruction: &Instruction) -> bool {
    instruction.custom_call_has_side_effect
        || matches!(
            instruction.opcode.as_str(),
            "infeed"
                | "outfeed"
                | "send"
                | "recv"
                | "send-done"
                | "recv-done"
                | "rng-get-and-update-state"
        )
}

fn local(id: i64) -> i64 {
    id & 0xffff_ffff
}

pub fn shape_of(instruction: &Instruction) -> Result<&Shape, Error> {
    instruction
        .shape
        .as_ref()
        .ok_or_else(|| Error::malformed(&instruction.name, "it has no shape"))
}

/// The operand's id at a place where the operator must have one.
pub fn operand(instruction: &Instruction, index: usize) -> Result<i64, Error> {
    instruction
        .operand_ids
        .get(index)
        .copied()
        .ok_or_else(|| Error::malformed(&instruction.name, format!("it has no operand {index}")))
}

/// `PrimitiveType::Invalid` for a number that the protos do not know.
pub fn element_type(shape: &Shape) -> PrimitiveType {
    PrimitiveType::try_from(shape.element_type).unwrap_or(PrimitiveType::Invalid)
}

/// A static array in row-major order.
pub fn array(element_type: PrimitiveType, dimensions: &[i64]) -> Shape {
    Shape {
        element_type: element_type.into(),
        dimensions: dimensions.to_vec(),
        is_dynamic_dimension: vec![false; dimensions.len()],
        layout: Some(Box::new(row_major(dimensions.len()))),
        ..Default::default()
    }
}

/// A static row-major array of the same element type, whatever its number.
pub fn resized(shape: &Shape, dimensions: &[i64]) -> Shape {
    Shape {
        element_type: shape.element_type,
        ..array(PrimitiveType::Invalid, dimensions)
    }
}

/// With the dimensions and the layout's order of `shape`.
pub fn like(shape: &Shape, element_type: PrimitiveType) -> Shape {
    Shape {
        element_type: element_type.into(),
        ..shape.clone()
    }
}

pub fn tuple(elements: Vec<Shape>) -> Shape {
    Shape {
        element_type: PrimitiveType::Tuple.into(),
        tuple_shapes: elements,
        ..Default::default()
    }
}

pub fn row_major(rank: usize) -> Layout {
    Layout {
        minor_to_major: (0..rank as i64).rev().collect(),
        ..Default::default()
    }
}

pub fn is_tuple(shape: &Shape) -> bool {
    element_type(shape) == PrimitiveType::Tuple
}
