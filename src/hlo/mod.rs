//! Passes that turn the HLO which the TPU compiler returns into HLO that XLA CPU executes with the same meaning.
//!
//! One pass a file, each with the semantics that it keeps. Everything works on the protos; no plug-in is needed, and nothing
//! here knows of cases or targets. What has no meaning on a CPU, a Mosaic kernel say, is [`Error::NotExecutable`].

pub mod ir;

mod accumulate;
mod asynchronous;
mod bitcast;
mod builder;
mod check;
mod collectives;
mod convolution;
mod custom_call;
mod dynamic;
#[cfg(test)]
mod evaluate;
mod fusion;
mod groups;
mod layout;
mod linear_algebra;
mod lu;
mod mixed;
mod mxu;
mod newer;
mod offload;
mod opcodes;
mod overlapped;
mod physical;
mod reducers;
mod rng;
mod scan;
mod selection;
mod types;
mod x64;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::target::Generation;
pub use groups::{decode, decode_with_config};
use ir::{Module, ModuleProto};

/// How matrix products round their operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MxuNumerics {
    /// As the generation's matrix unit does for the operand precision.
    #[default]
    Mxu,
    /// As XLA CPU does: operands as they are.
    Exact,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown numerics '{0}': they are mxu (operands rounded as the matrix unit does) or exact")]
pub struct MxuNumericsError(String);

impl FromStr for MxuNumerics {
    type Err = MxuNumericsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "mxu" => Ok(Self::Mxu),
            "exact" => Ok(Self::Exact),
            other => Err(MxuNumericsError(other.to_owned())),
        }
    }
}

impl fmt::Display for MxuNumerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mxu => "mxu",
            Self::Exact => "exact",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub generation: Generation,
    pub numerics: MxuNumerics,
    /// Of the program that the TPU compiler was given.
    pub replicas: usize,
    pub partitions: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A construct without a meaning on CPU.
    #[error("not executable on CPU: {construct} (instruction {instruction})")]
    NotExecutable {
        construct: String,
        instruction: String,
    },
    /// The TPU compiler's output contradicts itself, or is of a form that the passes have not met.
    #[error("the TPU compiler's HLO is not understood: {what} (instruction '{instruction}')")]
    Malformed { instruction: String, what: String },
}

impl Error {
    pub fn malformed(instruction: &str, what: impl Into<String>) -> Self {
        Self::Malformed {
            instruction: instruction.to_owned(),
            what: what.into(),
        }
    }

    pub fn not_executable(instruction: &ir::Instruction, construct: impl Into<String>) -> Self {
        Self::NotExecutable {
            construct: construct.into(),
            instruction: instruction.name.clone(),
        }
    }
}

/// Whether the TPU compiler split f64 into two f32. Its arithmetic on the halves keeps what each operation rounds off, and is
/// lost on a compiler that reassociates additions: XLA CPU's algebraic simplifier, which makes of `(x + c) - c` an `x`.
pub fn splits_f64(module: &ModuleProto) -> bool {
    x64::splits_f64(module)
}

/// The module with the same meaning for XLA CPU: R·P replicas of one partition, row-major parameters and results.
pub fn to_cpu(module: ModuleProto, options: &Options) -> Result<ModuleProto, Error> {
    let mut module = Module::new(module);
    check::run(&module)?;
    newer::run(&mut module)?;
    // Gives what the SparseCore does the asynchronous form of everything else.
    offload::run(&mut module)?;
    asynchronous::run(&mut module)?;
    overlapped::run(&mut module)?;
    // Once no collective is split into a start and a done.
    collectives::run(&mut module, options.replicas, options.partitions)?;
    // While layouts still say what lies where.
    bitcast::run(&mut module)?;
    dynamic::run(&mut module)?;
    // From here on there are no custom calls: a pass may take one for what it is not.
    x64::run(&mut module)?;
    custom_call::run(&mut module)?;
    mxu::run(&mut module, options.numerics)?;
    accumulate::run(&mut module)?;
    fusion::run(&mut module)?;
    convolution::run(&mut module)?;
    scan::run(&mut module)?;
    rng::run(&mut module)?;
    // Once fusions are calls.
    mixed::run(&mut module)?;
    module.remove_dead();
    opcodes::run(&module)?;
    layout::run(&mut module)?;
    Ok(module.into_proto())
}
