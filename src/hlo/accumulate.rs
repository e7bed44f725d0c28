//! Sums and products over bf16 and f16 are formed in f32 and rounded once.
//!
//! So the TPU compiler's own code does it (its low-level code for a sum over rows and for a sum of products, v5e, v6e and 7x:
//! operands unpacked to f32, additions in f32, one pack of the result). Within a fusion it also skips a rounding to the
//! narrow type right before the reduction.

use super::Error;
use super::ir::{Module, PrimitiveType, binary_operation, element_type, like, operand, shape_of};

pub fn run(module: &mut Module) -> Result<(), Error> {
    // Computation to the one operation that it is.
    let reducers: std::collections::HashMap<i64, String> = module
        .proto
        .computations
        .iter()
        .filter_map(|computation| {
            let operation = binary_operation(computation)?;
            let accumulates = matches!(operation.opcode.as_str(), "add" | "multiply");
            accumulates.then(|| (computation.id, operation.opcode.clone()))
        })
        .collect();
    module.rewrite(|builder, mut reduce| {
        let reducer = match reduce.called_computation_ids[..] {
            [id] if reduce.opcode == "reduce" && reduce.operand_ids.len() == 2 => reducers.get(&id),
            _ => None,
        };
        let narrow = element_type(shape_of(&reduce)?);
        let Some(reducer) =
            reducer.filter(|_| matches!(narrow, PrimitiveType::Bf16 | PrimitiveType::F16))
        else {
            builder.keep(reduce);
            return Ok(());
        };
        let replaced = reduce.clone();
        let mut values = operand(&reduce, 0)?;
        let before = builder.get(values)?;
        if builder.in_fusion() && before.opcode == "convert" {
            let unrounded = operand(before, 0)?;
            if element_type(builder.shape(unrounded)?) == PrimitiveType::F32 {
                values = unrounded;
            }
        }
        let values = builder.convert(values, PrimitiveType::F32)?;
        let initial = builder.convert(operand(&reduce, 1)?, PrimitiveType::F32)?;
        reduce.operand_ids = vec![values, initial];
        reduce.called_computation_ids =
            vec![builder.binary_computation(reducer, PrimitiveType::F32)];
        reduce.shape = Some(like(shape_of(&replaced)?, PrimitiveType::F32));
        let wide = builder.add_copy(reduce);
        let result = builder.convert(wide, narrow)?;
        builder.replace(&replaced, result);
        Ok(())
    })
}
