//! Reports.
pub mod escape;
