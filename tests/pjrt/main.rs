//! The wrappers against the five pinned plug-ins, which `ci/setup` installs.
//!
//! The CPU plug-ins share this process: measured to be fine, and it tests that tables do not mix. libtpu needs an
//! environment that is set before it loads, so its tests run in children.

mod common;
mod cpu;
#[path = "../helpers/f32.rs"]
mod f32;
mod libtpu;
