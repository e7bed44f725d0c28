use super::*;

const ENTRY: &str = "[[expect]]\ncases = \"stablehlo/fft/f64/**\"\ntargets = \"aot-{v5e,v6e}, plugin:*\"\noutcome = \"error\"\n\
                     issue = \"openxla/xla#7\"\nreason = \"FFT on f64 is not implemented\"\nsince = \"2026-11-30\"\n\
                     until = \"libtpu >= 0.0.60\"\n";

fn parse(text: &str) -> Result<Expectations, String> {
    Expectations::parse(text, Path::new("aot.toml")).map_err(|error| error.to_string())
}

fn id(text: &str) -> CaseId {
    text.parse().unwrap()
}

#[test]
fn globs_choose_cases_and_targets() {
    let all = parse(ENTRY).unwrap();
    let entry = &all.entries()[0];
    assert_eq!(entry.place(), "aot.toml:1");
    assert!(entry.matches(&id("stablehlo/fft/f64/n8/forward"), "aot-v5e"));
    assert!(entry.matches(&id("stablehlo/fft/f64/n8"), "plugin:/opt/x.so"));
    assert!(!entry.matches(&id("stablehlo/fft/f32/n8"), "aot-v5e"));
    assert!(!entry.matches(&id("stablehlo/fft/f64/n8"), "aot-7x"));
    assert!(!entry.matches(&id("stablehlo/fft/f64/n8"), "cpu"));
}

#[test]
fn one_star_stays_within_a_part() {
    let text = ENTRY.replace("fft/f64/**", "*/s64");
    let all = parse(&text).unwrap();
    let entry = &all.entries()[0];
    assert!(entry.matches_case(&id("stablehlo/dot/s64")));
    assert!(!entry.matches_case(&id("stablehlo/dot/batch/s64")));
    assert!(!entry.matches_case(&id("stablehlo/dot/s64/batch")));
}

#[test]
fn several_outcomes_may_be_expected() {
    let all = parse(&ENTRY.replace("\"error\"", "[\"error\", \"crash\"]")).unwrap();
    let entry = &all.entries()[0];
    assert!(entry.expects(OutcomeKind::Crash) && !entry.expects(OutcomeKind::Fail));
    assert_eq!(entry.outcome_words(), "error or crash");
}

#[test]
fn bad_entries_name_the_file_the_line_and_the_remedy() {
    let change = |from: &str, to: &str| ENTRY.replace(from, to);
    for (text, line, what) in [
        (format!("{ENTRY}isue = \"x\"\n"), 9, "unknown field `isue`"),
        (
            change("[[expect]]", "[[expects]]"),
            1,
            "unknown field `expects`",
        ),
        (
            change("[[expect]]", "[[expect]"),
            1,
            "an [[expect]] has cases",
        ),
        (change("fft/f64/**", "fft/[f64"), 2, "bad glob"),
        (change("fft/f64/**", "FFT/**"), 2, "no case id has 'F'"),
        (change("stablehlo/fft/f64/**", ""), 2, "`cases` is empty"),
        (change("plugin:*", "gpu"), 3, "unknown target 'gpu'"),
        (change("plugin:*", "aot-[v"), 3, "bad glob \"aot-[v\""),
        (change(", plugin:*", ","), 3, "empty part"),
        (
            change("\"error\"", "\"fails\""),
            4,
            "there is no outcome \"fails\"",
        ),
        (
            change("\"error\"", "[\"error\", \"pass\"]"),
            4,
            "\"pass\" is not a failure",
        ),
        (
            change("\"error\"", "\"skipped\""),
            4,
            "\"skipped\" is not a failure",
        ),
        (change("\"error\"", "[]"), 4, "an empty list"),
        (change("\"error\"", "3"), 4, "bad outcome 3"),
        (change("xla#7", "xla"), 5, "owner/name#123"),
        (
            change("FFT on f64 is not implemented", ""),
            6,
            "`reason` is empty",
        ),
        (
            change("2026-11-30", "2026-11-31"),
            7,
            "bad date \"2026-11-31\"",
        ),
        (change("2026-11-30", "20261130"), 7, "YYYY-MM-DD"),
        (change("2026-11-30", "yesterday"), 7, "YYYY-MM-DD"),
        (change(">= 0.0.60", "soon"), 8, "name >= version"),
        (
            change("reason = \"FFT on f64 is not implemented\"\n", ""),
            1,
            "missing field `reason`",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(
            error.starts_with(&format!("aot.toml:{line}: ")) && error.contains(what),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_issue_that_is_not_in_the_ledger_is_an_error() {
    let error = parse(ENTRY)
        .unwrap()
        .check_issues(&IssueLedger::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "aot.toml:1: issue openxla/xla#7 is not in the ledger; add an [[issue]] for it to issues.toml beside this file"
    );
}

#[test]
fn an_entry_that_matches_no_case_is_unused() {
    let all = parse(&format!("{ENTRY}{}", ENTRY.replace("fft", "fff"))).unwrap();
    assert_eq!(all.unused(&[id("stablehlo/fft/f64/n8")]), [1]);
}

#[test]
fn files_are_read_in_the_order_of_their_names_and_the_ledger_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("b.toml", ENTRY);
    write("a.toml", &ENTRY.replace("error", "crash"));
    write(ISSUES_FILE, "not an expectation");
    write("README.md", "not TOML");
    let all = Expectations::load(dir.path()).unwrap();
    let places: Vec<String> = all.entries().iter().map(Expectation::place).collect();
    assert_eq!(places, ["a.toml:1", "b.toml:1"]);
    assert!(
        Expectations::load(&dir.path().join("none"))
            .unwrap()
            .entries()
            .is_empty()
    );
}

#[test]
fn an_entry_with_flags_speaks_only_of_targets_that_ran_with_them() {
    let text = r#"[[expect]]
cases = "s/op/a"
targets = "cpu"
outcome = "fail"
reason = "NaN is not kept"
since = "2026-11-30"
flags = "xla_cpu_enable_fast_math=true, level=0"
"#;
    let all = Expectations::parse(text, Path::new("aot.toml")).unwrap();
    let case = "s/op/a".parse().unwrap();
    let found = |flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        all.matching(&case, "cpu", &flags).count()
    };
    assert_eq!(found(&[]), 0);
    assert_eq!(found(&["xla_cpu_enable_fast_math=true"]), 0);
    assert_eq!(
        found(&["level=0", "xla_cpu_enable_fast_math=true", "x=y"]),
        1
    );

    let bad = parse(&text.replace("level=0", "level")).unwrap_err();
    assert!(
        bad.contains("aot.toml:7") && bad.contains("NAME=VALUE"),
        "{bad}"
    );
}
