//! Conformance test harness and compatibility tracker for TPUs.
//!
//! Data flows one way: `suite` loads cases, `run` executes them in worker processes through `pjrt` and compares
//! against `reference` with `compare`, `store` keeps the outcomes, `track` turns outcomes into verdicts, and `report`
//! and `gate` read verdicts. `oracle` asks a second implementation, and `torch` the Python package that drives PyTorch and TorchTPU. `virtual_tpu` compiles with the TPU compiler and, through the passes in `hlo`, executes on CPU.

pub mod case;
pub mod cli;
pub mod compare;
pub mod coverage;
pub mod distribution;
pub mod doctor;
pub mod exhaustive;
pub mod gate;
pub mod hlo;
mod line;
pub mod oracle;
pub mod outcome;
pub mod pjrt;
pub mod power;
pub mod project;
pub mod reference;
pub mod report;
pub mod run;
pub mod store;
pub mod suite;
pub mod target;
pub mod tensor;
mod text;
pub mod torch;
pub mod track;
pub mod virtual_tpu;
