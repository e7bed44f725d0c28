//! Counting, on cases made by hand.

use super::*;
use crate::case::{Case, Origin, ReferenceProgram};
use crate::run::Outputs;
use ElementType::*;

fn passing(
    id: &str,
    t: ElementType,
    shape: &[usize],
    values: &[f64],
    tolerance: Tolerance,
) -> Passing {
    let tensor = |t| Tensor::from_f64(t, shape.to_vec(), values).unwrap();
    Passing {
        case: Case {
            id: id.parse().unwrap(),
            origin: Origin {
                file: "suites/s/x.toml".into(),
                line: 1,
            },
            program: String::new(),
            reference_program: ReferenceProgram::Native,
            inputs: vec![],
            seed: 0,
            tolerances: vec![tolerance],
            unloadable: None,
            distribution: None,
            tolerance_source: None,
            scale_program: None,
            layers: Vec::new(),
        },
        outputs: Outputs {
            results: vec![tensor(t)],
            numerics: Numerics {
                matmul_bf16_passes: false,
                flush_subnormals: true,
                f64_as_f32_pairs: false,
            },
        },
        reference: vec![ReferenceTensor {
            values: tensor(t.widened()),
            element_type: t,
            scale: None,
            flushed: None,
            yardstick: None,
        }],
        terms: None,
    }
}

const VALUES: [f64; 6] = [1.3, -2.7, 3.1, 0.4, -5.9, 6.2];

#[test]
fn faults_in_exact_results_are_all_caught_and_the_rules_of_others_miss_some() {
    let exact = |id, values: &[f64]| passing(id, F32, &[2, 3], values, Tolerance::Exact);
    let moved: Vec<f64> = VALUES.iter().map(|v| v * 0.7).collect();
    let tally = measure(&[exact("s/a/f32", &VALUES), exact("s/b/f32", &moved)]);
    let total = tally.total();
    assert_eq!(tally.results, 2);
    assert_eq!((total.caught, total.missed()), (total.injected, 0));
    assert!(tally.survivors.is_empty());
    // Only the second has an earlier result of its shape.
    assert_eq!(tally.rows[&Class::StaleOutput].injected, 1);
    assert_eq!(tally.rows[&Class::StaleOutput].named, 1);
    // Two ulp of f32 are 2.4e-7, below everybody's 1e-6.
    let bounds = &tally.rows[&Class::FourBounds];
    assert_eq!(
        bounds.rivals[&Rule::JaxAllclose],
        (bounds.injected, bounds.injected)
    );
    let signs = &tally.rows[&Class::SignFlip];
    assert_eq!(signs.rivals[&Rule::TorchAssertClose], (signs.injected, 0));
    assert_eq!(signs.named, signs.caught);
    assert!(tally.refused.values().all(|(_, refused)| *refused == 0));
}

#[test]
fn what_a_right_result_may_show_is_counted_with_its_reason() {
    // An ulp of f8e5m2 at 0.375 is 1/16: 16 of them are more than the 0.75 to −0.375.
    let loose = passing("s/a/f8e5m2", F8E5M2, &[1], &[0.375], Tolerance::Ulp(16.0));
    let small = passing("s/b/f32", F32, &[1], &[1e-40], Tolerance::Exact);
    let tally = measure(&[loose, small]);
    let signs = &tally.rows[&Class::SignFlip];
    assert_eq!(signs.survived, [(Why::WithinBound, 1)].into());
    let key = (
        Class::SignFlip,
        Why::WithinBound,
        "16 ulp".to_owned(),
        F8E5M2,
    );
    assert_eq!(tally.survivors[&key].worst, 0.75);
    assert!(tally.survivors[&key].subjects.contains("a"));
    let flushed = &tally.rows[&Class::FlushedSubnormals];
    assert_eq!(flushed.survived, [(Why::MayFlush, 1)].into());
    assert_eq!(tally.total().missed(), 0);
}

#[test]
fn a_correct_nan_is_refused_by_pytorchs_default() {
    let tally = measure(&[passing(
        "s/a/f32",
        F32,
        &[2],
        &[f64::NAN, 1.0],
        Tolerance::Exact,
    )]);
    assert_eq!(tally.refused[&Rule::TorchAssertClose], (1, 1));
    assert_eq!(tally.refused[&Rule::JaxAllclose], (1, 0));
    // What it refuses while it is right counts in no figure of its misses.
    let lost = &tally.rows[&Class::NanToZero];
    assert_eq!(
        (lost.caught, lost.rivals.get(&Rule::TorchAssertClose)),
        (1, None)
    );
    assert_eq!(lost.rivals[&Rule::JaxAllclose], (1, 0));
}
