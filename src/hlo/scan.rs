//! `scan` becomes a loop: the XLA CPU of today aborts on it.
//!
//! With inputs x, carries c and a computation f, step i computes `(y_i, c) = f(x_i, c)`, x_i and y_i being slices along the
//! scanned dimension, without it; the results are all y, then the last c. Backwards, the steps run from the last slice to
//! the first.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, Module, PrimitiveType, Shape, Signature, array, resized,
    shape_of, tuple,
};
use super::newer::SCAN_IS_REVERSE;

pub fn run(module: &mut Module) -> Result<(), Error> {
    let signatures = module.signatures();
    module.rewrite(|builder, instruction| {
        if instruction.opcode != "scan" {
            builder.keep(instruction);
            return Ok(());
        }
        let callee = instruction.called_computation_ids.first();
        let signature = callee
            .and_then(|id| signatures.get(id))
            .ok_or_else(|| Error::malformed(&instruction.name, "it applies no computation"))?;
        let result = Scan::of(builder, &instruction, signature)?.expand(builder)?;
        builder.replace(&instruction, result);
        Ok(())
    })
}

struct Scan {
    operands: Vec<i64>,
    inputs: Vec<Shape>,
    outputs: Vec<Shape>,
    carries: Vec<Shape>,
    dimension: usize,
    steps: i64,
    is_reverse: bool,
    /// The computation of one step, and what it returns.
    body: i64,
    step: Shape,
}

impl Scan {
    fn of(builder: &Builder, scan: &Instruction, signature: &Signature) -> Result<Self, Error> {
        let malformed = |what: &str| Error::malformed(&scan.name, what);
        let dimension = scan
            .dimensions
            .first()
            .and_then(|dimension| usize::try_from(*dimension).ok())
            .ok_or_else(|| malformed("it scans no dimension"))?;
        let plain = |shape: &Shape| resized(shape, &shape.dimensions);
        let mut inputs = scan
            .operand_ids
            .iter()
            .map(|id| builder.shape(*id).map(plain))
            .collect::<Result<Vec<Shape>, Error>>()?;
        // A step takes a slice of an input, and a carry whole.
        let count = inputs
            .iter()
            .zip(&signature.parameters)
            .take_while(|(operand, one)| operand.dimensions.len() == one.dimensions.len() + 1)
            .count();
        let carries = inputs.split_off(count);
        let mut outputs: Vec<Shape> = shape_of(scan)?.tuple_shapes.iter().map(plain).collect();
        if outputs.len() < carries.len() {
            return Err(malformed("it has fewer results than carries"));
        }
        outputs.truncate(outputs.len() - carries.len());
        let mut steps = inputs
            .iter()
            .chain(&outputs)
            .map(|shape| shape.dimensions.get(dimension));
        let first = steps.next().flatten().copied();
        let steps = first
            .filter(|first| steps.all(|steps| steps == Some(first)))
            .ok_or_else(|| malformed("its operands do not have the same number of steps"))?;
        let attributes = scan.frontend_attributes.as_ref();
        Ok(Self {
            operands: scan.operand_ids.clone(),
            inputs,
            outputs,
            carries,
            dimension,
            steps,
            is_reverse: attributes.is_some_and(|a| a.map.contains_key(SCAN_IS_REVERSE)),
            body: scan
                .called_computation_ids
                .first()
                .copied()
                .unwrap_or_default(),
            step: signature.root.clone(),
        })
    }

    /// A loop over the step's number, the inputs, what is there of the outputs, and the carries.
    fn expand(&self, builder: &mut Builder) -> Result<i64, Error> {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        let (given, carried) = self.operands.split_at(inputs.min(self.operands.len()));
        let mut state = vec![index(builder, 0)];
        state.extend(given);
        for output in &self.outputs {
            let zero = builder.zero(output);
            state.push(builder.splat(zero, &output.dimensions)?);
        }
        state.extend(carried);
        let mut shapes = vec![array(INDEX, &[])];
        shapes.extend(
            self.inputs
                .iter()
                .chain(&self.outputs)
                .chain(&self.carries)
                .cloned(),
        );
        let shape = tuple(shapes);
        let condition =
            builder.add_computation("scan_condition", std::slice::from_ref(&shape), |b, p| {
                let step = b.get_tuple_element(first(p)?, 0)?;
                let steps = index(b, self.steps);
                let less = array(PrimitiveType::Pred, &[]);
                Ok(b.add_with("compare", less, &[step, steps], |compare| {
                    compare.comparison_direction = "LT".to_owned();
                    compare.comparison_type = "SIGNED".to_owned();
                }))
            })?;
        let body = builder.add_computation("scan_body", std::slice::from_ref(&shape), |b, p| {
            self.body(b, first(p)?)
        })?;
        let start = builder.tuple(&state)?;
        let end = builder.add_with("while", shape, &[start], |instruction| {
            instruction.called_computation_ids = vec![body, condition];
        });
        let results = (1 + inputs..1 + inputs + outputs + self.carries.len())
            .map(|index| builder.get_tuple_element(end, index))
            .collect::<Result<Vec<i64>, Error>>()?;
        builder.tuple(&results)
    }

    fn body(&self, builder: &mut Builder, state: i64) -> Result<i64, Error> {
        let step = builder.get_tuple_element(state, 0)?;
        let place = if self.is_reverse {
            let last = index(builder, self.steps - 1);
            builder.add("subtract", array(INDEX, &[]), &[last, step])
        } else {
            step
        };
        let zero = index(builder, 0);
        let one = index(builder, 1);
        let at = |rank: usize| -> Vec<i64> {
            (0..rank)
                .map(|d| if d == self.dimension { place } else { zero })
                .collect()
        };
        let mut next = vec![builder.add("add", array(INDEX, &[]), &[step, one])];
        let mut arguments = Vec::new();
        for (number, input) in self.inputs.iter().enumerate() {
            let whole = builder.get_tuple_element(state, 1 + number)?;
            next.push(whole);
            let (kept, dropped) = self.slice(input);
            let mut operands = vec![whole];
            operands.extend(at(input.dimensions.len()));
            let sizes = kept.dimensions.clone();
            let slice = builder.add_with("dynamic-slice", kept, &operands, |slice| {
                slice.dynamic_slice_sizes = sizes;
            });
            arguments.push(builder.reshape(slice, &dropped)?);
        }
        let before_outputs = 1 + self.inputs.len();
        let before_carries = before_outputs + self.outputs.len();
        for number in 0..self.carries.len() {
            arguments.push(builder.get_tuple_element(state, before_carries + number)?);
        }
        let computed = builder.add_with("call", self.step.clone(), &arguments, |call| {
            call.called_computation_ids = vec![self.body];
        });
        for (number, output) in self.outputs.iter().enumerate() {
            let whole = builder.get_tuple_element(state, before_outputs + number)?;
            let slice = builder.get_tuple_element(computed, number)?;
            let slice = builder.reshape(slice, &self.slice(output).0.dimensions)?;
            let mut operands = vec![whole, slice];
            operands.extend(at(output.dimensions.len()));
            next.push(builder.add("dynamic-update-slice", output.clone(), &operands));
        }
        for number in 0..self.carries.len() {
            next.push(builder.get_tuple_element(computed, self.outputs.len() + number)?);
        }
        builder.tuple(&next)
    }

    /// One step's slice with the scanned dimension, of size 1, and the dimensions without it.
    fn slice(&self, whole: &Shape) -> (Shape, Vec<i64>) {
        let mut kept = whole.dimensions.clone();
        if let Some(size) = kept.get_mut(self.dimension) {
            *size = 1;
        }
        let mut dropped = whole.dimensions.clone();
        if self.dimension < dropped.len() {
            dropped.remove(self.dimension);
        }
        (resized(whole, &kept), dropped)
    }
}

const INDEX: PrimitiveType = PrimitiveType::S32;

fn index(builder: &mut Builder, value: i64) -> i64 {
    builder.constant(Literal {
        shape: Some(array(INDEX, &[])),
        s32s: vec![i32::try_from(value).unwrap_or(i32::MAX)],
        ..Default::default()
    })
}

fn first(parameters: &[i64]) -> Result<i64, Error> {
    parameters
        .first()
        .copied()
        .ok_or_else(|| Error::malformed("", "a computation without a parameter"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, ModuleProto};
    use pjrt_sys::protos::xla::FrontendAttributes;

    const F32: PrimitiveType = PrimitiveType::F32;

    fn instruction(id: i64, opcode: &str, shape: Shape, operands: &[i64]) -> Instruction {
        Instruction {
            id,
            opcode: opcode.to_owned(),
            shape: Some(shape),
            operand_ids: operands.to_vec(),
            ..Default::default()
        }
    }

    /// A running sum along the second of two dimensions, of three rows and five steps.
    fn rewritten(is_reverse: bool) -> ModuleProto {
        let (row, whole) = (array(F32, &[3]), array(F32, &[3, 5]));
        let mut second = instruction(1, "parameter", row.clone(), &[]);
        second.parameter_number = 1;
        let step = Computation {
            id: 1,
            instructions: vec![
                instruction(0, "parameter", row.clone(), &[]),
                second,
                instruction(2, "add", row.clone(), &[0, 1]),
                instruction(3, "tuple", tuple(vec![row.clone(), row.clone()]), &[2, 2]),
            ],
            root_id: 3,
            ..Default::default()
        };
        let mut start = instruction(11, "parameter", row.clone(), &[]);
        start.parameter_number = 1;
        let mut scan = instruction(12, "scan", tuple(vec![whole.clone(), row]), &[10, 11]);
        scan.dimensions = vec![1];
        scan.called_computation_ids = vec![1];
        if is_reverse {
            let mut attributes = FrontendAttributes::default();
            attributes
                .map
                .insert(SCAN_IS_REVERSE.to_owned(), "true".to_owned());
            scan.frontend_attributes = Some(attributes);
        }
        let main = Computation {
            id: 2,
            instructions: vec![instruction(10, "parameter", whole, &[]), start, scan],
            root_id: 12,
            ..Default::default()
        };
        let mut module = Module::new(ModuleProto {
            computations: vec![step, main],
            entry_computation_id: 2,
            ..Default::default()
        });
        run(&mut module).unwrap();
        crate::hlo::check::run(&module).unwrap();
        module.into_proto()
    }

    fn body(module: &ModuleProto) -> &Computation {
        let mut computations = module.computations.iter();
        computations
            .find(|c| c.name.starts_with("scan_body"))
            .unwrap()
    }

    #[test]
    fn the_loop_takes_one_step_a_slice() {
        let module = rewritten(false);
        let steps: Vec<i32> = module
            .computations
            .iter()
            .filter(|c| c.name.starts_with("scan_condition"))
            .flat_map(|c| &c.instructions)
            .filter_map(|i| i.literal.as_ref())
            .flat_map(|literal| literal.s32s.clone())
            .collect();
        assert_eq!(steps, [5]);
        let slice = body(&module)
            .instructions
            .iter()
            .find(|i| i.opcode == "dynamic-slice");
        let slice = slice.unwrap();
        assert_eq!(slice.dynamic_slice_sizes, [3, 1]);
        // The row is not sliced, the step's number is the column.
        let by_id = |id: i64| {
            body(&module)
                .instructions
                .iter()
                .find(|i| i.id == id)
                .unwrap()
        };
        assert_eq!(by_id(slice.operand_ids[1]).opcode, "constant");
        assert_eq!(by_id(slice.operand_ids[2]).opcode, "get-tuple-element");
    }

    #[test]
    fn the_results_keep_their_shapes() {
        let module = rewritten(false);
        let main = module.computations.last().unwrap();
        let root = main
            .instructions
            .iter()
            .find(|i| i.id == main.root_id)
            .unwrap();
        let wanted = tuple(vec![array(F32, &[3, 5]), array(F32, &[3])]);
        assert_eq!(root.shape.as_ref(), Some(&wanted));
    }

    #[test]
    fn backwards_the_column_counts_from_the_last() {
        let module = rewritten(true);
        let subtract = body(&module)
            .instructions
            .iter()
            .find(|i| i.opcode == "subtract");
        let last = subtract.unwrap().operand_ids[0];
        let last = body(&module)
            .instructions
            .iter()
            .find(|i| i.id == last)
            .unwrap();
        assert_eq!(last.literal.as_ref().unwrap().s32s, [4]);
    }
}
