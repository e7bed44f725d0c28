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
use pjrt_sys::protos::xla::hlo_instruction_proto::SliceDimensions;
use pjrt_sys::protos::xla::padding_config::PaddingConfigDimension;

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

/// One computation as it is written anew.
pub struct Builder<'a> {
    computation: i64,
    is_fusion: bool,
    instructions: Vec<Instruction>,
    /// Id to place in `instructions`.
    index: HashMap<i64, usize>,
    /// Old id to the id that took its place.
    replaced: HashMap<i64, i64>,
    next: i64,
    names: &'a mut HashSet<String>,
    next_computation: &'a mut i64,
    added: &'a mut Vec<Computation>,
}

impl Builder<'_> {
    /// The id of the computation that is being rewritten.
    pub fn computation(&self) -> i64 {
        self.computation
    }

    pub fn in_fusion(&self) -> bool {
        self.is_fusion
    }

    fn current(&self, mut id: i64) -> i64 {
        while let Some(new) = self.replaced.get(&id) {
            id = *new;
        }
        id
    }

    /// The instruction stays, as it is or as the pass changed it.
    pub fn keep(&mut self, instruction: Instruction) -> i64 {
        let id = instruction.id;
        self.index.insert(id, self.instructions.len());
        self.instructions.push(instruction);
        id
    }

    /// From here on, whoever used `old` uses `new`, which stands in the builder already.
    pub fn replace(&mut self, old: &Instruction, new: i64) {
        // One that stands for itself would be looked up for ever.
        if self.current(new) != old.id {
            self.replaced.insert(old.id, new);
        }
    }

    /// One that stands before the current one.
    pub fn get(&self, id: i64) -> Result<&Instruction, Error> {
        self.index
            .get(&id)
            .and_then(|place| self.instructions.get(*place))
            .ok_or_else(|| Error::malformed("", format!("nothing before the user has the id {id}")))
    }

    /// The shape of one that stands before the current one.
    pub fn shape(&self, id: i64) -> Result<&Shape, Error> {
        let instruction = self.get(id)?;
        shape_of(instruction)
    }

    /// A new instruction with the attributes that `fill` gives it. Returns its id.
    pub fn add_with(
        &mut self,
        opcode: &str,
        shape: Shape,
        operands: &[i64],
        fill: impl FnOnce(&mut Instruction),
    ) -> i64 {
        let id = (self.computation << 32) | self.next;
        self.next += 1;
        let mut instruction = Instruction {
            name: fresh_name(self.names, opcode),
            opcode: opcode.to_owned(),
            shape: Some(shape),
            operand_ids: operands.to_vec(),
            id,
            ..Default::default()
        };
        fill(&mut instruction);
        self.keep(instruction)
    }

    /// The instruction under a fresh id, so that another may take the place that its users know.
    pub fn add_copy(&mut self, mut instruction: Instruction) -> i64 {
        instruction.id = (self.computation << 32) | self.next;
        self.next += 1;
        self.keep(instruction)
    }

    pub fn add(&mut self, opcode: &str, shape: Shape, operands: &[i64]) -> i64 {
        self.add_with(opcode, shape, operands, |_| ())
    }

    /// Elementwise, with the first operand's dimensions.
    pub fn elementwise(
        &mut self,
        opcode: &str,
        element_type: PrimitiveType,
        operands: &[i64],
    ) -> Result<i64, Error> {
        let first = *operands
            .first()
            .ok_or_else(|| Error::malformed("", format!("{opcode} without an operand")))?;
        let shape = like(self.shape(first)?, element_type);
        Ok(self.add(opcode, shape, operands))
    }

    pub fn convert(&mut self, operand: i64, to: PrimitiveType) -> Result<i64, Error> {
        if element_type(self.shape(operand)?) == to {
            return Ok(operand);
        }
        self.elementwise("convert", to, &[operand])
    }

    pub fn bitcast_convert(&mut self, operand: i64, to: PrimitiveType) -> Result<i64, Error> {
        if element_type(self.shape(operand)?) == to {
            return Ok(operand);
        }
        self.elementwise("bitcast-convert", to, &[operand])
    }

    /// A constant of any shape.
    pub fn constant(&mut self, literal: Literal) -> i64 {
        let shape = literal.shape.clone().unwrap_or_default();
        self.add_with("constant", shape, &[], |c| c.literal = Some(literal))
    }

    /// A scalar broadcast to `dimensions`.
    pub fn splat(&mut self, scalar: i64, dimensions: &[i64]) -> Result<i64, Error> {
        if dimensions.is_empty() {
            return Ok(scalar);
        }
        let shape = resized(self.shape(scalar)?, dimensions);
        Ok(self.add("broadcast", shape, &[scalar]))
    }

    pub fn reshape(&mut self, operand: i64, dimensions: &[i64]) -> Result<i64, Error> {
        let from = self.shape(operand)?;
        if from.dimensions == dimensions {
            return Ok(operand);
        }
        let shape = resized(from, dimensions);
        Ok(self.add("reshape", shape, &[operand]))
    }

    /// Zeros after the elements of each dimension, up to `dimensions`.
    pub fn pad(&mut self, operand: i64, dimensions: &[i64]) -> Result<i64, Error> {
        let from = self.shape(operand)?;
        if from.dimensions == dimensions {
            return Ok(operand);
        }
        let padding = PaddingConfig {
            dimensions: from
                .dimensions
                .iter()
                .zip(dimensions)
                .map(|(from, to)| PaddingConfigDimension {
                    edge_padding_high: to.saturating_sub(*from),
                    ..Default::default()
                })
                .collect(),
        };
        let shape = resized(from, dimensions);
        let zero = self.zero(&shape);
        Ok(self.add_with("pad", shape, &[operand, zero], |pad| {
            pad.padding_config = Some(padding);
        }))
    }

    /// A scalar zero of the array's element type.
    pub fn zero(&mut self, shape: &Shape) -> i64 {
        let scalar = array(PrimitiveType::Pred, &[]);
        let zero = self.constant(Literal {
            shape: Some(scalar),
            preds: vec![false],
            ..Default::default()
        });
        self.add("convert", resized(shape, &[]), &[zero])
    }

    /// The first elements of each dimension, up to `dimensions`.
    pub fn slice(&mut self, operand: i64, dimensions: &[i64]) -> Result<i64, Error> {
        let from = self.shape(operand)?;
        if from.dimensions == dimensions {
            return Ok(operand);
        }
        let shape = resized(from, dimensions);
        let slices = dimensions
            .iter()
            .map(|limit| SliceDimensions {
                start: 0,
                limit: *limit,
                stride: 1,
            })
            .collect();
        Ok(self.add_with("slice", shape, &[operand], |slice| {
            slice.slice_dimensions = slices;
        }))
    }

    /// Dimension `i` of the result is dimension `permutation[i]` of the operand.
    pub fn transpose(&mut self, operand: i64, permutation: &[i64]) -> Result<i64, Error> {
        if permutation.iter().enumerate().all(|(i, p)| i as i64 == *p) {
            return Ok(operand);
        }
        let from = self.shape(operand)?;
        let dimensions = permutation
            .iter()
            .map(|p| {
                usize::try_from(*p)
                    .ok()
                    .and_then(|p| from.dimensions.get(p))
                    .copied()
            })
            .collect::<Option<Vec<i64>>>()
            .ok_or_else(|| {
                Error::malformed(
                    "",
                    format!("a transpose of {:?} by {permutation:?}", from.dimensions),
                )
            })?;
        let shape = resized(from, &dimensions);
        let permutation = permutation.to_vec();
        Ok(self.add_with("transpose", shape, &[operand], |t| {
            t.dimensions = permutation
        }))
    }

    pub fn get_tuple_element(&mut self, tuple: i64, index: usize) -> Result<i64, Error> {
        let shape = self
            .shape(tuple)?
            .tuple_shapes
            .get(index)
            .cloned()
            .ok_or_else(|| {
                Error::malformed("", format!("no element {index} in the tuple {tuple}"))
            })?;
        Ok(self.add_with("get-tuple-element", shape, &[tuple], |g| {
            g.tuple_index = index as i64
        }))
    }

    pub fn tuple(&mut self, elements: &[i64]) -> Result<i64, Error> {
        let shapes = elements
            .iter()
            .map(|id| self.shape(*id).cloned())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.add("tuple", tuple(shapes), elements))
    }

    /// A new computation of scalars, `opcode` of two parameters, such as a reducer. Returns its id.
    pub fn binary_computation(&mut self, opcode: &str, element_type: PrimitiveType) -> i64 {
        let scalar = array(element_type, &[]);
        self.add_computation(
            opcode,
            &[scalar.clone(), scalar.clone()],
            |builder, parameters| Ok(builder.add(opcode, scalar, parameters)),
        )
        .unwrap_or_default()
    }

    /// A new computation with parameters of these shapes; `body` returns the id of its root. Returns the computation's id.
    pub fn add_computation(
        &mut self,
        name: &str,
        parameters: &[Shape],
        body: impl FnOnce(&mut Builder, &[i64]) -> Result<i64, Error>,
    ) -> Result<i64, Error> {
        let id = *self.next_computation;
        *self.next_computation += 1;
        let name = fresh_name(self.names, name);
        let mut builder = Builder {
            computation: id,
            is_fusion: false,
            instructions: Vec::new(),
            index: HashMap::new(),
            replaced: HashMap::new(),
            next: 0,
            names: self.names,
            next_computation: self.next_computation,
            added: self.added,
        };
        let ids: Vec<i64> = parameters
            .iter()
            .enumerate()
            .map(|(number, shape)| {
                builder.add_with("parameter", shape.clone(), &[], |p| {
                    p.parameter_number = number as i64;
                })
            })
            .collect();
        let root_id = body(&mut builder, &ids)?;
        let program_shape = ProgramShape {
            parameters: parameters.to_vec(),
            parameter_names: (0..parameters.len()).map(|i| format!("p{i}")).collect(),
            result: Some(builder.shape(root_id)?.clone()),
        };
        let computation = Computation {
            name,
            instructions: builder.instructions,
            program_shape: Some(program_shape),
            id,
            root_id,
            ..Default::default()
        };
        self.added.push(computation);
        Ok(id)
    }
}

fn fresh_name(names: &mut HashSet<String>, stem: &str) -> String {
    (0..)
        .map(|n| format!("{stem}.cpu{n}"))
        .find(|name| names.insert(name.clone()))
        .unwrap_or_default()
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
