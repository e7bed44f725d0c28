//! The TPU compiler's calls on small matrices, said with XLA's own operations on matrices.
//!
//! LU is in `lu`.

use pjrt_sys::protos::xla::hlo_instruction_proto::SliceDimensions;
use pjrt_sys::protos::xla::triangular_solve_options::Transpose;
use pjrt_sys::protos::xla::{CholeskyOptions, TriangularSolveOptions};

use super::Error;
use super::ir::{
    Builder, Instruction, PrimitiveType, Shape, array, element_type, like, operand, shape_of, tuple,
};

/// Reads the lower triangle. A matrix that is not positive definite gives NaN on the diagonal, which the code around the
/// call looks for.
pub fn cholesky(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    of_matrix(builder, call, |builder, a| {
        let shape = square(builder, a)?;
        Ok(builder.add_with("cholesky", shape, &[a], |cholesky| {
            cholesky.cholesky_options = Some(CholeskyOptions { lower: true });
        }))
    })
}

/// As XLA's `triangular_solve_expander` defines it: each matrix is a diagonal block, and its inverse is wanted.
pub fn inverse_of_triangle(
    builder: &mut Builder,
    call: &Instruction,
    lower: bool,
) -> Result<i64, Error> {
    of_matrix(builder, call, |builder, a| {
        let shape = square(builder, a)?;
        let diagonal = on_diagonal(builder, &shape);
        let identity = builder.convert(diagonal, element_type(&shape))?;
        let options = TriangularSolveOptions {
            left_side: true,
            lower,
            unit_diagonal: false,
            transpose_a: Transpose::NoTranspose.into(),
        };
        Ok(triangular_solve(builder, a, identity, options))
    })
}

/// Householder reflectors below the diagonal, R on and above it, and their coefficients: XLA's `Qr`, which `qr_expander`
/// writes out for every backend.
pub fn qr(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let a = operand(call, 0)?;
    let shape = tuple(
        shape_of(call)?
            .tuple_shapes
            .iter()
            .map(|part| array(element_type(part), &part.dimensions))
            .collect(),
    );
    Ok(builder.add_with("custom-call", shape, &[a], |qr| {
        qr.custom_call_target = "Qr".to_owned();
    }))
}

/// The middle factor T of a product of reflectors I + V T Vᵀ. The operand M has column i of `VᵀV` above the diagonal and 1 on
/// it, both times -τᵢ; XLA's `qr_expander` then makes T column by column, tᵢ = Σ_{k<i} t_k M_{ki} + M_{ii} eᵢ. Which says
/// T (I - N) = D, where N is M above the diagonal and D its diagonal.
pub fn compact_wy(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let m = operand(call, 0)?;
    let shape = square(builder, m)?;
    let diagonal = on_diagonal(builder, &shape);
    let zero = super::custom_call::zeros(builder, &shape)?;
    let d = builder.add("select", shape.clone(), &[diagonal, m, zero]);
    let negated = builder.add("negate", shape, &[m]);
    let options = TriangularSolveOptions {
        left_side: false,
        lower: false,
        unit_diagonal: true,
        transpose_a: Transpose::NoTranspose.into(),
    };
    Ok(triangular_solve(builder, negated, d, options))
}

/// Eigenvalues and eigenvectors of a symmetric matrix in four blocks: the values in two halves, the vectors as the rows of
/// a matrix in four blocks, in any order. XLA's `Eigh`, which `eigh_expander` writes out for every backend, has them as
/// columns.
pub fn eigh(builder: &mut Builder, call: &Instruction) -> Result<i64, Error> {
    let [top_left, top_right, bottom_left, bottom_right] =
        [0, 1, 2, 3].map(|index| operand(call, index));
    let top = concatenated(builder, top_left?, top_right?, 1)?;
    let bottom = concatenated(builder, bottom_left?, bottom_right?, 1)?;
    let a = concatenated(builder, top, bottom, 2)?;
    let shape = square(builder, a)?;
    let rank = shape.dimensions.len();
    let values = array(element_type(&shape), &shape.dimensions[..rank - 1]);
    let pair = builder.add_with("custom-call", tuple(vec![shape, values]), &[a], |eigh| {
        eigh.custom_call_target = "Eigh".to_owned();
        // Lower triangle, unsorted, and JAX's bounds on the sweeps and on the off-diagonal norm.
        eigh.backend_config = b"1,0,100,1e-6".to_vec();
    });
    let vectors = builder.get_tuple_element(pair, 0)?;
    let mut swapped: Vec<i64> = (0..rank as i64).collect();
    swapped.swap(rank - 2, rank - 1);
    let vectors = builder.transpose(vectors, &swapped)?;
    let values = builder.get_tuple_element(pair, 1)?;
    let [first, second] = halves(builder, values, 1)?;
    let [top, bottom] = halves(builder, vectors, 2)?;
    let [top_left, top_right] = halves(builder, top, 1)?;
    let [bottom_left, bottom_right] = halves(builder, bottom, 1)?;
    builder.tuple(&[
        first,
        second,
        top_left,
        top_right,
        bottom_left,
        bottom_right,
    ])
}

/// Along the dimension that is `from_last` from the end, 1 for the last.
fn concatenated(
    builder: &mut Builder,
    first: i64,
    second: i64,
    from_last: usize,
) -> Result<i64, Error> {
    let mut shape = builder.shape(first)?.clone();
    let other = builder.shape(second)?.dimensions.clone();
    let along = (shape.dimensions.len() == other.len())
        .then(|| other.len().checked_sub(from_last))
        .flatten()
        .ok_or_else(|| Error::malformed("", "blocks that make no matrix"))?;
    shape.dimensions[along] += other[along];
    let whole = array(element_type(&shape), &shape.dimensions);
    Ok(
        builder.add_with("concatenate", whole, &[first, second], |concatenate| {
            concatenate.dimensions = vec![along as i64];
        }),
    )
}

fn halves(builder: &mut Builder, whole: i64, from_last: usize) -> Result<[i64; 2], Error> {
    let shape = builder.shape(whole)?.clone();
    let along = shape
        .dimensions
        .len()
        .checked_sub(from_last)
        .ok_or_else(|| Error::malformed("", "halves of what has no such dimension"))?;
    let mut dimensions = shape.dimensions.clone();
    dimensions[along] /= 2;
    let half = array(element_type(&shape), &dimensions);
    Ok([0, dimensions[along]].map(|start| {
        builder.add_with("slice", half.clone(), &[whole], |slice| {
            slice.slice_dimensions = dimensions
                .iter()
                .enumerate()
                .map(|(d, extent)| {
                    let start = if d == along { start } else { 0 };
                    SliceDimensions {
                        start,
                        limit: start + extent,
                        stride: 1,
                    }
                })
                .collect();
        })
    }))
}

fn triangular_solve(builder: &mut Builder, a: i64, b: i64, options: TriangularSolveOptions) -> i64 {
    let shape = builder.shape(b).cloned().unwrap_or_default();
    builder.add_with("triangular-solve", shape, &[a, b], |solve| {
        solve.triangular_solve_options = Some(options);
    })
}

fn square(builder: &Builder, a: i64) -> Result<Shape, Error> {
    let shape = builder.shape(a)?;
    match shape.dimensions[..] {
        [.., rows, columns] if rows == columns => Ok(array(element_type(shape), &shape.dimensions)),
        _ => Err(Error::malformed("", "a matrix call on what is not square")),
    }
}

fn on_diagonal(builder: &mut Builder, shape: &Shape) -> i64 {
    let rank = shape.dimensions.len() as i64;
    let index = array(PrimitiveType::S32, &shape.dimensions);
    let [row, column] = [rank - 2, rank - 1].map(|dimension| {
        builder.add_with("iota", index.clone(), &[], |iota| {
            iota.dimensions = vec![dimension];
        })
    });
    let same = like(&index, PrimitiveType::Pred);
    builder.add_with("compare", same, &[row, column], |compare| {
        compare.comparison_direction = "EQ".to_owned();
    })
}

/// The operation on a matrix that is real, or given as a real and an imaginary part; the result has the operand's form.
fn of_matrix(
    builder: &mut Builder,
    call: &Instruction,
    operation: impl FnOnce(&mut Builder, i64) -> Result<i64, Error>,
) -> Result<i64, Error> {
    match call.operand_ids[..] {
        [a] => operation(builder, a),
        [real, imaginary] => {
            let part = element_type(builder.shape(real)?);
            let complex = match part {
                PrimitiveType::F64 => PrimitiveType::C128,
                _ => PrimitiveType::C64,
            };
            let a = builder.elementwise("complex", complex, &[real, imaginary])?;
            let result = operation(builder, a)?;
            let real = builder.elementwise("real", part, &[result])?;
            let imaginary = builder.elementwise("imag", part, &[result])?;
            builder.tuple(&[real, imaginary])
        }
        _ => Err(Error::malformed(
            &call.name,
            "neither a matrix nor the two parts of one",
        )),
    }
}
