use super::*;
use crate::outcome::OutcomeKind::{Crash, Error, Pass, Skipped};
use crate::track::fixtures::{expect, expectations, ledger, outcome_with, run as new_run, single};
use crate::track::{Expectations, judge};

const CASE: &str = "s/a/x";

fn gate(
    now: Option<OutcomeKind>,
    before: Option<OutcomeKind>,
    expectations: &Expectations,
    strict: bool,
) -> Gate {
    let run = single(CASE, "aot-v6e", now);
    let baseline = before.map(|before| single(CASE, "aot-v6e", Some(before)));
    let judgement = judge(&run, expectations, baseline.as_ref());
    Gate::new("r", &judgement, &ledger(), strict)
}

#[test]
fn only_the_unexpected_fails_it() {
    let none = Expectations::default();
    let error = expectations(&expect("s/**", "error", ""));
    for (now, before, known, passed, strict) in [
        (Some(Pass), Some(Pass), &none, true, true),
        (Some(Crash), Some(Pass), &none, false, false),
        (Some(Crash), None, &none, false, false),
        (Some(Crash), Some(Crash), &none, true, true),
        (None, Some(Pass), &none, false, false),
        (Some(Error), Some(Pass), &error, true, true),
        (Some(Crash), Some(Error), &error, false, false),
        (Some(Pass), Some(Error), &error, true, false),
        (Some(Skipped), Some(Pass), &none, false, false),
        (Some(Skipped), None, &none, false, false),
    ] {
        assert_eq!(
            gate(now, before, known, false).passed(),
            passed,
            "{now:?} {before:?}"
        );
        assert_eq!(
            gate(now, before, known, true).passed(),
            strict,
            "strict {now:?} {before:?}"
        );
    }
}

#[test]
fn a_run_without_any_target_of_the_baseline_compares_nothing() {
    let run = single(CASE, "aot-v6e", Some(Pass));
    let baseline = single(CASE, "aot-7x", Some(Pass));
    let judgement = judge(&run, &Expectations::default(), Some(&baseline));
    let gate = Gate::new("r", &judgement, &ledger(), false);
    assert!(!gate.passed());
    assert!(
        gate.render().contains("nothing was compared"),
        "{}",
        gate.render()
    );
}

#[test]
fn an_until_that_is_reached_is_said_and_fails_a_strict_gate() {
    let known = expectations(&expect("s/**", "error", "until = \"libtpu >= 0.0.50\""));
    let loose = gate(Some(Error), None, &known, false);
    assert!(loose.passed());
    assert!(
        loose
            .render()
            .contains("`until` libtpu >= 0.0.50 is reached, and its cases still fail")
    );
    assert!(!gate(Some(Error), None, &known, true).passed());
}

#[test]
fn a_case_that_is_newly_skipped_fails_a_strict_gate_and_is_noted_by_another() {
    let pair = |second| {
        let mut run = new_run("r", &["aot-v6e"], &[CASE, "s/a/y"]);
        outcome_with(&mut run, "aot-v6e", CASE, Pass, "");
        outcome_with(&mut run, "aot-v6e", "s/a/y", second, "stale reference");
        run
    };
    let judgement = judge(&pair(Skipped), &Expectations::default(), Some(&pair(Pass)));
    let loose = Gate::new("r", &judgement, &ledger(), false);
    assert!(loose.passed());
    let note =
        "note: 1 case skipped here, passed in the baseline (newly-skipped); --strict fails on it";
    assert!(loose.render().contains(note), "{}", loose.render());
    let strict = Gate::new("r", &judgement, &ledger(), true);
    assert!(!strict.passed());
    assert!(
        strict.render().contains(
            "newly-skipped (1):\n  s/a/y [skipped] on aot-v6e (evidence: compile) at compile: was pass in the baseline: stale reference"
        ),
        "{}",
        strict.render()
    );
}

#[test]
fn a_target_on_which_nothing_ran_fails_every_gate() {
    let gate = gate(Some(Skipped), None, &Expectations::default(), false);
    let text = gate.render();
    assert!(
        text.contains("not covered (1):\n  nothing ran on aot-v6e (evidence: compile): all of its 1 case are skipped: "),
        "{text}"
    );
    assert!(
        text.contains("FAILED") && text.contains("1 unexpected"),
        "{text}"
    );
}

#[test]
fn a_strict_gate_fails_on_what_was_left_out_and_is_still_there() {
    let mut baseline = new_run("b", &["aot-v6e", "cpu"], &[CASE, "s/a/y", "s/a/z"]);
    let mut run = new_run("r", &["aot-v6e"], &[CASE]);
    for case in [CASE, "s/a/y", "s/a/z"] {
        outcome_with(&mut baseline, "aot-v6e", case, Pass, "");
        outcome_with(&mut baseline, "cpu", case, Pass, "");
    }
    outcome_with(&mut run, "aot-v6e", CASE, Pass, "");
    let mut judgement = judge(&run, &Expectations::default(), Some(&baseline));
    judgement.know_suites(&[CASE.parse().unwrap(), "s/a/y".parse().unwrap()]);
    let loose = Gate::new("r", &judgement, &ledger(), false);
    assert!(loose.passed(), "{}", loose.render());
    let strict = Gate::new("r", &judgement, &ledger(), true);
    let text = strict.render();
    assert!(!strict.passed());
    for line in [
        "not covered (2):",
        "  target cpu of the baseline is not in this run",
        "  s/a/y of the baseline not planned on aot-v6e, and still in the suites",
        "note: 1 case of the baseline no longer in the suites",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // What the suites no longer have is no gap.
    let mut gone = judge(&run, &Expectations::default(), Some(&baseline));
    gone.removed_targets.clear();
    gone.know_suites(&[CASE.parse().unwrap()]);
    assert!(Gate::new("r", &gone, &ledger(), true).passed());
}

#[test]
fn a_fixed_issue_whose_cases_fail_is_said() {
    let known = expectations(&expect("s/**", "error", "issue = \"openxla/xla#8\""));
    let text = gate(Some(Error), None, &known, false).render();
    assert!(
        text.contains("note: aot.toml:1: openxla/xla#8 is fixed upstream, still failing here"),
        "{text}"
    );
}

#[test]
fn it_says_what_got_worse_and_why_in_one_line_each() {
    let baseline = single(CASE, "aot-v6e", Some(Pass));
    let mut run = single(CASE, "aot-v6e", None);
    outcome_with(
        &mut run,
        "aot-v6e",
        CASE,
        Crash,
        "Check failed:\n\x1b[31mhas_layout",
    );
    let judgement = judge(&run, &Expectations::default(), Some(&baseline));
    let text = Gate::new("r", &judgement, &ledger(), false).render();
    assert_eq!(
        text,
        "regressed (1):\n  s/a/x [crash] on aot-v6e (evidence: compile) at compile: was pass in the baseline: \
         Check failed: \\x1b[31mhas_layout\n\
         gate FAILED: run r against 20261130-120301-aaaa: 1 unexpected\n"
    );
}
