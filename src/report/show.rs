//! One case in full: its program, inputs and reference, and what became of it on each target of a run.

use std::fmt::Write;

use super::compiled::ESTIMATE;
use super::escape;
use super::summary::Summary;
use super::units::{self, or_dash};
use crate::case::Case;
use crate::compare::{Comparison, ReferenceTensor};
use crate::outcome::{Evidence, Metrics, Outcome, OutcomeKind, known_cost};
use crate::tensor::Tensor;
use crate::track::{Verdict, thousands};

/// Elements of a tensor, opcodes of a program.
const SHOWN: usize = 16;
/// Characters of a message.
const MESSAGE: usize = 2000;

/// What there is to show of a case.
pub struct Shown<'a> {
    pub case: &'a Case,
    /// One per operand, or why they cannot be drawn.
    pub inputs: Result<Vec<Tensor>, String>,
    /// One per result, or why there is none.
    pub reference: Result<Vec<ReferenceTensor>, String>,
    /// Of which plug-in the reference is, and from when.
    pub provenance: Option<String>,
}

/// The case by itself.
pub fn case(shown: &Shown<'_>) -> String {
    let case = shown.case;
    let mut page = Page::default();
    page.line(0, case.id.as_str());
    page.line(
        0,
        &format!("declared at {}; seed {}", case.origin, case.seed),
    );
    if case.distribution.is_some() {
        page.line(0, &format!("on {} devices", case.devices()));
    }
    if let Some(reason) = &case.unloadable {
        page.line(
            0,
            &format!("not loadable: {}", escape::shorten(reason, MESSAGE)),
        );
    }
    page.line(0, "\nprogram");
    for line in case.program.trim_end().lines() {
        let code = line.trim_start();
        page.line(2 + line.len() - code.len(), code);
    }
    page.line(0, "\ninputs");
    match &shown.inputs {
        Ok(inputs) if inputs.is_empty() => page.line(2, "none"),
        Ok(inputs) => {
            for (index, (input, spec)) in inputs.iter().zip(&case.inputs).enumerate() {
                let (name, values) = (kind(input), values(input));
                page.line(
                    2,
                    &format!("{index}: {name} {}: {values}", spec.domain.name()),
                );
            }
        }
        Err(reason) => page.line(2, reason),
    }
    let provenance = shown.provenance.as_deref().unwrap_or_default();
    page.line(0, &format!("\nreference{provenance}"));
    if let Some(constraint) = case.breaks() {
        page.line(2, &format!("to be refused: it breaks {constraint}"));
    }
    match &shown.reference {
        Ok(reference) => {
            for (index, (result, tolerance)) in reference.iter().zip(&case.tolerances).enumerate() {
                let (name, values) = (kind(&result.values), values(&result.values));
                let own = result.element_type;
                page.line(2, &format!("{index}: {name} for {own}: {values}"));
                page.line(5, &format!("tolerance: {tolerance}"));
            }
            if let Some(source) = &case.tolerance_source {
                page.line(2, &format!("tolerance from: {source}"));
            }
        }
        Err(reason) => page.line(2, reason),
    }
    page.text
}

/// What became of the case in a run.
pub fn in_run(summary: &Summary<'_>, outcomes: &[&Outcome]) -> String {
    let record = summary.record;
    let mut page = Page::default();
    page.line(
        0,
        &format!("\nrun {}, started {:.0}", record.id, record.started),
    );
    if outcomes.is_empty() {
        page.line(2, "has no outcome of this case");
    }
    for outcome in outcomes {
        let (label, evidence) = (summary.label(&outcome.target), outcome.evidence);
        page.line(0, &format!("\n{label} — evidence: {evidence}"));
        let mut verdicts = summary.judgement.verdicts.iter();
        let verdict = verdicts.find(|v| v.target == outcome.target && v.case == outcome.case);
        page.outcome(outcome, verdict, summary);
    }
    if outcomes
        .iter()
        .any(|outcome| outcome.metrics.estimate.is_some())
    {
        page.line(0, &format!("\n{ESTIMATE}"));
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, indent: usize, text: &str) {
        let start = text.len() - text.trim_start_matches('\n').len();
        self.text.push_str(&text[..start]);
        writeln!(self.text, "{:indent$}{}", "", escape::line(&text[start..])).ok();
    }

    fn outcome(&mut self, outcome: &Outcome, verdict: Option<&Verdict>, summary: &Summary<'_>) {
        let (kind, stage) = (outcome.outcome, outcome.stage);
        let judged = verdict.map(|verdict| format!(" ({})", verdict.kind));
        self.line(
            2,
            &format!("{kind} at {stage}{}", judged.unwrap_or_default()),
        );
        if let Some(entry) = verdict.and_then(|v| summary.judgement.expectation(v)) {
            let (place, expected) = (entry.place(), entry.outcome_words());
            self.line(
                2,
                &format!("expectation {place}: {expected}: {}", entry.reason),
            );
        }
        if let Some(message) = &outcome.message {
            self.line(
                2,
                &format!("message: {}", escape::shorten(message, MESSAGE)),
            );
        }
        let metrics = &outcome.metrics;
        if let Some(found) = &metrics.not_executable {
            let (what, at) = (&found.construct, &found.instruction);
            self.line(
                2,
                &format!("not executable on CPU: {what}, first at instruction {at}"),
            );
        }
        if outcome.attempts.iter().any(|kind| *kind != outcome.outcome) {
            let attempts: Vec<&str> = outcome.attempts.iter().map(|kind| kind.as_str()).collect();
            self.line(2, &format!("attempts: {}", attempts.join(", ")));
        }
        self.times(metrics, outcome.evidence);
        let plugin = summary
            .record
            .environment
            .plugins
            .iter()
            .find(|p| p.target.to_string() == outcome.target);
        self.size(metrics, plugin.and_then(|plugin| plugin.memory_limit));
        self.estimate(metrics);
        if !metrics.instructions.is_empty() {
            self.instructions(metrics);
        }
        for (index, comparison) in metrics.comparisons.iter().enumerate() {
            self.comparison(index, comparison);
        }
        let mut patterns = summary.patterns.iter();
        let pattern =
            patterns.find(|p| p.target == outcome.target && p.failing.contains(&&outcome.case));
        if let Some(pattern) = pattern {
            self.line(2, &format!("in this run {pattern}"));
        }
        if let Some(refusal) = &metrics.refusal {
            self.line(2, &format!("refused: {refusal}"));
        }
        if metrics.self_reference && outcome.outcome == OutcomeKind::Pass {
            self.line(
                2,
                "compared with itself: the reference is this plug-in's own",
            );
        }
    }

    fn times(&mut self, metrics: &Metrics, evidence: Evidence) {
        let compiler = match evidence {
            Evidence::Hardware => "compile",
            Evidence::Virtual | Evidence::Compile => "TPU compiler",
        };
        let parts: Vec<String> = [
            (compiler, metrics.compile_ms),
            ("passes", metrics.passes_ms),
            ("XLA CPU compiles", metrics.cpu_compile_ms),
            ("run", metrics.run_ms),
        ]
        .into_iter()
        .filter_map(|(name, ms)| Some(format!("{name} {}", units::milliseconds(ms?))))
        .collect();
        if !parts.is_empty() {
            self.line(2, &format!("measured: {}", parts.join(", ")));
        }
    }

    fn size(&mut self, metrics: &Metrics, limit: Option<i64>) {
        if let Some(code) = metrics.code_size {
            self.line(2, &format!("code: {}", units::bytes(code)));
        }
        if let Some(hbm) = metrics.hbm {
            let of = limit.filter(|limit| *limit > 0).map(|limit| {
                let percent = hbm as f64 / limit as f64 * 100.0;
                format!(" of {} ({percent:.1}%)", units::bytes(limit))
            });
            self.line(
                2,
                &format!("HBM: {}{}", units::bytes(hbm), of.unwrap_or_default()),
            );
        }
        let used: Vec<String> = metrics
            .memory
            .iter()
            .filter(|(_, bytes)| **bytes != 0)
            .map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes)))
            .collect();
        if !used.is_empty() {
            self.line(4, &used.join(", "));
        }
    }

    fn estimate(&mut self, metrics: &Metrics) {
        if let Some(flops) = known_cost(&metrics.cost, "flops") {
            self.line(2, &format!("flops: {}", units::count(flops)));
        }
        if let Some(estimate) = metrics.estimate {
            let cycles = estimate.cycles.and_then(|n| usize::try_from(n).ok());
            self.line(
                2,
                &format!(
                    "estimate: {} cycles, {}",
                    or_dash(cycles.map(thousands)),
                    or_dash(estimate.seconds.map(units::seconds))
                ),
            );
        }
    }

    fn instructions(&mut self, metrics: &Metrics) {
        let mut counts: Vec<(&String, &u64)> = metrics.instructions.iter().collect();
        counts.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let all: u64 = metrics.instructions.values().sum();
        let mut shown: Vec<String> = counts
            .iter()
            .take(SHOWN)
            .map(|(name, n)| format!("{n} {name}"))
            .collect();
        if counts.len() > SHOWN {
            shown.push(format!("and {} more opcodes", counts.len() - SHOWN));
        }
        let listed = shown.join(", ");
        self.line(2, &format!("optimized HLO: {all} instructions: {listed}"));
    }

    fn comparison(&mut self, index: usize, comparison: &Comparison) {
        let Comparison {
            elements,
            mismatches,
            ..
        } = comparison;
        self.line(
            2,
            &format!("result {index}: {mismatches} of {elements} elements differ"),
        );
        if let Some(first) = &comparison.first_mismatch {
            let (at, got, expected) = (&first.index, &first.got, &first.expected);
            self.line(4, &format!("first at {at:?}: {got}, expected {expected}"));
        }
        let figures = format!(
            "largest: absolute {:.3e}, relative {:.3e}, {:.3} ulp; relative L2 {:.3e}, cosine {:.6}",
            comparison.max_abs,
            comparison.max_rel,
            comparison.max_ulp,
            comparison.relative_l2,
            comparison.cosine
        );
        self.line(4, &figures);
        if let Some(times) = comparison.times_cpu {
            self.line(
                4,
                &format!("{times:.2} times as far off as CPU in this precision"),
            );
        }
        if let Some(predictions) = &comparison.predictions {
            self.line(
                4,
                &format!(
                    "predictions: the first class agrees in {} of {} rows, {} of {} of the best; divergence {:.3e} nats",
                    predictions.top_1,
                    predictions.rows,
                    predictions.top_k,
                    predictions.top_k_of,
                    predictions.divergence
                ),
            );
        }
        if let Some(explanation) = &comparison.explanation {
            self.line(4, &format!("explanation: {}", explanation.text));
        }
    }
}

/// `f32[2,3]`
fn kind(tensor: &Tensor) -> String {
    let sizes: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    format!("{}[{}]", tensor.element_type(), sizes.join(","))
}

fn values(tensor: &Tensor) -> String {
    let shown: Vec<String> = (0..tensor.len().min(SHOWN))
        .map(|index| tensor.format_element(index))
        .collect();
    let more = match tensor.len() {
        all if all > SHOWN => format!(", … ({} in all)", thousands(all)),
        _ => String::new(),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Origin, ReferenceProgram};
    use crate::compare::{Explanation, Fault, Mismatch, Tolerance};
    use crate::outcome::{Estimate, NotExecutable};
    use crate::tensor::{Domain, ElementType, InputSpec};
    use crate::track::fixtures::{expect, expectations, ledger, outcome, run};
    use crate::track::judge;

    fn dot() -> Case {
        Case {
            id: "s/dot/f32".parse().unwrap(),
            origin: Origin {
                file: "suites/s/dot.toml".into(),
                line: 7,
            },
            program: "func.func @main(%x: tensor<2xf32>) -> tensor<f32> {\n  …\n}\n".to_owned(),
            reference_program: ReferenceProgram::Native,
            inputs: vec![InputSpec {
                element_type: ElementType::F32,
                shape: vec![20],
                domain: Domain::Values(vec![1.5, -2.0]),
            }],
            seed: 9,
            tolerances: vec![Tolerance::Ulp(2.0)],
            tolerance_source: None,
            scale_program: None,
            layers: Vec::new(),
            unloadable: None,
            distribution: None,
        }
    }

    #[test]
    fn a_case_shows_its_program_inputs_and_reference() {
        let dot = dot();
        let text = case(&Shown {
            inputs: Ok(vec![dot.inputs[0].generate(9, 0).unwrap()]),
            reference: Ok(vec![ReferenceTensor {
                yardstick: None,
                flushed: None,
                values: Tensor::from_f64(ElementType::F64, vec![], &[3.25]).unwrap(),
                element_type: ElementType::F32,
                scale: None,
            }]),
            provenance: Some(" (xla-cpu 1)".to_owned()),
            case: &dot,
        });
        for wanted in [
            "s/dot/f32\ndeclared at suites/s/dot.toml:7; seed 9\n",
            "\nprogram\n  func.func @main(%x: tensor<2xf32>) -> tensor<f32> {\n    …\n  }\n",
            "\ninputs\n  0: f32[20] values: 1.5, -2, ",
            ", … (20 in all)\n",
            "\nreference (xla-cpu 1)\n  0: f64[] for f32: 3.25\n     tolerance: 2 ulp\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }

    #[test]
    fn outcomes_show_what_was_measured_what_was_estimated_and_where_they_differ() {
        let mut run = run("r", &["cpu", "vtpu-v6e"], &["s/dot/f32"]);
        outcome(&mut run, "cpu", "s/dot/f32", OutcomeKind::Fail);
        outcome(&mut run, "vtpu-v6e", "s/dot/f32", OutcomeKind::Unsupported);
        run.outcomes[0].metrics.comparisons = vec![Comparison {
            elements: 8,
            mismatches: 2,
            first_mismatch: Some(Mismatch {
                index: vec![0, 1],
                got: "1.5".to_owned(),
                expected: "1.25".to_owned(),
            }),
            max_abs: 0.25,
            max_rel: 0.2,
            max_ulp: 3.0,
            relative_l2: 0.1,
            cosine: 0.99,
            times_cpu: None,
            predictions: None,
            explanation: Some(Explanation {
                faults: vec![Fault::UniformBias],
                text: "2 of 8 elements are off. Each lies 0.2500 above its reference.".to_owned(),
            }),
        }];
        run.record.environment.plugins[1].memory_limit = Some(4 << 20);
        let metrics = &mut run.outcomes[1].metrics;
        metrics.compile_ms = Some(25.0);
        metrics.passes_ms = Some(0.5);
        metrics.hbm = Some(1 << 20);
        metrics.memory = [("argument".to_owned(), 2048), ("alias".to_owned(), 0)].into();
        metrics.estimate = Some(Estimate {
            cycles: Some(301_616),
            seconds: Some(2.32e-4),
        });
        metrics.instructions =
            [("fusion".to_owned(), 3), ("custom-call TopK".to_owned(), 1)].into();
        metrics.not_executable = Some(NotExecutable {
            construct: "custom call tpu_custom_call".to_owned(),
            instruction: "kernel.1".to_owned(),
        });
        let known =
            expectations(&expect("s/dot/**", "unsupported", "").replace("\"*\"", "\"vtpu-*\""));
        let judgement = judge(&run, &known, None);
        let ledger = ledger();
        let summary = Summary::new(&run, &judgement, &ledger);
        let text = in_run(&summary, &run.outcomes.iter().collect::<Vec<_>>());
        for wanted in [
            "\ncpu — evidence: hardware\n  fail at compare (new-failure)\n",
            "  result 0: 2 of 8 elements differ\n    first at [0, 1]: 1.5, expected 1.25\n",
            "    explanation: 2 of 8 elements are off. Each lies 0.2500 above its reference.\n",
            "\nvtpu-v6e — evidence: virtual\n  unsupported at compile (known)\n  expectation aot.toml:1: unsupported: not implemented\n",
            "  not executable on CPU: custom call tpu_custom_call, first at instruction kernel.1\n",
            "  measured: TPU compiler 25.0 ms, passes 500 µs\n",
            "  HBM: 1.00 MiB of 4.00 MiB (25.0%)\n    argument 2.00 KiB\n",
            "  estimate: 301,616 cycles, 232 µs\n",
            "\nCycles and times are the TPU compiler's estimates: no program ran on a TPU.",
            "  optimized HLO: 4 instructions: 3 fusion, 1 custom-call TopK\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
        assert!(in_run(&summary, &[]).contains("has no outcome of this case"));
    }
}
