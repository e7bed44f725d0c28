//! PJRT plug-ins: load, negotiate the C API, compile, execute, and read what they report.
//!
//! The wrappers here go straight to the plug-in's function table. The `pjrt` crate's own API is there too
//! ([`Plugin::api`]), over the same negotiated table, for callers that want it; where it panics on what a plug-in
//! returns, or misreads it, these wrappers give a typed [`Error`].
//!
//! Nothing here knows of cases, references or targets.

mod buffer;
mod client;
mod device;
mod element;
pub(crate) mod entries;
mod environment;
mod error;
pub(crate) mod executable;
mod layout;
mod loaded;
mod negotiate;
mod plugin;
mod probe;
mod program;
pub(crate) mod raw;
mod topology;
pub(crate) mod value;

pub use buffer::Buffer;
pub use client::Client;
pub use device::{Device, DeviceDescription};
pub use element::{buffer_type, element_type};
pub use environment::{prepare_environment, tpu_present};
pub use error::{Error, ErrorCode, Result};
pub use executable::Executable;
pub use loaded::{ExecuteOptions, LoadedExecutable};
pub use plugin::Plugin;
pub use probe::{Probe, TopologyProbe};
pub use program::{CompileOptions, Program};
pub use topology::Topology;
pub use value::{NamedValue, NamedValueError, Value};
