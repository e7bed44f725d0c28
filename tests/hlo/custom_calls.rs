use tpu_parity::hlo::ir::{ModuleProto, PrimitiveType, Shape, array, tuple};
use tpu_parity::hlo::{Error, to_cpu};

use crate::f32::{as_f32s, f32s};
use crate::program::{OPTIONS, module, run};

const F32: PrimitiveType = PrimitiveType::F32;
const S32: PrimitiveType = PrimitiveType::S32;

/// A call of `target` on one operand.
fn call(target: &str, operand: Shape, result: Shape) -> ModuleProto {
    module(&[operand], |builder, parameters| {
        Ok(builder.add_with("custom-call", result, parameters, |call| {
            call.custom_call_target = target.to_owned();
        }))
    })
}

/// 4 in the second row is the pivot: L = [[1, 0], [½, 1]], U = [[4, 6], [0, 4 - ½·6 = 1]]. The second matrix has its pivots
/// where they are; L = [[1, 0], [⅕, 1]], U = [[5, 1], [0, 2 - ⅕]].
#[test]
fn lu_exchanges_rows_for_the_largest_pivot() {
    let result = tuple(vec![
        array(F32, &[2, 2, 2]),
        array(S32, &[2, 2]),
        array(S32, &[2, 2]),
    ]);
    let module = call("LuRealDecompositionBlock", array(F32, &[2, 2, 2]), result);
    let matrices = f32s(&[2, 2, 2], &[2.0, 4.0, 4.0, 6.0, 5.0, 1.0, 1.0, 2.0]);
    let results = run(module, &OPTIONS, &[matrices]);
    assert_eq!(
        as_f32s(&results[0]),
        [4.0, 6.0, 0.5, 1.0, 5.0, 1.0, 0.2, 1.8]
    );
    assert_eq!(results[1].to_f64(), [1.0, 1.0, 0.0, 1.0]);
    assert_eq!(results[2].to_f64(), [1.0, 0.0, 0.0, 1.0]);
}

/// The columns by the recursion: t₀ = (-2, 0), t₁ = 3·t₀ + (0, -5).
#[test]
fn the_middle_factor_of_reflectors_follows_its_recursion() {
    let module = call("CompactWyHelper", array(F32, &[2, 2]), array(F32, &[2, 2]));
    let m = f32s(&[2, 2], &[-2.0, 3.0, 0.0, -5.0]);
    assert_eq!(
        as_f32s(&run(module, &OPTIONS, &[m])[0]),
        [-2.0, -6.0, 0.0, -5.0]
    );
}

/// [[2, 1], [1, 2]] has the eigenvalues 1 and 3, with (1, -1) and (1, 1) over √2.
#[test]
fn eigenvectors_come_as_rows_in_the_order_of_their_values() {
    let block = array(F32, &[1, 1]);
    let half = array(F32, &[1]);
    let result = tuple(vec![
        half.clone(),
        half,
        block.clone(),
        block.clone(),
        block.clone(),
        block.clone(),
    ]);
    let module = module(
        &[block.clone(), block.clone(), block.clone(), block],
        |builder, p| {
            Ok(builder.add_with("custom-call", result, p, |call| {
                call.custom_call_target = "EighTpu".to_owned();
            }))
        },
    );
    let blocks = [2.0, 1.0, 1.0, 2.0].map(|value| f32s(&[1, 1], &[value]));
    let parts: Vec<f32> = run(module, &OPTIONS, &blocks)
        .iter()
        .map(|part| as_f32s(part)[0])
        .collect();
    let [first, second, a, b, c, d] = parts[..] else {
        panic!("{parts:?}");
    };
    for (value, x, y) in [(first, a, b), (second, c, d)] {
        let close = |a: f32, b: f32| (a - b).abs() < 1e-5;
        assert!(close(x.abs(), 0.5f32.sqrt()) && close(y.abs(), 0.5f32.sqrt()));
        assert!(
            close(value, if x * y > 0.0 { 3.0 } else { 1.0 }),
            "{parts:?}"
        );
    }
}

/// [[2, 0], [3, 4]]⁻¹ = [[½, 0], [-⅜, ¼]]. What lies above the diagonal is not read.
#[test]
fn the_blocks_of_a_triangle_are_inverted() {
    let shape = array(F32, &[1, 2, 2]);
    let module = call("InvertDiagBlocksLowerTriangular", shape.clone(), shape);
    let block = f32s(&[1, 2, 2], &[2.0, 0.0, 3.0, 4.0]);
    assert_eq!(
        as_f32s(&run(module, &OPTIONS, &[block])[0]),
        [0.5, 0.0, -0.375, 0.25]
    );
}

/// Two of the largest: the first of the equal ones comes first.
#[test]
fn top_k_keeps_the_order_of_equal_elements() {
    let result = tuple(vec![array(F32, &[3]), array(S32, &[3])]);
    let module = module(&[array(F32, &[5])], |builder, parameters| {
        let pair = [
            array(F32, &[]),
            array(F32, &[]),
            array(S32, &[]),
            array(S32, &[]),
        ];
        let greater = builder.add_computation("greater", &pair, |builder, p| {
            let shape = array(PrimitiveType::Pred, &[]);
            Ok(builder.add_with("compare", shape, &p[..2], |compare| {
                compare.comparison_direction = "GT".to_owned();
            }))
        })?;
        Ok(builder.add_with("custom-call", result, parameters, |call| {
            call.custom_call_target = "TopK".to_owned();
            call.called_computation_ids = vec![greater];
        }))
    });
    let results = run(module, &OPTIONS, &[f32s(&[5], &[1.0, 7.0, 3.0, 7.0, 2.0])]);
    assert_eq!(as_f32s(&results[0]), [7.0, 7.0, 3.0]);
    assert_eq!(results[1].to_f64(), [1.0, 3.0, 2.0]);
}

#[test]
fn a_promise_about_indices_is_the_indices() {
    for target in [
        "AssumeGatherIndicesInBound",
        "GatherScatterIndicesBitpacked",
    ] {
        let module = call(target, array(F32, &[2]), array(F32, &[2]));
        let values = run(module, &OPTIONS, &[f32s(&[2], &[3.0, 1.0])]);
        assert_eq!(as_f32s(&values[0]), [3.0, 1.0]);
    }
}

#[test]
fn a_kernel_is_not_executable_and_named() {
    let mut module = call("tpu_custom_call", array(F32, &[2]), array(F32, &[2]));
    for instruction in &mut module.computations[0].instructions {
        instruction.metadata = Some(pjrt_sys::protos::xla::OpMetadata {
            op_name: "jit(f)/flash_attention".to_owned(),
            ..Default::default()
        });
    }
    let Err(Error::NotExecutable { construct, .. }) = to_cpu(module, &OPTIONS) else {
        panic!("it was executable");
    };
    assert_eq!(construct, "Mosaic kernel of jit(f)/flash_attention");
}
