use super::*;
use crate::tensor::ElementType;
use crate::tensor::format::pow2;

const F32: FloatFormat = match ElementType::F32.float_format() {
    Some(format) => format,
    None => unreachable!(),
};

fn operand(value: f64) -> Operand {
    Operand {
        code: F32.encode(value),
        value,
    }
}

fn evaluate(operator: &str, axes: &[&str], operands: &[f64]) -> Option<f64> {
    let operands: Vec<Operand> = operands.iter().copied().map(operand).collect();
    let formula = formula(operator, axes).unwrap();
    assert_eq!(formula.operands(), operands.len(), "{operator}");
    formula.evaluate(&operands, &F32)
}

/// 2⁻⁴⁰ is 2⁻¹⁷ ulp of f32: no verdict on a type of up to 24 bits hangs on it.
#[test]
fn formulas_agree_with_mpmath() {
    let golden = include_str!("../../../tests/data/exhaustive/functions.txt");
    let mut tried = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let operator = words.next().unwrap();
        let mut numbers: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        let expected = numbers.pop().unwrap();
        let got = evaluate(operator, &[], &numbers).unwrap();
        let error = (got - expected).abs();
        assert!(
            got == expected || error <= pow2(-40) * expected.abs(),
            "{operator} {numbers:?}: {got:e}, mpmath {expected:e}, off by {:e}",
            error / expected.abs()
        );
        tried += 1;
    }
    assert!(tried > 800, "{tried}");
}

#[test]
fn special_values_are_those_of_ieee_754_and_c() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let tiny = F32.min_positive();
    let max = F32.max_finite();
    let cases: &[(&str, &[f64], f64)] = &[
        ("sqrt", &[-0.0], -0.0),
        ("rsqrt", &[-0.0], -inf),
        ("rsqrt", &[-1.0], nan),
        ("log", &[-0.0], -inf),
        ("log_plus_one", &[-1.0], -inf),
        ("log_plus_one", &[-0.0], -0.0),
        ("logistic", &[-inf], 0.0),
        ("tanh", &[-inf], -1.0),
        ("sine", &[inf], nan),
        ("sign", &[-0.0], -0.0),
        ("sign", &[nan], nan),
        ("round_nearest_even", &[2.5], 2.0),
        ("round_nearest_even", &[-0.5], -0.0),
        ("round_nearest_afz", &[2.5], 3.0),
        ("ceil", &[-0.5], -0.0),
        ("chlo.erf_inv", &[1.0], inf),
        ("chlo.erf_inv", &[-2.0], nan),
        ("chlo.acosh", &[0.5], nan),
        ("chlo.acosh", &[-8192.0], nan),
        ("chlo.lgamma", &[-3.0], inf),
        ("chlo.lgamma", &[1.0], 0.0),
        ("chlo.digamma", &[-1.0], nan),
        ("chlo.bessel_i1e", &[-inf], -0.0),
        ("chlo.zeta", &[1.0, 2.0], inf),
        ("chlo.zeta", &[0.5, 2.0], nan),
        ("chlo.zeta", &[2.0, -1.0], inf),
        ("chlo.zeta", &[1e19, 1e18], 0.0),
        ("chlo.polygamma", &[0.5, 2.0], nan),
        ("maximum", &[-0.0, 0.0], 0.0),
        ("maximum", &[1.0, nan], nan),
        ("minimum", &[0.0, -0.0], -0.0),
        ("power", &[nan, 0.0], 1.0),
        ("power", &[1.0, nan], 1.0),
        ("power", &[-0.0, -3.0], -inf),
        ("atan2", &[-0.0, -1.0], -std::f64::consts::PI),
        ("remainder", &[-4.0, 2.0], -0.0),
        ("remainder", &[1.0, 0.0], nan),
        ("chlo.next_after", &[0.0, -1.0], -tiny),
        ("chlo.next_after", &[-tiny, 1.0], -0.0),
        ("chlo.next_after", &[max, inf], inf),
        ("chlo.next_after", &[inf, 0.0], max),
        ("chlo.next_after", &[1.0, 1.0], 1.0),
    ];
    for (operator, operands, expected) in cases {
        let got = evaluate(operator, &[], operands).unwrap();
        let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
        assert!(same, "{operator} {operands:?}: {got}, expected {expected}");
    }
}

#[test]
fn what_the_specification_leaves_open_has_no_exact_result() {
    assert_eq!(evaluate("remainder", &[], &[1.0, f64::INFINITY]), None);
    let total = ["totalorder", "lt"];
    assert_eq!(evaluate("compare", &total, &[-0.0, 0.0]), None);
    assert_eq!(evaluate("compare", &total, &[f64::NAN, f64::NAN]), None);
    assert_eq!(evaluate("chlo.digamma", &[], &[-0.0]), None);
    assert_eq!(evaluate("chlo.zeta", &[], &[3.0, -1.0]), None);
}

#[test]
fn comparisons_know_nan() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for (order, direction, x, y, expected) in [
        ("float", "eq", nan, nan, 0.0),
        ("float", "ne", nan, 1.0, 1.0),
        ("float", "ge", -0.0, 0.0, 1.0),
        ("float", "lt", nan, 1.0, 0.0),
        ("totalorder", "gt", nan, inf, 1.0),
        ("totalorder", "le", -inf, -1.0, 1.0),
    ] {
        let got = evaluate("compare", &[order, direction], &[x, y]);
        assert_eq!(got, Some(expected), "{order} {direction} {x} {y}");
    }
}

#[test]
fn a_negative_nan_is_the_lowest_of_the_total_order() {
    let nan = Operand {
        code: 0xffc0_0000,
        value: f64::NAN,
    };
    let less = formula("compare", &["totalorder", "lt"]).unwrap();
    let infinity = operand(f64::NEG_INFINITY);
    assert_eq!(less.evaluate(&[nan, infinity], &F32), Some(1.0));
}

/// Worked by hand: 1 + 2^-3 is a tie of e5m2's neighbours 1 and 1.25, 1 + 3 * 2^-3 of 1.25 and 1.5; 61440 is the tie between the largest
/// value of e5m2, 57344, and 65536.
#[test]
fn reduced_precision_rounds_ties_to_even_and_overflows_to_infinity() {
    let reduced = |x: f64, format: &str| {
        let formula = formula("reduce_precision", &[format]).unwrap();
        let x = Operand { code: 0, value: x };
        formula.evaluate(&[x], &ElementType::F32.float_format().unwrap())
    };
    assert_eq!(reduced(1.125, "e5m2"), Some(1.0));
    assert_eq!(reduced(-1.375, "e5m2"), Some(-1.5));
    assert_eq!(reduced(61439.0, "e5m2"), Some(57344.0));
    assert_eq!(reduced(61440.0, "e5m2"), Some(f64::INFINITY));
    assert_eq!(
        reduced(-0.0, "e5m2").map(f64::to_bits),
        Some((-0.0f64).to_bits())
    );
    assert_eq!(reduced(2f64.powi(-14), "e5m2"), Some(2f64.powi(-14)));
    // Subnormal in e5m2.
    assert_eq!(reduced(2f64.powi(-15), "e5m2"), None);
    assert_eq!(reduced(0.1, "e11m52"), Some(0.1));
    assert!(reduced(f64::NAN, "e8m7").unwrap().is_nan());
    assert!(formula("reduce_precision", &["e0m3"]).is_none());
}
