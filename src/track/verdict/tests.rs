use super::*;
use crate::outcome::OutcomeKind::{Crash, Error, Fail, Pass, Skipped, Unsupported};
use crate::track::fixtures::{expect, expectations, outcome, run, single};

const CASE: &str = "stablehlo/fft/f64/n8";
const TARGET: &str = "aot-v6e";

fn none() -> Expectations {
    Expectations::default()
}

fn expected(kind: &str) -> Expectations {
    expectations(&expect("stablehlo/fft/**", kind, ""))
}

fn one(run: &Run, expectations: &Expectations, baseline: Option<&Run>) -> Verdict {
    let judgement = judge(run, expectations, baseline);
    assert_eq!(judgement.verdicts.len(), 1);
    judgement.verdicts[0].clone()
}

/// The verdict of an outcome, an expected one and a baseline's.
fn verdict(
    now: Option<OutcomeKind>,
    expectations: &Expectations,
    before: Option<OutcomeKind>,
) -> VerdictKind {
    let baseline = before.map(|before| single(CASE, TARGET, Some(before)));
    one(&single(CASE, TARGET, now), expectations, baseline.as_ref()).kind
}

#[test]
fn without_expectation_or_baseline_an_outcome_stands_alone() {
    assert_eq!(verdict(Some(Pass), &none(), None), VerdictKind::Ok);
    assert_eq!(verdict(Some(Skipped), &none(), None), VerdictKind::Ok);
    for failure in OutcomeKind::ALL.into_iter().filter(|o| is_failure(*o)) {
        assert_eq!(
            verdict(Some(failure), &none(), None),
            VerdictKind::NewFailure
        );
    }
    assert_eq!(verdict(None, &none(), None), VerdictKind::Missing);
}

#[test]
fn what_ran_and_was_compared_with_nothing_is_missing() {
    let mut run = single(CASE, TARGET, Some(Skipped));
    run.outcomes[0].stage = Stage::Compare;
    assert_eq!(one(&run, &none(), None).kind, VerdictKind::Missing);
    // Unless it is known that the CPU plug-in cannot compute a reference.
    let text = expect("**", "error", "").replace("targets = \"*\"", "targets = \"cpu\"");
    assert_eq!(one(&run, &expectations(&text), None).kind, VerdictKind::Ok);
}

#[test]
fn a_baseline_tells_what_got_worse() {
    assert_eq!(verdict(Some(Pass), &none(), Some(Pass)), VerdictKind::Ok);
    assert_eq!(
        verdict(Some(Fail), &none(), Some(Pass)),
        VerdictKind::Regressed
    );
    assert_eq!(verdict(Some(Fail), &none(), Some(Fail)), VerdictKind::Known);
    assert_eq!(
        verdict(Some(Crash), &none(), Some(Error)),
        VerdictKind::NewFailure
    );
    assert_eq!(
        verdict(Some(Fail), &none(), Some(Skipped)),
        VerdictKind::NewFailure
    );
    assert_eq!(verdict(Some(Pass), &none(), Some(Crash)), VerdictKind::Ok);
    assert_eq!(verdict(None, &none(), Some(Pass)), VerdictKind::Missing);
    assert_eq!(
        verdict(Some(Skipped), &none(), Some(Pass)),
        VerdictKind::NewlySkipped
    );
    assert_eq!(verdict(Some(Skipped), &none(), Some(Fail)), VerdictKind::Ok);
}

#[test]
fn an_expectation_speaks_before_the_baseline() {
    let error = expected("error");
    assert_eq!(verdict(Some(Error), &error, None), VerdictKind::Known);
    assert_eq!(verdict(Some(Error), &error, Some(Pass)), VerdictKind::Known);
    assert_eq!(verdict(Some(Pass), &error, None), VerdictKind::Fixed);
    assert_eq!(verdict(Some(Pass), &error, Some(Error)), VerdictKind::Fixed);
    assert_eq!(verdict(Some(Skipped), &error, None), VerdictKind::Ok);
    assert_eq!(verdict(None, &error, None), VerdictKind::Missing);
}

#[test]
fn another_failure_than_the_expected_one_is_not_known() {
    let unsupported = expected("unsupported");
    assert_eq!(
        verdict(Some(Crash), &unsupported, None),
        VerdictKind::NewFailure
    );
    assert_eq!(
        verdict(Some(Crash), &unsupported, Some(Crash)),
        VerdictKind::NewFailure
    );
    assert_eq!(
        verdict(Some(Crash), &unsupported, Some(Pass)),
        VerdictKind::Regressed
    );
    let found = one(&single(CASE, TARGET, Some(Crash)), &unsupported, None);
    assert_eq!(
        found.because.as_deref(),
        Some("aot.toml:1 expects unsupported, not crash")
    );
}

#[test]
fn any_of_several_expectations_may_name_the_outcome() {
    let both = expectations(&(expect("**", "error", "") + &expect(CASE, "crash", "")));
    let found = one(&single(CASE, TARGET, Some(Crash)), &both, None);
    assert_eq!(
        (found.kind, found.expectation),
        (VerdictKind::Known, Some(1))
    );
}

#[test]
fn a_pass_at_a_later_attempt_is_flaky_and_never_fixed() {
    let mut run = single(CASE, TARGET, Some(Pass));
    run.outcomes[0].attempts = vec![Crash, Pass];
    for expectations in [none(), expected("crash")] {
        let found = one(&run, &expectations, None);
        assert_eq!(found.kind, VerdictKind::Flaky);
        assert!(
            found
                .because
                .unwrap()
                .contains("attempt 2; the last failure was crash")
        );
    }
}

#[test]
fn retries_that_all_fail_are_a_failure() {
    let mut run = single(CASE, TARGET, Some(Fail));
    run.outcomes[0].attempts = vec![Crash, Fail];
    assert_eq!(one(&run, &none(), None).kind, VerdictKind::NewFailure);
}

#[test]
fn a_case_that_the_baseline_has_not_is_new_or_a_new_failure() {
    let mut before = single("stablehlo/add/f32", TARGET, Some(Pass));
    for (kind, expected) in [
        (Pass, VerdictKind::New),
        (Skipped, VerdictKind::New),
        (Fail, VerdictKind::NewFailure),
    ] {
        let now = single(CASE, TARGET, Some(kind));
        let judgement = judge(&now, &none(), Some(&before));
        assert_eq!(judgement.verdicts[0].kind, expected);
        assert_eq!(judgement.unplanned.len(), 1);
    }
    before.record.targets = vec!["cpu".parse().unwrap()];
    let judgement = judge(&single(CASE, TARGET, Some(Pass)), &none(), Some(&before));
    assert_eq!(judgement.removed_targets, ["cpu"]);
    assert!(judgement.unplanned.is_empty());
}

#[test]
fn each_planned_case_has_one_verdict_on_each_target() {
    let mut run = run("r", &["cpu", TARGET], &[CASE, "stablehlo/add/f32"]);
    outcome(&mut run, "cpu", CASE, Pass);
    outcome(&mut run, TARGET, CASE, Error);
    let judgement = judge(&run, &none(), None);
    let found: Vec<(&str, &str, VerdictKind)> = judgement
        .verdicts
        .iter()
        .map(|v| (v.target.as_str(), v.case.subject(), v.kind))
        .collect();
    assert_eq!(
        found,
        [
            ("cpu", "add", VerdictKind::Missing),
            ("cpu", "fft", VerdictKind::Ok),
            (TARGET, "add", VerdictKind::Missing),
            (TARGET, "fft", VerdictKind::NewFailure),
        ]
    );
}

#[test]
fn until_is_held_against_the_targets_own_plugin() {
    let until = |version: &str| {
        let until = format!("until = \"libtpu >= {version}\"");
        expectations(&expect("**", "error", &until))
    };
    let mut both = run("r", &[TARGET, "plugin:libtpu-0.0.24", "cpu"], &[CASE]);
    for target in [TARGET, "plugin:libtpu-0.0.24", "cpu"] {
        outcome(&mut both, target, CASE, Error);
    }
    let overdue = |version| -> Vec<bool> {
        let judgement = judge(&both, &until(version), None);
        assert!(
            judgement
                .verdicts
                .iter()
                .all(|v| v.kind == VerdictKind::Known)
        );
        judgement.verdicts.iter().map(|v| v.overdue).collect()
    };
    assert_eq!(overdue("0.0.60"), [false, false, false]);
    assert_eq!(overdue("0.0.50"), [true, false, false]);
    assert_eq!(overdue("0.0.24"), [true, true, false]);
}

#[test]
fn globs_over_virtual_targets_match_and_until_may_name_either_plugin() {
    let targets = ["aot-v6e", "vtpu-v6e", "vtpu-v6e:2x4", "cpu"];
    let mut all = run("r", &targets, &[CASE]);
    for target in targets {
        outcome(&mut all, target, CASE, Unsupported);
    }
    let kinds = |globs: &str, until: &str| -> Vec<(VerdictKind, bool)> {
        let text = expect("**", "unsupported", &format!("until = \"{until}\""));
        let text = text.replace("\"*\"", &format!("\"{globs}\""));
        let judgement = judge(&all, &expectations(&text), None);
        let verdicts = judgement.verdicts.iter();
        verdicts.map(|v| (v.kind, v.overdue)).collect()
    };
    let (new, known, overdue) = (
        (VerdictKind::NewFailure, false),
        (VerdictKind::Known, false),
        (VerdictKind::Known, true),
    );
    assert_eq!(kinds("vtpu-*", "libtpu >= 9"), [new, known, known, new]);
    assert_eq!(kinds("vtpu-v6e:*", "libtpu >= 9"), [new, new, known, new]);
    assert_eq!(
        kinds("aot-*, vtpu-*", "libtpu >= 0.0.52"),
        [overdue, overdue, overdue, new]
    );
    assert_eq!(
        kinds("*", "xla-cpu >= 0.11"),
        [known, overdue, overdue, overdue]
    );
}

#[test]
fn an_expectation_is_unused_only_if_the_run_selected_all_it_could_match() {
    let stale = expectations(&expect("stablehlo/fff/**", "error", ""));
    let mut run = single(CASE, TARGET, Some(Unsupported));
    for (select, unused) in [
        ("**", 1),
        ("stablehlo/**", 1),
        ("stablehlo/fft/**", 0),
        ("chlo/**", 0),
    ] {
        run.record.select = vec![select.to_owned()];
        assert_eq!(judge(&run, &stale, None).unused.len(), unused, "{select}");
    }
    run.record.select = Vec::new();
    assert_eq!(judge(&run, &stale, None).unused.len(), 1);
    run.record.shard = Some("1/2".to_owned());
    assert_eq!(judge(&run, &stale, None).unused.len(), 0);
}

#[test]
fn verdict_words_are_the_designs() {
    for kind in VerdictKind::ALL {
        let word = serde_json::to_value(kind).unwrap();
        assert_eq!(word, kind.as_str());
    }
}

#[test]
fn outcomes_of_other_evidence_are_another_section() {
    let mut run = run("r", &[TARGET], &[CASE, "stablehlo/add/f32"]);
    outcome(&mut run, TARGET, CASE, Pass);
    outcome(&mut run, TARGET, "stablehlo/add/f32", Pass);
    run.outcomes[0].evidence = Evidence::Virtual;
    let judgement = judge(&run, &none(), None);
    let sections = judgement.sections();
    assert_eq!(sections.len(), 2);
    assert!(sections.iter().all(|s| s.verdicts.len() == 1));
}
