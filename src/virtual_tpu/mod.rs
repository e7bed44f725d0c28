//! The virtual TPU: programs are compiled by the TPU compiler itself, for a slice that need not be here, and what it
//! returns is executed on XLA CPU.
//!
//! [`Compiler`] is the library call. What runs here has the TPU compiler's graph and the matrix unit's rounding; it says
//! nothing of the hardware's code generation, timing or kernels.

mod compiler;
mod optimized;

pub use compiler::{Compiled, Compiler, CpuProgram, Error};
pub use optimized::Optimized;
