//! PyTorch's suites on each target: operator × element type × mode, pass rates of models, and which models each failing operator
//! blocks, so that the issues worth most are filed first.
//!
//! Which operator a failure is of is read off its message (`operator 'aten::i0' is not implemented`, `addmm(): …`), or is the
//! operator that the case is about. A failing model whose message names none is linked to no operator.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::summary::{self, Labels};
use crate::case::CaseId;
use crate::outcome::{Evidence, Outcome, OutcomeKind};
use crate::store::Run;
use crate::track::{IssueRef, Judgement, Totals, Verdict};

/// The suite of operators; the others are of models and what is done with them.
const OPERATORS: &str = "aten";

/// One target.
#[derive(Debug, Clone, Serialize)]
pub struct PyTorch {
    pub target: String,
    pub evidence: Evidence,
    /// The modes that cases have, `eager/forward`, in the order in which an operator's cells show them.
    pub modes: Vec<String>,
    pub element_types: Vec<String>,
    /// By name.
    pub operators: Vec<OperatorRow>,
    /// The lowest pass rate first.
    pub models: Vec<ModelRow>,
    /// Those that block most models first.
    pub findings: Vec<Finding>,
}

/// An operator of PyTorch's own table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorRow {
    pub operator: String,
    pub totals: Totals,
    /// By element type and mode the worst outcome of the samples.
    pub cells: BTreeMap<String, BTreeMap<String, OutcomeKind>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRow {
    pub suite: String,
    pub model: String,
    pub totals: Totals,
    pub pass_rate: Option<f64>,
    /// Operators that messages of its failures name.
    pub blocked_by: BTreeSet<String>,
}

/// What one operator does not do: one issue to file, if none is named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// `aten.i0`.
    pub operator: String,
    pub outcome: OutcomeKind,
    /// Failing cases of the operator itself.
    pub cases: usize,
    pub element_types: BTreeSet<String>,
    /// Models with a failure that names the operator.
    pub blocks: BTreeSet<String>,
    /// Other models that use the operator and do not pass.
    pub suspected: BTreeSet<String>,
    /// How many models use it, those that it blocks among them.
    pub used_by: usize,
    /// Of the first case.
    pub message: String,
    pub example: CaseId,
    /// That expectations name.
    pub issues: BTreeSet<IssueRef>,
}

/// The targets that PyTorch's cases ran on.
pub(super) fn of(run: &Run, judgement: &Judgement, labels: &Labels) -> Vec<PyTorch> {
    let plugins = run.record.environment.plugins.iter();
    let targets: BTreeSet<String> = plugins
        .filter(|plugin| plugin.client_sha256.is_some())
        .map(|plugin| plugin.target.to_string())
        .collect();
    judgement
        .sections()
        .into_iter()
        .filter(|section| targets.contains(section.target))
        .map(|section| {
            let outcomes: BTreeMap<&CaseId, &Outcome> = run
                .outcomes
                .iter()
                .filter(|outcome| outcome.target == section.target)
                .map(|outcome| (&outcome.case, outcome))
                .collect();
            let label = labels.get(section.target).to_owned();
            one(
                label,
                section.evidence,
                &section.verdicts,
                &outcomes,
                judgement,
            )
        })
        .collect()
}

fn one(
    target: String,
    evidence: Evidence,
    verdicts: &[&Verdict],
    outcomes: &BTreeMap<&CaseId, &Outcome>,
    judgement: &Judgement,
) -> PyTorch {
    let mut operators: BTreeMap<&str, OperatorRow> = BTreeMap::new();
    let mut models: BTreeMap<(&str, &str), ModelRow> = BTreeMap::new();
    let mut findings: BTreeMap<(String, OutcomeKind), Finding> = BTreeMap::new();
    // Of each operator the models that use it.
    let mut users: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for verdict in verdicts {
        let case = &verdict.case;
        let of_operator = case.suite() == OPERATORS;
        let blamed = verdict
            .outcome
            .filter(|kind| is_failure(*kind))
            .and_then(|kind| {
                let message = verdict.message.as_deref().unwrap_or_default();
                let named = named_in(message);
                let own = || of_operator.then(|| about(case));
                Some((named.or_else(own)?, kind, message))
            });
        if let Some((operator, kind, message)) = &blamed {
            let finding = findings.entry((operator.clone(), *kind));
            let finding = finding.or_insert_with(|| Finding {
                operator: operator.clone(),
                outcome: *kind,
                cases: 0,
                element_types: BTreeSet::new(),
                blocks: BTreeSet::new(),
                suspected: BTreeSet::new(),
                used_by: 0,
                message: summary::clean(message),
                example: case.clone(),
                issues: BTreeSet::new(),
            });
            let issue = judgement.expectation(verdict).and_then(|e| e.issue.clone());
            finding.issues.extend(issue);
            if of_operator {
                finding.cases += 1;
                finding.element_types.insert(Variant::of(case).element_type);
            } else {
                finding.blocks.insert(model(case));
            }
        }
        if of_operator {
            let row = operators
                .entry(case.subject())
                .or_insert_with(|| OperatorRow {
                    operator: case.subject().to_owned(),
                    totals: Totals::default(),
                    cells: BTreeMap::new(),
                });
            row.totals.add(verdict);
            if let Some(kind) = verdict.outcome {
                let variant = Variant::of(case);
                let cells = row.cells.entry(variant.element_type).or_default();
                let cell = cells.entry(variant.mode).or_insert(kind);
                *cell = worse(*cell, kind);
            }
            continue;
        }
        let row = models
            .entry((case.suite(), case.subject()))
            .or_insert_with(|| ModelRow {
                suite: case.suite().to_owned(),
                model: case.subject().to_owned(),
                totals: Totals::default(),
                pass_rate: None,
                blocked_by: BTreeSet::new(),
            });
        row.totals.add(verdict);
        row.blocked_by.extend(blamed.map(|(operator, ..)| operator));
        let used = outcomes
            .get(case)
            .and_then(|outcome| outcome.metrics.torch.as_ref());
        for operator in used.iter().flat_map(|torch| &torch.operators) {
            users.entry(operator).or_default().insert(model(case));
        }
    }
    let failing: BTreeSet<String> = models
        .values()
        .filter(|row| row.totals.failing() > 0)
        .map(|row| format!("{}/{}", row.suite, row.model))
        .collect();
    for finding in findings.values_mut() {
        finding.used_by = finding.blocks.len();
        if let Some(users) = users.get(finding.operator.as_str()) {
            finding.used_by = users.union(&finding.blocks).count();
            let others = users.intersection(&failing).cloned();
            finding.suspected = others
                .filter(|model| !finding.blocks.contains(model))
                .collect();
        }
    }
    let mut findings: Vec<Finding> = findings.into_values().collect();
    findings.sort_by_key(|f| {
        std::cmp::Reverse((f.blocks.len(), f.suspected.len(), f.used_by, f.cases))
    });
    let mut models: Vec<ModelRow> = models.into_values().collect();
    for row in &mut models {
        row.pass_rate = row.totals.pass_rate();
    }
    let rate = |row: &ModelRow| row.pass_rate.unwrap_or(1.0);
    models.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let operators: Vec<OperatorRow> = operators.into_values().collect();
    let cells = || operators.iter().flat_map(|row| &row.cells);
    let modes: BTreeSet<&String> = cells().flat_map(|(_, modes)| modes.keys()).collect();
    let element_types: BTreeSet<&String> = cells().map(|(name, _)| name).collect();
    PyTorch {
        target,
        evidence,
        modes: modes.into_iter().rev().cloned().collect(),
        element_types: element_types.into_iter().cloned().collect(),
        operators,
        models,
        findings,
    }
}

fn is_failure(kind: OutcomeKind) -> bool {
    !matches!(kind, OutcomeKind::Pass | OutcomeKind::Skipped)
}

fn model(case: &CaseId) -> String {
    format!("{}/{}", case.suite(), case.subject())
}

/// What follows the subject in an operator's id: `f32/sample0/eager/forward`.
struct Variant {
    element_type: String,
    mode: String,
}

impl Variant {
    fn of(case: &CaseId) -> Self {
        let mut parts = case.as_str().split('/').skip(2);
        let element_type = parts.next().unwrap_or_default().to_owned();
        let mode: Vec<&str> = parts.filter(|part| !part.starts_with("sample")).collect();
        Self {
            element_type,
            mode: mode.join("/"),
        }
    }
}

/// The operator that a case of the table is about: `nn.functional.gelu` is `aten.gelu`.
fn about(case: &CaseId) -> String {
    let name = case.subject().rsplit('.').next().unwrap_or_default();
    format!("aten.{name}")
}

/// The operator that a message names, in one of TorchTPU's forms: `operator 'aten::i0.out' is …`, `addmm(): complex …`.
fn named_in(message: &str) -> Option<String> {
    let word = |text: &str| -> String {
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        text[..end.unwrap_or(text.len())].to_owned()
    };
    if let Some((_, rest)) = message.split_once("aten::") {
        return Some(word(rest))
            .filter(|name| !name.is_empty())
            .map(|name| format!("aten.{name}"));
    }
    let (name, _) = message.split_once("(): ")?;
    (!name.is_empty() && word(name) == name).then(|| format!("aten.{name}"))
}

/// The order in which outcomes hide one another where several samples share a cell.
fn worse(a: OutcomeKind, b: OutcomeKind) -> OutcomeKind {
    use OutcomeKind::{Crash, Error, Fail, Oom, Pass, Skipped, Timeout, Unsupported};
    let order = [Skipped, Pass, Unsupported, Oom, Timeout, Error, Crash, Fail];
    let rank = |kind| order.iter().position(|other| *other == kind);
    if rank(b) > rank(a) { b } else { a }
}

impl Finding {
    /// `i0: unsupported`
    pub fn title(&self) -> String {
        format!("{}: {}", self.operator, self.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeKind::{Fail, Pass, Unsupported};
    use crate::outcome::TorchMetrics;
    use crate::report::{Colour, Format, render};
    use crate::track::fixtures::{expect, expectations, ledger, outcome, outcome_with, run};
    use crate::track::judge;

    const I0: &str = "operator 'aten::i0.out' is not implemented for TPU";

    fn with_operators(run: &mut Run, case: &str, operators: &[&str]) {
        let outcome = run.outcomes.iter_mut().find(|o| o.case.as_str() == case);
        outcome.unwrap().metrics.torch = Some(TorchMetrics {
            operators: operators.iter().map(|name| (*name).to_owned()).collect(),
            ..TorchMetrics::default()
        });
    }

    /// Two operators and three models on a virtual TPU, and a run of programs beside them that is none of PyTorch's.
    fn pytorch() -> (Run, Judgement) {
        let cases = [
            "aten/i0/f32/sample0/eager/forward",
            "aten/i0/f32/sample1/eager/forward",
            "aten/i0/f32/sample0/compile/forward",
            "aten/special.erf/bf16/sample0/eager/forward",
            "transformers/llama/forward/f32/eager",
            "transformers/llama/generate/f32/compile",
            "transformers/bert/forward/f32/eager",
            "diffusers/unet2d/forward/f32/eager",
        ];
        let target = "vtpu-v6e";
        let mut run = run("r", &[target], &cases);
        run.record.environment.plugins[0].client_sha256 = Some("aa".to_owned());
        outcome_with(&mut run, target, cases[0], Unsupported, I0);
        outcome(&mut run, target, cases[1], Pass);
        outcome(&mut run, target, cases[2], Pass);
        outcome_with(&mut run, target, cases[3], Fail, "1 of 2 elements differ");
        outcome(&mut run, target, cases[4], Pass);
        outcome_with(&mut run, target, cases[5], Unsupported, I0);
        outcome(&mut run, target, cases[6], Pass);
        outcome_with(&mut run, target, cases[7], Fail, "2 of 9 elements differ");
        with_operators(&mut run, cases[4], &["aten.erf", "aten.mm"]);
        with_operators(&mut run, cases[6], &["aten.erf"]);
        with_operators(&mut run, cases[7], &["aten.erf"]);
        let known = expect("aten/special.erf/**", "fail", "issue = \"openxla/xla#7\"");
        let judgement = judge(&run, &expectations(&known), None);
        (run, judgement)
    }

    #[test]
    fn a_failing_operator_lists_the_models_that_it_blocks() {
        let (run, judgement) = pytorch();
        let all = of(&run, &judgement, &Labels::new(&run.record));
        let [found] = &all[..] else {
            panic!("one target");
        };
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let titles: Vec<String> = found.findings.iter().map(Finding::title).collect();
        assert_eq!(titles, ["aten.i0: unsupported", "aten.erf: fail"]);
        let i0 = &found.findings[0];
        assert_eq!((i0.cases, &i0.blocks), (1, &set(&["transformers/llama"])));
        assert_eq!(i0.message, I0);
        let erf = &found.findings[1];
        assert_eq!((erf.blocks.len(), erf.used_by), (0, 3));
        // BERT uses it too, and passes.
        assert_eq!(
            erf.suspected,
            set(&["diffusers/unet2d", "transformers/llama"])
        );
        assert_eq!(erf.element_types, set(&["bf16"]));
        assert_eq!(erf.issues.len(), 1);
        let llama = found
            .models
            .iter()
            .find(|row| row.model == "llama")
            .unwrap();
        assert_eq!(
            (llama.pass_rate, &llama.blocked_by),
            (Some(0.5), &set(&["aten.i0"]))
        );
        assert_eq!(found.models[0].model, "unet2d");
    }

    #[test]
    fn the_table_has_the_worst_of_the_samples() {
        let (run, judgement) = pytorch();
        let found = &of(&run, &judgement, &Labels::new(&run.record))[0];
        assert_eq!(found.modes, ["eager/forward", "compile/forward"]);
        let i0 = &found.operators[0];
        assert_eq!(i0.cells["f32"]["eager/forward"], Unsupported);
        assert_eq!(i0.cells["f32"]["compile/forward"], Pass);
        assert_eq!((i0.totals.cases, i0.totals.pass), (3, 2));
    }

    #[test]
    fn reports_show_what_blocks_most_and_the_table() {
        let (run, judgement) = pytorch();
        let text = |format| render(format, &run, &judgement, &ledger(), Colour::Off).unwrap();
        let markdown = text(Format::Markdown);
        for line in [
            "## PyTorch on vtpu-v6e — evidence: virtual",
            "| `aten.i0` | unsupported | 1 | `f32` | `transformers/llama` | – | 1 | to file |",
            "| `transformers/llama` | 2 | 1 | 1 | 0 | 50.0% | `aten.i0` |",
            "Models that pass all their cases (1): `transformers/bert`.",
            "| operator | bf16 | f32 | pass |",
            "| `i0` |  | `UP` | 2 / 3 |",
            "| `special.erf` | `F.` |  | 0 / 1 |",
        ] {
            assert!(markdown.contains(line), "{line}\n{markdown}");
        }
        let terminal = text(Format::Terminal);
        assert!(terminal.contains("1 of the 3 models pass"), "{terminal}");
        assert!(
            terminal.lines().all(|line| line.chars().count() <= 80),
            "{terminal}"
        );
        let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(json["pytorch"][0]["findings"][0]["operator"], "aten.i0");
    }

    #[test]
    fn a_run_of_programs_has_none_of_it() {
        let (mut run, judgement) = pytorch();
        run.record.environment.plugins[0].client_sha256 = None;
        assert!(of(&run, &judgement, &Labels::new(&run.record)).is_empty());
    }

    #[test]
    fn the_operator_is_read_off_a_message() {
        for (message, name) in [
            (I0, Some("aten.i0")),
            (
                "operator 'aten::_linalg_det.result' is not",
                Some("aten._linalg_det"),
            ),
            (
                "addmm(): complex dtypes are not yet supported",
                Some("aten.addmm"),
            ),
            ("something in f(): is wrong", None),
            ("aten::", None),
            ("", None),
        ] {
            assert_eq!(named_in(message).as_deref(), name, "{message}");
        }
    }
}
