//! What the subcommands that judge runs share: finding runs, and the known failures beside the suites.

use std::collections::HashSet;

use anyhow::anyhow;

use super::{Failure, Global};
use crate::case::CaseId;
use crate::exhaustive;
use crate::project::Project;
use crate::store::{Run, Store, StoreError};
use crate::suite::{self, Source};
use crate::torch;
use crate::track::{Expectations, IssueLedger, Judgement, expectations::ISSUES_FILE, judge};

pub struct Tracker {
    store: Store,
    pub project: Project,
    pub expectations: Expectations,
    pub ledger: IssueLedger,
}

impl Tracker {
    /// Loads the expectations and the ledger of the project around the working directory.
    pub fn open(global: &Global) -> Result<Self, Failure> {
        let project = project()?;
        let dir = project.expectations();
        let expectations = Expectations::load(&dir).map_err(Failure::wrong_use)?;
        let ledger = IssueLedger::load(&dir.join(ISSUES_FILE)).map_err(Failure::wrong_use)?;
        expectations
            .check_issues(&ledger)
            .map_err(Failure::wrong_use)?;
        Ok(Self {
            store: store(global, Some(&project))?,
            project,
            expectations,
            ledger,
        })
    }

    pub fn run(&self, name: &str) -> Result<Run, Failure> {
        load(&self.store, name)
    }

    /// The run of this name; without a name the latest, or `None` if there is no run yet.
    pub fn run_or_latest(&self, name: Option<&str>) -> Result<Option<Run>, Failure> {
        match name {
            Some(name) => self.run(name).map(Some),
            None if self.store.list().map_err(Failure::harness)?.is_empty() => Ok(None),
            None => self.run("latest").map(Some),
        }
    }

    /// Judges a run. The suites, where they can be loaded, decide which expectations are unused and which cases are gone.
    pub fn judge(&self, run: &Run, baseline: Option<&Run>) -> Judgement {
        let mut judgement = judge(run, &self.expectations, baseline);
        if let Ok(cases) = suite::load(&self.project.suites()) {
            // Expectations speak of exhaustive tests too.
            let mut ids = exhaustive::ids(&cases);
            ids.extend(cases.into_iter().map(|case| case.id));
            ids.extend(self.torch_ids(run));
            judgement.unused = self.expectations.unused(&ids);
            // Of a suite of PyTorch's that the run did not list nothing is known.
            let listed: HashSet<&str> = ids.iter().map(CaseId::suite).collect();
            let entries = self.expectations.entries();
            judgement.unused.retain(|&index| {
                let suites = entries[index].suites();
                let unlisted = |suite: &&str| {
                    !listed.contains(suite) && torch::has_suite(&self.project, suite)
                };
                !suites.iter().any(unlisted)
            });
            judgement.know_suites(&ids);
        }
        judgement
    }

    /// The cases of the suites of PyTorch's that the run took its own from, as far as that is known without asking PyTorch.
    fn torch_ids(&self, run: &Run) -> Vec<CaseId> {
        let sources = run.record.suites.iter().map(|text| text.parse());
        let mut ids = Vec::new();
        for source in sources.flatten() {
            let Source::Torch(source) = source else {
                continue;
            };
            match torch::listed_before(&self.project, &source) {
                Some(cases) => ids.extend(cases.into_iter().map(|case| case.id)),
                None => ids.extend(run.planned.iter().cloned()),
            }
        }
        ids
    }
}

/// A store without a project: for what needs runs alone.
pub fn open_store(global: &Global) -> Result<Store, Failure> {
    match global.store {
        Some(_) => store(global, None),
        None => store(global, Some(&project()?)),
    }
}

pub fn load(store: &Store, name: &str) -> Result<Run, Failure> {
    let failed = |error: StoreError| match error {
        StoreError::NoSuchRun { .. } => Failure::wrong_use(error),
        error => Failure::harness(error),
    };
    let dir = store.resolve(name).map_err(failed)?;
    Run::load(&dir).map_err(failed)
}

fn project() -> Result<Project, Failure> {
    let here = std::env::current_dir().map_err(Failure::harness)?;
    Project::discover(&here).map_err(Failure::wrong_use)
}

fn store(global: &Global, project: Option<&Project>) -> Result<Store, Failure> {
    match (&global.store, project) {
        (Some(path), _) => Ok(Store::open(path)),
        (None, Some(project)) => Ok(Store::open(project.store())),
        (None, None) => Err(Failure::wrong_use(anyhow!(
            "no store; name one with --store"
        ))),
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::harness(error))
        }
        _ => Ok(()),
    }
}

pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::harness)?;
    text.push('\n');
    Ok(text)
}
