//! Against memory: the operand is written into a buffer by the addresses that XLA's description of tiles gives, and the
//! result read from it.

use super::*;
use crate::hlo::evaluate::{Array, evaluate, indices};
use crate::hlo::ir::{Computation, Layout, ModuleProto};
use pjrt_sys::protos::xla::TileProto;

const F32: PrimitiveType = PrimitiveType::F32;
const BF16: PrimitiveType = PrimitiveType::Bf16;

fn shape(
    element_type: PrimitiveType,
    dimensions: &[i64],
    minor_to_major: &[i64],
    tiles: &[&[i64]],
) -> Shape {
    Shape {
        layout: Some(Box::new(Layout {
            minor_to_major: minor_to_major.to_vec(),
            tiles: tiles
                .iter()
                .map(|tile| TileProto {
                    dimensions: tile.to_vec(),
                })
                .collect(),
            ..Default::default()
        })),
        ..array(element_type, dimensions)
    }
}

fn module(from: &Shape, to: &Shape) -> Module {
    let parameter = Instruction {
        name: "p".to_owned(),
        opcode: "parameter".to_owned(),
        shape: Some(from.clone()),
        ..Default::default()
    };
    let bitcast = Instruction {
        name: "b".to_owned(),
        opcode: "bitcast".to_owned(),
        shape: Some(to.clone()),
        operand_ids: vec![0],
        id: 1,
        ..Default::default()
    };
    Module::new(ModuleProto {
        computations: vec![Computation {
            instructions: vec![parameter, bitcast],
            root_id: 1,
            ..Default::default()
        }],
        ..Default::default()
    })
}

/// An address by the recipe of XLA's "Tiled layout": the index in physical order, then for each tile the last places become
/// the tile's number and the place within it.
fn address(shape: &Shape, index: &[i64]) -> i64 {
    let layout = shape.layout.as_ref().unwrap();
    let order = layout.minor_to_major.iter().rev();
    let (mut place, mut sizes): (Vec<i64>, Vec<i64>) = order
        .map(|d| (index[*d as usize], shape.dimensions[*d as usize]))
        .unzip();
    for tile in &layout.tiles {
        while place.len() < tile.dimensions.len() {
            place.insert(0, 0);
            sizes.insert(0, 1);
        }
        let first = place.len() - tile.dimensions.len();
        for (i, size) in tile.dimensions.iter().enumerate() {
            let at = first + i;
            place.push(place[at] % size);
            place[at] /= size;
            sizes[at] = (sizes[at] + size - 1) / size;
        }
        sizes.extend(&tile.dimensions);
    }
    place
        .iter()
        .zip(&sizes)
        .fold(0, |address, (i, size)| address * size + i)
}

/// Elements with padding: every tile is whole.
fn memory_size(shape: &Shape) -> i64 {
    let layout = shape.layout.as_ref().unwrap();
    let order = layout.minor_to_major.iter().rev();
    let mut sizes: Vec<i64> = order.map(|d| shape.dimensions[*d as usize]).collect();
    for tile in &layout.tiles {
        while sizes.len() < tile.dimensions.len() {
            sizes.insert(0, 1);
        }
        let first = sizes.len() - tile.dimensions.len();
        for (i, size) in tile.dimensions.iter().enumerate() {
            sizes[first + i] = (sizes[first + i] + size - 1) / size;
        }
        sizes.extend(&tile.dimensions);
    }
    sizes.iter().product()
}

/// The bits of an element of the operand: each has its own, in every part of it.
fn element(number: usize, width: i64) -> u128 {
    (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & (u128::MAX >> (128 - width))
}

/// What the result holds, given [`element`]s in row-major order and zeros in the padding; None if it reaches past the
/// operand's memory.
fn expected(from: &Shape, to: &Shape) -> Option<Array> {
    let (a, b) = (
        bit_width(from.element_type).unwrap(),
        bit_width(to.element_type).unwrap(),
    );
    let unit = a.min(b);
    let mut memory = std::collections::HashMap::new();
    for (number, index) in indices(&from.dimensions).iter().enumerate() {
        for part in 0..a / unit {
            let bits = element(number, a) >> (part * unit) & (u128::MAX >> (128 - unit));
            memory.insert(address(from, index) * (a / unit) + part, bits);
        }
    }
    let end = memory_size(from) * (a / unit);
    let read = |index: &Vec<i64>| {
        (0..b / unit).try_fold(0, |element, part| {
            let place = address(to, index) * (b / unit) + part;
            let bits = memory.get(&place).copied().unwrap_or(0);
            (place < end).then_some(element | bits << (part * unit))
        })
    };
    indices(&to.dimensions).iter().map(read).collect()
}

fn evaluated(from: &Shape, to: &Shape) -> Result<Array, Error> {
    let mut module = module(from, to);
    run(&mut module)?;
    let width = bit_width(from.element_type).unwrap();
    let count = from.dimensions.iter().product::<i64>() as usize;
    let parameter: Array = (0..count).map(|n| element(n, width)).collect();
    Ok(evaluate(&module.proto.computations[0], &[parameter]))
}

fn assert_agrees(from: &Shape, to: &Shape) {
    let wanted = expected(from, to);
    match evaluated(from, to) {
        Ok(found) => assert_eq!(Some(found), wanted, "{from:?} -> {to:?}"),
        Err(Error::NotExecutable { .. }) => assert_eq!(wanted, None, "{from:?} -> {to:?}"),
        Err(error) => panic!("{error}"),
    }
}

fn opcodes(from: &Shape, to: &Shape) -> Vec<String> {
    let mut module = module(from, to);
    run(&mut module).unwrap();
    let computation = &module.proto.computations[0];
    computation
        .instructions
        .iter()
        .map(|i| i.opcode.clone())
        .collect()
}

#[test]
fn without_tiles_the_dimension_order_alone_counts() {
    // Column-major [2,3] read as row-major [3,2] is its transpose.
    let from = shape(F32, &[2, 3], &[0, 1], &[]);
    let to = shape(F32, &[3, 2], &[1, 0], &[]);
    let transposed = [0, 3, 1, 4, 2, 5].map(|n| element(n, 32));
    assert_eq!(evaluated(&from, &to).unwrap(), transposed);
    assert_agrees(&from, &to);
}

#[test]
fn the_same_tiles_on_both_sides_need_no_buffer() {
    let pairs = [
        (
            shape(BF16, &[1, 3, 5, 2], &[2, 3, 1, 0], &[&[2, 128], &[2, 1]]),
            shape(BF16, &[3, 5, 2], &[1, 2, 0], &[&[2, 128], &[2, 1]]),
        ),
        (
            shape(F32, &[2, 4, 4, 2, 2], &[2, 4, 3, 1, 0], &[&[2, 128]]),
            shape(F32, &[1, 2, 4, 4, 4], &[3, 4, 2, 1, 0], &[&[4, 128]]),
        ),
        (
            shape(F32, &[3, 1], &[0, 1], &[&[1, 128]]),
            shape(F32, &[3], &[0], &[&[128]]),
        ),
        (
            shape(F32, &[4, 16, 130], &[2, 1, 0], &[&[8, 128]]),
            shape(F32, &[64, 130], &[1, 0], &[&[8, 128]]),
        ),
    ];
    for (from, to) in pairs {
        assert_agrees(&from, &to);
        assert!(!opcodes(&from, &to).contains(&"pad".to_owned()), "{to:?}");
    }
}

#[test]
fn nothing_moves_when_only_the_memory_space_changes() {
    let from = shape(BF16, &[3, 5], &[0, 1], &[&[8, 128], &[2, 1]]);
    assert_eq!(opcodes(&from, &from), ["parameter"]);
}

/// The middle one's layout is what the last one reads: column-major [2,3] as row-major [3,2], then as column-major [3,2].
#[test]
fn a_bitcast_of_a_bitcast_reads_the_layout_of_the_first() {
    let shapes = [
        shape(F32, &[2, 3], &[0, 1], &[]),
        shape(F32, &[3, 2], &[0, 1], &[]),
        shape(F32, &[6], &[0], &[]),
    ];
    let column_major = [0, 3, 1, 4, 2, 5].map(|n| element(n, 32));
    assert_eq!(chained(&shapes), column_major);
    let tiled = [
        shape(F32, &[40, 9], &[0, 1], &[&[8, 128]]),
        shape(F32, &[40, 9, 1], &[0, 1, 2], &[&[8, 128]]),
        shape(F32, &[40, 9, 1], &[0, 1, 2], &[&[8, 128]]),
        shape(F32, &[40, 9], &[0, 1], &[&[8, 128]]),
    ];
    let same: Array = (0..360).map(|n| element(n, 32)).collect();
    assert_eq!(chained(&tiled), same);
}

/// Through all these shapes, one bitcast after the other.
fn chained(shapes: &[Shape]) -> Array {
    let mut module = module(&shapes[0], &shapes[1]);
    let computation = &mut module.proto.computations[0];
    for (last, to) in shapes[1..]
        .windows(2)
        .zip(1..)
        .map(|(pair, id)| (id, &pair[1]))
    {
        computation.instructions.push(Instruction {
            name: format!("b{last}"),
            opcode: "bitcast".to_owned(),
            shape: Some(to.clone()),
            operand_ids: vec![last],
            id: last + 1,
            ..Default::default()
        });
        computation.root_id = last + 1;
    }
    run(&mut module).unwrap();
    let count = shapes[0].dimensions.iter().product::<i64>() as usize;
    let parameter: Array = (0..count).map(|n| element(n, 32)).collect();
    evaluate(&module.proto.computations[0], &[parameter])
}

#[test]
fn tiles_that_differ_go_by_way_of_the_buffer() {
    // Rows of [4,256] in tiles of 2x128: the buffer holds the tiles' rows one after the other.
    let from = shape(F32, &[4, 256], &[1, 0], &[&[2, 128]]);
    assert_agrees(&from, &shape(F32, &[2, 2, 2, 128], &[3, 2, 1, 0], &[]));
    assert_agrees(&from, &shape(F32, &[4, 256], &[1, 0], &[]));
    assert_agrees(&from, &shape(F32, &[1024], &[0], &[&[128]]));
    let packed = shape(BF16, &[16, 128], &[1, 0], &[&[8, 128], &[2, 1]]);
    assert_agrees(&packed, &shape(BF16, &[16, 128], &[1, 0], &[&[8, 128]]));
    assert_agrees(
        &packed,
        &shape(BF16, &[2048], &[0], &[&[256], &[128], &[2, 1]]),
    );
}

#[test]
fn a_shorter_array_is_the_start_of_the_buffer() {
    let from = shape(F32, &[24], &[0], &[&[128]]);
    let to = shape(F32, &[10], &[0], &[&[128]]);
    let first: Array = (0..10).map(|n| element(n, 32)).collect();
    assert_eq!(evaluated(&from, &to).unwrap(), first);
    assert_agrees(&from, &to);
}

#[test]
fn padding_is_read_as_zeros_and_what_lies_past_the_memory_is_refused() {
    let odd = shape(F32, &[3, 5], &[1, 0], &[&[2, 4]]);
    assert_agrees(&odd, &shape(F32, &[3, 5], &[1, 0], &[&[2, 4]]));
    // 3x5 in tiles of 2x4 fills 4x8; the second tile has the fifth element of two rows and nothing else.
    let whole = evaluated(&odd, &shape(F32, &[32], &[0], &[])).unwrap();
    assert_eq!(
        whole[8..16],
        [element(4, 32), 0, 0, 0, element(9, 32), 0, 0, 0]
    );
    let error = evaluated(&odd, &shape(F32, &[33], &[0], &[])).unwrap_err();
    assert!(
        error.to_string().contains("past its operand's memory"),
        "{error}"
    );
}

/// One look at every element of these would take days.
#[test]
fn the_size_of_an_array_does_not_make_a_bitcast_slow() {
    let million = 1 << 20;
    let tiled = shape(F32, &[million, million], &[1, 0], &[&[8, 128]]);
    let words = shape(F32, &[million * million], &[0], &[&[1024]]);
    let padded = shape(F32, &[2, words.dimensions[0] + 1], &[1, 0], &[&[1, 128]]);
    for (from, to) in [(&tiled, &words), (&padded, &words)] {
        assert!(run(&mut module(from, to)).is_ok());
    }
}

#[test]
fn zero_crop_is_the_memory_with_zeros_around_the_elements() {
    let from = shape(PrimitiveType::Pred, &[7], &[0], &[&[512], &[128], &[4, 1]]);
    let to = shape(
        PrimitiveType::Pred,
        &[512],
        &[0],
        &[&[512], &[128], &[4, 1]],
    );
    let mut module = module(&from, &to);
    let call = &mut module.proto.computations[0].instructions[1];
    call.opcode = "custom-call".to_owned();
    call.custom_call_target = "ZeroCrop".to_owned();
    run(&mut module).unwrap();
    let result = evaluate(&module.proto.computations[0], &[vec![1; 7]]);
    assert_eq!(result.iter().sum::<u128>(), 7);
    assert_eq!(result[..7], [1; 7]);
}

#[test]
fn words_and_their_halves_share_memory() {
    // A word of u32[8,128] in tiles of 8x128 holds rows 2r (low) and 2r+1 (high) of bf16[16,128].
    let words = shape(PrimitiveType::U32, &[8, 128], &[1, 0], &[&[8, 128]]);
    let halves = shape(BF16, &[16, 128], &[1, 0], &[&[16, 128], &[2, 1]]);
    assert_agrees(&words, &halves);
    assert_agrees(&halves, &words);
    let bytes = shape(
        PrimitiveType::S8,
        &[32, 128],
        &[1, 0],
        &[&[32, 128], &[4, 1]],
    );
    assert_agrees(&words, &bytes);
    assert_agrees(&bytes, &words);
}

#[test]
fn one_size_is_reinterpreted_element_by_element() {
    let from = shape(F32, &[3], &[0], &[&[128]]);
    let to = shape(PrimitiveType::S32, &[3, 1], &[0, 1], &[&[1, 128]]);
    assert_agrees(&from, &to);
    let from = shape(PrimitiveType::Pred, &[1], &[0], &[&[512], &[128], &[4, 1]]);
    let to = shape(PrimitiveType::S8, &[], &[], &[&[512]]);
    assert_agrees(&from, &to);
}

#[test]
fn tiles_without_a_model_are_named() {
    let from = shape(F32, &[4, 4], &[1, 0], &[&[i64::MIN, 8]]);
    let to = shape(F32, &[16], &[0], &[]);
    assert!(matches!(
        evaluated(&from, &to),
        Err(Error::NotExecutable { .. })
    ));
    let broken = shape(F32, &[4, 4], &[7, 0], &[]);
    assert!(evaluated(&broken, &to).is_err());
    let vast = shape(F32, &[16], &[0], &[&[i64::MAX]]);
    for (from, to) in [(&vast, &to), (&to, &vast)] {
        let error = evaluated(from, to).unwrap_err();
        assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
    }
}

/// Small random layouts, whatever they mean.
mod random {
    use super::*;
    use proptest::prelude::*;

    fn layouts() -> impl Strategy<Value = Shape> {
        let types = prop::sample::select(vec![F32, BF16, PrimitiveType::U8]);
        let dimensions = prop::collection::vec(1..=6i64, 0..=3);
        let tiles = prop::sample::select(vec![
            vec![],
            vec![vec![4]],
            vec![vec![2, 4]],
            vec![vec![1, 4]],
            vec![vec![4, 2], vec![2, 1]],
            vec![vec![8], vec![4], vec![2, 1]],
        ]);
        (types, dimensions, tiles).prop_flat_map(|(element_type, dimensions, tiles)| {
            let order: Vec<i64> = (0..dimensions.len() as i64).collect();
            Just(order).prop_shuffle().prop_map(move |order| {
                let tiles: Vec<&[i64]> = tiles.iter().map(Vec::as_slice).collect();
                shape(element_type, &dimensions, &order, &tiles)
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn any_two_layouts_agree_with_memory(from in layouts(), to in layouts()) {
            assert_agrees(&from, &to);
        }

        #[test]
        fn the_last_address_is_the_highest_of_any_element(
            like in layouts(), sizes in prop::collection::vec(1..=20i64, 3),
        ) {
            let rank = like.dimensions.len();
            let of = Shape { dimensions: sizes[..rank].to_vec(), ..like };
            let highest = indices(&of.dimensions).iter().map(|index| address(&of, index)).max();
            let physical = Physical::of(&of);
            prop_assume!(physical.is_ok());
            prop_assert_eq!(Some(last_address(&physical.unwrap())), highest);
        }

        /// Reshapes that keep the number of elements, which few random pairs do.
        #[test]
        fn any_split_of_the_last_dimension_agrees_with_memory(
            from in layouts(), to in layouts(), sizes in prop::collection::vec(1..=4i64, 1..=3),
        ) {
            let of = |like: &Shape, dimensions: Vec<i64>| {
                let rank = dimensions.len() as i64;
                let order: Vec<i64> = (0..rank).rev().collect();
                let layout = like.layout.as_ref().unwrap();
                let tiles: Vec<&[i64]> = layout.tiles.iter().map(|t| t.dimensions.as_slice()).collect();
                shape(F32, &dimensions, &order, &tiles)
            };
            let merged = vec![sizes.iter().product()];
            assert_agrees(&of(&from, sizes.clone()), &of(&to, merged.clone()));
            assert_agrees(&of(&from, merged), &of(&to, sizes));
        }
    }
}
