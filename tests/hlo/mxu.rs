use pjrt_sys::protos::xla::{DotDimensionNumbers, PrecisionConfig, precision_config::Precision};
use tpu_parity::hlo::ir::{ModuleProto, PrimitiveType, array};
use tpu_parity::hlo::{MxuNumerics, Options};
use tpu_parity::tensor::{ElementType, Tensor};

use crate::f32::{as_f32s, f32s};
use crate::program::{OPTIONS, module, run};

/// [n, k] times [k].
fn product(types: [PrimitiveType; 3], n: i64, k: i64, precision: [Precision; 2]) -> ModuleProto {
    let parameters = [array(types[0], &[n, k]), array(types[1], &[k])];
    module(&parameters, |builder, parameters| {
        Ok(
            builder.add_with("dot", array(types[2], &[n]), parameters, |dot| {
                dot.dot_dimension_numbers = Some(DotDimensionNumbers {
                    lhs_contracting_dimensions: vec![1],
                    rhs_contracting_dimensions: vec![0],
                    ..Default::default()
                });
                dot.precision_config = Some(PrecisionConfig {
                    operand_precision: precision.map(i32::from).to_vec(),
                    ..Default::default()
                });
            }),
        )
    })
}

fn times_one(values: &[f32], precision: Precision, options: &Options) -> Vec<f32> {
    let n = values.len();
    let module = product([PrimitiveType::F32; 3], n as i64, 1, [precision; 2]);
    as_f32s(
        &run(
            module,
            options,
            &[f32s(&[n, 1], values), f32s(&[1], &[1.0])],
        )[0],
    )
}

fn two(exponent: i32) -> f32 {
    2f32.powi(exponent)
}

/// bf16 has 8 bits of significand: its spacing is 2⁻⁷ from 1 on. The values lie a quarter, half and three quarters between
/// two of them, and half with an odd lower neighbour.
#[test]
fn default_precision_rounds_f32_operands_to_bf16_to_nearest_even() {
    let values = [
        1.0 + two(-9),
        1.0 + two(-8),
        1.0 + two(-8) + two(-9),
        1.0 + two(-7) + two(-8),
        f32::MAX,
        f32::INFINITY,
    ];
    let rounded = [
        1.0,
        1.0,
        1.0 + two(-7),
        1.0 + two(-6),
        f32::INFINITY,
        f32::INFINITY,
    ];
    assert_eq!(times_one(&values, Precision::Default, &OPTIONS), rounded);
    let exact = Options {
        numerics: MxuNumerics::Exact,
        ..OPTIONS
    };
    assert_eq!(times_one(&values, Precision::Default, &exact), values);
}

/// HIGH keeps 8 bits cut off and the next 8 rounded, HIGHEST all 24.
#[test]
fn higher_precisions_keep_two_and_three_pieces() {
    let value = 1.0 + two(-9) + two(-20);
    assert_eq!(
        times_one(&[value, f32::INFINITY], Precision::High, &OPTIONS),
        [1.0 + two(-9), f32::INFINITY]
    );
    assert_eq!(
        times_one(&[value, -f32::INFINITY], Precision::Highest, &OPTIONS),
        [value, -f32::INFINITY]
    );
}

/// (1 + 2⁻⁹)² = 1 + 2⁻⁸ + 2⁻¹⁸; three passes leave out lo·lo.
#[test]
fn high_precision_leaves_out_the_product_of_the_low_pieces() {
    let value = 1.0 + two(-9);
    let of = |precision| {
        let module = product([PrimitiveType::F32; 3], 1, 1, [precision; 2]);
        as_f32s(
            &run(
                module,
                &OPTIONS,
                &[f32s(&[1, 1], &[value]), f32s(&[1], &[value])],
            )[0],
        )[0]
    };
    assert_eq!(of(Precision::Default), 1.0);
    assert_eq!(of(Precision::High), 1.0 + two(-8));
    assert_eq!(of(Precision::Highest), 1.0 + two(-8) + two(-18));
}

/// 1 + 2⁻⁸ + 2⁻⁸ is a bf16; 1 + 2⁻⁸ is none and would round to 1.
#[test]
fn a_bf16_product_accumulates_in_f32_and_rounds_once() {
    let module = product([PrimitiveType::Bf16; 3], 1, 3, [Precision::Default; 2]);
    let values = [1.0, f64::from(two(-8)), f64::from(two(-8))];
    let lhs = Tensor::from_f64(ElementType::BF16, vec![1, 3], &values).unwrap();
    let rhs = Tensor::from_f64(ElementType::BF16, vec![3], &[1.0; 3]).unwrap();
    let result = &run(module, &OPTIONS, &[lhs, rhs])[0];
    assert_eq!(result.element_type(), ElementType::BF16);
    assert_eq!(result.to_f64(), [f64::from(1.0 + two(-7))]);
}

#[test]
fn operands_of_two_types_meet_in_f32() {
    let types = [PrimitiveType::Bf16, PrimitiveType::F32, PrimitiveType::F32];
    let module = product(types, 1, 1, [Precision::Highest; 2]);
    let lhs = Tensor::from_f64(ElementType::BF16, vec![1, 1], &[1.5]).unwrap();
    let value = 1.0 + two(-9) + two(-20);
    let result = &run(module, &OPTIONS, &[lhs, f32s(&[1], &[value])])[0];
    assert_eq!(as_f32s(result), [1.5 * value]);
}

/// 100 · 100 = 10000 = 39 · 256 + 16.
#[test]
fn integer_products_are_exact_and_wrap_in_their_own_type() {
    let hundred = |shape: Vec<usize>| Tensor::from_f64(ElementType::I8, shape, &[100.0]).unwrap();
    for (result, expected) in [(PrimitiveType::S32, 10_000.0), (PrimitiveType::S8, 16.0)] {
        let types = [PrimitiveType::S8, PrimitiveType::S8, result];
        let module = product(types, 1, 1, [Precision::Default; 2]);
        let values = run(module, &OPTIONS, &[hundred(vec![1, 1]), hundred(vec![1])]);
        assert_eq!(values[0].to_f64(), [expected]);
    }
}

/// As for products: 1 + 2⁻⁸ + 2⁻⁸.
#[test]
fn a_bf16_sum_accumulates_in_f32_and_rounds_once() {
    let module = module(
        &[array(PrimitiveType::Bf16, &[3])],
        |builder, parameters| {
            let zero = tpu_parity::hlo::ir::Literal {
                shape: Some(array(PrimitiveType::F32, &[])),
                f32s: vec![0.0],
                ..Default::default()
            };
            let zero = builder.constant(zero);
            let zero = builder.convert(zero, PrimitiveType::Bf16)?;
            let add = builder.binary_computation("add", PrimitiveType::Bf16);
            let shape = array(PrimitiveType::Bf16, &[]);
            Ok(
                builder.add_with("reduce", shape, &[parameters[0], zero], |reduce| {
                    reduce.dimensions = vec![0];
                    reduce.called_computation_ids = vec![add];
                }),
            )
        },
    );
    let values = [1.0, f64::from(two(-8)), f64::from(two(-8))];
    let values = Tensor::from_f64(ElementType::BF16, vec![3], &values).unwrap();
    assert_eq!(
        run(module, &OPTIONS, &[values])[0].to_f64(),
        [f64::from(1.0 + two(-7))]
    );
}
