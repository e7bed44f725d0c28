//! Arrays of a bounded dynamic size: the TPU compiler computes on arrays of the bound with sizes beside them, and dynamic
//! shapes are left at the program's edges alone, behind custom calls.
//!
//! `PadToStatic` gives a dynamic array as one of its bounds, whose further elements are unspecified, and its sizes;
//! `SliceToDynamic` takes the two together again. They become HLO's own `get-dimension-size` and `set-dimension-size`, which
//! XLA CPU knows. It takes no dynamic array as a parameter, though: a program that has one is refused.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, Module, PrimitiveType, Shape, array, operand, shape_of,
};

pub fn run(module: &mut Module) -> Result<(), Error> {
    let entry = module.entry()?.instructions.iter();
    let dynamic = entry
        .filter(|instruction| instruction.opcode == "parameter")
        .find(|parameter| parameter.shape.as_ref().is_some_and(is_dynamic));
    if let Some(parameter) = dynamic {
        return Err(Error::not_executable(
            parameter,
            "a parameter of a dynamic size (XLA CPU takes none)",
        ));
    }
    module.rewrite(|builder, instruction| {
        let result = match instruction.custom_call_target.as_str() {
            "PadToStatic" => pad_to_static(builder, &instruction)?,
            "SliceToDynamic" => slice_to_dynamic(builder, &instruction)?,
            _ => {
                builder.keep(instruction);
                return Ok(());
            }
        };
        builder.replace(&instruction, result);
        Ok(())
    })
}

fn is_dynamic(shape: &Shape) -> bool {
    shape.is_dynamic_dimension.contains(&true) || shape.tuple_shapes.iter().any(is_dynamic)
}

fn size_shape() -> Shape {
    array(PrimitiveType::S32, &[])
}

/// The elements as an array of the bounds, then the size of each dimension.
fn pad_to_static(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let dynamic = operand(call, 0)?;
    let shape = builder.shape(dynamic)?.clone();
    let mut data = dynamic;
    let mut sizes = Vec::with_capacity(shape.dimensions.len());
    for (dimension, bound) in shape.dimensions.iter().enumerate() {
        sizes.push(
            builder.add_with("get-dimension-size", size_shape(), &[dynamic], |size| {
                size.dimensions = vec![dimension as i64];
            }),
        );
        if shape.is_dynamic_dimension.get(dimension) == Some(&true) {
            let bound = i32::try_from(*bound).map_err(|_| {
                Error::malformed(&call.name, format!("a dynamic dimension of up to {bound}"))
            })?;
            let bound = builder.constant(Literal {
                shape: Some(size_shape()),
                s32s: vec![bound],
                ..Default::default()
            });
            data = set_size(builder, data, dimension, bound, false)?;
        }
    }
    let mut elements = vec![data];
    elements.extend(sizes);
    builder.tuple(&elements)
}

fn slice_to_dynamic(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let shape = shape_of(call)?.clone();
    let mut data = operand(call, 0)?;
    if builder.shape(data)?.dimensions != shape.dimensions {
        return Err(Error::not_executable(
            call,
            "SliceToDynamic of an array that is not of the bounds' shape",
        ));
    }
    for dimension in 0..shape.dimensions.len() {
        if shape.is_dynamic_dimension.get(dimension) == Some(&true) {
            let size = operand(call, 1 + dimension)?;
            data = set_size(builder, data, dimension, size, true)?;
        }
    }
    Ok(data)
}

fn set_size(
    builder: &mut Builder,
    data: i64,
    dimension: usize,
    size: i64,
    is_dynamic: bool,
) -> Result<i64, Error> {
    let mut shape = builder.shape(data)?.clone();
    shape
        .is_dynamic_dimension
        .resize(shape.dimensions.len(), false);
    if let Some(flag) = shape.is_dynamic_dimension.get_mut(dimension) {
        *flag = is_dynamic;
    }
    Ok(
        builder.add_with("set-dimension-size", shape, &[data, size], |set| {
            set.dimensions = vec![dimension as i64];
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, ModuleProto, tuple};

    fn dynamic() -> Shape {
        Shape {
            is_dynamic_dimension: vec![true, false],
            ..array(PrimitiveType::F32, &[8, 4])
        }
    }

    fn parameter(id: i64, shape: Shape) -> Instruction {
        Instruction {
            id,
            opcode: "parameter".to_owned(),
            parameter_number: id,
            shape: Some(shape),
            ..Default::default()
        }
    }

    fn rewritten(mut instructions: Vec<Instruction>) -> Result<Vec<(String, Vec<bool>)>, Error> {
        let root_id = instructions.len() as i64 - 1;
        instructions[root_id as usize].id = root_id;
        let mut module = Module::new(ModuleProto {
            computations: vec![Computation {
                instructions,
                root_id,
                ..Default::default()
            }],
            ..Default::default()
        });
        run(&mut module)?;
        let instructions = module.proto.computations.remove(0).instructions;
        let pair = |i: Instruction| (i.opcode, i.shape.unwrap().is_dynamic_dimension);
        Ok(instructions.into_iter().map(pair).collect())
    }

    fn call(target: &str, shape: Shape, operands: &[i64]) -> Instruction {
        Instruction {
            opcode: "custom-call".to_owned(),
            custom_call_target: target.to_owned(),
            shape: Some(shape),
            operand_ids: operands.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn sizes_are_asked_and_the_bound_is_set() {
        let fixed = array(PrimitiveType::F32, &[8, 4]);
        let result = tuple(vec![fixed.clone(), size_shape(), size_shape()]);
        let mut computed = call("", dynamic(), &[0, 1]);
        (computed.id, computed.opcode) = (2, "set-dimension-size".to_owned());
        let instructions = vec![
            parameter(0, fixed),
            parameter(1, size_shape()),
            computed,
            call("PadToStatic", result, &[2]),
        ];
        let after = rewritten(instructions).unwrap();
        let opcodes: Vec<&str> = after.iter().map(|(opcode, _)| opcode.as_str()).collect();
        let wanted = [
            "parameter",
            "parameter",
            "set-dimension-size",
            "get-dimension-size",
            "constant",
            "set-dimension-size",
            "get-dimension-size",
            "tuple",
        ];
        assert_eq!(opcodes, wanted);
        assert_eq!(after[5].1, [false, false]);
    }

    #[test]
    fn a_dynamic_parameter_is_named() {
        // Whatever reads it: of a copy alone, XLA CPU says that there is no PadToStatic.
        let mut copy = call("", dynamic(), &[0]);
        copy.opcode = "copy".to_owned();
        for reader in [call("PadToStatic", tuple(vec![]), &[0]), copy] {
            let error = rewritten(vec![parameter(0, dynamic()), reader]).unwrap_err();
            assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
            let told = error.to_string();
            assert!(told.contains("parameter of a dynamic size"), "{told}");
        }
    }

    #[test]
    fn only_dynamic_dimensions_get_a_size() {
        let after = rewritten(vec![
            parameter(0, array(PrimitiveType::F32, &[8, 4])),
            parameter(1, size_shape()),
            parameter(2, size_shape()),
            call("SliceToDynamic", dynamic(), &[0, 1, 2]),
        ])
        .unwrap();
        assert_eq!(
            after[3..],
            [("set-dimension-size".to_owned(), vec![true, false])]
        );
    }
}
