//! The suites against the list of the specification, and the page that is made of them.

use std::path::Path;

use tpu_parity::coverage::{Coverage, Outcomes, Specification, outline, render};
use tpu_parity::suite;

const REMEDY: &str = "run: tpu-parity coverage --out docs/coverage.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_operator_and_element_type_has_a_case_or_a_written_reason() {
    let specification = Specification::load(&root().join("suites")).unwrap();
    let suites = suite::load_suites(&root().join("suites")).unwrap();
    let coverage = Coverage::new(&specification, &suites);
    let problems: Vec<String> = coverage.problems.iter().map(ToString::to_string).collect();
    assert!(
        problems.is_empty(),
        "suites/specification.toml and the suites part ways:\n{}",
        problems.join("\n")
    );
}

#[test]
fn at_least_60_programs_must_be_refused() {
    let cases = suite::load(&root().join("suites")).unwrap();
    let refused = cases.iter().filter(|case| case.breaks().is_some());
    assert!(refused.count() >= 60);
}

#[test]
fn the_page_is_that_of_the_suites() {
    let specification = Specification::load(&root().join("suites")).unwrap();
    let suites = suite::load_suites(&root().join("suites")).unwrap();
    let coverage = Coverage::new(&specification, &suites);
    let now = outline(&render(&coverage, &Outcomes::default()));
    let page = std::fs::read_to_string(root().join("docs/coverage.md")).unwrap();
    let then = outline(&page);
    let differs = now
        .lines()
        .zip(then.lines())
        .find(|(now, then)| now != then);
    assert!(
        now == then,
        "docs/coverage.md is out of date, first at {differs:?}; {REMEDY}"
    );
}
