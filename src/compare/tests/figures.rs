//! What a comparison reports: figures, the first mismatch, typed errors; by hand, and as properties over random data.

use proptest::prelude::*;

use super::*;

#[test]
fn figures_by_hand() {
    // Differences 0, 1, 2; ref² = 1 + 4 + 16, got² = 1 + 9 + 36, product = 1 + 6 + 24.
    let c = check(
        F32,
        &[1.0, 3.0, 6.0, NAN],
        &[1.0, 2.0, 4.0, NAN],
        &Tolerance::Exact,
        &PLAIN,
    );
    assert_eq!(
        (c.elements, c.mismatches, c.max_abs, c.max_rel),
        (4, 2, 2.0, 0.5)
    );
    assert_eq!(c.max_ulp, 1.0 / (2.0 * EPS));
    assert_eq!(c.relative_l2, (5.0f64 / 21.0).sqrt());
    assert!((c.cosine - 31.0 / (46.0f64 * 21.0).sqrt()).abs() < 1e-15);
    let first = c.first_mismatch.unwrap();
    assert_eq!(
        (first.index, first.got.as_str(), first.expected.as_str()),
        (vec![1], "3", "2")
    );
    assert_eq!(check(F32, &[], &[], &Tolerance::Exact, &PLAIN).cosine, 1.0);
    let zero_reference = check(F32, &[3.0, 4.0], &[0.0, 0.0], &Tolerance::Exact, &PLAIN);
    assert_eq!(
        (zero_reference.relative_l2, zero_reference.cosine),
        (5.0, 0.0)
    );
}

#[test]
fn figures_are_finite_at_the_ends_of_f64() {
    for scale in [f64::MAX / 4.0, 1e-310] {
        let c = check(
            F64,
            &[scale, -scale, 3.0 * scale],
            &[scale, scale, 3.0 * scale],
            &Tolerance::Exact,
            &PLAIN,
        );
        assert!(
            (c.relative_l2 - (4.0f64 / 11.0).sqrt()).abs() < 1e-12,
            "{c:?}"
        );
        assert!((c.cosine - 9.0 / 11.0).abs() < 1e-12, "{c:?}");
        let json = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), c);
    }
    let c = check(
        F64,
        &[f64::MAX, 1.0],
        &[f64::MIN, 5e-324],
        &Tolerance::Exact,
        &PLAIN,
    );
    assert_eq!((c.max_abs, c.max_rel), (f64::MAX, f64::MAX));
}

#[test]
fn a_mismatch_reads_differently_from_what_was_expected() {
    let c = check(F32, &[0.1], &[0.1 + 1e-12], &Tolerance::Exact, &PLAIN);
    assert_eq!(c.mismatches, 0);
    let c = check(F32, &[0.0], &[-1e-60], &Tolerance::Exact, &PLAIN);
    let first = c.first_mismatch.unwrap();
    assert_eq!((first.got.as_str(), first.expected.as_str()), ("0", "-0"));
}

#[test]
fn what_cannot_be_compared_is_a_typed_error_of_one_line() {
    let reference_tensor = reference(F32, &[1.0, 2.0]);
    let errors = [
        (
            tensor(BF16, &[1.0, 2.0]),
            Tolerance::Exact,
            "element type bf16, expected f32",
        ),
        (
            tensor(F32, &[1.0]),
            Tolerance::Exact,
            "shape [1], expected [2]",
        ),
        (
            tensor(F32, &[1.0, 2.0]),
            accumulate(4, None),
            "needs the reference's scale",
        ),
        (tensor(F32, &[1.0, 2.0]), Tolerance::Ulp(-1.0), "ulp is -1"),
        (
            tensor(F32, &[1.0, 2.0]),
            Tolerance::Norm(NAN),
            "norm is NaN",
        ),
    ];
    for (got, tolerance, text) in errors {
        let message = compare(&got, &reference_tensor, &tolerance, &PLAIN)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(text) && !message.contains('\n'),
            "{message}"
        );
    }
    let scaled = |scale: Tensor| ReferenceTensor {
        yardstick: None,
        flushed: None,
        scale: Some(scale),
        ..reference_tensor.clone()
    };
    let got = tensor(F32, &[1.0, 2.0]);
    let compare_with = |reference: &ReferenceTensor, tolerance: &Tolerance| {
        compare(&got, reference, tolerance, &PLAIN)
    };
    assert!(matches!(
        compare_with(&scaled(tensor(F64, &[1.0])), &accumulate(4, None)),
        Err(CompareError::Scale { .. })
    ));
    let integers = Tolerance::Accumulate {
        terms: 1,
        accumulator: I32,
        precision: None,
    };
    assert!(matches!(
        compare_with(&scaled(tensor(F64, &[1.0, 2.0])), &integers),
        Err(CompareError::Tolerance(_))
    ));
    let wrong = ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: tensor(I32, &[1.0, 2.0]),
        ..reference_tensor.clone()
    };
    assert!(matches!(
        compare_with(&wrong, &Tolerance::Exact),
        Err(CompareError::ReferenceType { .. })
    ));
}

#[test]
fn the_first_mismatch_is_the_first_across_chunks() {
    let n = 200_000;
    let mut values = vec![1.0; n];
    let expected = reference(F32, &values).values;
    values[150_003] = 2.0;
    values[70_001] = 3.0;
    let expected = ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: Tensor::new(F64, vec![2, n / 2], expected.into_data()).unwrap(),
        element_type: F32,
        scale: None,
    };
    let got = Tensor::from_f64(F32, vec![2, n / 2], &values).unwrap();
    let c = compare(&got, &expected, &Tolerance::Ulp(1.0), &PLAIN).unwrap();
    assert_eq!(
        (c.mismatches, c.first_mismatch.unwrap().index),
        (2, vec![0, 70_001])
    );
}

fn element_types() -> impl Strategy<Value = ElementType> {
    proptest::sample::select(ElementType::all().collect::<Vec<_>>())
}

/// A tensor of any bits at all.
fn any_tensor() -> impl Strategy<Value = Tensor> {
    (element_types(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(
        |(element_type, bytes)| {
            let n = 1 + bytes.len() / element_type.bytes();
            let fill =
                |i: usize| bytes[i % bytes.len()] & if element_type == Pred { 1 } else { 0xff };
            let data = (0..n * element_type.bytes()).map(fill).collect();
            Tensor::new(element_type, vec![n], data).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn a_tensor_agrees_with_itself_widened(t in any_tensor(), ulps in 0.0..4.0) {
        let reference = ReferenceTensor { yardstick: None, flushed: None, values: t.widen(), element_type: t.element_type(), scale: None };
        for tolerance in [Tolerance::Exact, Tolerance::Ulp(ulps), Tolerance::Norm(ulps)] {
            for numerics in [PLAIN, TPU] {
                let c = compare(&t, &reference, &tolerance, &numerics).unwrap();
                prop_assert_eq!(c.mismatches, 0);
                prop_assert_eq!(c.max_abs, 0.0);
                prop_assert_eq!(c.relative_l2, 0.0);
            }
        }
    }

    #[test]
    fn one_changed_element_is_found_where_it_is(
        values in prop::collection::vec(0.5f32..1000.0, 1..50), at in any::<prop::sample::Index>(), bit in 3u32..31,
    ) {
        let i = at.index(values.len());
        let expected = tensor(F64, &values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
        let mut got = values;
        // At least 8 ulp away.
        got[i] = f32::from_bits(got[i].to_bits() ^ (1 << bit));
        let got = Tensor::new(F32, vec![got.len()], got.iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap();
        let reference = ReferenceTensor { yardstick: None, flushed: None, values: expected, element_type: F32, scale: None };
        let c = compare(&got, &reference, &Tolerance::Ulp(3.0), &FLUSH).unwrap();
        prop_assert_eq!(c.mismatches, 1);
        prop_assert_eq!(c.first_mismatch.unwrap().index, vec![i]);
    }

    #[test]
    fn relative_l2_and_cosine_follow_their_formulas(pairs in prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 1..100)) {
        let (got, expected): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(g, r)| (f64::from(*g), f64::from(*r))).unzip();
        let c = check(F32, &got, &expected, &Tolerance::Exact, &PLAIN);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let difference: Vec<f64> = got.iter().zip(&expected).map(|(g, r)| g - r).collect();
        let l2 = (dot(&difference, &difference) / dot(&expected, &expected)).sqrt();
        let cosine = dot(&got, &expected) / (dot(&got, &got) * dot(&expected, &expected)).sqrt();
        prop_assert!((c.relative_l2 - l2).abs() <= 1e-12 * l2);
        prop_assert!((c.cosine - cosine).abs() <= 1e-12);
    }
}
