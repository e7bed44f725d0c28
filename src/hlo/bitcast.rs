//! `bitcast` reads the same memory as another shape, so its meaning follows the physical order of both: dimension order,
//! tiles, padding.
//!
//! Where the tiles say no more than the dimension order does, it is a transposition into the operand's physical order, a
//! reshape, and a transposition out of the result's. Otherwise the operand's buffer is built, padding and all, and the
//! result read from it. Padding holds unspecified bytes, here zeros: the compiler reads it where it takes an array's whole
//! memory through an elementwise operator, and drops what came of it on the way back. The custom call `ZeroCrop` is the
//! same with padding that is zero by its meaning. A result that reaches past the operand's memory is refused. Element types
//! of one size are reinterpreted element by element; where the sizes differ, on the buffer, lowest bits first, as
//! `bitcast-convert` has it.

use super::Error;
use super::ir::{
    Builder, Instruction, Module, PrimitiveType, Shape, array, operand, resized, shape_of,
};
use super::physical::{Physical, Unmodelled, major_to_minor};
use super::types::bit_width;

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, instruction| {
        let is_zero_crop = instruction.custom_call_target == "ZeroCrop";
        if instruction.opcode != "bitcast" && !is_zero_crop {
            builder.keep(instruction);
            return Ok(());
        }
        let result = rewritten(builder, &instruction)?;
        let result = laid_out(builder, result, &instruction)?;
        builder.replace(&instruction, result);
        Ok(())
    })
}

/// What the bitcast became, with the bitcast's layout: another bitcast may follow and read its memory.
fn laid_out(builder: &mut Builder, result: i64, bitcast: &Instruction) -> Result<i64, Error> {
    let to = shape_of(bitcast)?;
    let lies = |shape: &Shape| {
        let layout = shape.layout.clone().unwrap_or_default();
        (major_to_minor(shape), layout.tiles)
    };
    if lies(builder.shape(result)?) == lies(to) {
        return Ok(result);
    }
    if result == operand(bitcast, 0)? {
        return Ok(builder.add("copy", to.clone(), &[result]));
    }
    builder.set_layout(result, to.layout.clone())?;
    Ok(result)
}

fn rewritten(builder: &mut Builder, bitcast: &Instruction) -> Result<i64, Error> {
    let mut from_id = operand(bitcast, 0)?;
    let mut from = builder.shape(from_id)?.clone();
    let to = shape_of(bitcast)?;
    let (from_bits, to_bits) = (bits(bitcast, &from)?, bits(bitcast, to)?);
    if from_bits == to_bits && from.element_type != to.element_type {
        from_id = reinterpret(builder, from_id, to)?;
        from.element_type = to.element_type;
    }
    if from_bits != to_bits && !(is_packed(&from) && is_packed(to)) {
        return Err(Error::not_executable(
            bitcast,
            "a bitcast of unpacked elements of less than a byte to another size",
        ));
    }
    let element = resized(to, &[]);
    if to.dimensions.contains(&0) || from.dimensions.contains(&0) {
        return builder.reshape(from_id, &to.dimensions);
    }
    let from_order = major_to_minor(&from);
    let to_order = major_to_minor(to);
    let unmodelled = |Unmodelled(what): Unmodelled| {
        Error::not_executable(bitcast, format!("a bitcast of {what}"))
    };
    let (from, to) = (
        Physical::of(&from).map_err(unmodelled)?,
        Physical::of(to).map_err(unmodelled)?,
    );
    if from_bits == to_bits && follows_order(&from, &from_order, &to, &to_order) {
        if from.dimensions == to.dimensions && from_order == to_order {
            return Ok(from_id);
        }
        let ordered = builder.transpose(from_id, &as_i64(&from_order))?;
        let physical: Vec<i64> = to_order.iter().map(|d| to.dimensions[*d]).collect();
        let reshaped = builder.reshape(ordered, &physical)?;
        return builder.transpose(reshaped, &inverse(&to_order));
    }
    let ratio = Ratio {
        from: from_bits,
        to: to_bits,
    };
    if (last_address(&to) + 1) * to_bits > from.elements * from_bits {
        return Err(Error::not_executable(
            bitcast,
            "a bitcast that reaches past its operand's memory",
        ));
    }
    let buffer = to_buffer(builder, from_id, &from)?;
    let buffer = convert_buffer(builder, buffer, from.elements, &ratio, &element)?;
    let elements = (from.elements * from_bits + to_bits - 1) / to_bits;
    from_buffer(builder, buffer, elements, &to)
}

/// Without a size of its own in the layout, an element of less than a byte takes a whole one.
fn is_packed(shape: &Shape) -> bool {
    let size = shape
        .layout
        .as_ref()
        .map_or(0, |layout| layout.element_size_in_bits);
    bit_width(shape.element_type).is_some_and(|width| width >= 8 || width == size)
}

fn bits(bitcast: &Instruction, shape: &Shape) -> Result<i64, Error> {
    bit_width(shape.element_type).ok_or_else(|| {
        Error::malformed(
            &bitcast.name,
            format!("a bitcast of element type {}", shape.element_type),
        )
    })
}

const PRED: i32 = PrimitiveType::Pred as i32;

/// The same bits as the element type of `to`, which has the same size. `pred` lies in memory as a byte that is 0 or 1, and
/// XLA has no `bitcast-convert` for it.
fn reinterpret(builder: &mut Builder, id: i64, to: &Shape) -> Result<i64, Error> {
    let from = builder.shape(id)?.clone();
    let bytes = Shape {
        element_type: PrimitiveType::U8.into(),
        ..from.clone()
    };
    let result = Shape {
        element_type: to.element_type,
        ..from.clone()
    };
    let (mut id, mut last) = (id, from.element_type);
    if last == PRED {
        id = builder.add("convert", bytes.clone(), &[id]);
        last = bytes.element_type;
    }
    if to.element_type == PRED {
        if last != bytes.element_type {
            id = builder.add("bitcast-convert", bytes, &[id]);
        }
        return Ok(builder.add("convert", result, &[id]));
    }
    if last == to.element_type {
        return Ok(id);
    }
    Ok(builder.add("bitcast-convert", result, &[id]))
}

fn as_i64(order: &[usize]) -> Vec<i64> {
    order.iter().map(|d| *d as i64).collect()
}

fn inverse(order: &[usize]) -> Vec<i64> {
    let mut back = vec![0; order.len()];
    for (place, dimension) in order.iter().enumerate() {
        back[*dimension] = place as i64;
    }
    back
}

/// Whether the nth element in the operand's dimension order lies where the result's nth does, for every n. Addresses are
/// sums over the dimensions, so runs of dimensions with the same number of elements can be looked at one by one.
fn follows_order(from: &Physical, from_order: &[usize], to: &Physical, to_order: &[usize]) -> bool {
    if from.dimensions.iter().product::<i64>() != to.dimensions.iter().product::<i64>() {
        return false;
    }
    let sized = |physical: &Physical, order: &[usize]| -> Vec<usize> {
        let size = |d: &&usize| physical.dimensions[**d] != 1;
        order.iter().filter(size).copied().collect()
    };
    let (from_order, to_order) = (sized(from, from_order), sized(to, to_order));
    let (mut a, mut b) = (from_order.as_slice(), to_order.as_slice());
    while !a.is_empty() && !b.is_empty() {
        let (mut i, mut j) = (1, 1);
        let (mut n, mut m) = (from.dimensions[a[0]], to.dimensions[b[0]]);
        while n != m {
            if n < m && i < a.len() {
                n *= from.dimensions[a[i]];
                i += 1;
            } else if m < n && j < b.len() {
                m *= to.dimensions[b[j]];
                j += 1;
            } else {
                return false;
            }
        }
        if !same_addresses(from, &a[..i], to, &b[..j], n) {
            return false;
        }
        (a, b) = (&a[i..], &b[j..]);
    }
    a.is_empty() && b.is_empty()
}

/// Runs that would take longer than a second to compare go by way of the buffer, which is right for all.
const MOST_STEPS: i64 = 1 << 24;

fn same_addresses(from: &Physical, a: &[usize], to: &Physical, b: &[usize], n: i64) -> bool {
    if let (Some(a), Some(b)) = (digits(from, a), digits(to, b)) {
        return a == b;
    }
    let address = |physical: &Physical, run: &[usize], mut k: i64| -> i64 {
        run.iter()
            .rev()
            .map(|d| {
                let size = physical.dimensions[*d];
                let index = k % size;
                k /= size;
                physical.offset(*d, index)
            })
            .sum()
    };
    n <= MOST_STEPS && (0..n).all(|k| address(from, a, k) == address(to, b, k))
}

/// The address as a sum of `(k / divisor) % size · stride` over a run of dimensions, k the number of the element within
/// it: sorted, as few terms as there can be, so that equal addresses have equal lists. None if padding cuts a term short
/// in the midst of the run.
fn digits(physical: &Physical, run: &[usize]) -> Option<Vec<(i64, i64, i64)>> {
    let mut digits: Vec<(i64, i64, i64)> = Vec::new();
    let mut below = 1;
    for (place, dimension) in run.iter().enumerate().rev() {
        let size = physical.dimensions[*dimension];
        let mut axes: Vec<_> = physical
            .axes
            .iter()
            .filter(|axis| axis.dimension == Some(*dimension))
            .collect();
        axes.sort_by_key(|axis| axis.divisor);
        for axis in axes {
            let used = axis
                .size
                .min(size.div_euclid(axis.divisor) + i64::from(size % axis.divisor != 0));
            if used <= 1 {
                continue;
            }
            let is_top = axis.divisor * used >= size;
            if is_top && size != axis.divisor * used && place > 0 {
                return None;
            }
            let next = (below * axis.divisor, used, axis.stride);
            match digits.last_mut() {
                Some(last) if last.0 * last.1 == next.0 && last.2 * last.1 == next.2 => {
                    last.1 *= next.1;
                }
                _ => digits.push(next),
            }
        }
        below *= size;
    }
    // How far the last term runs is the number of elements' to say, not its tiles'.
    if let Some(last) = digits.last_mut() {
        last.1 = below.div_euclid(last.0) + i64::from(below % last.0 != 0);
    }
    Some(digits)
}

/// The widths in bits of one element before and after.
struct Ratio {
    from: i64,
    to: i64,
}

/// The highest address of an element. A dimension's index is a number whose digits are its axes, and every digit adds to
/// the address; so the highest is that of the last index, or of one that has a lower digit somewhere and below it the
/// highest there are.
fn last_address(physical: &Physical) -> i64 {
    let highest = |(dimension, size): (usize, &i64)| {
        let last = size - 1;
        let axes = physical.axes.iter();
        axes.filter(|axis| axis.dimension == Some(dimension))
            .map(|axis| last - last % axis.divisor - 1)
            .chain([last])
            .filter(|index| *index >= 0)
            .map(|index| physical.offset(dimension, index))
            .max()
            .unwrap_or(0)
    };
    physical.dimensions.iter().enumerate().map(highest).sum()
}

/// The sizes of the axes grouped by dimension, most significant digit first, and for each axis its place in that list.
fn by_dimension(physical: &Physical) -> (Vec<i64>, Vec<i64>) {
    let mut order: Vec<usize> = (0..physical.axes.len()).collect();
    order.sort_by_key(|i| {
        let axis = physical.axes[*i];
        (axis.dimension, std::cmp::Reverse(axis.divisor), *i)
    });
    let sizes = order.iter().map(|i| physical.axes[*i].size).collect();
    let mut place = vec![0; order.len()];
    for (at, axis) in order.iter().enumerate() {
        place[*axis] = at as i64;
    }
    (sizes, place)
}

/// What the axes that belong to no dimension hold together: 1 but for tiles of a higher rank than the array.
fn extra(physical: &Physical) -> i64 {
    let without = |axis: &&super::physical::Axis| axis.dimension.is_none();
    let sizes = physical.axes.iter().filter(without).map(|axis| axis.size);
    sizes.product()
}

/// The operand's memory, padding included, in one dimension.
fn to_buffer(builder: &mut Builder, id: i64, physical: &Physical) -> Result<i64, Error> {
    let (sizes, place) = by_dimension(physical);
    let extra = extra(physical);
    let mut logical = vec![1];
    logical.extend(&physical.dimensions);
    let mut padded = vec![extra];
    padded.extend(&physical.padded);
    let id = builder.reshape(id, &logical)?;
    let id = builder.pad(id, &padded)?;
    let id = builder.reshape(id, &sizes)?;
    let id = builder.transpose(id, &place)?;
    let elements = physical.axes.iter().map(|axis| axis.size).product();
    let id = builder.reshape(id, &[elements])?;
    builder.pad(id, &[physical.elements])
}

/// The array that lies in a buffer of `elements`.
fn from_buffer(
    builder: &mut Builder,
    buffer: i64,
    elements: i64,
    physical: &Physical,
) -> Result<i64, Error> {
    let needed: i64 = physical.axes.iter().map(|axis| axis.size).product();
    let mut id = buffer;
    if elements < needed {
        id = builder.pad(id, &[needed])?;
    } else {
        id = builder.slice(id, &[needed])?;
    }
    let (_, place) = by_dimension(physical);
    let ordered: Vec<i64> = physical.axes.iter().map(|axis| axis.size).collect();
    id = builder.reshape(id, &ordered)?;
    let mut back = vec![0; place.len()];
    for (axis, at) in place.iter().enumerate() {
        back[*at as usize] = axis as i64;
    }
    id = builder.transpose(id, &back)?;
    let mut padded = vec![extra(physical)];
    padded.extend(&physical.padded);
    id = builder.reshape(id, &padded)?;
    let mut logical = vec![1];
    logical.extend(&physical.dimensions);
    id = builder.slice(id, &logical)?;
    builder.reshape(id, &physical.dimensions)
}

/// The buffer as elements of another size.
fn convert_buffer(
    builder: &mut Builder,
    mut buffer: i64,
    elements: i64,
    ratio: &Ratio,
    to: &Shape,
) -> Result<i64, Error> {
    let Ratio { from, to: bits } = *ratio;
    if from == bits {
        return Ok(buffer);
    }
    let byte = array(PrimitiveType::U8, &[]);
    if builder.shape(buffer)?.element_type == PRED {
        buffer = builder.add("convert", resized(&byte, &[elements]), &[buffer]);
    }
    let through = if to.element_type == PRED { &byte } else { to };
    let converted = if from > bits {
        let parts = resized(through, &[elements, from / bits]);
        let split = builder.add("bitcast-convert", parts, &[buffer]);
        builder.reshape(split, &[elements * from / bits])?
    } else {
        let count = (elements * from + bits - 1) / bits;
        let whole = builder.pad(buffer, &[count * bits / from])?;
        let parts = builder.reshape(whole, &[count, bits / from])?;
        builder.add("bitcast-convert", resized(through, &[count]), &[parts])
    };
    if to.element_type == PRED {
        let shape = resized(to, &builder.shape(converted)?.dimensions.clone());
        return Ok(builder.add("convert", shape, &[converted]));
    }
    Ok(converted)
}

#[cfg(test)]
#[path = "bitcast_tests.rs"]
mod tests;
