use std::collections::BTreeSet;

use super::*;
use crate::outcome::OutcomeKind::{self, Crash, Error, Fail, Pass, Skipped, Timeout, Unsupported};
use crate::store::ToleranceRecord;
use crate::tensor::ElementType;
use crate::track::fixtures::{expect, expectations, ledger, outcome, outcome_with, run as new_run};
use crate::track::{VerdictKind, judge};

/// What a plug-in's message may do to a page.
const HOSTILE: &str = "a | b\n# heading\n| x | y |\n<script>alert(1)</script> `code` ``` [link](http://evil) ]]> &amp; \
                       \u{1b}[31mred\u{1b}[0m \u{0}\u{8}\u{b}\u{fffe}\u{202e} @someone #1 \"q\" 'q' /opt/someone/secret/x.cc:12";

/// A run with every verdict, on two targets, judged against a baseline.
fn judged() -> (Run, Judgement, IssueLedger) {
    let plugin = "plugin:/opt/someone/plugins/other.so";
    let cases = [
        "stablehlo/add/f32",
        "stablehlo/add/f64",
        "stablehlo/dot/s64",
        "stablehlo/dot/u64",
        "stablehlo/fft/f32",
        "stablehlo/fft/f64",
        "stablehlo/iota/s32",
        "stablehlo/rng/s32",
        "stablehlo/sort/f32",
        "chlo/erf/f32",
        "chlo/erf/f64",
    ];
    let mut run = new_run("20261130-120301-3fa2", &["aot-v6e", plugin], &cases);
    let mut baseline = new_run("20261129-120301-1111", &["aot-v6e", plugin], &cases);
    baseline.planned.retain(|case| case.subject() != "iota");
    let on_aot: [(&str, OutcomeKind, OutcomeKind); 9] = [
        ("stablehlo/add/f32", Pass, Pass),
        ("stablehlo/add/f64", Crash, Pass),
        ("stablehlo/dot/s64", Error, Error),
        ("stablehlo/dot/u64", Crash, Error),
        ("stablehlo/fft/f32", Pass, Pass),
        ("stablehlo/fft/f64", Error, Error),
        ("stablehlo/rng/s32", Skipped, Pass),
        ("chlo/erf/f32", Timeout, Timeout),
        ("chlo/erf/f64", Pass, Unsupported),
    ];
    for (case, now, before) in on_aot {
        outcome_with(&mut run, "aot-v6e", case, now, HOSTILE);
        outcome_with(&mut baseline, "aot-v6e", case, before, "as before");
    }
    outcome(&mut run, "aot-v6e", "stablehlo/iota/s32", Pass);
    for case in cases {
        let kind = if case == "stablehlo/sort/f32" {
            Fail
        } else {
            Pass
        };
        outcome(&mut run, plugin, case, kind);
        outcome(&mut baseline, plugin, case, Pass);
    }
    let flaky = run
        .outcomes
        .iter_mut()
        .find(|o| o.case.subject() == "fft")
        .unwrap();
    flaky.attempts = vec![Crash, Timeout, Pass];
    let text = expect("stablehlo/dot/**", "error", "issue = \"openxla/xla#7\"")
        + &expect(
            "stablehlo/fft/f64",
            "error",
            "issue = \"openxla/xla#8\"\nuntil = \"libtpu >= 0.0.50\"",
        )
        + &expect("chlo/erf/f64", "unsupported", "")
        + &expect("chlo/{erf,none}/bf16", "error", "");
    let text = text.replace("\"*\"", "\"aot-*\"").replacen(
        "not implemented",
        "refused | by <b>the</b> *compiler*",
        1,
    );
    run.record.tolerances = vec![ToleranceRecord {
        operator: "chlo/erf".to_owned(),
        element_types: vec![ElementType::F32, ElementType::F64],
        tolerance: "3 ulp".to_owned(),
        source: "a paper | a <b>book</b>".to_owned(),
        cases: 2,
    }];
    let judgement = judge(&run, &expectations(&text), Some(&baseline));
    (run, judgement, ledger())
}

fn rendered(format: Format) -> String {
    let (run, judgement, ledger) = judged();
    render(format, &run, &judgement, &ledger, Colour::Off).unwrap()
}

#[test]
fn the_run_made_by_hand_has_every_verdict() {
    let (_, judgement, _) = judged();
    let kinds: BTreeSet<VerdictKind> = judgement.verdicts.iter().map(|v| v.kind).collect();
    assert_eq!(kinds, BTreeSet::from(VerdictKind::ALL));
}

#[test]
fn terminal() {
    insta::assert_snapshot!(rendered(Format::Terminal));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(rendered(Format::Markdown));
}

#[test]
fn junit() {
    insta::assert_snapshot!(rendered(Format::Junit));
}

#[test]
fn json() {
    insta::assert_snapshot!(rendered(Format::Json));
}

#[test]
fn the_terminal_report_fits_80_columns_and_obeys_no_escape() {
    let text = rendered(Format::Terminal);
    for line in text.lines() {
        assert!(line.chars().count() <= terminal::WIDTH, "{line}");
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
    }
    let (run, judgement, ledger) = judged();
    let coloured = render(Format::Terminal, &run, &judgement, &ledger, Colour::On).unwrap();
    assert!(coloured.contains("\x1b["));
    let own = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    assert!(coloured.split("\x1b[").skip(1).all(own));
    assert!(!coloured.contains("\x1b[31mred"));
}

#[test]
fn no_report_shows_a_machines_path() {
    for format in [
        Format::Terminal,
        Format::Markdown,
        Format::Junit,
        Format::Json,
    ] {
        let text = rendered(format);
        assert!(
            !text.contains("/opt") && !text.contains("someone/"),
            "{format}"
        );
    }
}

#[test]
fn junit_is_well_formed_and_counts_only_the_unexpected() {
    let report = quick_junit::Report::deserialize_from_str(&rendered(Format::Junit)).unwrap();
    let counts = |r: &quick_junit::Report| (r.tests, r.failures, r.errors, r.skipped);
    // 22 planned; sort fails on the plug-in; add/f64 and dot/u64 crash and sort is missing on aot-v6e; known are
    // dot/s64, fft/f64 and erf/f32, and rng is skipped.
    assert_eq!(counts(&report), (22, 1, 3, 4));
    assert_eq!(
        report.test_suites[0].name.as_str(),
        "aot-v6e — evidence: compile"
    );
    let xml = rendered(Format::Junit);
    let forbidden = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    assert!(!xml.contains(forbidden));
}

#[test]
fn the_json_report_keeps_its_schema() {
    let value: serde_json::Value = serde_json::from_str(&rendered(Format::Json)).unwrap();
    assert_eq!(value["schema"], "tpu-parity/report/1");
    for target in value["targets"].as_array().unwrap() {
        let totals = target["totals"].as_object().unwrap();
        let cases = totals["cases"].as_u64().unwrap();
        let sum: u64 = totals
            .iter()
            .filter(|(key, _)| *key != "cases")
            .map(|(_, n)| n.as_u64().unwrap())
            .sum();
        assert_eq!(sum, cases);
        let skipped = totals["skipped"].as_u64().unwrap();
        let rate = totals["pass"].as_u64().unwrap() as f64 / (cases - skipped) as f64;
        assert_eq!(target["pass_rate"].as_f64().unwrap(), rate);
        let subjects = target["subjects"].as_array().unwrap();
        let rates: Vec<f64> = subjects
            .iter()
            .map(|s| s["pass_rate"].as_f64().unwrap_or(1.0))
            .collect();
        assert!(rates.is_sorted());
    }
    assert_eq!(value["targets"][0]["evidence"], "compile");
    assert_eq!(value["targets"][1]["evidence"], "hardware");
    let known = value["verdicts"]["known"].as_array().unwrap();
    assert!(
        known
            .iter()
            .any(|k| k["issue"] == "openxla/xla#7" && k["issue_state"] == "open")
    );
    assert_eq!(value["issues"]["issues"][0]["issue"], "openxla/xla#7");
}

#[test]
fn every_markdown_table_keeps_its_columns() {
    let text = rendered(Format::Markdown);
    let mut columns = None;
    let mut rows = 0;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let bars = line.matches('|').count();
        assert_eq!(*columns.get_or_insert(bars), bars, "{line}");
        rows += 1;
    }
    assert!(rows > 20);
    // Markup stands in code spans only.
    for line in text.lines().filter(|line| line.contains("<script>")) {
        assert!(line.contains("````a | b # heading"), "{line}");
    }
}

#[test]
fn a_markdown_report_of_a_bad_night_stays_small_and_says_what_it_leaves_out() {
    let cases: Vec<String> = (0..3000)
        .map(|i| format!("suite{}/operator{}/f32", i % 7, i))
        .collect();
    let ids: Vec<&str> = cases.iter().map(String::as_str).collect();
    let mut run = new_run("r", &["cpu", "aot-v6e"], &ids);
    for target in ["cpu", "aot-v6e"] {
        for case in &cases {
            outcome_with(
                &mut run,
                target,
                case,
                Fail,
                &format!("{case} {}", "long ".repeat(400)),
            );
        }
    }
    let judgement = judge(&run, &Default::default(), None);
    let text = render(Format::Markdown, &run, &judgement, &ledger(), Colour::Off).unwrap();
    assert!(text.len() < markdown::SIZE_LIMIT, "{}", text.len());
    assert!(text.contains(" more groups of failures") && text.contains(" more operators;"));
}

/// Three XLA CPU builds and a compiler; `gather` fails on one build, `fft` on all, `sort` passes everywhere.
fn builds() -> (Run, Judgement) {
    let targets = [
        "cpu",
        "plugin:xla-cpu-0.106",
        "plugin:xla-cpu-0.81",
        "aot-v6e",
    ];
    let cases = [
        "s/fft/a",
        "s/gather/a",
        "s/gather/b",
        "s/rng/a",
        "s/rng/b",
        "s/sort/a",
    ];
    let mut run = new_run("r", &targets, &cases);
    for target in targets {
        for case in cases {
            let kind = match case {
                "s/fft/a" => Error,
                "s/gather/a" if target == "plugin:xla-cpu-0.81" => Crash,
                "s/rng/b" if target == "cpu" => Skipped,
                _ => Pass,
            };
            let message = format!("no reference; run `generate '{case}'`");
            outcome_with(&mut run, target, case, kind, &message);
        }
    }
    let text = expect("s/fft/**", "error", "")
        + &expect("s/gather/a", "crash", "")
            .replace("\"*\"", "\"plugin:xla-cpu-0.81\"")
            .replace("not implemented", "gather aborts");
    let judgement = judge(&run, &expectations(&text), None);
    (run, judgement)
}

#[test]
fn the_matrix_has_the_operators_that_fail_somewhere_and_counts_the_others() {
    let (run, judgement) = builds();
    let text = render(Format::Markdown, &run, &judgement, &ledger(), Colour::Off).unwrap();
    let wanted = "## Operators by target, the worst first\n\n\
        | operator | cpu (hardware) | plugin:xla-cpu-0.106 (hardware) | plugin:xla-cpu-0.81 (hardware) | aot-v6e (compile) |\n\
        |---|--:|--:|--:|--:|\n\
        | `s/fft` | 0.0% | 0.0% | 0.0% | 0.0% |\n\
        | `s/gather` | 100.0% | 100.0% | 50.0% | 100.0% |\n\
        | `s/rng` | 100.0% (1 skipped) | 100.0% | 100.0% | 100.0% |\n\n\
        1 of the 4 operators pass all their cases on every target.\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn differences_between_targets_of_one_kind_are_counted_by_reason() {
    let (run, judgement) = builds();
    let text = render(Format::Markdown, &run, &judgement, &ledger(), Colour::Off).unwrap();
    let wanted = "## Differences between cpu, plugin:xla-cpu-0.106, plugin:xla-cpu-0.81 — evidence: hardware\n\n\
        Known failures on some of these targets and not on all, by reason; a cell counts cases. Known failures on all of them: 1.\n\n\
        | reason | cpu (hardware) | plugin:xla-cpu-0.106 (hardware) | plugin:xla-cpu-0.81 (hardware) |\n\
        |---|--:|--:|--:|\n\
        | gather aborts | 0 | 0 | 1 |\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn generations_stand_side_by_side_with_their_evidence_and_estimates_are_called_that() {
    let run = compiled::tests::two_generations();
    let judgement = judge(&run, &Default::default(), None);
    let report = |format| render(format, &run, &judgement, &ledger(), Colour::Off).unwrap();
    let markdown = report(Format::Markdown);
    for wanted in [
        "| aot-v5e | compile | 4 | – | 0 | 25.0 ms | – | – | 1000 B | 1.00 MiB | – |\n\
         | vtpu-v6e | virtual | 4 | 3 (75.0%) | 1 | 25.0 ms | – | – | 1000 B | 1.00 MiB | – |\n",
        "### Not executable on CPU — vtpu-v6e, evidence: virtual\n\n\
         - `custom call tpu_custom_call`: 1 case\n  - `s/dot/c`\n",
        "### Estimates by generation\n\nCycles and times are the TPU compiler's estimates: no program ran on a TPU.",
        "The sums are over the 3 cases that have an estimated time on every target here.",
        "| aot-v5e | compile | 4800 | 4.80 µs | ×1.00 | 0 |\n| vtpu-v6e | virtual | 1200 | 1.20 µs | ×0.25 | 0 |\n",
        "| operator | cases | aot-v5e (compile), estimate | vtpu-v6e (virtual), estimate |\n|---|--:|--:|--:|\n\
         | `s/tanh` | 1 | 4.00 µs, 4000 cycles | 1.00 µs, 1000 cycles |\n\
         | `s/dot` | 2 | 800 ns, 800 cycles | 200 ns, 200 cycles |\n",
        "| vtpu-v6e executes on | xla-cpu |",
    ] {
        assert!(markdown.contains(wanted), "{wanted}\nis not in\n{markdown}");
    }
    let terminal = report(Format::Terminal);
    for wanted in [
        "of the 4 cases that compile for vtpu-v6e (virtual), 3 ran on CPU\n  not executable: custom call tpu_custom_call: 1 case\n",
        "too large for vtpu-v6e (virtual): 1 case\n",
        "Estimated time by generation\n",
        "  executes on xla-cpu 0.11.2, PJRT C API 0.115, matrix products: mxu\n",
    ] {
        assert!(terminal.contains(wanted), "{wanted}\nis not in\n{terminal}");
    }
    assert!(
        terminal
            .lines()
            .all(|line| line.chars().count() <= terminal::WIDTH)
    );
    let value: serde_json::Value = serde_json::from_str(&report(Format::Json)).unwrap();
    assert_eq!(value["compiled"]["common_cases"], 3);
    assert_eq!(value["compiled"]["targets"][1]["estimate"]["cycles"], 1200);
    assert_eq!(
        value["run"]["environment"]["plugins"][2]["executor"]["numerics"],
        "mxu"
    );
    // The three evidences are three sections, and no figure is of two.
    let evidence: Vec<_> = (0..3)
        .map(|i| value["targets"][i]["evidence"].as_str())
        .collect();
    assert_eq!(
        evidence,
        [Some("hardware"), Some("compile"), Some("virtual")]
    );
}

#[test]
fn skipped_cases_are_no_passes_and_show_with_their_reason() {
    let (run, judgement) = builds();
    let ledger = ledger();
    let summary = Summary::new(&run, &judgement, &ledger);
    let cpu = &summary.sections[0];
    let rng = cpu.subjects.iter().find(|g| g.name() == "s/rng").unwrap();
    assert_eq!(
        (rng.totals.pass, rng.totals.skipped, rng.passes()),
        (1, 1, false)
    );
    let reason = "no reference; run `generate 'CASE'`";
    assert_eq!(cpu.skipped[0].reason, reason);
    let json = render(Format::Json, &run, &judgement, &ledger, Colour::Off).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["targets"][0]["skipped"][0]["reason"], reason);
    assert_eq!(value["targets"][0]["skipped"][0]["cases"][0], "s/rng/b");
    let terminal = render(Format::Terminal, &run, &judgement, &ledger, Colour::Off).unwrap();
    assert!(
        terminal
            .contains("Skipped, by reason (1 case)\n  1 case: no reference; run `generate 'CASE'`")
    );
    let headline = "80.0% of the 5 tests that run pass, 1 skipped";
    assert!(terminal.contains(headline), "{terminal}");
    let overview = "skipped on cpu — evidence: hardware: 1 case\n";
    assert!(terminal.contains(overview), "{terminal}");
}

#[test]
fn passes_that_compare_a_plugin_with_itself_are_counted() {
    let (mut run, _) = builds();
    for outcome in run.outcomes.iter_mut().filter(|o| o.target == "cpu") {
        outcome.metrics.self_reference = outcome.case.subject() != "sort";
    }
    let judgement = judge(&run, &Default::default(), None);
    let sentence = "3 of the 4 passes compare this plug-in with itself (no narrower float in the program), and show only that it \
                    still does what it did";
    let report = |format| render(format, &run, &judgement, &ledger(), Colour::Off).unwrap();
    let markdown = report(Format::Markdown);
    assert_eq!(markdown.matches(sentence).count(), 1, "{markdown}");
    let terminal = report(Format::Terminal).replace('\n', " ");
    assert_eq!(terminal.matches(sentence).count(), 1, "{terminal}");
    let value: serde_json::Value = serde_json::from_str(&report(Format::Json)).unwrap();
    let counts: Vec<_> = (0..4)
        .map(|i| value["targets"][i]["self_reference_passes"].as_u64())
        .collect();
    assert_eq!(counts, [Some(3), Some(0), Some(0), None]);
}

#[test]
fn two_plugins_of_one_file_name_are_told_apart() {
    let (a, b) = ("plugin:/a/b/x.so", "plugin:/c/d/x.so");
    let mut run = new_run("r", &[a, b], &["s/a"]);
    outcome(&mut run, a, "s/a", Pass);
    outcome(&mut run, b, "s/a", Pass);
    let judgement = judge(&run, &Default::default(), None);
    let ledger = ledger();
    let summary = Summary::new(&run, &judgement, &ledger);
    let labels: BTreeSet<&str> = summary.sections.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels.len(), 2);
    assert!(
        labels
            .iter()
            .all(|label| label.starts_with("plugin:x.so ("))
    );
}

#[test]
fn formats_are_written_as_they_are_read() {
    for format in [
        Format::Terminal,
        Format::Markdown,
        Format::Junit,
        Format::Json,
    ] {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "pdf".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("terminal, markdown, junit, json"));
}

#[test]
fn an_empty_run_has_reports_without_rates() {
    let run = new_run("r", &["cpu"], &[]);
    let judgement = judge(&run, &Default::default(), None);
    for format in [
        Format::Terminal,
        Format::Markdown,
        Format::Junit,
        Format::Json,
    ] {
        let text = render(format, &run, &judgement, &ledger(), Colour::Off).unwrap();
        assert!(!text.contains("NaN"), "{format}");
    }
}

#[test]
fn what_is_no_plain_file_is_written_to_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    std::fs::write(&file, "a longer text than the next").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    publish::write(&link, "text").unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    publish::write(std::path::Path::new("/dev/null"), "text").unwrap();
    assert!(!std::path::Path::new("/dev/null").is_file());
}

#[test]
fn publishing_again_changes_nothing_and_each_run_has_one_line_of_history() {
    let dir = tempfile::tempdir().unwrap();
    let reports = dir.path().join("reports");
    let (mut run, judgement, ledger) = judged();
    let publish = |run: &Run| publish::publish(&reports, run, &judgement, &ledger).unwrap();
    let read = |name: &str| std::fs::read_to_string(reports.join(name)).unwrap();
    publish(&run);
    let first = [
        read("history.json"),
        read("latest/report.md"),
        read("latest/report.json"),
        read("latest/junit.xml"),
    ];
    publish(&run);
    let second = [
        read("history.json"),
        read("latest/report.md"),
        read("latest/report.json"),
        read("latest/junit.xml"),
    ];
    assert_eq!(first, second);
    run.record.id = "20261128-000000-0000".to_owned();
    run.record.started = "2026-11-28T00:00:00Z".parse().unwrap();
    publish(&run);
    let history = publish::read_history(&reports.join("history.json")).unwrap();
    let ids: Vec<&str> = history.iter().map(|entry| entry.run.as_str()).collect();
    assert_eq!(ids, ["20261128-000000-0000", "20261130-120301-3fa2"]);
    assert_eq!(read("history.json").lines().count(), 4);
    let mut files: Vec<_> = std::fs::read_dir(reports.join("latest"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["junit.xml", "report.json", "report.md"]);
}

#[test]
fn a_broken_history_is_an_error_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history.json"), "[\n{}\n]").unwrap();
    let (run, judgement, ledger) = judged();
    let error = publish::publish(dir.path(), &run, &judgement, &ledger)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("history.json:2: not a history of runs"),
        "{error}"
    );
    assert!(!dir.path().join("latest").exists());
}
