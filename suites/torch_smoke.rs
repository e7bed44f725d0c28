//! `cargo test --test torch`: a handful of PyTorch's cases through TorchTPU on the virtual TPU, each a test of its own.
//!
//! Where PyTorch is not installed they end as ignored, with the command that installs it. `tpu-parity run --suite torch` runs
//! all of them; here is only what shows that the way there and back is open.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, anyhow};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tpu_parity::case::{Case, Origin, ReferenceProgram};
use tpu_parity::outcome::OutcomeKind::{self, Pass, Unsupported};
use tpu_parity::project::Project;
use tpu_parity::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use tpu_parity::torch::TorchError;

const TARGET: &str = "vtpu-v6e";

/// What TorchTPU of the pinned version makes of each, by what it says of the operators that it has.
const CASES: [(&str, OutcomeKind); 6] = [
    ("aten/add/i64/sample0/eager/forward", Pass),
    ("aten/addmm/f32/sample0/compile/forward", Pass),
    ("aten/exp/bf16/sample0/eager/backward", Pass),
    ("aten/sum/f32/sample0/compile/backward", Pass),
    ("aten/cumsum/f32/sample0/eager/forward", Pass),
    ("aten/i0/f32/sample0/eager/forward", Unsupported),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One process of PyTorch's is enough, and takes a gigabyte.
    arguments.test_threads = Some(1);
    let bench = Arc::new(OnceLock::new());
    let trials = CASES.iter().map(|&(id, expected)| {
        let bench = Arc::clone(&bench);
        let trial = Trial::ignorable_test(id, move || {
            match bench.get_or_init(|| Bench::start().map_err(|error| format!("{error:#}"))) {
                Ok(Bench::Open(pool)) => check(pool, id, expected),
                Ok(Bench::NotInstalled(why)) => Ok(Completion::ignored_with(why.clone())),
                Err(error) => Err(error.into()),
            }
        });
        trial.with_kind(TARGET)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Started when the first case asks for it: listing tests starts nothing.
enum Bench {
    Open(Box<Pool>),
    NotInstalled(String),
}

impl Bench {
    fn start() -> Result<Self> {
        let project = Project::discover(Path::new(env!("CARGO_MANIFEST_DIR")))?;
        let program = env!("CARGO_BIN_EXE_tpu-parity");
        let mut target = match PlannedTarget::resolve_torch(&project, &TARGET.parse()?) {
            Err(why @ TorchError::NotInstalled { .. }) => {
                return Ok(Self::NotInstalled(why.to_string()));
            }
            planned => planned?,
        };
        if let Some(client) = &mut target.torch {
            // Cargo leaves the plug-in beside this test, and the program that compiles for it elsewhere.
            let program = ("TPU_PARITY_PROGRAM".to_owned(), program.to_owned());
            client.environment.extend([program]);
        }
        let mut options = RunOptions::new(program.into());
        options.startup_timeout = Duration::from_secs(300);
        let pool = Pool::start(target, options, &Interrupt::default())?;
        Ok(Self::Open(Box::new(
            pool.ok_or_else(|| anyhow!("interrupted"))?,
        )))
    }
}

fn check(pool: &Pool, id: &str, expected: OutcomeKind) -> Result<Completion, Failed> {
    let outcome = pool
        .run(&case(id)?, None, &Interrupt::default())?
        .ok_or("interrupted")?;
    let message = outcome.message.unwrap_or_default();
    match outcome.outcome == expected {
        true => Ok(Completion::Completed),
        false => {
            let (kind, stage) = (outcome.outcome, outcome.stage);
            Err(format!("{kind} at {stage}, not {expected}: {message}").into())
        }
    }
}

/// As a listing has it; a listing of all takes minutes.
fn case(id: &str) -> Result<Case, Failed> {
    Ok(Case {
        id: id.parse()?,
        origin: Origin {
            file: file!().into(),
            line: 1,
        },
        program: String::new(),
        reference_program: ReferenceProgram::Torch(String::new()),
        inputs: Vec::new(),
        seed: 0,
        tolerances: Vec::new(),
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        distribution: None,
        unloadable: None,
    })
}
