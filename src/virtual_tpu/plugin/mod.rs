//! The PJRT plug-in, `GetPjrtApi`: an interposer over an XLA CPU plug-in's own table.
//!
//! Buffers, events, layouts and transfers are XLA CPU's, handles too. What makes a TPU of it hangs beside the handles
//! ([`handles`]), and programs go to the compile helpers. Each entry of the table that is not XLA CPU's own is a function
//! here, named after it.

mod abi;
mod client;
mod compile;
mod cpu;
mod entry;
mod executable;
mod gang;
mod handles;
mod memory;
mod raised;
mod read;
mod table;
mod topology;

pub use table::GetPjrtApi;
