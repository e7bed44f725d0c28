//! The TPU compiler's custom calls that have a plain meaning become the HLO that says it; any other is
//! [`Error::NotExecutable`] with its name, a Mosaic or other kernel among them.
//!
//! The halves of 64-bit values are `x64`'s, and are gone when this runs.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, Module, PrimitiveType, Shape, array, element_type, is_tuple,
    operand, shape_of,
};
use super::{linear_algebra, lu, selection};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, call| {
        if call.opcode != "custom-call" {
            builder.keep(call);
            return Ok(());
        }
        match call.custom_call_target.as_str() {
            // Promises to the code generator, placements and layouts; the value is the operand's.
            "AssumeGatherIndicesInBound"
            | "AssumeScatterIndicesInBound"
            | "GatherScatterIndicesBitpacked"
            | "LayoutConstraint"
            | "MoveToDevice"
            | "MoveToHost"
            | "Pin"
            | "Sharding"
            | "SPMDFullToShardShape"
            | "SPMDShardToFullShape"
            | "Unpin"
            | "annotate_device_placement" => identity(builder, &call),
            // Memory that a loop then fills; nothing reads it before.
            "AllocateBuffer" => {
                let zeros = zeros(builder, shape_of(&call)?)?;
                builder.replace(&call, zeros);
                Ok(())
            }
            "ConcatBitcast" => {
                concatenate(builder, call)?;
                Ok(())
            }
            _ => match plain_meaning(builder, &call)? {
                None => Err(not_executable(&call)),
                Some(result) => {
                    let result = with_layout_of(builder, result, shape_of(&call)?)?;
                    builder.replace(&call, result);
                    Ok(())
                }
            },
        }
    })
}

/// What computes the call's result, in row-major layout.
fn plain_meaning(builder: &mut Builder, call: &Instruction) -> Result<Option<i64>, Error> {
    Ok(Some(match call.custom_call_target.as_str() {
        "Cholesky" => linear_algebra::cholesky(builder, call)?,
        "CompactWyHelper" => linear_algebra::compact_wy(builder, call)?,
        "EighTpu" => linear_algebra::eigh(builder, call)?,
        "InvertDiagBlocksLowerTriangular" => {
            linear_algebra::inverse_of_triangle(builder, call, true)?
        }
        "InvertDiagBlocksUpperTriangular" => {
            linear_algebra::inverse_of_triangle(builder, call, false)?
        }
        "LuRealDecompositionBlock" => lu::decomposition(builder, call)?,
        "PartialReduce" => selection::partial_reduce(builder, call)?,
        "QrDecompositionBlock" => linear_algebra::qr(builder, call)?,
        "TopK" => selection::top_k(builder, call)?,
        _ => return Ok(None),
    }))
}

/// Takes away what only a custom call has. The opcode, operands, name and shape stay.
pub fn forget(call: &mut Instruction) {
    call.custom_call_target.clear();
    call.custom_call_has_side_effect = false;
    call.custom_call_schedule = 0;
    call.custom_call_api_version = 0;
    call.padding_type = 0;
    call.precision_config = None;
    call.constrain_layout = false;
    call.operand_shapes_with_layout.clear();
    call.output_operand_aliasing.clear();
    call.called_computation_ids.clear();
    call.literal = None;
    call.backend_config.clear();
}

fn not_executable(call: &Instruction) -> Error {
    let kernel = call
        .metadata
        .as_ref()
        .map(|metadata| metadata.op_name.as_str())
        .filter(|name| !name.is_empty());
    let construct = match (call.custom_call_target.as_str(), kernel) {
        ("tpu_custom_call", Some(kernel)) => format!("Mosaic kernel of {kernel}"),
        ("tpu_custom_call", None) => "Mosaic kernel".to_owned(),
        (target, _) => format!("custom call {target}"),
    };
    Error::not_executable(call, construct)
}

fn identity(builder: &mut Builder, call: &Instruction) -> Result<(), Error> {
    let value = operand(call, 0)?;
    let (from, to) = (builder.shape(value)?, shape_of(call)?);
    if from.dimensions != to.dimensions || from.element_type != to.element_type {
        return Err(Error::malformed(
            &call.name,
            format!("{} changes the shape", call.custom_call_target),
        ));
    }
    // Not a replacement by the operand: the layouts may differ, and a bitcast that follows reads the call's.
    let mut copy = call.clone();
    copy.opcode = "copy".to_owned();
    copy.operand_ids.truncate(1);
    forget(&mut copy);
    builder.keep(copy);
    Ok(())
}

/// 0 or false everywhere; a tuple of such.
pub fn zeros(builder: &mut Builder, shape: &Shape) -> Result<i64, Error> {
    if is_tuple(shape) {
        let elements = shape
            .tuple_shapes
            .iter()
            .map(|element| zeros(builder, element))
            .collect::<Result<Vec<_>, _>>()?;
        return builder.tuple(&elements);
    }
    let zero = builder.constant(Literal {
        shape: Some(array(PrimitiveType::S32, &[])),
        s32s: vec![0],
        ..Default::default()
    });
    let zero = builder.convert(zero, element_type(shape))?;
    if shape.dimensions.is_empty() {
        return Ok(zero);
    }
    Ok(builder.add("broadcast", shape.clone(), &[zero]))
}

/// Pieces that were copied one by one into one buffer are that buffer: along the one dimension in which the pieces' extents
/// add up to the result's.
fn concatenate(builder: &mut Builder, mut call: Instruction) -> Result<(), Error> {
    let whole = shape_of(&call)?.clone();
    let mut totals = vec![0; whole.dimensions.len()];
    let mut alike = vec![true; whole.dimensions.len()];
    for id in &call.operand_ids {
        let piece = builder.shape(*id)?;
        if piece.dimensions.len() != whole.dimensions.len() {
            return Err(Error::malformed(
                &call.name,
                "the pieces differ in rank from the whole",
            ));
        }
        for (d, extent) in piece.dimensions.iter().enumerate() {
            totals[d] += extent;
            alike[d] &= *extent == whole.dimensions[d];
        }
    }
    let along: Vec<usize> = (0..totals.len())
        .filter(|d| {
            totals[*d] == whole.dimensions[*d] && (0..alike.len()).all(|o| o == *d || alike[o])
        })
        .collect();
    let [along] = along[..] else {
        return Err(Error::malformed(
            &call.name,
            "the pieces do not add up along one dimension",
        ));
    };
    call.opcode = "concatenate".to_owned();
    forget(&mut call);
    call.dimensions = vec![along as i64];
    builder.keep(call);
    Ok(())
}

/// A copy in the layout that whoever reads the call's result expects.
fn with_layout_of(builder: &mut Builder, value: i64, shape: &Shape) -> Result<i64, Error> {
    if !is_tuple(shape) {
        return Ok(builder.add("copy", shape.clone(), &[value]));
    }
    let elements = shape
        .tuple_shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| {
            let element = builder.get_tuple_element(value, index)?;
            with_layout_of(builder, element, shape)
        })
        .collect::<Result<Vec<_>, _>>()?;
    builder.tuple(&elements)
}
