//! The passes, run through XLA CPU against values from outside: hand arithmetic and XLA's own definitions.

// The plug-in tests' helpers, not all of which are needed here.
#[allow(dead_code)]
#[path = "../pjrt/common.rs"]
mod common;
mod custom_calls;
#[path = "../helpers/f32.rs"]
mod f32;
mod mxu;
mod program;
mod x64;
