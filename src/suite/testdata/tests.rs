//! Tests taken apart: expected programs and values are worked out by hand from the text.

mod literals;

use std::fs;
use std::path::Path;

use super::*;
use crate::compare::Tolerance;
use crate::tensor::{Domain, ElementType, InputSpec, Tensor};

fn cases_of(name: &str, text: &str) -> Vec<Case> {
    file_cases(Path::new(name), Path::new(name), text)
}

fn one(text: &str) -> Case {
    let mut cases = cases_of("t.mlir", text);
    assert_eq!(cases.len(), 1, "{cases:?}");
    cases.remove(0)
}

fn tensor(element_type: ElementType, shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(element_type, shape.to_vec(), values).unwrap()
}

/// Blank lines and indentation do not matter.
#[track_caller]
fn assert_program(case: &Case, lines: &[&str]) {
    let got: Vec<&str> = case
        .program
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(got, lines, "{:?}", case.unloadable);
}

const JAX_FORM: &str = r#"// RUN: stablehlo-opt -inline %s | stablehlo-translate --interpret

module @jit_main attributes {mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<2xf32> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %0:2 = call @inputs() : () -> (tensor<2xf32>, tensor<f32>)
    %1 = call @expected() : () -> tensor<2xf32>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %2 = call @twice(%0#0, %0#1, %c) : (tensor<2xf32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> (tensor<2xf32> {mhlo.layout_mode = "default"}, tensor<f32>) {
    %cst = stablehlo.constant dense<"0x0000803F000000C0"> : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    return %cst, %cst_0 : tensor<2xf32>, tensor<f32>
  }
  func.func private @expected() -> (tensor<2xf32> {mhlo.layout_mode = "default"}) {
    %cst = stablehlo.constant dense<[2.0, -4.000000e+00]> : tensor<2xf32> // twice
    return %cst : tensor<2xf32>
  }
  func.func private @twice(%arg0: tensor<2xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"#;

#[test]
fn inputs_become_parameters_and_expected_values_the_reference() {
    let case = one(JAX_FORM);
    assert_program(
        &case,
        &[
            "module @jit_main attributes {mhlo.num_replicas = 1 : i32} {",
            "func.func public @main(%input_0: tensor<2xf32>, %input_1: tensor<f32>) -> (tensor<2xf32>) {",
            "%c = stablehlo.constant dense<7> : tensor<i32>",
            "%2 = call @twice(%input_0, %input_1, %c) : (tensor<2xf32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>",
            "return %2 : tensor<2xf32>",
            "}",
            "func.func private @twice(%arg0: tensor<2xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>) -> tensor<2xf32> {",
            "%0 = stablehlo.add %arg0, %arg0 : tensor<2xf32>",
            "return %0 : tensor<2xf32>",
            "}",
            "}",
        ],
    );
    assert_eq!(
        case.inputs,
        [
            InputSpec::literal(tensor(ElementType::F32, &[2], &[1.0, -2.0])),
            InputSpec::literal(tensor(ElementType::F32, &[], &[f64::INFINITY])),
        ]
    );
    assert_eq!(
        case.reference_program,
        ReferenceProgram::Given(vec![tensor(ElementType::F32, &[2], &[2.0, -4.0])])
    );
    // A custom call check.expect_close allows 3.
    assert_eq!(case.tolerances, [Tolerance::Distance(3)]);
    assert_eq!(
        (case.id.as_str(), case.origin.line),
        ("stablehlo-testdata/t/t", 4)
    );
}

#[test]
fn a_literal_operand_survives_json_and_gives_its_bits() {
    let nan = Tensor::new(ElementType::F32, vec![1], vec![1, 0, 0xC0, 0xFF]).unwrap();
    let spec = InputSpec::literal(nan.clone());
    assert!(matches!(spec.domain, Domain::Literal(_)));
    let json = serde_json::to_string(&spec).unwrap();
    let back: InputSpec = serde_json::from_str(&json).unwrap();
    assert_eq!(back.generate(9, 3).unwrap(), nan);
}

/// The golden value stands first in `check.eq`, and inputs are constants of main.
#[test]
fn constants_of_main_become_parameters_where_no_function_gives_inputs() {
    let case = one(r#"
module {
  func.func @main() -> tensor<1xf32> {
    %cst = stablehlo.constant dense<0.5> : tensor<1xf32>
    %cst_0 = stablehlo.constant dense<"0x0000003F"> : tensor<1xf32>
    %0 = stablehlo.uniform_quantize %cst : (tensor<1xf32>) -> tensor<1x!quant.uniform<i8:f32, 0.0039:-128>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<1x!quant.uniform<i8:f32, 0.0039:-128>>) -> tensor<1xf32>
    %2 = stablehlo.custom_call @check.eq(%cst_0, %1) : (tensor<1xf32>, tensor<1xf32>) -> tensor<i1>
    return %1 : tensor<1xf32>
  }
}"#);
    assert_program(
        &case,
        &[
            "module {",
            "func.func public @main(%input_0: tensor<1xf32>) -> (tensor<1xf32>) {",
            "%0 = stablehlo.uniform_quantize %input_0 : (tensor<1xf32>) -> tensor<1x!quant.uniform<i8:f32, 0.0039:-128>>",
            "%1 = stablehlo.uniform_dequantize %0 : (tensor<1x!quant.uniform<i8:f32, 0.0039:-128>>) -> tensor<1xf32>",
            "return %1 : tensor<1xf32>",
            "}",
            "}",
        ],
    );
    assert_eq!(case.tolerances, [Tolerance::Absolute(1e-4)]);
}

#[test]
fn a_constant_that_gives_a_shape_stays_a_constant() {
    let case = one(r#"
func.func @main() {
  %shape = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %x = stablehlo.constant dense<1> : tensor<3xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [1] : (tensor<3xi64>, tensor<2xi64>) -> tensor<2x3xi64>
  %1:2 = "stablehlo.sort"(%0, %0) ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>):
      %2 = stablehlo.compare LT, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
  }) : (tensor<2x3xi64>, tensor<2x3xi64>) -> (tensor<2x3xi64>, tensor<2x3xi64>)
  check.expect_eq_const %1#0, dense<[[1, 1, 1],
                                     [1, 1, 1]]> : tensor<2x3xi64>
  check.expect_eq_const %1#1, dense<1> : tensor<2x3xi64>
  func.return
}"#);
    assert!(
        case.program
            .contains("@main() -> (tensor<2x3xi64>, tensor<2x3xi64>)")
    );
    assert!(case.program.contains("%shape = stablehlo.constant"));
    assert!(
        case.program
            .contains("return %1#0, %1#1 : tensor<2x3xi64>, tensor<2x3xi64>")
    );
    assert_eq!(case.tolerances, [Tolerance::Exact, Tolerance::Exact]);
}

/// As a parameter it would be handed back, whatever the compiler makes of constants.
#[test]
fn a_constant_that_is_itself_checked_stays_a_constant() {
    let case = one(r#"
func.func @main() {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %x = stablehlo.constant dense<3> : tensor<2xi32>
  %0 = stablehlo.add %x, %x : tensor<2xi32>
  check.expect_eq_const %c, dense<[1, 2]> : tensor<2xi32>
  check.expect_eq_const %0, dense<6> : tensor<2xi32>
  func.return
}"#);
    assert_program(
        &case,
        &[
            "func.func public @main(%input_0: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {",
            "%c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>",
            "%0 = stablehlo.add %input_0, %input_0 : tensor<2xi32>",
            "return %c, %0 : tensor<2xi32>, tensor<2xi32>",
            "}",
        ],
    );
}

#[test]
fn each_function_of_a_split_file_is_a_case() {
    let cases = cases_of(
        "quantized/add_qi8.mlir",
        r#"
module {
  func.func @add_i4() {
    %c = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
    %0 = stablehlo.add %c, %c : tensor<2xi4>
    "check.expect_eq_const"(%0) <{value = dense<[0, -2]> : tensor<2xi4>}> : (tensor<2xi4>) -> ()
    return
  }
}

// -----

module {
  func.func @add_Bf16() {
    %c = stablehlo.constant dense<1.5> : tensor<bf16>
    %0 = stablehlo.add %c, %c : tensor<bf16>
    check.expect_almost_eq_const %0, dense<3.0> : tensor<bf16>, tolerance = 1.0e-2
    return
  }
}
"#,
    );
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids[0], "stablehlo-testdata/add/quantized/qi8/add_i4");
    // A capital letter is not of the alphabet: what is lost is made up for by a hash.
    let rest = ids[1]
        .strip_prefix("stablehlo-testdata/add/quantized/qi8/add_bf16-")
        .unwrap();
    assert_eq!(rest.len(), 8);
    assert!(
        cases[0]
            .program
            .contains("func.func public @main(%input_0: tensor<2xi4>)")
    );
    assert_eq!(cases[1].tolerances, [Tolerance::Absolute(1e-2)]);
    assert_eq!(cases[1].origin.line, 14);
}

#[test]
fn attributes_of_the_check_operators_count() {
    let body = |check: &str| {
        one(&format!(
            "func.func @main() {{\n  %x = stablehlo.constant dense<1.0> : tensor<f32>\n  \
             %y = stablehlo.constant dense<2.0> : tensor<f32>\n  %0 = stablehlo.sine %x : tensor<f32>\n  \
             {check}\n  return\n}}"
        ))
    };
    let tolerance = |check: &str| body(check).tolerances.remove(0);
    for (check, expected) in [
        (
            "check.expect_close %0, %y, max_ulp_difference = 5, min_ulp_difference = 0 : tensor<f32>, tensor<f32>",
            Tolerance::Distance(5),
        ),
        (
            "\"check.expect_close\"(%0, %y) <{max_ulp_difference = 2 : ui64}> : (tensor<f32>, tensor<f32>) -> ()",
            Tolerance::Distance(2),
        ),
        (
            "\"check.expect_close\"(%0, %y) : (tensor<f32>, tensor<f32>) -> ()",
            Tolerance::Distance(1),
        ),
        (
            "check.expect_almost_eq %0, %y, tolerance = 0.25 : f64 : tensor<f32>",
            Tolerance::Absolute(0.25),
        ),
        (
            "check.expect_almost_eq %0, %y : tensor<f32>",
            Tolerance::Absolute(1e-4),
        ),
        (
            "check.expect_eq %0, %y : tensor<f32>",
            Tolerance::Distance(0),
        ),
        (
            "stablehlo.custom_call @check.expect_almost_eq(%0, %y) {has_side_effect = true} : (tensor<f32>, tensor<f32>) -> ()",
            Tolerance::Absolute(1e-3),
        ),
        (
            "\"stablehlo.custom_call\"(%0, %y) <{call_target_name = \"check.expect_close\", has_side_effect = true}> : (tensor<f32>, tensor<f32>) -> ()",
            Tolerance::Distance(3),
        ),
    ] {
        assert_eq!(tolerance(check), expected, "{check}");
    }
    for (check, reason) in [
        (
            "check.expect_close %0, %y, max_ulp_difference = 5, min_ulp_difference = 1 : tensor<f32>, tensor<f32>",
            "asks for a difference",
        ),
        (
            "check.expect_serialized_eq %0, probe_id = \"p\" : tensor<f32>",
            "a file",
        ),
        (
            "check.expect_same %0, %y : tensor<f32>",
            "not a check that is known",
        ),
        ("check.expect_eq %0, %0 : tensor<f32>", "itself computed"),
        ("check.expect_eq %0 : tensor<f32>", "1 operands, not 2"),
    ] {
        let case = body(check);
        let told = case.unloadable.unwrap();
        assert!(
            told.starts_with("t.mlir:1: ") && told.contains(reason),
            "{told}"
        );
    }
}

/// Dimension variables and open dimensions take one size; there is nothing to compare with.
#[test]
fn a_program_without_a_check_is_run_as_it_stands() {
    let text = "module @jit_f {\n  func.func public @main(%arg0: tensor<i64>, %arg1: tensor<?x2xf32> {mhlo.sharding = \"\"}) -> tensor<?x2xf32> {\n    return %arg1 : tensor<?x2xf32>\n  }\n}\n";
    let case = one(text);
    assert_eq!(case.program.trim(), text.trim());
    assert_eq!(case.inputs[0].domain, Domain::Values(vec![4.0]));
    assert_eq!(case.inputs[1].shape, [4, 2]);
    assert!(matches!(
        case.reference_program,
        ReferenceProgram::Absent(_)
    ));
    assert_eq!(case.unloadable, None);
}

#[test]
fn what_is_no_test_is_a_case_that_says_so() {
    for (text, reason) in [
        ("", "no function has a check"),
        ("module {}", "no function has a check"),
        ("func.func @main() {", "do not close"),
        ("func.func", "has no name"),
        ("func.func @main", "no parameter list"),
        (
            "func.func @main(%x: tensor<4xtf32>) { return }",
            "not StableHLO's",
        ),
        (
            "func.func @main(%x: tensor<99999999999xf32>) { return }",
            "more than 1073741824 bytes",
        ),
        (
            "func.func @f(%x: tensor<f32>) {\n check.expect_eq_const %x, dense<1.0> : tensor<f32>\n return }",
            "has parameters",
        ),
        (
            "func.func @f() {\n %x = stablehlo.constant dense<1.0> : tensor<f32>\n check.expect_eq_const %x, dense_resource<blob> : tensor<f32>\n return }",
            "not a dense literal",
        ),
    ] {
        let told = one(text).unloadable.unwrap_or_default();
        assert!(told.contains(reason), "{text}: {told}");
    }
}

#[test]
fn text_cut_off_anywhere_is_taken_without_a_panic() {
    for text in [
        JAX_FORM,
        "func.func @\"a\\\"b\"(%x#: tensor<) -> \"",
        "%=%#=@check.eq",
        "é{func.func@é(é)é{é}",
    ] {
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(!cases_of("t.mlir", &text[..end]).is_empty());
            assert!(!cases_of("t.mlir", &text[end..]).is_empty());
        }
    }
}

#[test]
fn ids_come_from_the_names_of_files() {
    for (file, id) in [
        (
            "add_float32_20_20_float32_20_20.mlir",
            "add/float32_20_20_float32_20_20",
        ),
        (
            "dot_general_float32_3_4_float32_4_2.mlir",
            "dot_general/float32_3_4_float32_4_2",
        ),
        (
            "acosh_bfloat16_20_20_chlo.mlir",
            "acosh/bfloat16_20_20_chlo",
        ),
        ("iota_.mlir", "iota/iota_"),
        (
            "reduce_window_max_float32_4_6.mlir",
            "reduce_window_max/float32_4_6",
        ),
        (
            "dynamic/vmap_abs_int64_20_20_dynamic.mlir",
            "abs/dynamic/vmap_abs_int64_20_20_dynamic",
        ),
        (
            "quantized/conv_general_dilated_conv1d_lhs_qi8.mlir",
            "conv_general_dilated/quantized/conv1d_lhs_qi8",
        ),
        ("a.b/max_uint8_1.mlir", "max/a.b/uint8_1"),
    ] {
        let got = id::case_id(Path::new(file), None);
        assert_eq!(got.as_str(), format!("stablehlo-testdata/{id}"));
    }
    let mapped = |file: &str| id::case_id(Path::new(file), None).to_string();
    assert_ne!(mapped("eye_N.mlir"), mapped("eye_n.mlir"));
    assert_ne!(mapped("eye_N.mlir"), mapped("EYE_n.mlir"));
    assert_ne!(mapped("é.mlir"), mapped("è.mlir"));
}

#[test]
fn every_file_is_a_case_with_an_id_of_its_own_and_bad_directories_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("holds no .mlir file"), "{error}");
    let error = load(&dir.path().join("gone")).unwrap_err().to_string();
    assert!(
        error.contains("stablehlo/testdata of a checkout"),
        "{error}"
    );
    // Both would be iota/iota_.
    for name in [
        "iota_.mlir",
        "iota_iota_.mlir",
        "sub/iota_.mlir",
        "notes.txt",
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, JAX_FORM).unwrap();
    }
    fs::write(dir.path().join("bytes.mlir"), [0xFF, 0xFE]).unwrap();
    // Reading it would go on for ever.
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("endless.mlir")).unwrap();
    let cases = load(dir.path()).unwrap();
    let ids: std::collections::BTreeSet<&str> = cases.iter().map(|c| c.id.as_str()).collect();
    assert_eq!((cases.len(), ids.len()), (5, 5), "{ids:?}");
    for (file, reason) in [("bytes", "not UTF-8"), ("endless", "no regular file")] {
        let case = cases.iter().find(|case| case.id.as_str().contains(file));
        let told = case.unwrap().unloadable.as_deref().unwrap_or_default();
        assert!(told.contains(reason), "{told}");
    }
}
