//! `tpu-parity doctor`: what is installed, what is missing, how to get it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{CommandResult, Failure, Global, Verdict, judged};
use crate::doctor::{self, Diagnosis};
use crate::pjrt;
use crate::project::Project;

#[derive(Args)]
pub struct Doctor {
    /// Examine this plug-in too
    #[arg(long, value_name = "PATH")]
    plugin: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Load this plug-in in this process and answer to the process that started it
    #[arg(long, value_name = "PATH", hide = true)]
    probe: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Doctor {
    pub fn run(self, _: &Global) -> CommandResult {
        if let Some(path) = self.probe {
            // SAFETY: the command line has been read and nothing else has started: there is one thread.
            unsafe { pjrt::prepare_environment() };
            doctor::answer_probe(&path);
            return Ok(Verdict::Clean);
        }
        let here = std::env::current_dir().map_err(Failure::harness)?;
        let program = std::env::current_exe().map_err(Failure::harness)?;
        let project = Project::discover(&here).map_err(Failure::wrong_use)?;
        let diagnosis = Diagnosis::make(&project, &self.plugin, &program);
        match self.format {
            Format::Table => judged::print(&doctor::render(&diagnosis, project.root()))?,
            Format::Json => judged::print(&judged::json(&diagnosis)?)?,
        }
        match diagnosis.unusable().as_slice() {
            [] => Ok(Verdict::Clean),
            names => Err(Failure::harness(anyhow::anyhow!(
                "not usable: {}; see the remedies above",
                names.join(", ")
            ))),
        }
    }
}
