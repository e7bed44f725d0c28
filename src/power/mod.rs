//! Measures whether faults are caught: takes what a target gives for cases that pass, injects faults, and compares again.
//!
//! `class` makes the faults, `rival` holds the rules that others compare by, `tally` counts, `report` writes it all down.
//! A fault that leaves a result as it was, or that the result has no place for, is no fault and counts nowhere.

mod class;
mod gather;
mod report;
mod rival;
mod tally;

pub use class::Class;
pub use gather::{GatherError, Gathered, Passing, gather};
pub use report::{Figures, markdown, terminal};
pub use rival::Rule;
pub use tally::{Row, Survivor, Tally, Why, measure};
