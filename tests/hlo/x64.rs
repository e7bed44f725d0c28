use tpu_parity::hlo::ir::{PrimitiveType, array};
use tpu_parity::hlo::splits_f64;
use tpu_parity::tensor::{ElementType, Tensor};

use crate::program::{OPTIONS, module, run};

fn split(whole: PrimitiveType, half: PrimitiveType, arguments: &Tensor, target: &str) -> Tensor {
    let size = [arguments.len() as i64];
    let module = module(&[array(whole, &size)], |builder, parameters| {
        Ok(
            builder.add_with("custom-call", array(half, &size), parameters, |call| {
                call.custom_call_target = target.to_owned();
            }),
        )
    });
    run(module, &OPTIONS, std::slice::from_ref(arguments)).remove(0)
}

fn combined(whole: PrimitiveType, half: PrimitiveType, low: Tensor, high: Tensor) -> Tensor {
    let size = [low.len() as i64];
    let half = array(half, &size);
    let module = module(&[half.clone(), half], |builder, parameters| {
        Ok(
            builder.add_with("custom-call", array(whole, &size), parameters, |call| {
                call.custom_call_target = "X64Combine".to_owned();
            }),
        )
    });
    run(module, &OPTIONS, &[low, high]).remove(0)
}

fn bits(tensor: &Tensor) -> Vec<u128> {
    (0..tensor.len()).map(|i| tensor.bits(i)).collect()
}

/// `SplitF64ToF32` of XLA's `ef57.h` by hand; 0.1 is libtpu's own split of the constant.
#[test]
fn an_f64_is_its_f32_and_what_that_leaves_over() {
    let cases = [
        (1.0 + 2f64.powi(-30), 1.0, 2f32.powi(-30)),
        (0.1, 0.1, -1.490_116_1e-9),
        (-0.0, -0.0, 0.0),
        (1e39, f32::INFINITY, 0.0),
        (f64::NEG_INFINITY, f32::NEG_INFINITY, 0.0),
    ];
    let values: Vec<f64> = cases.iter().map(|case| case.0).collect();
    let whole = Tensor::from_f64(ElementType::F64, vec![5], &values).unwrap();
    let low = split(
        PrimitiveType::F64,
        PrimitiveType::F32,
        &whole,
        "X64SplitLow",
    );
    let high = split(
        PrimitiveType::F64,
        PrimitiveType::F32,
        &whole,
        "X64SplitHigh",
    );
    let expected = |part: fn(&(f64, f32, f32)) -> f32| -> Vec<u128> {
        cases
            .iter()
            .map(|case| part(case).to_bits().into())
            .collect()
    };
    assert_eq!(bits(&low), expected(|case| case.1));
    assert_eq!(bits(&high), expected(|case| case.2));
    let again = combined(PrimitiveType::F64, PrimitiveType::F32, low, high);
    let expected = [
        1.0 + 2f64.powi(-30),
        0.1f32 as f64 - 1.490_116_1e-9f32 as f64,
        -0.0,
    ];
    assert_eq!(
        bits(&again)[..3],
        expected.map(|value| u128::from(value.to_bits()))
    );
    assert_eq!(again.to_f64()[3..], [f64::INFINITY, f64::NEG_INFINITY]);
}

#[test]
fn an_integer_is_its_lower_and_upper_bits() {
    let data: Vec<u8> = [0x0123_4567_89ab_cdefu64, u64::MAX]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    for (whole, element) in [
        (PrimitiveType::S64, ElementType::I64),
        (PrimitiveType::U64, ElementType::U64),
    ] {
        let tensor = Tensor::new(element, vec![2], data.clone()).unwrap();
        let low = split(whole, PrimitiveType::U32, &tensor, "X64SplitLow");
        let high = split(whole, PrimitiveType::U32, &tensor, "X64SplitHigh");
        assert_eq!(bits(&low), [0x89ab_cdef, 0xffff_ffff]);
        assert_eq!(bits(&high), [0x0123_4567, 0xffff_ffff]);
        let again = combined(whole, PrimitiveType::U32, low, high);
        assert_eq!(again.data(), tensor.data());
    }
}

#[test]
fn only_a_program_with_f64_has_it_in_halves() {
    let of = |element_type| {
        splits_f64(&module(&[array(element_type, &[2])], |_, parameters| {
            Ok(parameters[0])
        }))
    };
    assert!(of(PrimitiveType::F64));
    assert!(!of(PrimitiveType::C64));
}
