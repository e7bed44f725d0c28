use super::super::reference::formula;
use super::*;

const CPU: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: true,
    f64_as_f32_pairs: false,
};
const IEEE: Numerics = Numerics {
    flush_subnormals: false,
    ..CPU
};

fn rule(operator: &str, tolerance: Tolerance, numerics: Numerics) -> Rule {
    Rule {
        formula: formula(operator, &[]).unwrap(),
        operands: ElementType::F32,
        result: ElementType::F32,
        tolerance,
        numerics,
    }
}

/// What comes of these f32 results of these operands.
fn measured(rule: &Rule, operands: &[&[f32]], results: &[f32]) -> Measure {
    let codes: Vec<Vec<u64>> = operands
        .iter()
        .map(|values| values.iter().map(|v| v.to_bits().into()).collect())
        .collect();
    let data = results.iter().flat_map(|v| v.to_le_bytes()).collect();
    let tensor = Tensor::new(ElementType::F32, vec![results.len()], data).unwrap();
    measure(rule, &codes, &tensor, Measure::default()).unwrap()
}

fn faults(measure: &Measure) -> Vec<(Fault, u64)> {
    let counts = measure.faults.iter();
    counts.map(|(fault, found)| (*fault, found.count)).collect()
}

#[test]
fn each_kind_of_fault_is_told_from_the_others() {
    let negate = rule("negate", Tolerance::Exact, IEEE);
    let tiny = f32::from_bits(1);
    for (operand, got, fault) in [
        (1.0, -1.000_000_1, Fault::Inaccurate),
        (1.0, f32::NAN, Fault::Nan),
        (f32::NAN, 1.0, Fault::Nan),
        (f32::MAX, f32::NEG_INFINITY, Fault::Infinity),
        (f32::INFINITY, f32::MIN, Fault::Infinity),
        (f32::INFINITY, f32::INFINITY, Fault::Infinity),
        (0.0, 0.0, Fault::ZeroSign),
        (tiny, -0.0, Fault::Zero),
    ] {
        let measure = measured(&negate, &[&[operand]], &[got]);
        assert_eq!(faults(&measure), [(fault, 1)], "-({operand:e}) = {got:e}");
        assert_eq!(
            measure.faults[&fault].first.operands,
            [format!("{operand:?}")]
        );
    }
}

#[test]
fn errors_are_counted_by_size_and_the_worst_is_kept() {
    let rule = rule("negate", Tolerance::Ulp(2.0), IEEE);
    let one = |ulps: u32| -f32::from_bits(1.0f32.to_bits() + ulps);
    let results = [one(0), one(1), one(3), one(40), one(2)];
    let measure = measured(&rule, &[&[1.0; 5]], &results);
    // Buckets: 0, ½, 1, 2, 4, 8, 16, 32, 64, …
    assert_eq!(measure.histogram[..9], [1, 0, 1, 1, 1, 0, 0, 0, 1]);
    assert_eq!(faults(&measure), [(Fault::Inaccurate, 2)]);
    assert_eq!(measure.worst_ulp(), 40.0);
    assert_eq!(measure.worst.as_ref().unwrap().bits, ["0x3f800000"]);
    let text = measure.describe_faults();
    assert_eq!(
        text,
        "of 5 values 2 too inaccurate; at 0x3f800000 (1.0): -1.0000048, expected -1.0 (40.00 ulp)"
    );
}

#[test]
fn a_subnormal_operand_may_be_read_as_zero_where_the_target_flushes() {
    let tiny = f32::from_bits(1);
    // log of 2^-149 is -103.28; of zero, minus infinity.
    for (numerics, open) in [(CPU, true), (IEEE, false)] {
        let log = rule("log", Tolerance::Ulp(3.0), numerics);
        let measure = measured(&log, &[&[tiny]], &[f32::NEG_INFINITY]);
        assert_eq!(measure.operands_flushed, u64::from(open));
        assert_eq!(measure.faults.is_empty(), open);
        // Never as a zero of the other sign.
        let rsqrt = rule("rsqrt", Tolerance::Ulp(2.0), numerics);
        let measure = measured(&rsqrt, &[&[tiny]], &[f32::NEG_INFINITY]);
        let fault = if open {
            Fault::Subnormal
        } else {
            Fault::Infinity
        };
        assert_eq!(faults(&measure), [(fault, 1)]);
        assert_eq!(measure.worst, None);
    }
    // Such an operand may come back as it was: to the target it is a zero.
    let maximum = rule("maximum", Tolerance::Exact, CPU);
    let measure = measured(&maximum, &[&[tiny], &[2.0 * tiny]], &[tiny]);
    assert!(measure.faults.is_empty(), "{measure:?}");
    let measure = measured(&maximum, &[&[tiny], &[-tiny]], &[-tiny]);
    assert_eq!(faults(&measure), [(Fault::Subnormal, 1)]);
    // Of two operands either or both.
    let add = rule("add", Tolerance::Exact, CPU);
    let measure = measured(&add, &[&[tiny, tiny], &[1e-38, tiny]], &[1e-38, 0.0]);
    assert!(measure.faults.is_empty(), "{measure:?}");
}

#[test]
fn a_flushed_result_counts_in_no_error() {
    let rule = rule("multiply", Tolerance::Exact, CPU);
    let measure = measured(&rule, &[&[1e-30, 1.0], &[-1e-10, 3.0]], &[-0.0, 3.0]);
    assert_eq!((measure.results_flushed, measure.values), (1, 2));
    assert_eq!(measure.worst, None);
    assert!(measure.faults.is_empty());
}

#[test]
fn what_is_open_is_counted_and_not_judged() {
    let rule = rule("remainder", Tolerance::Exact, CPU);
    let measure = measured(&rule, &[&[1.0], &[f32::INFINITY]], &[f32::NAN]);
    assert_eq!((measure.open, measure.fault_count()), (1, 0));
}

#[test]
fn programs_add_up() {
    let rule = rule("negate", Tolerance::Exact, IEEE);
    let first = measured(&rule, &[&[1.0]], &[-1.5]);
    let codes = vec![vec![u64::from(2.0f32.to_bits())]];
    let data = 0f32.to_le_bytes().to_vec();
    let tensor = Tensor::new(ElementType::F32, vec![1], data).unwrap();
    let both = measure(&rule, &codes, &tensor, first).unwrap();
    assert_eq!(both.values, 2);
    assert_eq!(faults(&both), [(Fault::Inaccurate, 1), (Fault::Zero, 1)]);
}

#[test]
fn tanh_in_place_of_logistic_is_caught_on_every_small_type() {
    for element_type in ElementType::all().filter(|t| t.is_float() && t.bits() <= 16) {
        let format = element_type.float_format().unwrap();
        if !format.has_sign() {
            continue;
        }
        let codes: Vec<u64> = (0..1 << element_type.bits()).collect();
        let values: Vec<f64> = codes.iter().map(|c| format.decode(*c).tanh()).collect();
        let tensor = Tensor::from_f64(element_type, vec![codes.len()], &values).unwrap();
        let rule = Rule {
            formula: formula("logistic", &[]).unwrap(),
            operands: element_type,
            result: element_type,
            tolerance: Tolerance::Ulp(2.0),
            numerics: CPU,
        };
        let measure = measure(&rule, &[codes], &tensor, Measure::default()).unwrap();
        let share = measure.fault_count() as f64 / measure.values as f64;
        assert!(share > 0.25, "{element_type}: {share}");
    }
}
