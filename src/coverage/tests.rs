use super::*;
use crate::case::{Origin, ReferenceProgram};

const LIST: &str = r#"
schema = "tpu-parity/specification/1"
[source]
repository = "openxla/stablehlo"
commit = "0123456789abcdef"
version = "1.2.3"
[groups]
some = ["f32", "i8"]
[[operator]]
name = "add"
source = "docs/spec.md#add"
values = [{ name = "operand", at = "operand 0", types = ["some", "quantized"] }]
[[operator]]
name = "gather"
source = "docs/spec.md#gather"
values = [
  { name = "operand", at = "operand 0", types = ["f32"] },
  { name = "start_indices", at = "operand 1", types = ["i8", "u8"] },
]
[[operator]]
name = "send"
source = "docs/spec.md#send"
values = []
[[uncovered]]
operators = ["*"]
types = ["quantized"]
reason = "nobody has them"
[[uncovered]]
operators = ["send"]
reason = "it has no peer"
[[uncovered]]
operators = ["gather.start_indices"]
types = ["u8"]
reason = "too narrow"
"#;

fn case(id: &str, program: &str) -> Case {
    Case {
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        id: id.parse().unwrap(),
        origin: Origin {
            file: "suites/s/f.toml".into(),
            line: 1,
        },
        program: program.to_owned(),
        reference_program: ReferenceProgram::Native,
        inputs: Vec::new(),
        seed: 1,
        tolerances: Vec::new(),
        distribution: None,
        unloadable: None,
    }
}

fn suites(cases: Vec<Case>) -> Suites {
    Suites {
        cases,
        operators: BTreeMap::new(),
    }
}

fn complete() -> Vec<Case> {
    vec![
        case("s/add/f32/v", "%0 = stablehlo.add %x, %y : tensor<4xf32>"),
        case("s/add/i8/v", "%0 = stablehlo.add %x, %y : tensor<4xi8>"),
        case(
            "s/gather/f32/v",
            "%0 = \"stablehlo.gather\"(%x, %i) : (tensor<4xf32>, tensor<2xi8>) -> tensor<2xf32>",
        ),
    ]
}

fn problems(list: &str, cases: Vec<Case>) -> Vec<String> {
    let specification = Specification::parse(list).unwrap();
    let suites = suites(cases);
    let coverage = Coverage::new(&specification, &suites);
    coverage.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_list_that_the_cases_fill_has_no_problem() {
    assert_eq!(problems(LIST, complete()), Vec::<String>::new());
}

#[test]
fn a_type_without_a_case_or_a_reason_is_a_problem() {
    let mut cases = complete();
    cases.remove(1);
    let found = problems(LIST, cases);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("add on i8 has no case"), "{found:?}");
}

#[test]
fn a_case_of_an_operator_or_a_type_outside_the_list_is_a_problem_unless_an_entry_says_why() {
    let mut cases = complete();
    cases.push(case(
        "s/add/f64/v",
        "%0 = stablehlo.add %x, %y : tensor<4xf64>",
    ));
    cases.push(case("s/matmul/f32", "%0 = stablehlo.dot %x : tensor<f32>"));
    let found = problems(LIST, cases.clone());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .any(|problem| problem.starts_with("s/add/f64/v: add does not take f64")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|problem| problem.starts_with("s/matmul/f32: 'matmul' is no operator")),
        "{found:?}"
    );
    let with_reasons = format!(
        "{LIST}\n[[beyond]]\noperators = [\"matmul\"]\nreason = \"a program\"\n[[beyond]]\noperators = [\"add\"]\ntypes = [\"f64\"]\nreason = \"everyone takes it\"\n"
    );
    assert_eq!(problems(&with_reasons, cases), Vec::<String>::new());
}

#[test]
fn a_reason_for_what_has_a_case_is_a_problem() {
    let list = format!(
        "{LIST}\n[[uncovered]]\noperators = [\"add\"]\ntypes = [\"f32\"]\nreason = \"old\"\n"
    );
    let found = problems(&list, complete());
    assert_eq!(
        found,
        ["entry 4 of [[uncovered]] (add) fits nothing: take it out"]
    );
}

#[test]
fn a_corner_without_a_case_is_a_problem() {
    let list = format!(
        "{LIST}\n[[corner]]\nwhat = \"nothing\"\nsource = \"docs/spec.md#add\"\ncases = [\"s/add/*/v\", \"s/add/*/empty\"]\n"
    );
    let found = problems(&list, complete());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("'nothing'") && found[0].contains("s/add/*/empty"),
        "{found:?}"
    );
}

#[test]
fn a_program_that_does_not_use_its_operator_is_a_problem() {
    let mut cases = complete();
    cases.push(case(
        "s/add/f32/w",
        "%0 = stablehlo.subtract %x, %y : tensor<4xf32>",
    ));
    assert_eq!(
        problems(LIST, cases),
        ["s/add/f32/w: its program does not use add"]
    );
}

#[test]
fn programs_that_must_be_refused_are_counted_apart() {
    let mut cases = complete();
    let mut refused = case(
        "invalid/add/shapes",
        "%0 = stablehlo.add %x, %y : tensor<4xf64>",
    );
    refused.reference_program = ReferenceProgram::Refused("C1".to_owned());
    cases.push(refused);
    let specification = Specification::parse(LIST).unwrap();
    let suites = suites(cases);
    let coverage = Coverage::new(&specification, &suites);
    assert_eq!(coverage.problems, []);
    assert_eq!(coverage.refused, BTreeMap::from([("add", 1)]));
}

#[test]
fn a_list_that_names_what_is_not_there_says_so() {
    for (from, to, complaint) in [
        (
            "\"some\", \"quantized\"",
            "\"sum\"",
            "'sum' is neither a group nor an element type",
        ),
        ("operand 1", "operands", "gather: 'operands' is no place"),
        ("name = \"send\"", "name = \"add\"", "add stands twice"),
        (
            "specification/1",
            "specification/9",
            "not tpu-parity/specification/1",
        ),
    ] {
        let error = Specification::parse(&LIST.replace(from, to)).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn the_page_marks_outcomes_and_its_outline_does_not() {
    let specification = Specification::parse(LIST).unwrap();
    let suites = suites(complete());
    let coverage = Coverage::new(&specification, &suites);
    let report = r#"{"run": {"id": "r1"}, "targets": [
        {"target": "cpu", "evidence": "hardware", "skipped": [], "subjects": [
          {"suite": "s", "subject": "add", "totals": {"cases": 2}}]},
        {"target": "vtpu-v6e", "evidence": "virtual", "skipped": [], "subjects": []}],
      "verdicts": {"known": [{"target": "cpu", "cases": ["s/add/i8/v"]}]}}"#;
    let page = render(&coverage, &Outcomes::parse(report).unwrap());
    let row = |page: &str, name: &str| -> String {
        let mut lines = page
            .lines()
            .filter(|line| line.trim_start().starts_with(name));
        lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row(&page, "add"), "add 2 ✗ ✓ a", "{page}");
    assert_eq!(
        row(&page, "gather.start_indices"),
        "gather.start_indices 1 ? c",
        "{page}"
    );
    assert!(page.contains("- `b` (0) `send`: it has no peer"), "{page}");
    let without = render(&coverage, &Outcomes::default());
    assert_eq!(outline(&page), outline(&without));
    assert_eq!(row(&outline(&page), "add"), "add 2 ✓ ✓ a");
}
