//! The TPU compiler's calls that select the best elements along a dimension, said with `sort`.

use pjrt_sys::protos::xla::PaddingConfig;
use pjrt_sys::protos::xla::hlo_instruction_proto::SliceDimensions;
use pjrt_sys::protos::xla::padding_config::PaddingConfigDimension;
use serde::Deserialize;

use super::Error;
use super::ir::{
    Builder, Instruction, PrimitiveType, Shape, array, element_type, operand, shape_of, tuple,
};

/// The k elements that the call's comparator puts first along the last dimension, in its order, and where they were. Equal
/// ones stay in their order (`is_stable`).
pub fn top_k(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let values = operand(call, 0)?;
    let shape = builder.shape(values)?.clone();
    let Some(along) = shape.dimensions.len().checked_sub(1) else {
        return Err(Error::malformed(&call.name, "the best of a scalar"));
    };
    let index_type = shape_of(call)?
        .tuple_shapes
        .get(1)
        .map_or(PrimitiveType::S32, element_type);
    let indices = array(index_type, &shape.dimensions);
    let indices = builder.add_with("iota", indices, &[], |iota| {
        iota.dimensions = vec![along as i64];
    });
    let sorted = sort(builder, call, &[values, indices], along)?;
    let best = shape_of(call)?
        .tuple_shapes
        .iter()
        .enumerate()
        .map(|(index, wanted)| {
            let all = builder.get_tuple_element(sorted, index)?;
            Ok(first(builder, all, &wanted.dimensions))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    builder.tuple(&best)
}

#[derive(Deserialize)]
struct PartialReduceConfig {
    reduction_dim: usize,
}

/// The best element of each bin, of as many bins as the result has along the reduction dimension: the first stage of an
/// approximate top-k (Chern and others, "TPU-KNN: K Nearest Neighbor Search at Peak FLOP/s", 2022). Which elements share a
/// bin is not said anywhere; here bin b of B has the elements b, b + B, b + 2B, …
pub fn partial_reduce(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let malformed = |what: &str| Error::malformed(&call.name, what);
    let config: PartialReduceConfig = serde_json::from_slice(&call.backend_config)
        .map_err(|error| malformed(&format!("its configuration is not understood: {error}")))?;
    let along = config.reduction_dim;
    let results = match &shape_of(call)?.tuple_shapes[..] {
        [] => vec![shape_of(call)?.clone()],
        elements => elements.to_vec(),
    };
    let count = results.len();
    let bins = results
        .first()
        .and_then(|shape| shape.dimensions.get(along))
        .copied()
        .filter(|bins| *bins > 0)
        .ok_or_else(|| malformed("its result has no bins"))?;
    let mut binned = Vec::with_capacity(count);
    for index in 0..count {
        let values = operand(call, index)?;
        let initial = operand(call, count + index)?;
        binned.push(in_bins(builder, values, initial, along, bins)?);
    }
    let sorted = sort(builder, call, &binned, along)?;
    let mut best = Vec::with_capacity(count);
    for (index, wanted) in results.iter().enumerate() {
        let all = match count {
            1 => sorted,
            _ => builder.get_tuple_element(sorted, index)?,
        };
        let mut one = builder.shape(all)?.dimensions.clone();
        one[along] = 1;
        let one = first(builder, all, &one);
        best.push(builder.reshape(one, &wanted.dimensions)?);
    }
    match best[..] {
        [only] if call_is_array(call) => Ok(only),
        _ => builder.tuple(&best),
    }
}

fn call_is_array(call: &Instruction) -> bool {
    call.shape
        .as_ref()
        .is_some_and(|shape| shape.tuple_shapes.is_empty())
}

/// The dimension becomes two: the members of a bin, then the bins. What is missing of the last members is the initial value.
fn in_bins(
    builder: &mut Builder,
    values: i64,
    initial: i64,
    along: usize,
    bins: i64,
) -> Result<i64, Error> {
    let shape = builder.shape(values)?.clone();
    let extent = *shape
        .dimensions
        .get(along)
        .ok_or_else(|| Error::malformed("", "a reduction along a dimension that is not there"))?;
    let members = (extent + bins - 1) / bins;
    let mut dimensions = shape.dimensions.clone();
    dimensions[along] = members * bins;
    let padded = array(element_type(&shape), &dimensions);
    let padded = builder.add_with("pad", padded, &[values, initial], |pad| {
        pad.padding_config = Some(PaddingConfig {
            dimensions: (0..dimensions.len())
                .map(|d| PaddingConfigDimension {
                    edge_padding_high: if d == along {
                        members * bins - extent
                    } else {
                        0
                    },
                    ..Default::default()
                })
                .collect(),
        });
    });
    dimensions[along] = bins;
    dimensions.insert(along, members);
    builder.reshape(padded, &dimensions)
}

fn sort(
    builder: &mut Builder,
    call: &Instruction,
    operands: &[i64],
    along: usize,
) -> Result<i64, Error> {
    let mut shapes = operands
        .iter()
        .map(|id| {
            let shape = builder.shape(*id)?;
            Ok(array(element_type(shape), &shape.dimensions))
        })
        .collect::<Result<Vec<Shape>, Error>>()?;
    let shape = match shapes.len() {
        1 => shapes.remove(0),
        _ => tuple(shapes),
    };
    Ok(builder.add_with("sort", shape, operands, |sort| {
        sort.dimensions = vec![along as i64];
        sort.is_stable = true;
        sort.called_computation_ids = call.called_computation_ids.clone();
    }))
}

/// The part of these extents at the start of every dimension.
fn first(builder: &mut Builder, value: i64, dimensions: &[i64]) -> i64 {
    let element_type = builder
        .shape(value)
        .map_or(PrimitiveType::Invalid, element_type);
    builder.add_with(
        "slice",
        array(element_type, dimensions),
        &[value],
        |slice| {
            slice.slice_dimensions = dimensions
                .iter()
                .map(|extent| SliceDimensions {
                    start: 0,
                    limit: *extent,
                    stride: 1,
                })
                .collect();
        },
    )
}
