//! `dot` and `convolution` multiply as the TPU's matrix unit does: float operands in pieces of bf16, products and sums in
//! f32, the result rounded once.
//!
//! | precision of an operand | pieces of f32 | of f16 | of bf16 and f8 |
//! |---|---|---|---|
//! | `DEFAULT` | 1 | 1 | 1 |
//! | `HIGH` | 2 | 2 | 1 |
//! | `HIGHEST` | 3 | 2 | 1 |
//!
//! The only piece is the value rounded to bf16, to nearest even, too large a value becoming infinite ("By default, TPUs
//! perform matrix multiplication operations with bfloat16 values and accumulations with IEEE float32 values", and the
//! rounding: cloud.google.com/tpu/docs/bfloat16). Of several, each but the last is the leading bits of what is left, cut off;
//! the last is what is left. There is one pass per pair (i, j) of pieces with i + j less than the greater number of pieces:
//! 1, 3 and 6 for two f32 operands of one precision (`jax.lax.Precision`, docs.jax.dev/en/latest/201/precision.html). All
//! passes but (0, 0) are corrections: they are summed first, and where their sum is not finite it counts as 0, so that an
//! infinite operand gives what the first pieces give.
//!
//! How the pieces are cut, the pairs, their order and the rule for what is not finite are read off the TPU compiler's own
//! low-level code for 256³ products (`--xla_jf_dump_to`, the dump before scheduling): the same for v5e, v6e and 7x.
//!
//! Integers are exact: the matrix unit takes s8 and s4 as they are, and the compiler splits wider ones so that no bit is lost.
//! Left out: a TPU takes subnormals as 0, here they count. Which instructions remain convolutions, and which become dots for
//! XLA CPU's sake, is another pass's matter.

use pjrt_sys::protos::xla::precision_config::{Algorithm, Precision};

use super::ir::{
    Builder, Instruction, Literal, Module, PrimitiveType, array, element_type, like, operand,
    shape_of,
};
use super::{Error, MxuNumerics};

/// The bits of an f32 that bf16 has too.
const LEADING_BITS: u32 = 0xffff_0000;

pub fn run(module: &mut Module, numerics: MxuNumerics) -> Result<(), Error> {
    module.rewrite(|builder, product| {
        if !matches!(product.opcode.as_str(), "dot" | "convolution") {
            builder.keep(product);
            return Ok(());
        }
        let result = element_type(shape_of(&product)?);
        if is_narrow_float(result) {
            float_product(builder, product, numerics)
        } else if is_integer(result) {
            integer_product(builder, product)
        } else {
            builder.keep(product);
            Ok(())
        }
    })
}

fn is_integer(element_type: PrimitiveType) -> bool {
    element_type.as_str_name().starts_with(['S', 'U'])
}

/// A float type whose values f32 has too.
fn is_narrow_float(element_type: PrimitiveType) -> bool {
    element_type != PrimitiveType::F64 && element_type.as_str_name().starts_with(['F', 'B'])
}

/// The number of pieces of each operand. Algorithms that no TPU compiler takes are refused: the libtpu of today has bf16's three
/// alone, and writes them as precisions.
fn pieces(product: &Instruction, types: [PrimitiveType; 2]) -> Result<[usize; 2], Error> {
    let config = product.precision_config.clone().unwrap_or_default();
    let asked = match config.algorithm() {
        Algorithm::AlgUnset => {
            let mut precisions = config.operand_precision();
            [precisions.next(), precisions.next()].map(|precision| match precision {
                Some(Precision::High) => 2,
                Some(Precision::Highest) => 3,
                Some(Precision::Default | Precision::PackedNibble) | None => 1,
            })
        }
        Algorithm::AlgDotBf16Bf16F32 => [1; 2],
        Algorithm::AlgDotBf16Bf16F32X3 => [2; 2],
        Algorithm::AlgDotBf16Bf16F32X6 => [3; 2],
        other => {
            return Err(Error::not_executable(
                product,
                format!("a product by the algorithm {}", other.as_str_name()),
            ));
        }
    };
    let most = types.map(|element_type| match element_type {
        PrimitiveType::F32 => 3,
        PrimitiveType::F16 => 2,
        _ => 1,
    });
    Ok([asked[0].min(most[0]), asked[1].min(most[1])])
}

fn float_product(
    builder: &mut Builder,
    mut product: Instruction,
    numerics: MxuNumerics,
) -> Result<(), Error> {
    let operands = [operand(&product, 0)?, operand(&product, 1)?];
    let types = [
        element_type(builder.shape(operands[0])?),
        element_type(builder.shape(operands[1])?),
    ];
    let numbers = pieces(&product, types)?;
    product.precision_config = None;
    let [lhs, rhs] = [
        builder.convert(operands[0], PrimitiveType::F32)?,
        builder.convert(operands[1], PrimitiveType::F32)?,
    ];
    if numerics == MxuNumerics::Exact {
        return single(builder, product, PrimitiveType::F32, lhs, rhs);
    }
    let lhs = Pieces::of(builder, lhs, types[0], numbers[0])?;
    let rhs = Pieces::of(builder, rhs, types[1], numbers[1])?;
    let first = [lhs.first, rhs.first];
    let most = numbers[0].max(numbers[1]);
    if most == 1 {
        return single(builder, product, PrimitiveType::F32, first[0], first[1]);
    }
    let mut corrections = None;
    for rank in (1..most).rev() {
        for i in (0..=rank).rev() {
            let (Some(left), Some(right)) = (lhs.get(i, rank - i), rhs.get(rank - i, i)) else {
                continue;
            };
            let pass = pass(builder, &product, PrimitiveType::F32, left, right)?;
            corrections = Some(match corrections {
                None => pass,
                Some(sum) => builder.elementwise("add", PrimitiveType::F32, &[sum, pass])?,
            });
        }
    }
    let mut sum = pass(builder, &product, PrimitiveType::F32, first[0], first[1])?;
    if let Some(corrections) = corrections {
        let corrections = zero_unless_finite(builder, corrections)?;
        sum = builder.elementwise("add", PrimitiveType::F32, &[corrections, sum])?;
    }
    finish(builder, &product, sum)
}

/// An operand in pieces, all of them f32 with values of bf16.
struct Pieces {
    first: i64,
    /// All that the first piece leaves over, rounded.
    left_over: Option<i64>,
    rest: Vec<i64>,
}

impl Pieces {
    fn of(
        builder: &mut Builder,
        value: i64,
        from: PrimitiveType,
        number: usize,
    ) -> Result<Self, Error> {
        if number == 1 {
            let exact = !matches!(from, PrimitiveType::F32 | PrimitiveType::F16);
            return Ok(Self {
                first: if exact {
                    value
                } else {
                    rounded(builder, value)?
                },
                left_over: None,
                rest: Vec::new(),
            });
        }
        let first = leading_bits(builder, value)?;
        let mut left = builder.elementwise("subtract", PrimitiveType::F32, &[value, first])?;
        let left_over = rounded(builder, left)?;
        let mut rest = Vec::new();
        for _ in 2..number {
            let leading = leading_bits(builder, left)?;
            left = builder.elementwise("subtract", PrimitiveType::F32, &[left, leading])?;
            rest.push(leading);
        }
        rest.push(rounded(builder, left)?);
        Ok(Self {
            first,
            left_over: Some(left_over),
            rest,
        })
    }

    /// Piece `i` as the pass with piece `other` of the other operand takes it: two second pieces meet uncut.
    fn get(&self, i: usize, other: usize) -> Option<i64> {
        match (i, other) {
            (0, _) => Some(self.first),
            (1, 1) => self.left_over,
            _ => self.rest.get(i - 1).copied(),
        }
    }
}

/// To bf16, as an f32. `reduce-precision` and not a pair of converts, which a simplifier that may keep excess precision
/// would drop.
fn rounded(builder: &mut Builder, value: i64) -> Result<i64, Error> {
    let shape = like(builder.shape(value)?, PrimitiveType::F32);
    Ok(
        builder.add_with("reduce-precision", shape, &[value], |rounding| {
            rounding.exponent_bits = 8;
            rounding.mantissa_bits = 7;
        }),
    )
}

fn leading_bits(builder: &mut Builder, value: i64) -> Result<i64, Error> {
    let dimensions = builder.shape(value)?.dimensions.clone();
    let mask = builder.constant(Literal {
        shape: Some(array(PrimitiveType::U32, &[])),
        u32s: vec![LEADING_BITS],
        ..Default::default()
    });
    let mask = builder.splat(mask, &dimensions)?;
    let bits = builder.bitcast_convert(value, PrimitiveType::U32)?;
    let bits = builder.elementwise("and", PrimitiveType::U32, &[bits, mask])?;
    builder.bitcast_convert(bits, PrimitiveType::F32)
}

fn zero_unless_finite(builder: &mut Builder, value: i64) -> Result<i64, Error> {
    let dimensions = builder.shape(value)?.dimensions.clone();
    let zero = builder.constant(Literal {
        shape: Some(array(PrimitiveType::F32, &[])),
        f32s: vec![0.0],
        ..Default::default()
    });
    let zero = builder.splat(zero, &dimensions)?;
    let finite = builder.elementwise("is-finite", PrimitiveType::Pred, &[value])?;
    let shape = like(builder.shape(value)?, PrimitiveType::F32);
    Ok(builder.add("select", shape, &[finite, value, zero]))
}

/// One product of two operands, in this type.
fn pass(
    builder: &mut Builder,
    product: &Instruction,
    within: PrimitiveType,
    lhs: i64,
    rhs: i64,
) -> Result<i64, Error> {
    let shape = like(shape_of(product)?, within);
    Ok(
        builder.add_with(&product.opcode, shape.clone(), &[lhs, rhs], |pass| {
            let (id, name) = (pass.id, std::mem::take(&mut pass.name));
            *pass = Instruction {
                id,
                name,
                shape: Some(shape),
                operand_ids: vec![lhs, rhs],
                ..product.clone()
            };
        }),
    )
}

/// The product in one pass, converted to its own type when that is another than the one it is formed in.
fn single(
    builder: &mut Builder,
    mut product: Instruction,
    within: PrimitiveType,
    lhs: i64,
    rhs: i64,
) -> Result<(), Error> {
    if element_type(shape_of(&product)?) == within {
        product.operand_ids = vec![lhs, rhs];
        builder.keep(product);
        return Ok(());
    }
    let sum = pass(builder, &product, within, lhs, rhs)?;
    finish(builder, &product, sum)
}

fn finish(builder: &mut Builder, product: &Instruction, sum: i64) -> Result<(), Error> {
    let result = builder.convert(sum, element_type(shape_of(product)?))?;
    builder.replace(product, result);
    Ok(())
}

/// Operands in the result's type, or in s32 where that is narrower than a byte: the products are exact, and a sum that wraps
/// wraps alike.
fn integer_product(builder: &mut Builder, mut product: Instruction) -> Result<(), Error> {
    product.precision_config = None;
    let within = match element_type(shape_of(&product)?) {
        PrimitiveType::S2 | PrimitiveType::U2 | PrimitiveType::S4 | PrimitiveType::U4 => {
            PrimitiveType::S32
        }
        other => other,
    };
    let (lhs, rhs) = (operand(&product, 0)?, operand(&product, 1)?);
    let lhs = builder.convert(lhs, within)?;
    let rhs = builder.convert(rhs, within)?;
    single(builder, product, within, lhs, rhs)
}
