//! What each domain promises, over every type that it fits.

use super::*;
use ElementType::*;

/// Every tensor of the domain, over all types that allow it; three 8×8 matrices each.
fn each(domain: &Domain) -> Vec<Tensor> {
    let tensors: Vec<_> = ElementType::all()
        .filter_map(|element_type| {
            let spec = InputSpec {
                element_type,
                shape: vec![3, 8, 8],
                domain: domain.clone(),
            };
            spec.generate(11, 3).ok()
        })
        .collect();
    assert!(tensors.len() > 4, "{domain:?}");
    tensors
}

fn generate(element_type: ElementType, shape: &[usize], domain: Domain) -> Result<Tensor> {
    InputSpec {
        element_type,
        shape: shape.to_vec(),
        domain,
    }
    .generate(5, 0)
}

#[test]
fn values_lie_in_their_domain() {
    let in_all = |domain: Domain, holds: fn(f64) -> bool| {
        for tensor in each(&domain) {
            let bad = tensor.to_f64().into_iter().find(|v| !holds(*v));
            assert_eq!(bad, None, "{domain:?} {}", tensor.element_type());
        }
    };
    in_all(Domain::Positive, |v| v > 0.0 && v < 101.0);
    in_all(Domain::Unit, |v| (0.0..1.0).contains(&v));
    in_all(Domain::Uniform { lo: 0.3, hi: 1.7 }, |v| {
        (0.3..1.7).contains(&v)
    });
    in_all(Domain::Nonzero, |v| v != 0.0);
    in_all(Domain::Integers { lo: 1, hi: 3 }, |v| {
        [1.0, 2.0, 3.0].contains(&v)
    });
    in_all(Domain::Integers { lo: -100, hi: 90 }, |v| {
        (-100.0..=90.0).contains(&v)
    });
}

#[test]
fn special_values_are_all_there_and_none_is_subnormal() {
    for tensor in each(&Domain::Special) {
        let element_type = tensor.element_type();
        let values = tensor.to_f64();
        let has = |test: fn(&f64) -> bool| values.iter().any(test);
        assert!(has(|v| *v == 1.0), "{element_type}");
        let Some(format) = element_type.float_format() else {
            continue;
        };
        assert_eq!(has(|v| v.is_nan()), format.has_nan(), "{element_type}");
        assert_eq!(
            has(|v| *v == f64::NEG_INFINITY),
            format.has_infinity(),
            "{element_type}"
        );
        assert_eq!(
            has(|v| v.to_bits() == (-0.0f64).to_bits()),
            format.has_negative_zero(),
            "{element_type}"
        );
        assert!(values.contains(&format.max_finite()) && values.contains(&format.min_normal()));
        let subnormal = values
            .iter()
            .find(|v| **v != 0.0 && v.abs() < format.min_normal());
        assert_eq!(subnormal, None, "{element_type}");
    }
}

#[test]
fn subnormals_are_subnormal_of_both_signs() {
    for tensor in each(&Domain::Subnormal) {
        let format = tensor.element_type().float_format().unwrap();
        let values = tensor.to_f64();
        assert!(values.iter().all(|v| v.abs() <= format.min_normal()));
        assert!(
            values.contains(&format.min_positive()) && values.contains(&-format.min_positive())
        );
    }
    assert!(generate(I32, &[4], Domain::Subnormal).is_err());
    assert!(generate(F8E8M0FNU, &[4], Domain::Subnormal).is_err());
}

#[test]
fn each_row_of_a_permutation_holds_each_index_once() {
    for tensor in each(&Domain::Permutation)
        .iter()
        .filter(|t| !t.element_type().is_complex())
    {
        let mut rows = std::collections::BTreeSet::new();
        for row in tensor.to_f64().chunks(8) {
            let mut sorted: Vec<_> = row.iter().map(|v| *v as usize).collect();
            rows.insert(sorted.clone());
            sorted.sort_unstable();
            assert_eq!(
                sorted,
                (0..8).collect::<Vec<_>>(),
                "{}",
                tensor.element_type()
            );
        }
        assert!(rows.len() > 8);
    }
    let error = generate(I4, &[9], Domain::Permutation)
        .unwrap_err()
        .to_string();
    assert!(error.contains("every integer from 0 to 8"), "{error}");
    assert!(generate(BF16, &[257], Domain::Permutation).is_ok());
    assert!(generate(BF16, &[258], Domain::Permutation).is_err());
}

/// Cholesky's algorithm itself is the proof.
#[test]
fn positive_definite_matrices_factor() {
    for tensor in each(&Domain::PositiveDefinite) {
        let parts = if tensor.element_type().is_complex() {
            2
        } else {
            1
        };
        for matrix in tensor.to_f64().chunks(64 * parts) {
            let at = |i: usize, j: usize| {
                let element = &matrix[(i * 8 + j) * parts..][..parts];
                num_complex::Complex64::new(element[0], *element.get(1).unwrap_or(&0.0))
            };
            let mut l = [[num_complex::Complex64::ZERO; 8]; 8];
            for i in 0..8 {
                for j in 0..=i {
                    assert_eq!(at(i, j), at(j, i).conj());
                    let sum: num_complex::Complex64 =
                        (0..j).map(|k| l[i][k] * l[j][k].conj()).sum();
                    if i == j {
                        let pivot = at(i, i) - sum;
                        assert!(pivot.re > 1.0, "{}", tensor.element_type());
                        l[i][i] = pivot.re.sqrt().into();
                    } else {
                        l[i][j] = (at(i, j) - sum) / l[j][j];
                    }
                }
            }
        }
    }
    let error = generate(F32, &[3, 4], Domain::PositiveDefinite)
        .unwrap_err()
        .to_string();
    assert!(error.contains("last two dimensions"), "{error}");
}

#[test]
fn triangular_matrices_have_a_diagonal_of_one_to_two() {
    for tensor in each(&Domain::Triangular)
        .iter()
        .filter(|t| !t.element_type().is_complex())
    {
        for (i, v) in tensor.to_f64().into_iter().enumerate() {
            if (i / 8) % 8 == i % 8 {
                assert!(
                    (1.0..2.0).contains(&v.abs()),
                    "{} {v}",
                    tensor.element_type()
                );
            }
        }
    }
}

#[test]
fn listed_values_must_fit() {
    let values = |list: &[f64]| Domain::Values(list.to_vec());
    assert_eq!(
        generate(F32, &[3], values(&[1.0, -0.0])).unwrap().to_f64(),
        [1.0, -0.0, 1.0]
    );
    assert!(generate(F32, &[2], values(&[f64::NAN, f64::INFINITY])).is_ok());
    for (element_type, list) in [
        (U8, &[256.0][..]),
        (I8, &[0.5]),
        (I8, &[f64::NAN]),
        (F16, &[1e6]),
        (F8E8M0FNU, &[-1.0]),
        (F32, &[]),
    ] {
        assert!(
            generate(element_type, &[2], values(list)).is_err(),
            "{element_type} {list:?}"
        );
    }
}

#[test]
fn bad_intervals_are_refused() {
    for (lo, hi) in [
        (1.0, 1.0),
        (2.0, 1.0),
        (f64::NAN, 1.0),
        (0.0, f64::INFINITY),
        (0.0, 1e6),
    ] {
        assert!(
            generate(F16, &[2], Domain::Uniform { lo, hi }).is_err(),
            "{lo} {hi}"
        );
    }
    // f4 has nothing between 4 and 6.
    assert!(generate(F4E2M1FN, &[2], Domain::Uniform { lo: 4.5, hi: 5.5 }).is_err());
    assert!(generate(I32, &[2], Domain::Integers { lo: 3, hi: 2 }).is_err());
}

#[test]
fn seeds_and_operands_have_streams_of_their_own() {
    let spec = InputSpec {
        element_type: F32,
        shape: vec![64],
        domain: Domain::Any,
    };
    let tensors =
        [(1, 0), (1, 1), (2, 0)].map(|(seed, operand)| spec.generate(seed, operand).unwrap());
    assert!(tensors[0] != tensors[1] && tensors[0] != tensors[2] && tensors[1] != tensors[2]);
    assert_eq!(tensors[0], spec.generate(1, 0).unwrap());
}
