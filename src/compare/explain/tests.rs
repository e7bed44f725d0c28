//! Each kind on a fault injected by hand, and each test's silence where the fault is another.

use super::*;
use crate::compare::{Precision, compare};
use crate::tensor::ElementType::{self, *};
use crate::tensor::{Domain, InputSpec};

const PLAIN: Numerics = Numerics {
    matmul_bf16_passes: false,
    flush_subnormals: false,
    f64_as_f32_pairs: false,
};
const ULPS: Tolerance = Tolerance::Ulp(4.0);

/// Values of both signs that fill the mantissa.
fn values(shape: &[usize]) -> Vec<f64> {
    let spec = InputSpec {
        element_type: F64,
        shape: shape.to_vec(),
        domain: Domain::Any,
    };
    spec.generate(7, 0).unwrap().to_f64()
}

struct Fixture {
    element_type: ElementType,
    shape: Vec<usize>,
    reference: Vec<f64>,
    tolerance: Tolerance,
}

impl Fixture {
    fn new(element_type: ElementType, shape: &[usize], reference: Vec<f64>) -> Self {
        Self {
            element_type,
            shape: shape.to_vec(),
            reference,
            tolerance: ULPS,
        }
    }

    fn f32(shape: &[usize]) -> Self {
        Self::new(F32, shape, values(shape))
    }

    fn with(self, tolerance: Tolerance) -> Self {
        Self { tolerance, ..self }
    }

    fn tensor(&self, got: &[f64]) -> Tensor {
        Tensor::from_f64(self.element_type, self.shape.clone(), got).unwrap()
    }

    fn reference(&self) -> ReferenceTensor {
        let widened = self.element_type.widened();
        let values = Tensor::from_f64(widened, self.shape.clone(), &self.reference).unwrap();
        ReferenceTensor {
            scale: Some(
                Tensor::from_f64(F64, self.shape.clone(), &vec![4.0; values.len()]).unwrap(),
            ),
            values,
            element_type: self.element_type,
            flushed: None,
            yardstick: None,
        }
    }

    fn explain_knowing(&self, got: &[f64], known: &[Known<'_>]) -> Explanation {
        let (got, reference) = (self.tensor(got), self.reference());
        explain(&got, &reference, &self.tolerance, &PLAIN, known)
            .unwrap()
            .expect("a failure")
    }

    fn explain(&self, got: &[f64]) -> Explanation {
        self.explain_knowing(got, &[])
    }

    /// The result that `fault` makes of each element and its flat index.
    fn with_fault(&self, fault: impl Fn(usize, f64) -> f64) -> Explanation {
        let got: Vec<f64> = self
            .reference
            .iter()
            .enumerate()
            .map(|(i, &r)| fault(i, r))
            .collect();
        self.explain(&got)
    }

    /// The elements of the reference from other places.
    fn moved(&self, source: impl Fn(usize) -> usize) -> Explanation {
        self.with_fault(|index, _| self.reference[source(index)])
    }
}

#[track_caller]
fn assert_is(explanation: &Explanation, fault: Fault, words: &str) {
    assert_eq!(explanation.faults, [fault], "{}", explanation.text);
    assert!(explanation.text.contains(words), "{}", explanation.text);
}

#[test]
fn what_agrees_needs_no_explanation() {
    let fixture = Fixture::f32(&[8, 8]);
    let got = fixture.tensor(&fixture.reference);
    assert_eq!(
        explain(&got, &fixture.reference(), &ULPS, &PLAIN, &[]).unwrap(),
        None
    );
}

#[test]
fn a_constant_factor() {
    let twice = Fixture::f32(&[8, 8]).with_fault(|_, r| 2.0 * r);
    assert_is(&twice, Fault::ConstantFactor, "All 64 elements are off");
    assert_is(
        &twice,
        Fault::ConstantFactor,
        "Every element is 2.000 times its reference.",
    );
    let odd = Fixture::f32(&[8, 8]).with_fault(|_, r| -0.37 * r);
    assert_is(&odd, Fault::ConstantFactor, "is -0.3700 times");
    let some = Fixture::f32(&[8, 8]).with_fault(|i, r| if i % 5 == 0 { 3.0 * r } else { r });
    assert_is(
        &some,
        Fault::ConstantFactor,
        "Each of all 13 differing elements is 3.000 times",
    );
    let integers = Fixture::new(I32, &[6], vec![1.0, -2.0, 3.0, 40.0, -5.0, 0.0]);
    assert_is(
        &integers.with_fault(|_, r| 4.0 * r),
        Fault::ConstantFactor,
        "4 times",
    );
    // Of one element, a plain factor is told, and any other not.
    assert_is(
        &Fixture::f32(&[]).with_fault(|_, r| 2.0 * r),
        Fault::ConstantFactor,
        "It is 2.000 times",
    );
    assert!(
        Fixture::f32(&[])
            .with_fault(|_, r| 1.37 * r)
            .faults
            .is_empty()
    );
}

#[test]
fn a_uniform_bias() {
    let up = Fixture::f32(&[8, 8]).with_fault(|_, r| r + 0.125);
    assert_is(
        &up,
        Fault::UniformBias,
        "Every element lies 0.1250 above its reference.",
    );
    let integers = Fixture::new(I8, &[6], vec![1.0, -2.0, 3.0, 40.0, -5.0, 0.0]);
    assert_is(
        &integers.with_fault(|_, r| r - 1.0),
        Fault::UniformBias,
        "1 below",
    );
}

#[test]
fn a_bias_of_bounds_is_an_error_of_one_sign() {
    let fixture = Fixture::f32(&[8, 8]);
    let ulp = |r: f64| F32.float_format().unwrap().ulp_at(r);
    let biased = fixture.with_fault(|_, r| r + 8.0 * ulp(r));
    assert_is(
        &biased,
        Fault::OneSided,
        "above its reference, the differing ones by ",
    );
}

#[test]
fn axes_in_another_order() {
    let square = Fixture::f32(&[8, 8]);
    let text = square.moved(|i| i % 8 * 8 + i / 8);
    assert_is(
        &text,
        Fault::Transposed,
        "with its axes in the order [1, 0]",
    );
    // [4, 6] written as [6, 4].
    let oblong = Fixture::f32(&[4, 6]);
    let text = oblong.moved(|i| i % 4 * 6 + i / 4);
    assert_is(
        &text,
        Fault::Transposed,
        "axes in memory in the order [1, 0]",
    );
    let cube = Fixture::f32(&[3, 4, 5]);
    let text = cube.moved(|i| {
        let (c, a, b) = (i / 12, i / 4 % 3, i % 4);
        a * 20 + b * 5 + c
    });
    assert_is(&text, Fault::Transposed, "[2, 0, 1]");
}

#[test]
fn a_shifted_axis() {
    let fixture = Fixture::f32(&[6, 10]);
    let text = fixture.moved(|i| i / 10 * 10 + (i % 10 + 9) % 10);
    assert_is(
        &text,
        Fault::Shifted,
        "shifted up by one place along axis 1, round the end.",
    );
    let text = fixture.moved(|i| (i + 20) % 60);
    assert_is(
        &text,
        Fault::Shifted,
        "shifted down by 2 places along axis 0, round the end.",
    );
    // What enters is no value of the reference.
    let text = fixture.with_fault(|i, _| {
        if i % 10 == 0 {
            0.0
        } else {
            fixture.reference[i - 1]
        }
    });
    assert_eq!(text.faults[0], Fault::Shifted, "{}", text.text);
    assert!(
        text.text.contains("up by one place along axis 1."),
        "{}",
        text.text
    );
}

#[test]
fn reversed_and_permuted() {
    let fixture = Fixture::f32(&[6, 10]);
    let text = fixture.moved(|i| i / 10 * 10 + 9 - i % 10);
    assert_is(&text, Fault::Reversed, "reversed along axis 1");
    let text = fixture.moved(|i| i * 7 % 60);
    assert_is(&text, Fault::Permuted, "in another order");
}

#[test]
fn the_output_of_something_else() {
    let fixture = Fixture::f32(&[4, 4]);
    let earlier: Vec<f64> = values(&[4, 4]).iter().map(|v| v + 3.0).collect();
    let other = fixture.tensor(&earlier);
    let known = [Known {
        name: "the result of s/add/f32".to_owned(),
        tensor: &other,
    }];
    let text = fixture.explain_knowing(&earlier, &known);
    assert_is(&text, Fault::Stale, "bit for bit, the result of s/add/f32");
    let text = fixture.with_fault(|_, r| r + 3.0);
    assert_is(&text, Fault::UniformBias, "3.000 above");
}

#[test]
fn special_values_in_the_wrong_place() {
    let fixture = Fixture::f32(&[8, 8]);
    let text = fixture.with_fault(|i, r| if i == 9 { f64::NAN } else { r });
    assert_is(
        &text,
        Fault::Nan,
        "One element of 64 is off. NaN stands where",
    );
    assert_is(
        &text,
        Fault::Nan,
        "the one differing element, first at [1, 1]",
    );
    let text = fixture.with_fault(|i, r| if i % 2 == 0 { f64::INFINITY } else { r });
    assert_is(&text, Fault::Infinite, "all 32 differing elements");
    let special = Fixture::new(F32, &[4], vec![f64::NAN, -0.0, 1.0, f64::NAN]);
    let text = special.with_fault(|_, r| if r.is_nan() { 0.0 } else { r });
    assert_is(&text, Fault::NanLost, "first 0 at [0]");
    let text = special.with_fault(|i, r| if i == 1 { 0.0 } else { r });
    assert_is(&text, Fault::SignOfZero, "wrong sign, first at [1]");
}

#[test]
fn zeros_flushes_and_signs() {
    let fixture = Fixture::f32(&[8, 8]);
    assert_is(
        &fixture.with_fault(|_, _| 0.0),
        Fault::Zeros,
        "all 64 differing elements zero",
    );
    assert_is(
        &fixture.with_fault(|_, r| -r),
        Fault::SignFlipped,
        "the magnitude right",
    );
    assert_is(
        &fixture.with_fault(|_, _| 2.5),
        Fault::Constant,
        "Every element is 2.5",
    );
    let small = Fixture::new(F16, &[4], vec![1e-6, -2e-6, 1.0, 2.0]);
    let text = small.with_fault(|_, r| if r.abs() < 1e-4 { r * 0.0 } else { r });
    assert_is(&text, Fault::FlushedSubnormals, "flushed to zero");
    let complex = Fixture::new(C64, &[8], values(&[16]));
    let text = complex.with_fault(|i, r| if i % 2 == 1 { -r } else { r });
    assert_is(&text, Fault::Conjugated, "imaginary part alone");
}

#[test]
fn rounding_by_other_rules() {
    let bf16 = BF16.float_format().unwrap();
    let fixture = Fixture::f32(&[8, 8]).with(Tolerance::Exact);
    let narrow = fixture.with_fault(|_, r| bf16.round_to(r));
    assert_is(&narrow, Fault::Narrowed, "rounded to bf16");
    let cut = fixture.with_fault(|_, r| {
        let nearest = f64::from(r as f32);
        if nearest.abs() > r.abs() {
            f64::from(f32::from_bits((r as f32).to_bits() - 1))
        } else {
            nearest
        }
    });
    assert_is(&cut, Fault::Truncated, "toward zero");
    let double = Fixture::new(F64, &[8, 8], values(&[8, 8]));
    let text = double.with_fault(|_, r| f64::from(r as f32));
    assert_is(&text, Fault::Narrowed, "rounded to f32");
}

/// Dot products of 64 terms, their operands rounded to bf16 first.
#[test]
fn arithmetic_in_bf16() {
    let (a, b) = (values(&[64, 64]), values(&[65, 64])[64..].to_vec());
    let bf16 = BF16.float_format().unwrap();
    let dot = |row: usize, col: usize, round: &dyn Fn(f64) -> f64| -> f64 {
        (0..64)
            .map(|k| round(a[row * 64 + k]) * round(b[k * 64 + col]))
            .sum()
    };
    let every = |round: &dyn Fn(f64) -> f64| -> Vec<f64> {
        (0..64).map(|i| dot(i / 8, i % 8, round)).collect()
    };
    let mut fixture = Fixture::new(F32, &[8, 8], every(&|x| x));
    fixture.tolerance = Tolerance::Accumulate {
        terms: 64,
        accumulator: F32,
        precision: Some(Precision::Highest),
    };
    let got = every(&|x| bf16.round_to(x));
    // Against the magnitude of the products, as a reference brings it.
    let scale: Vec<f64> = (0..64)
        .map(|i| {
            (0..64)
                .map(|k| (a[i / 8 * 64 + k] * b[k * 64 + i % 8]).abs())
                .sum()
        })
        .collect();
    let reference = ReferenceTensor {
        scale: Some(Tensor::from_f64(F64, vec![8, 8], &scale).unwrap()),
        ..fixture.reference()
    };
    let tensor = fixture.tensor(&got);
    let text = explain(&tensor, &reference, &fixture.tolerance, &PLAIN, &[])
        .unwrap()
        .unwrap();
    assert_is(&text, Fault::LowPrecision, "arithmetic in bf16");
    // Noise of another size is no matter of precision.
    let noisy: Vec<f64> = fixture
        .reference
        .iter()
        .zip(&b)
        .map(|(r, b)| r + 0.3 * b)
        .collect();
    let tensor = fixture.tensor(&noisy);
    let text = explain(&tensor, &reference, &fixture.tolerance, &PLAIN, &[])
        .unwrap()
        .unwrap();
    assert!(text.faults.is_empty(), "{}", text.text);
    assert!(text.text.contains("No simple pattern"), "{}", text.text);
}

/// Noise that no other kind accounts for, in some places.
fn noisy(fixture: &Fixture, at: impl Fn(usize) -> bool) -> Explanation {
    let noise = values(&[fixture.reference.len() + 1])[1..].to_vec();
    fixture.with_fault(|i, r| if at(i) { r + noise[i] } else { r })
}

#[test]
fn wrong_at_a_boundary() {
    let fixture = Fixture::f32(&[8, 10]);
    let text = noisy(&fixture, |i| i % 10 == 9);
    assert_is(
        &text,
        Fault::Boundary,
        "at the last index of axis 1 (10 long)",
    );
    let text = noisy(&fixture, |i| i / 10 == 0 || i / 10 == 7);
    assert_is(
        &text,
        Fault::Boundary,
        "at the first and the last index of axis 0 (8 long)",
    );
    let text = noisy(&fixture, |i| i % 10 == 9 || i / 10 == 0);
    assert_is(&text, Fault::Boundary, "on the rim");
    // Two elements at an edge may be chance.
    let text = noisy(&fixture, |i| i == 9 || i == 39);
    assert!(text.faults.is_empty(), "{}", text.text);
}

#[test]
fn wrong_above_a_size() {
    let fixture = Fixture::f32(&[20, 12]);
    let text = noisy(&fixture, |i| i / 12 >= 16);
    assert_is(
        &text,
        Fault::AboveASize,
        "at index 16 and above of axis 0 (20 long), where every element is off",
    );
    let text = noisy(&fixture, |i| i >= 100);
    assert_is(&text, Fault::AboveASize, "from element 100 of 240 on");
    let scattered = noisy(&fixture, |i| i % 3 == 0);
    assert!(scattered.faults.is_empty(), "{}", scattered.text);
}

#[test]
fn several_kinds_are_told_beside_each_other() {
    let fixture = Fixture::f32(&[8, 8]);
    let text = fixture.with_fault(|i, r| match i {
        3..=5 => f64::NAN,
        10 => -r,
        _ => r,
    });
    assert_eq!(
        text.faults,
        [Fault::Nan, Fault::SignFlipped],
        "{}",
        text.text
    );
    assert!(
        text.text.contains("in 3 of 4 differing elements"),
        "{}",
        text.text
    );
}

/// Two `pred` or f4 elements agree by chance so often that no move can be told from another.
#[test]
fn narrow_types_need_more_elements_for_a_claim() {
    let bools = Fixture::new(Pred, &[2, 2], vec![0.0, 1.0, 0.0, 0.0]);
    let text = bools.moved(|i| i % 2 * 2 + i / 2);
    assert!(!text.faults.contains(&Fault::Transposed), "{}", text.text);
    let spec = InputSpec {
        element_type: Pred,
        shape: vec![32, 32],
        domain: Domain::Any,
    };
    let many = Fixture::new(Pred, &[32, 32], spec.generate(3, 0).unwrap().to_f64());
    let text = many.moved(|i| i % 32 * 32 + i / 32);
    assert_is(&text, Fault::Transposed, "[1, 0]");
}

/// Large tensors are sampled, and say so.
#[test]
fn a_large_tensor_is_sampled() {
    let fixture = Fixture::f32(&[200, 200]);
    let text = fixture.with_fault(|_, r| 2.0 * r);
    assert_is(&text, Fault::ConstantFactor, "All 40000 elements are off");
    let text = fixture.with_fault(|_, r| -r);
    assert_is(
        &text,
        Fault::SignFlipped,
        "differing elements looked at the sign",
    );
}

#[test]
fn an_explanation_survives_the_journal() {
    let fixture = Fixture::f32(&[4]);
    let mut comparison = compare(
        &fixture.tensor(&[0.0; 4]),
        &fixture.reference(),
        &ULPS,
        &PLAIN,
    )
    .unwrap();
    comparison.explanation = Some(fixture.with_fault(|_, _| 0.0));
    let text = serde_json::to_string(&comparison).unwrap();
    assert!(text.contains(r#""faults":["zeros"]"#), "{text}");
    assert_eq!(
        serde_json::from_str::<crate::compare::Comparison>(&text).unwrap(),
        comparison
    );
}
