//! `--suite`, which the subcommands share that select cases.

use std::path::PathBuf;

use super::{Failure, harness_or_use};
use crate::case::Case;
use crate::project::Project;
use crate::suite::{Source, load_sources};

#[derive(clap::Args, Debug)]
pub struct SuiteArgs {
    /// Cases of this suite alone: the name of one under suites/, torch[:SUITE,…][:samples=N] for PyTorch's
    /// operators and models (aten, transformers, …), or stablehlo-testdata:DIR for StableHLO's interpreter tests (stablehlo/testdata
    /// of a checkout of openxla/stablehlo); may be given several times [default: all under suites/]
    #[arg(long = "suite", value_name = "SUITE")]
    pub suites: Vec<String>,
}

impl SuiteArgs {
    /// Directories are made absolute, so that what is recorded of a run holds wherever it is resumed.
    pub fn sources(&self) -> Result<Vec<Source>, Failure> {
        let parse = |text: &String| {
            let source = text.parse().map_err(Failure::wrong_use)?;
            Ok(match source {
                Source::Testdata(dir) => {
                    Source::Testdata(std::path::absolute::<&PathBuf>(&dir).unwrap_or(dir))
                }
                named => named,
            })
        };
        self.suites.iter().map(parse).collect()
    }

    pub fn load(&self, project: &Project) -> Result<Vec<Case>, Failure> {
        load_sources(project, &self.sources()?).map_err(harness_or_use)
    }
}
