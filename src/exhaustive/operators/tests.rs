use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::suite;

fn cases() -> Vec<Case> {
    suite::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("suites")).unwrap()
}

/// Elementwise operators of the suites that take floats and are not tried: what they are but functions of one value or two.
const LEFT_OUT: [&str; 5] = [
    // Of the bits, not the value.
    "bitcast_convert",
    // Its result is complex.
    "complex",
    // Sorting, not arithmetic.
    "chlo.top_k",
    // It does not look at its operand.
    "chlo.constant_like",
    // No operand.
    "chlo.constant",
];

#[test]
fn every_elementwise_float_operator_of_the_suites_is_tried() {
    let cases = cases();
    let tried: BTreeSet<(String, ElementType)> = operators(&cases, false)
        .into_iter()
        .map(|operator| (operator.name().to_owned(), operator.operands))
        .collect();
    let mut looked_at = 0;
    for case in &cases {
        let file = case.origin.file.file_stem().unwrap_or_default();
        let families = [
            "elementwise_unary",
            "elementwise_binary",
            "chlo",
            "compare",
            "convert",
        ];
        let Ok(signature) = signature(&case.program) else {
            continue;
        };
        let Some((element_type, shape)) = signature.parameters.first() else {
            continue;
        };
        let small = element_type.is_float() && element_type.bits() <= 32;
        let elementwise = signature
            .parameters
            .iter()
            .all(|p| p.0 == *element_type && p.1 == *shape)
            && signature.results.len() == 1
            && signature.results[0].1 == *shape
            && !signature.results[0].0.is_integer()
            && shape.len() == 1
            && case.program.matches(" = ").count() == 1;
        let name = case.id.subject();
        if case.id.suite() != "stablehlo"
            || !families.iter().any(|family| file == *family)
            || !(small && elementwise)
            || LEFT_OUT.contains(&name)
            || name.starts_with("chlo.broadcast")
        {
            continue;
        }
        looked_at += 1;
        assert!(
            tried.contains(&(name.to_owned(), *element_type)),
            "{} has no exact result to be tried against: add its formula, or say why not",
            case.id
        );
    }
    assert!(looked_at > 500, "{looked_at}");
    assert!(tried.len() > 250, "{}", tried.len());
}

#[test]
fn an_operator_has_the_suites_program_and_widest_tolerance() {
    let cases = cases();
    let cosh = select(operators(&cases, false), &["chlo.cosh/f32".to_owned()]).unwrap();
    let [cosh] = &cosh[..] else {
        panic!("{cosh:?}");
    };
    let suites = cases
        .iter()
        .filter(|case| case.id.as_str().starts_with("stablehlo/chlo.cosh/f32/"));
    let widest = suites
        .map(|case| allowance(&case.tolerances[0]))
        .fold(0.0, f64::max);
    assert_eq!(allowance(&cosh.tolerance), widest);
    let case = cosh.case(&[vec![0x3f80_0000, 0x4000_0000]]).unwrap();
    assert!(
        case.program
            .contains("chlo.cosh %x : tensor<2xf32> -> tensor<2xf32>"),
        "{}",
        case.program
    );
    assert_eq!(case.inputs[0].shape, [2]);
    let operand = case.inputs[0].generate(0, 0).unwrap();
    assert_eq!(operand.to_f64(), [1.0, 2.0]);
}

#[test]
fn ids_keep_the_axes_but_the_variant() {
    let ids: BTreeSet<String> = ids(&cases()).iter().map(ToString::to_string).collect();
    for id in [
        "exhaustive/tanh/f32",
        "exhaustive/power/bf16",
        "exhaustive/compare/f16/totalorder/lt",
        "exhaustive/convert/f32/f8e4m3fn",
        "exhaustive/chlo.next_after/f8e5m2",
    ] {
        assert!(ids.contains(id), "{id}");
    }
    assert!(
        !ids.iter()
            .any(|id| id.contains("f64/") || id.ends_with("/c64"))
    );
}

#[test]
fn selection_takes_names_and_globs() {
    let all = operators(&cases(), false);
    let count = |pattern: &str| {
        let chosen = select(all.clone(), &[pattern.to_owned()]);
        chosen.map(|chosen| chosen.len())
    };
    let of_tanh = all
        .iter()
        .filter(|operator| operator.name() == "tanh")
        .count();
    assert_eq!(count("tanh"), Ok(of_tanh));
    assert_eq!(count("exhaustive/tanh/*"), Ok(of_tanh));
    assert_eq!(count("tanh/bf16"), Ok(1));
    assert!(count("*/bf16").unwrap() > 40);
    assert_eq!(
        count("tan"),
        Ok(all.iter().filter(|o| o.name() == "tan").count())
    );
    assert_eq!(
        count("tannh"),
        Err(SelectError::Nothing("tannh".to_owned()))
    );
    assert!(matches!(count("[tanh"), Err(SelectError::Glob { .. })));
}
