//! The virtual TPU's plug-in, as a client sees it: the shared library that Cargo built beside the program, loaded like any
//! other plug-in. Its compilers are the pinned ones, which `ci/setup` installs.

mod common;
mod compile;
mod devices;
#[path = "../helpers/f32.rs"]
mod f32;
mod log;
mod older;
mod slice;
