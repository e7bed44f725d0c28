//! Writes one computation anew: keeps, replaces and adds instructions, with shapes worked out and ids and names fresh.

use std::collections::{HashMap, HashSet};

use pjrt_sys::protos::xla::hlo_instruction_proto::SliceDimensions;
use pjrt_sys::protos::xla::padding_config::PaddingConfigDimension;

use super::Error;
use super::ir::{
    Computation, Instruction, Literal, PaddingConfig, PrimitiveType, ProgramShape, Shape, array,
    element_type, like, resized, shape_of, tuple,
};

/// One computation as it is written anew.
pub struct Builder<'a> {
    pub(super) computation: i64,
    pub(super) is_fusion: bool,
    pub(super) instructions: Vec<Instruction>,
    /// Id to place in `instructions`.
    pub(super) index: HashMap<i64, usize>,
    /// Old id to the id that took its place.
    pub(super) replaced: HashMap<i64, i64>,
    pub(super) next: i64,
    pub(super) names: &'a mut HashSet<String>,
    pub(super) next_computation: &'a mut i64,
    pub(super) added: &'a mut Vec<Computation>,
}

impl Builder<'_> {
    /// The id of the computation that is being rewritten.
    pub fn computation(&self) -> i64 {
        self.computation
    }

    pub fn in_fusion(&self) -> bool {
        self.is_fusion
    }

    pub(super) fn current(&self, mut id: i64) -> i64 {
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

    /// Changes how the value of one that stands before the current one lies in memory.
    pub fn set_layout(
        &mut self,
        id: i64,
        layout: Option<Box<super::ir::Layout>>,
    ) -> Result<(), Error> {
        let place = self.index.get(&id).copied();
        let instruction = place.and_then(|place| self.instructions.get_mut(place));
        match instruction.and_then(|instruction| instruction.shape.as_mut()) {
            Some(shape) => shape.layout = layout,
            None => return Err(Error::malformed("", format!("no array has the id {id}"))),
        }
        Ok(())
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
