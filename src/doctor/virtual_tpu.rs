//! Whether the virtual TPU works here: a program is compiled by libtpu, executed on XLA CPU, and its numbers are looked at.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::case::{Case, Origin, ReferenceProgram};
use crate::compare::{ReferenceTensor, Tolerance};
use crate::outcome::{Outcome, OutcomeKind};
use crate::project::Project;
use crate::run::{Interrupt, PlannedTarget, Pool, RunOptions};
use crate::target::{Generation, Target};
use crate::tensor::{Domain, ElementType, InputSpec, Tensor};

/// The PJRT plug-in for JAX, TorchTPU and other clients, as cargo names it.
const LIBRARY: &str = "libtpu_parity.so";

#[derive(Debug, Clone, Serialize)]
pub struct VirtualReport {
    /// What was tried.
    pub target: String,
    pub works: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The plug-in for JAX and TorchTPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_remedy: Option<&'static str>,
}

impl VirtualReport {
    /// Tries it in a worker process, `program worker …`, so that an abort costs nothing but the answer.
    pub fn make(project: &Project, program: &Path) -> Self {
        let target = Target::Virtual {
            generation: Generation::V6e,
            slice: None,
        };
        let problem = attempt(project, &target, program).err();
        let library = program.parent().map(|folder| folder.join(LIBRARY));
        let library = library.filter(|path| path.is_file());
        Self {
            target: target.to_string(),
            works: problem.is_none(),
            problem,
            library_remedy: library
                .is_none()
                .then_some("run cargo build --release, which puts it beside tpu-parity"),
            library,
        }
    }
}

fn attempt(project: &Project, target: &Target, program: &Path) -> Result<(), String> {
    let planned = PlannedTarget::resolve(project, target).map_err(|error| error.to_string())?;
    let options = RunOptions::new(program.to_owned());
    let interrupt = Interrupt::default();
    let pool = Pool::start(planned, options, &interrupt).map_err(|error| error.to_string())?;
    let pool = pool.ok_or("interrupted")?;
    let (case, reference) = product().map_err(|error| error.to_string())?;
    let outcome = pool.run(&case, Some(&Ok(vec![reference])), &interrupt);
    match outcome.map_err(|error| error.to_string())? {
        Some(outcome) => judged(&outcome),
        None => Err("interrupted".to_owned()),
    }
}

fn judged(outcome: &Outcome) -> Result<(), String> {
    if outcome.outcome == OutcomeKind::Pass {
        return Ok(());
    }
    let message = outcome.message.as_deref().unwrap_or("it does not say why");
    let (kind, stage) = (outcome.outcome, outcome.stage);
    Err(format!(
        "a product of two matrices ends in {kind} at {stage}: {message}"
    ))
}

/// A square of integers that the matrix unit's bf16 holds exactly.
fn product() -> Result<(Case, ReferenceTensor), Box<dyn std::error::Error>> {
    let matrix = "tensor<2x2xf32>";
    let case = Case {
        id: "doctor/dot_general/f32".parse()?,
        origin: Origin {
            file: PathBuf::from(file!()),
            line: line!() as usize,
        },
        program: format!(
            "func.func @main(%x: {matrix}) -> {matrix} {{\n\
             %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({matrix}, {matrix}) -> {matrix}\n\
             return %0 : {matrix}\n}}\n"
        ),
        reference_program: ReferenceProgram::Native,
        inputs: vec![InputSpec {
            element_type: ElementType::F32,
            shape: vec![2, 2],
            domain: Domain::Values(vec![1.0, 2.0, 3.0, 4.0]),
        }],
        seed: 0,
        tolerances: vec![Tolerance::Exact],
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        unloadable: None,
        distribution: None,
    };
    let reference = ReferenceTensor {
        yardstick: None,
        flushed: None,
        values: Tensor::from_f64(ElementType::F64, vec![2, 2], &[7.0, 10.0, 15.0, 22.0])?,
        element_type: ElementType::F32,
        scale: None,
    };
    Ok((case, reference))
}
