//! The virtual TPU: programs are compiled by the TPU compiler itself, for a slice that need not be here, and what it
//! returns is executed on XLA CPU.
//!
//! [`Compiler`] is the library call. What runs here has the TPU compiler's graph and the matrix unit's rounding; it says
//! nothing of the hardware's code generation, timing or kernels.

pub mod compile_log;

mod artifact;
mod compiler;
mod facts;
mod locate;
mod optimized;
mod plugin;
mod pool;
mod process;
mod record;
mod serve;
mod settings;
mod slice;
mod topology;
mod wire;

pub use compiler::{Compiled, Compiler, CpuProgram, Error};
pub use optimized::Optimized;
pub use plugin::GetPjrtApi;
pub use serve::serve;
pub use settings::COMPILE_LOG;
