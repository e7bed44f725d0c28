//! `cargo test --test conformance`: every case of the suites as a test of its own, on the targets that `TPU_PARITY_TARGET`
//! names (default `cpu`).
//!
//! Cases run in worker processes as they do in `tpu-parity run`. A known failure is an ignored test; `--ignored` runs it, and
//! it then ends as ignored, with its reason, if it fails as expected, and as failed if it passes or fails otherwise.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tpu_parity::case::Case;
use tpu_parity::outcome::{Outcome, OutcomeKind, Stage};
use tpu_parity::project::Project;
use tpu_parity::reference::{ReferenceStore, is_known_unreferenced};
use tpu_parity::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use tpu_parity::suite;
use tpu_parity::target::Target;
use tpu_parity::track::{Expectation, Expectations};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    match trials(&mut arguments) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn trials(arguments: &mut Arguments) -> Result<Vec<Trial>> {
    let project = Project::discover(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let cases: Vec<Arc<Case>> = suite::load(&project.suites())?
        .into_iter()
        .map(Arc::new)
        .collect();
    let references = Arc::new(ReferenceStore::open(&project.references())?);
    let expectations = Arc::new(Expectations::load(&project.expectations())?);
    let mut trials = Vec::new();
    for target in targets()? {
        if target == Target::Tpu {
            // A TPU's chips belong to one process at a time.
            arguments.test_threads = Some(1);
        }
        let bench = Arc::new(Bench {
            project: project.clone(),
            target: target.clone(),
            references: Arc::clone(&references),
            pool: OnceLock::new(),
        });
        let name = target.to_string();
        for case in &cases {
            let known = expectations.matching(&case.id, &name, &[]).next();
            let (bench, case, entries) = (
                Arc::clone(&bench),
                Arc::clone(case),
                Arc::clone(&expectations),
            );
            let trial = Trial::ignorable_test(case.id.to_string(), move || {
                let outcome = bench.run(&case)?;
                let known: Vec<&Expectation> = entries
                    .matching(&case.id, &bench.target.to_string(), &[])
                    .map(|index| &entries.entries()[index])
                    .collect();
                conclude(&outcome, &known, is_known_unreferenced(&entries, &case.id))
            });
            trials.push(
                trial
                    .with_kind(name.clone())
                    .with_ignored_flag(known.is_some()),
            );
        }
    }
    Ok(trials)
}

fn targets() -> Result<Vec<Target>> {
    let names = std::env::var("TPU_PARITY_TARGET").unwrap_or_else(|_| "cpu".to_owned());
    names
        .split(',')
        .map(|name| {
            name.trim()
                .parse()
                .with_context(|| "TPU_PARITY_TARGET".to_owned())
        })
        .collect()
}

/// One target, its workers started when the first case asks for one: listing tests loads no plug-in.
struct Bench {
    project: Project,
    target: Target,
    references: Arc<ReferenceStore>,
    pool: OnceLock<Result<Pool, String>>,
}

impl Bench {
    fn run(&self, case: &Case) -> Result<Outcome, Failed> {
        let pool = self
            .pool
            .get_or_init(|| self.start().map_err(|error| format!("{error:#}")))
            .as_ref()?;
        let reference = pool
            .needs_reference()
            .then(|| self.references.reference(case));
        pool.run(case, reference.as_ref(), &Interrupt::default())?
            .ok_or_else(|| "interrupted".into())
    }

    fn start(&self) -> Result<Pool> {
        let options = RunOptions::new(env!("CARGO_BIN_EXE_tpu-parity").into());
        let target = PlannedTarget::resolve(&self.project, &self.target)?;
        Pool::start(target, options, &Interrupt::default())?.ok_or_else(|| anyhow!("interrupted"))
    }
}

fn conclude(
    outcome: &Outcome,
    known: &[&Expectation],
    unreferenced: bool,
) -> Result<Completion, Failed> {
    let message = outcome.message.as_deref().unwrap_or_default();
    match (outcome.outcome, known) {
        // Without a sound reference a case shows nothing, unless it is known that there can be none.
        (OutcomeKind::Skipped, _) if outcome.stage == Stage::Compare && !unreferenced => {
            Err(format!("compared with nothing: {message}").into())
        }
        (OutcomeKind::Skipped, _) => Ok(Completion::ignored_with(message)),
        (OutcomeKind::Pass, []) => Ok(Completion::Completed),
        (OutcomeKind::Pass, [first, ..]) => Err(format!(
            "passes, but {} expects {} ({}): take the expectation out",
            first.place(),
            first.outcome_words(),
            first.reason
        )
        .into()),
        (kind, known) => match known.iter().find(|entry| entry.expects(kind)) {
            Some(entry) => Ok(Completion::ignored_with(format!(
                "known {kind}: {}",
                entry.reason
            ))),
            None => Err(format!(
                "{kind} at {}{}{message}",
                outcome.stage,
                if message.is_empty() { "" } else { ": " }
            )
            .into()),
        },
    }
}
