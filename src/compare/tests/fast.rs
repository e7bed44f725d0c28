//! Blocks of ordinary elements against the same elements one by one, which no block takes.

use super::*;
use crate::tensor::{Domain, InputSpec};

/// Mismatches and the three largest differences, of the elements one by one.
fn one_by_one(
    got: &Tensor,
    reference: &ReferenceTensor,
    tolerance: &Tolerance,
    numerics: &Numerics,
) -> (u64, f64, f64, f64) {
    let t = got.element_type();
    let (got, values) = (got.to_f64(), reference.values.to_f64());
    let scales = reference.scale.as_ref().map(Tensor::to_f64);
    let mut all = (0, 0.0, 0.0, 0.0);
    for i in 0..got.len() {
        let reference = ReferenceTensor {
            values: tensor(reference.values.element_type(), &values[i..=i]),
            scale: scales.as_ref().map(|scales| tensor(F64, &scales[i..=i])),
            element_type: t,
            flushed: None,
            yardstick: None,
        };
        let one = compare(&tensor(t, &got[i..=i]), &reference, tolerance, numerics).unwrap();
        all.0 += one.mismatches;
        all.1 = f64::max(all.1, one.max_abs);
        all.2 = f64::max(all.2, one.max_rel);
        all.3 = f64::max(all.3, one.max_ulp);
    }
    all
}

fn draw(domain: Domain, operand: usize) -> Vec<f64> {
    let spec = InputSpec {
        element_type: F64,
        shape: vec![540],
        domain,
    };
    spec.generate(11, operand).unwrap().to_f64()
}

#[test]
fn blocks_decide_and_measure_as_single_elements_do() {
    let normal = draw(Domain::Any, 0);
    let noise = draw(Domain::Any, 1);
    let mut odd = normal.clone();
    for (i, value) in [
        0.0, -0.0, NAN, INF, -INF, 1e-310, 1e300, MAX, MIN_NORMAL, 1e-40,
    ]
    .into_iter()
    .enumerate()
    {
        odd[i * 53] = value;
    }
    let tiny: Vec<f64> = normal.iter().map(|v| v * MIN_NORMAL).collect();
    let huge: Vec<f64> = normal.iter().map(|v| v * 1e305).collect();
    let tolerances = [
        Tolerance::Exact,
        Tolerance::Ulp(0.0),
        Tolerance::Ulp(3.0),
        accumulate(9, None),
        Tolerance::Distance(2),
    ];
    for t in [F8E4M3FN, BF16, F16, F32, F64] {
        let ulp = t.float_format().unwrap();
        for values in [&normal, &odd, &tiny, &huge] {
            for size in [0.6, 9.0] {
                let moved: Vec<f64> = values
                    .iter()
                    .zip(&noise)
                    .map(|(v, n)| v + size * n * ulp.ulp_at(*v))
                    .collect();
                let got = tensor(t, &moved);
                let scale: Vec<f64> = values.iter().map(|v| 2.0 * v.abs()).collect();
                let reference = ReferenceTensor {
                    scale: Some(tensor(F64, &scale)),
                    ..reference(t, values)
                };
                for tolerance in &tolerances {
                    for numerics in [PLAIN, TPU] {
                        let all = compare(&got, &reference, tolerance, &numerics).unwrap();
                        let single = one_by_one(&got, &reference, tolerance, &numerics);
                        assert_eq!(
                            (all.mismatches, all.max_abs, all.max_rel, all.max_ulp),
                            single,
                            "{t} {size} {tolerance:?} {numerics:?}"
                        );
                    }
                }
            }
        }
    }
}

/// A tolerance in norm takes its bound of the whole.
#[test]
fn a_norm_is_that_of_all_blocks() {
    let values: Vec<f64> = draw(Domain::Any, 0).repeat(3);
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let mut got: Vec<f64> = values.iter().map(|v| f64::from(*v as f32)).collect();
    let tolerance = Tolerance::Norm(4.0);
    assert_eq!(check(F32, &got, &values, &tolerance, &PLAIN).mismatches, 0);
    got[1599] += 8.0 * EPS * largest;
    let off = check(F32, &got, &values, &tolerance, &PLAIN);
    assert_eq!(
        (off.mismatches, off.first_mismatch.unwrap().index),
        (1, vec![1599])
    );
}

/// Against sums taken plainly.
#[test]
fn norms_and_cosine_of_blocks_are_those_of_the_vectors() {
    let values = draw(Domain::Any, 0);
    let got: Vec<f64> = values.iter().map(|v| f64::from((v * 1.5) as f32)).collect();
    let all = check(F32, &got, &values, &Tolerance::Norm(1e30), &PLAIN);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let errors: Vec<f64> = got.iter().zip(&values).map(|(g, v)| g - v).collect();
    let l2 = (dot(&errors, &errors) / dot(&values, &values)).sqrt();
    let cosine = dot(&got, &values) / (dot(&got, &got) * dot(&values, &values)).sqrt();
    assert!((all.relative_l2 - l2).abs() < 1e-12 && (all.cosine - cosine).abs() < 1e-12);
}
