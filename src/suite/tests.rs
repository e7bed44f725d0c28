//! Behaviour of the loader as a whole: what it accepts, and that each error names file, line, case and remedy.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::case::ReferenceProgram;
use crate::compare::{Precision, Tolerance};
use crate::tensor::{Domain, ElementType};

const HEADER: &str = "suite = \"s\"\nfamily = \"f\"\n";

const ADD: &str = r#"
[[op]]
name = "add"
t = ["f32", "bf16", "i32"]
where = "not (t == 'i32' and variant == 'big')"
tolerance = { ulp = { bf16 = 2, default = 1 } }
source = "a proof"
program = '''
func.func @main(%x: {{ tensor(shape, t) }}) -> {{ tensor(shape, t) }} {
  %c = stablehlo.constant dense<{{ lit(t, 3) }}> : {{ tensor(shape, t) }}
  %0 = stablehlo.add %x, %c : {{ tensor(shape, t) }}
  return %0 : {{ tensor(shape, t) }}
}
'''
[[op.inputs]]
t = "t"
shape = "shape"
domain = "$domain"
[op.bind]
domain = "any"
[op.variant.small]
shape = [2]
[op.variant.big]
shape = [64, 2]
domain = { uniform = [-1, 1.5] }
"#;

/// Loads one file `s/f.toml` holding `HEADER` and `body`; line 3 is the first of the body.
fn load_body(body: &str) -> Result<Vec<Case>, SuiteErrors> {
    load_text(&format!("{HEADER}{body}"))
}

fn load_text(text: &str) -> Result<Vec<Case>, SuiteErrors> {
    let family = document::parse(text, Path::new("suites/s/f.toml"))?;
    let cases = expand::expand(&family)?;
    let errors = duplicates(&cases);
    if errors.is_empty() {
        Ok(cases)
    } else {
        Err(SuiteErrors(errors))
    }
}

#[track_caller]
fn refused(result: Result<Vec<Case>, SuiteErrors>, parts: &[&str]) {
    let errors = result.expect_err("the file is accepted");
    let message = errors.to_string();
    assert_eq!(errors.0.len(), 1, "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "no '{part}' in: {message}");
    }
}

#[test]
fn a_grid_becomes_cases_with_stable_ids() {
    let cases = load_body(ADD).unwrap();
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "s/add/f32/small",
            "s/add/f32/big",
            "s/add/bf16/small",
            "s/add/bf16/big",
            "s/add/i32/small"
        ]
    );
    let big = &cases[3];
    assert_eq!(big.origin.to_string(), "suites/s/f.toml:25");
    assert_eq!(big.inputs[0].element_type, ElementType::BF16);
    assert_eq!(big.inputs[0].shape, [64, 2]);
    assert_eq!(big.inputs[0].domain, Domain::Uniform { lo: -1.0, hi: 1.5 });
    assert_eq!(big.tolerances, [Tolerance::Ulp(2.0)]);
    assert_eq!(cases[4].tolerances, [Tolerance::Exact]);
}

#[test]
fn the_widened_program_is_the_same_in_f64() {
    let cases = load_body(ADD).unwrap();
    let ReferenceProgram::Widened(widened) = &cases[2].reference_program else {
        panic!("not widened");
    };
    assert!(cases[2].program.contains("tensor<2xbf16>"));
    assert_eq!(*widened, cases[2].program.replace("bf16", "f64"));
}

/// The seed's definition, computed with the b3sum tool's algorithm outside the loader.
#[test]
fn a_seed_depends_on_the_file_seed_and_the_id_alone() {
    let one = load_body(ADD).unwrap();
    let two = load_text(&format!("seed = 2\n{HEADER}{ADD}")).unwrap();
    let moved = load_body(&ADD.replace("t = [\"f32\", ", "t = [")).unwrap();
    assert_ne!(one[0].seed, two[0].seed);
    assert_ne!(one[0].seed, one[1].seed);
    assert_eq!(one[2].seed, moved[0].seed);
    let hash = blake3::hash(b"1/s/add/f32/small");
    assert_eq!(one[0].seed.to_le_bytes(), hash.as_bytes()[..8]);
}

#[test]
fn an_axis_value_may_carry_bindings() {
    let body = ADD
        .replace("name = \"add\"", "name = \"add\"\naxes = [\"p\", \"t\", \"variant\"]\np = [{ id = \"HIGH\", n = 4 }, { id = \"default\", n = 5 }]")
        .replace(
            "{ ulp = { bf16 = 2, default = 1 } }",
            "{ accumulate = \"n * shape[0]\", accumulator = \"f32\", precision = \"p\" }",
        );
    let cases = load_body(&body).unwrap();
    assert_eq!(cases[0].id.as_str(), "s/add/high/f32/small");
    assert_eq!(
        cases[0].tolerances,
        [Tolerance::Accumulate {
            terms: 8,
            accumulator: ElementType::F32,
            precision: Some(Precision::High)
        }]
    );
}

#[test]
fn malformed_toml_names_the_line() {
    refused(
        load_body("[[op]\nname = 1\n"),
        &["suites/s/f.toml:3: ", "not TOML", "correct the syntax"],
    );
}

#[test]
fn an_unknown_key_names_the_known_ones() {
    refused(
        load_body(&ADD.replace("where =", "wher =")),
        &["suites/s/f.toml:7: case s/add: unknown key 'wher'", "where"],
    );
    refused(
        load_body(&ADD.replace("domain = \"$domain\"", "domian = \"any\"")),
        &[
            "suites/s/f.toml:20: case s/add: unknown key 'domian'",
            "domain",
        ],
    );
    refused(
        load_text(&format!("sed = 1\n{HEADER}{ADD}")),
        &["suites/s/f.toml:1: unknown key 'sed'", "seed"],
    );
}

#[test]
fn an_undefined_variable_names_the_line_within_the_template() {
    let errors = load_body(&ADD.replace("lit(t, 3)", "lit(t, init)")).unwrap_err();
    let message = errors.0[0].to_string();
    for part in [
        "suites/s/f.toml:12: case s/add/f32/small: template: ",
        "undefined",
        "init",
        "bind the name",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(errors.0.len(), 5, "every case reports its own");
}

#[test]
fn a_template_that_does_not_parse_names_its_line() {
    refused(
        load_body(&ADD.replace("lit(t, 3)", "lit(t, ")),
        &["suites/s/f.toml:12: case s/add: template: ", "correct"],
    );
}

#[test]
fn a_bound_that_nothing_can_break_is_refused() {
    // 128 terms in bf16, whose unit roundoff is 2⁻⁸: the bound is half the sum of the absolute terms.
    let with = |tolerance| ADD.replace("{ ulp = { bf16 = 2, default = 1 } }", tolerance);
    let message = load_body(&with("{ accumulate = 128 }"))
        .unwrap_err()
        .to_string();
    for part in [
        "suites/s/f.toml:8: case s/add/bf16/small: ",
        "128 terms accumulated in bf16",
        "wider accumulator",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(load_body(&with("{ accumulate = 127 }")).is_ok());
}

#[test]
fn a_tolerance_in_ulp_or_norm_needs_its_source() {
    let without = ADD.replace("source = \"a proof\"\n", "");
    let message = load_body(&without).unwrap_err().to_string();
    for part in [
        "suites/s/f.toml:8: case s/add/f32/small: a tolerance in ulp or norm without its source",
        "write `source = ",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let exact = without.replace("{ ulp = { bf16 = 2, default = 1 } }", "\"exact\"");
    assert!(load_body(&exact).is_ok());
    let cases = load_body(ADD).unwrap();
    assert_eq!(cases[0].tolerance_source.as_deref(), Some("a proof"));
}

#[test]
fn duplicate_ids_name_both_places() {
    let twice = format!("{ADD}{}", ADD.replace("\"f32\", \"bf16\", ", ""));
    refused(
        load_body(&twice),
        &[
            "suites/s/f.toml:48: case s/add/i32/small: ",
            "already taken by suites/s/f.toml:23",
            "rename",
        ],
    );
}

#[test]
fn an_axis_without_values_is_refused() {
    refused(
        load_body(&ADD.replace("t = [\"f32\", \"bf16\", \"i32\"]", "t = []")),
        &[
            "suites/s/f.toml:6: case s/add: axis 't' has no values",
            "add `t = [..]`",
        ],
    );
    refused(
        load_body(&ADD.replace(
            "name = \"add\"",
            "name = \"add\"\naxes = [\"t\", \"kind\", \"variant\"]",
        )),
        &[
            "suites/s/f.toml:4: case s/add: axis 'kind' has no values",
            "add `kind = [..]`",
        ],
    );
    let (without, _) = ADD.split_once("[op.variant.small]").unwrap();
    refused(
        load_body(without),
        &[
            "suites/s/f.toml:4: case s/add: axis 'variant' has no values",
            "[op.variant.<name>]",
        ],
    );
}

#[test]
fn a_bad_domain_is_refused() {
    let one = ADD.replace("\"f32\", \"bf16\", ", "");
    refused(
        load_body(&one.replace("domain = \"any\"", "domain = \"anything\"")),
        &[
            "suites/s/f.toml:17: case s/add/i32/small: ",
            "\"anything\" is not a domain",
            "write any, ",
        ],
    );
    refused(
        load_body(&one.replace("domain = \"any\"", "domain = \"unit\"")),
        &[
            "suites/s/f.toml:17: case s/add/i32/small: ",
            "impossible for i32",
            "choose another",
        ],
    );
}

#[test]
fn a_bad_shape_is_refused() {
    refused(
        load_body(
            &ADD.replace("\"f32\", \"bf16\", ", "")
                .replace("shape = \"shape\"", "shape = [2, -1]"),
        ),
        &[
            "suites/s/f.toml:17: case s/add/i32/small: ",
            "[2, -1] is not a list of sizes",
            "write a list",
        ],
    );
}

#[test]
fn inputs_that_are_not_the_programs_parameters_are_refused() {
    let one = ADD.replace("\"f32\", \"bf16\", ", "");
    refused(
        load_body(&one.replace("shape = \"shape\"", "shape = [3]")),
        &[
            "suites/s/f.toml:17: case s/add/i32/small: ",
            "i32 [3]",
            "i32 [2]",
            "agree",
        ],
    );
    refused(
        load_body(
            &one.replace("@main(", "@main(%y: tensor<i32>, ")
                .replace("shape = \"shape\"", "shape = []"),
        ),
        &[
            "1 inputs for a program of 2 parameters",
            "one [[op.inputs]] per parameter",
        ],
    );
}

#[test]
fn a_bad_tolerance_is_refused() {
    for (written, what) in [
        ("\"close\"", "is not a tolerance"),
        ("{ ulp = -1 }", "not a number from 0"),
        ("{ ulp = { bf16 = 1 } }", "no entry for i32 and no default"),
        ("{ ulp = 1, norm = 2 }", "needs one of"),
        ("{ rtol = 1 }", "unknown key 'rtol'"),
        ("[\"exact\", \"exact\"]", "2 tolerances for 1 results"),
    ] {
        let body = ADD
            .replace("\"f32\", \"bf16\", ", "")
            .replace("{ ulp = { bf16 = 2, default = 1 } }", written);
        refused(
            load_body(&body),
            &[
                "suites/s/f.toml:8: case s/add/i32/small: ",
                what,
                "write \"exact\"",
            ],
        );
    }
}

#[test]
fn an_unknown_element_type_is_refused() {
    refused(
        load_body(&ADD.replace("\"bf16\"", "\"bf17\"")),
        &[
            "suites/s/f.toml:6: case s/add: unknown element type 'bf17'",
            "the types are",
        ],
    );
}

#[test]
fn a_file_in_the_wrong_place_is_refused() {
    refused(
        load_text(&format!("suite = \"other\"\nfamily = \"f\"\n{ADD}")),
        &[
            "suites/s/f.toml:1: suite is 'other'",
            "write `suite = \"s\"`",
        ],
    );
}

#[test]
fn all_errors_of_all_files_come_together() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("suites/s");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::create_dir_all(root.path().join("suites/expectations")).unwrap();
    std::fs::write(root.path().join("suites/expectations/x.toml"), "no suite").unwrap();
    std::fs::write(
        dir.join("f.toml"),
        format!("{HEADER}{}", ADD.replace("where", "when")),
    )
    .unwrap();
    std::fs::write(dir.join("g.toml"), "= 1").unwrap();
    let errors = load(&root.path().join("suites")).unwrap_err().to_string();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].starts_with("suites/s/f.toml:7: "), "{errors}");
    assert!(lines[1].starts_with("suites/s/g.toml:1: "), "{errors}");
}

#[test]
fn globs_stay_within_a_part_unless_doubled() {
    let cases = load_body(ADD).unwrap();
    let ids = |selects: &[&str], excludes: &[&str]| {
        let own = |globs: &[&str]| {
            globs
                .iter()
                .map(|glob| (*glob).to_owned())
                .collect::<Vec<_>>()
        };
        select(cases.clone(), &own(selects), &own(excludes))
            .map(|cases| {
                cases
                    .iter()
                    .map(|case| case.id.to_string())
                    .collect::<Vec<_>>()
            })
            .map_err(|error| error.to_string())
    };
    assert_eq!(ids(&[], &[]).unwrap().len(), 5);
    assert_eq!(
        ids(&["s/add/*/big"], &[]).unwrap(),
        ["s/add/f32/big", "s/add/bf16/big"]
    );
    assert_eq!(ids(&["s/**"], &["**/big"]).unwrap().len(), 3);
    assert_eq!(ids(&["s/add/{f32,i32}/small"], &[]).unwrap().len(), 2);
    let nothing = ids(&["s/*"], &[]).unwrap_err();
    assert!(
        nothing.contains("'s/*' selects no case; 's/*/**' selects"),
        "{nothing}"
    );
    let nothing = ids(&["s/sub/**"], &[]).unwrap_err();
    assert!(
        nothing.contains("`tpu-parity list --format ids`"),
        "{nothing}"
    );
    let bad = ids(&["s/[a"], &[]).unwrap_err();
    assert!(bad.contains("'s/[a' is not a glob"), "{bad}");
    let all = ids(&["s/**"], &["s/**"]).unwrap_err();
    assert!(all.contains("leaves no case"), "{all}");
}

fn own_suites() -> Suites {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    load_suites(&dir).unwrap_or_else(|errors| panic!("{errors}"))
}

/// References, expectations and history refer to ids: one that was published stays, unless the list is edited on purpose.
#[test]
fn the_ids_are_the_pinned_ones() {
    let suites = own_suites();
    let ids: BTreeSet<&str> = suites.cases.iter().map(|case| case.id.as_str()).collect();
    let pinned: BTreeSet<&str> = include_str!("../../suites/case-ids.txt").lines().collect();
    let gone: Vec<_> = pinned.difference(&ids).collect();
    assert!(gone.is_empty(), "published cases are gone: {gone:?}");
    let new: Vec<_> = ids.difference(&pinned).collect();
    assert!(
        new.is_empty(),
        "cases are not pinned yet ({new:?}); run: tpu-parity list --format ids > suites/case-ids.txt"
    );
}

#[test]
fn widened_programs_hold_no_float_narrower_than_f64() {
    use crate::case::ReferenceProgram;
    for case in own_suites().cases {
        let ReferenceProgram::Widened(text) = &case.reference_program else {
            continue;
        };
        let narrow = ["xf32", "<f32", "bf16", "xf16", "<f16", "f8E", "f4E", "f6E"];
        let found: Vec<_> = narrow.iter().filter(|name| text.contains(*name)).collect();
        assert!(
            found.is_empty(),
            "{} at {}: {found:?}",
            case.id,
            case.origin
        );
    }
}

/// Eight replicas that add up.
const SEVERAL: &str = r#"
[[op]]
name = "sum"
t = ["f32"]
tolerance = "exact"
replicas = "n"
mesh = [["x", 2]]
partitioner = "gspmd"
program = '''
func.func @main(%x: {{ tensor([4], t) }}) -> {{ tensor([4], t) }} {
  return %x : {{ tensor([4], t) }}
}
'''
unsharded = '''
func.func @main(%x: {{ tensor([n, 4], t) }}) -> {{ tensor([n, 4], t) }} {
  return %x : {{ tensor([n, 4], t) }}
}
'''
[[op.inputs]]
shape = "[n, 4]"
spec = ["replica", "x"]
[[op.outputs]]
spec = ["replica"]
[op.variant.small]
n = 4
"#;

#[test]
fn a_case_on_several_devices_says_how_it_lies_on_them() {
    let case = load_body(SEVERAL).unwrap().remove(0);
    let distribution = case.distribution.as_ref().unwrap();
    assert_eq!((distribution.replicas, distribution.partitions()), (4, 2));
    assert_eq!(case.devices(), 8);
    assert_eq!(distribution.inputs[0].to_string(), "(replica, x)");
    assert_eq!(case.inputs[0].shape, [4, 4]);
    assert_eq!(case.results().unwrap(), [(ElementType::F32, vec![4, 4])]);
    let ReferenceProgram::Widened(unsharded) = &case.reference_program else {
        panic!("{:?}", case.reference_program);
    };
    assert!(unsharded.contains("tensor<4x4xf64>"), "{unsharded}");
}

#[test]
fn what_does_not_fit_several_devices_is_named() {
    for (right, wrong, complaint) in [
        (
            "spec = [\"replica\", \"x\"]",
            "spec = [\"replica\", \"y\"]",
            "no axis 'y'",
        ),
        (
            "shape = \"[n, 4]\"",
            "shape = \"[n + 1, 4]\"",
            "not the 4 replicas",
        ),
        ("[[\"x\", 2]]", "[[\"x\", 3]]", "3 equal parts"),
        (
            "[[\"x\", 2]]",
            "[[\"replica\", 2]]",
            "not a list of [name, size]",
        ),
        ("replicas = \"n\"", "replicas = 0", "not a number from 1"),
        ("\"gspmd\"", "\"spmd\"", "unknown partitioner 'spmd'"),
        (
            "[[op.outputs]]\nspec = [\"replica\"]\n",
            "",
            "0 outputs for 1 results",
        ),
        (
            "tolerance = \"exact\"",
            "tolerance = \"exact\"\nreference = \"native\"",
            "an unsharded one",
        ),
    ] {
        let text = SEVERAL.replace(right, wrong);
        assert_ne!(text, SEVERAL, "{right}");
        let message = load_body(&text).expect_err(wrong).to_string();
        assert!(message.contains(complaint), "{wrong}: {message}");
    }
}

const BREAKS: &str = r#"
[[op]]
name = "add"
axes = ["variant"]
breaks = "$constraint"
program = '''
func.func @main(%x: {{ x }}) -> {{ x }} {
  return %x : tensor<0xf99>
}
'''
[op.variant]
shapes = { x = "tensor<2xf32>", constraint = "C1: one shape" }
"#;

#[test]
fn a_program_that_is_to_be_refused_has_neither_operands_nor_results() {
    let cases = load_body(BREAKS).unwrap();
    assert_eq!(cases[0].id.as_str(), "s/add/shapes");
    assert_eq!(cases[0].breaks(), Some("C1: one shape"));
    assert!(cases[0].inputs.is_empty() && cases[0].tolerances.is_empty());
    refused(
        load_body(&BREAKS.replace("breaks =", "tolerance = \"exact\"\nbreaks =")),
        &["suites/s/f.toml:4", "s/add", "does not run"],
    );
    refused(
        load_body(&BREAKS.replace("$constraint", "$other")),
        &["suites/s/f.toml:7", "'$other' names no binding"],
    );
}

#[test]
fn scales_have_a_program_of_their_own_where_a_tolerance_measures_by_them() {
    let scale = "scale = 'func.func @main(%x: {{ tensor(shape, t) }})'\nprogram = ";
    let op = ADD.replace("program = ", scale);
    let message = load_body(&op).unwrap_err().to_string();
    for part in ["no tolerance that measures by them", "leave out 'scale'"] {
        assert!(message.contains(part), "{message}");
    }
    let by_scale = op
        .replace("{ ulp = { bf16 = 2, default = 1 } }", "{ accumulate = 2 }")
        .replace("source = \"a proof\"\n", "");
    let cases = load_body(&by_scale).unwrap();
    let program = |id: &str| {
        let case = cases.iter().find(|case| case.id.as_str() == id).unwrap();
        case.scale_program.as_deref()
    };
    let in_f64 = Some("func.func @main(%x: tensor<2xf64>)");
    assert_eq!(program("s/add/bf16/small"), in_f64);
    // An integer's results are exact whatever the tolerance.
    assert_eq!(program("s/add/i32/small"), None);
}
