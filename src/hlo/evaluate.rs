//! A reference for tests: executes the few operators that the layout passes emit, on small arrays, one element at a time and
//! straight from the operator's definition. Elements are bits in a `u128`.

use std::collections::HashMap;

use super::ir::{Computation, Instruction, Shape};
use super::types::bit_width;

/// Elements in row-major order.
pub type Array = Vec<u128>;

pub fn indices(dimensions: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for size in dimensions {
        all = all
            .into_iter()
            .flat_map(|index: Vec<i64>| {
                (0..*size).map(move |i| index.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    all
}

fn at(dimensions: &[i64], index: &[i64]) -> usize {
    let place = |place: i64, (size, i): (&i64, &i64)| place * size + i;
    dimensions.iter().zip(index).fold(0, place) as usize
}

/// The value of the root, given the parameters in the order of their numbers.
pub fn evaluate(computation: &Computation, parameters: &[Array]) -> Array {
    let mut values: HashMap<i64, (Shape, Array)> = HashMap::new();
    for instruction in &computation.instructions {
        let shape = instruction.shape.clone().unwrap();
        let operands: Vec<&(Shape, Array)> = instruction
            .operand_ids
            .iter()
            .map(|id| &values[id])
            .collect();
        let value = match instruction.opcode.as_str() {
            "parameter" => parameters[instruction.parameter_number as usize].clone(),
            "constant" => vec![u128::from(instruction.literal.as_ref().unwrap().preds[0])],
            "reshape" | "copy" => operands[0].1.clone(),
            "convert" => convert(&operands[0].1, &shape),
            "bitcast-convert" => reinterpret(operands[0], &shape),
            "transpose" | "slice" | "pad" => indices(&shape.dimensions)
                .iter()
                .map(|index| moved(instruction, index, &operands))
                .collect(),
            "dot" => dot(instruction, &shape, &operands),
            other => panic!("{other} is not evaluated"),
        };
        let count: i64 = shape.dimensions.iter().product();
        assert_eq!(value.len() as i64, count, "{}", instruction.name);
        values.insert(instruction.id, (shape, value));
    }
    values.remove(&computation.root_id).unwrap().1
}

fn moved(instruction: &Instruction, index: &[i64], operands: &[&(Shape, Array)]) -> u128 {
    let (from, elements) = operands[0];
    let source: Vec<i64> = match instruction.opcode.as_str() {
        "transpose" => {
            let mut source = vec![0; index.len()];
            for (place, dimension) in instruction.dimensions.iter().enumerate() {
                source[*dimension as usize] = index[place];
            }
            source
        }
        // From the start, in steps of one, which is all that the passes emit.
        _ => index.to_vec(),
    };
    let is_inside = source
        .iter()
        .zip(&from.dimensions)
        .all(|(i, size)| i < size);
    match is_inside {
        true => elements[at(&from.dimensions, &source)],
        false => operands[1].1[0],
    }
}

fn dot(instruction: &Instruction, shape: &Shape, operands: &[&(Shape, Array)]) -> Array {
    let numbers = instruction.dot_dimension_numbers.as_ref().unwrap();
    let (lhs, rhs) = (operands[0], operands[1]);
    let contracted: Vec<i64> = numbers
        .lhs_contracting_dimensions
        .iter()
        .map(|d| lhs.0.dimensions[*d as usize])
        .collect();
    // The result's index is the batch dimensions', then the free ones' of either side.
    let free = |shape: &Shape, taken: [&Vec<i64>; 2]| -> Vec<i64> {
        let rank = shape.dimensions.len() as i64;
        (0..rank)
            .filter(|d| taken.iter().all(|t| !t.contains(d)))
            .collect()
    };
    let of_lhs = free(
        &lhs.0,
        [
            &numbers.lhs_batch_dimensions,
            &numbers.lhs_contracting_dimensions,
        ],
    );
    let of_rhs = free(
        &rhs.0,
        [
            &numbers.rhs_batch_dimensions,
            &numbers.rhs_contracting_dimensions,
        ],
    );
    let element = |side: &(Shape, Array), places: &[(&Vec<i64>, &[i64])]| {
        let mut index = vec![0; side.0.dimensions.len()];
        for (dimensions, values) in places {
            for (dimension, value) in dimensions.iter().zip(*values) {
                index[*dimension as usize] = *value;
            }
        }
        side.1[at(&side.0.dimensions, &index)]
    };
    let sum = |index: &Vec<i64>| {
        let (batch, rest) = index.split_at(numbers.lhs_batch_dimensions.len());
        let (left, right) = rest.split_at(of_lhs.len());
        let term = |k: &Vec<i64>| {
            let (a, b) = (&numbers.lhs_batch_dimensions, &numbers.rhs_batch_dimensions);
            let (c, d) = (
                &numbers.lhs_contracting_dimensions,
                &numbers.rhs_contracting_dimensions,
            );
            element(lhs, &[(a, batch), (&of_lhs, left), (c, k)])
                * element(rhs, &[(b, batch), (&of_rhs, right), (d, k)])
        };
        indices(&contracted).iter().map(term).sum()
    };
    indices(&shape.dimensions).iter().map(sum).collect()
}

/// Between `pred` and integers only.
fn convert(elements: &[u128], to: &Shape) -> Array {
    let is_pred = to.element_type == 1;
    let one = |bits: &u128| {
        if is_pred {
            u128::from(*bits != 0)
        } else {
            *bits
        }
    };
    elements.iter().map(one).collect()
}

fn reinterpret((from, elements): &(Shape, Array), to: &Shape) -> Array {
    let (from, to) = (
        bit_width(from.element_type).unwrap(),
        bit_width(to.element_type).unwrap(),
    );
    let mask = |bits: i64| u128::MAX >> (128 - bits);
    if from >= to {
        let parts = |bits: &u128| {
            let bits = *bits;
            (0..from / to).map(move |part| (bits >> (part * to)) & mask(to))
        };
        elements.iter().flat_map(parts).collect()
    } else {
        let whole = |parts: &[u128]| {
            let shifted = parts
                .iter()
                .enumerate()
                .map(|(i, part)| part << (i as i64 * from));
            shifted.fold(0, |whole, part| whole | part)
        };
        elements.chunks((to / from) as usize).map(whole).collect()
    }
}
