//! `LuRealDecompositionBlock`, the TPU compiler's LU decomposition with partial pivoting, as a loop over the columns.
//!
//! Of a matrix [.., m, n] it returns the factors in one matrix (the unit diagonal of L left out), s32[.., min(m, n)] the rows
//! that were exchanged with row k, and s32[.., m] the permutation that these exchanges make: as `jax.lax.linalg.lu`.

use super::Error;
use super::ir::{
    Builder, Instruction, Literal, PrimitiveType, Shape, array, element_type, operand, shape_of,
};

pub fn decomposition(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let matrix = operand(call, 0)?;
    let shape = builder.shape(matrix)?.clone();
    let [batch @ .., rows, columns] = &shape.dimensions[..] else {
        return Err(Error::malformed(&call.name, "LU of what is no matrix"));
    };
    let sizes = Sizes {
        element_type: element_type(&shape),
        batch: batch.iter().product(),
        rows: *rows,
        columns: *columns,
    };
    let matrix = builder.reshape(matrix, &sizes.matrix().dimensions)?;
    let steps = sizes.rows.min(sizes.columns);
    let start = s32(builder, 0);
    let pivots = s32(builder, 0);
    let pivots = builder.splat(pivots, &[sizes.batch, steps])?;
    let permutation = iota(builder, &[sizes.batch, sizes.rows], 1);
    let state = builder.tuple(&[start, matrix, pivots, permutation])?;
    let form = builder.shape(state)?.clone();
    let condition = builder.add_computation(
        "lu_condition",
        std::slice::from_ref(&form),
        |builder, state| {
            let step = builder.get_tuple_element(state[0], 0)?;
            let steps = s32(builder, steps as i32);
            Ok(compare(builder, "LT", step, steps))
        },
    )?;
    let body =
        builder.add_computation("lu_step", std::slice::from_ref(&form), |builder, state| {
            step(builder, state[0], sizes)
        })?;
    let end = builder.add_with("while", form, &[state], |instruction| {
        instruction.called_computation_ids = vec![body, condition];
    });
    let results = shape_of(call)?.tuple_shapes.clone();
    let parts = results
        .iter()
        .enumerate()
        .map(|(index, wanted)| {
            let part = builder.get_tuple_element(end, index + 1)?;
            builder.reshape(part, &wanted.dimensions)
        })
        .collect::<Result<Vec<_>, _>>()?;
    builder.tuple(&parts)
}

#[derive(Clone, Copy)]
struct Sizes {
    element_type: PrimitiveType,
    batch: i64,
    rows: i64,
    columns: i64,
}

impl Sizes {
    fn matrix(self) -> Shape {
        array(self.element_type, &[self.batch, self.rows, self.columns])
    }
}

/// Exchanges row k with the one that has the largest element in column k, and eliminates below it.
fn step(builder: &mut Builder, state: i64, sizes: Sizes) -> Result<i64, Error> {
    let Sizes {
        element_type,
        batch,
        rows,
        columns,
    } = sizes;
    let k = builder.get_tuple_element(state, 0)?;
    let matrix = builder.get_tuple_element(state, 1)?;
    let pivots = builder.get_tuple_element(state, 2)?;
    let permutation = builder.get_tuple_element(state, 3)?;
    let of_rows = [batch, rows];
    let of_all = [batch, rows, columns];

    let row = iota(builder, &of_rows, 1);
    let k_of_rows = builder.splat(k, &of_rows)?;
    let pivot = largest(builder, sizes, matrix, k, row)?;

    let pivot_of_rows = spread(builder, pivot, &of_rows, &[0])?;
    let is_pivot = compare(builder, "EQ", row, pivot_of_rows);
    let is_k = compare(builder, "EQ", row, k_of_rows);
    let (is_pivot_all, is_k_all) = (
        spread(builder, is_pivot, &of_all, &[0, 1])?,
        spread(builder, is_k, &of_all, &[0, 1])?,
    );
    let pivot_row = picked(builder, matrix, is_pivot_all)?;
    let k_row = picked(builder, matrix, is_k_all)?;
    let pivot_row_all = spread(builder, pivot_row, &of_all, &[0, 2])?;
    let k_row_all = spread(builder, k_row, &of_all, &[0, 2])?;
    let matrix = choose(builder, is_pivot_all, k_row_all, matrix)?;
    let matrix = choose(builder, is_k_all, pivot_row_all, matrix)?;

    let pivot_place = picked(builder, permutation, is_pivot)?;
    let k_place = picked(builder, permutation, is_k)?;
    let pivot_place = spread(builder, pivot_place, &of_rows, &[0])?;
    let k_place = spread(builder, k_place, &of_rows, &[0])?;
    let permutation = choose(builder, is_pivot, k_place, permutation)?;
    let permutation = choose(builder, is_k, pivot_place, permutation)?;

    let zero = s32(builder, 0);
    let recorded = builder.reshape(pivot, &[batch, 1])?;
    let form = builder.shape(pivots)?.clone();
    let pivots = builder.add("dynamic-update-slice", form, &[pivots, recorded, zero, k]);

    let column = column(builder, sizes, matrix, k)?;
    let diagonal = picked(builder, column, is_k)?;
    let divisor = spread(builder, diagonal, &of_rows, &[0])?;
    let no = zero_of(builder, element_type)?;
    let no_rows = builder.splat(no, &of_rows)?;
    let quotient = builder.elementwise("divide", element_type, &[column, divisor])?;
    let divisible = compare(builder, "NE", divisor, no_rows);
    let factors = choose(builder, divisible, quotient, column)?;
    let below = compare(builder, "GT", row, k_of_rows);
    let factors = choose(builder, below, factors, no_rows)?;

    let column_index = iota(builder, &of_all, 2);
    let k_all = builder.splat(k, &of_all)?;
    let right = compare(builder, "GT", column_index, k_all);
    let is_column = compare(builder, "EQ", column_index, k_all);
    let factors_all = spread(builder, factors, &of_all, &[0, 1])?;
    let product = builder.elementwise("multiply", element_type, &[factors_all, pivot_row_all])?;
    let eliminated = builder.elementwise("subtract", element_type, &[matrix, product])?;
    let below_all = spread(builder, below, &of_all, &[0, 1])?;
    let inner = builder.elementwise("and", PrimitiveType::Pred, &[below_all, right])?;
    let matrix = choose(builder, inner, eliminated, matrix)?;
    let stored = builder.elementwise("and", PrimitiveType::Pred, &[below_all, is_column])?;
    let matrix = choose(builder, stored, factors_all, matrix)?;

    let one = s32(builder, 1);
    let next = builder.elementwise("add", PrimitiveType::S32, &[k, one])?;
    builder.tuple(&[next, matrix, pivots, permutation])
}

/// The row from k on with the largest magnitude in column k, the first of several; k where there is a NaN.
fn largest(
    builder: &mut Builder,
    sizes: Sizes,
    matrix: i64,
    k: i64,
    row: i64,
) -> Result<i64, Error> {
    let of_rows = [sizes.batch, sizes.rows];
    let column = column(builder, sizes, matrix, k)?;
    let magnitude = builder.elementwise("abs", sizes.element_type, &[column])?;
    let k_of_rows = builder.splat(k, &of_rows)?;
    let candidate = compare(builder, "GE", row, k_of_rows);
    let below_all = s32(builder, -1);
    let below_all = builder.convert(below_all, sizes.element_type)?;
    let never = builder.splat(below_all, &of_rows)?;
    let magnitude = choose(builder, candidate, magnitude, never)?;
    let most = reduce(builder, "maximum", magnitude, below_all)?;
    let most = spread(builder, most, &of_rows, &[0])?;
    let is_most = compare(builder, "EQ", magnitude, most);
    let none = s32(builder, sizes.rows as i32);
    let none_of_rows = builder.splat(none, &of_rows)?;
    let place = choose(builder, is_most, row, none_of_rows)?;
    let place = reduce(builder, "minimum", place, none)?;
    let none_of_batch = builder.splat(none, &[sizes.batch])?;
    let found = compare(builder, "LT", place, none_of_batch);
    let k_of_batch = builder.splat(k, &[sizes.batch])?;
    choose(builder, found, place, k_of_batch)
}

/// Column k, [batch, rows].
fn column(builder: &mut Builder, sizes: Sizes, matrix: i64, k: i64) -> Result<i64, Error> {
    let extents = [sizes.batch, sizes.rows, 1];
    let zero = s32(builder, 0);
    let slice = array(sizes.element_type, &extents);
    let slice = builder.add_with("dynamic-slice", slice, &[matrix, zero, zero, k], |slice| {
        slice.dynamic_slice_sizes = extents.to_vec();
    });
    builder.reshape(slice, &extents[..2])
}

/// The one element along dimension 1 where the mask holds.
fn picked(builder: &mut Builder, values: i64, mask: i64) -> Result<i64, Error> {
    let shape = builder.shape(values)?.clone();
    let zero = zero_of(builder, element_type(&shape))?;
    let zeros = builder.splat(zero, &shape.dimensions)?;
    let values = choose(builder, mask, values, zeros)?;
    reduce(builder, "add", values, zero)
}

/// Along dimension 1.
fn reduce(builder: &mut Builder, opcode: &str, values: i64, initial: i64) -> Result<i64, Error> {
    let shape = builder.shape(values)?.clone();
    let mut dimensions = shape.dimensions.clone();
    if dimensions.len() > 1 {
        dimensions.remove(1);
    }
    let reducer = builder.binary_computation(opcode, element_type(&shape));
    let result = array(element_type(&shape), &dimensions);
    Ok(
        builder.add_with("reduce", result, &[values, initial], |reduce| {
            reduce.dimensions = vec![1];
            reduce.called_computation_ids = vec![reducer];
        }),
    )
}

/// Broadcast: dimension i of the values is dimension `along[i]` of the result.
fn spread(
    builder: &mut Builder,
    values: i64,
    dimensions: &[i64],
    along: &[i64],
) -> Result<i64, Error> {
    let shape = array(element_type(builder.shape(values)?), dimensions);
    Ok(
        builder.add_with("broadcast", shape, &[values], |broadcast| {
            broadcast.dimensions = along.to_vec();
        }),
    )
}

fn choose(builder: &mut Builder, mask: i64, on: i64, off: i64) -> Result<i64, Error> {
    let shape = builder.shape(on)?.clone();
    Ok(builder.add("select", shape, &[mask, on, off]))
}

fn compare(builder: &mut Builder, direction: &str, lhs: i64, rhs: i64) -> i64 {
    let dimensions = builder
        .shape(lhs)
        .map(|shape| shape.dimensions.clone())
        .unwrap_or_default();
    let shape = array(PrimitiveType::Pred, &dimensions);
    builder.add_with("compare", shape, &[lhs, rhs], |compare| {
        compare.comparison_direction = direction.to_owned();
    })
}

fn iota(builder: &mut Builder, dimensions: &[i64], along: i64) -> i64 {
    let shape = array(PrimitiveType::S32, dimensions);
    builder.add_with("iota", shape, &[], |iota| iota.dimensions = vec![along])
}

fn s32(builder: &mut Builder, value: i32) -> i64 {
    builder.constant(Literal {
        shape: Some(array(PrimitiveType::S32, &[])),
        s32s: vec![value],
        ..Default::default()
    })
}

fn zero_of(builder: &mut Builder, element_type: PrimitiveType) -> Result<i64, Error> {
    let zero = s32(builder, 0);
    builder.convert(zero, element_type)
}
