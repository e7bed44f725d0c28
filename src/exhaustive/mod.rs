//! Exhaustive tests: an operator on every value of its type in one program, against results that no compiler had a part in.
//!
//! Operators, programs and tolerances are those of the suites (`operators`); `values` says what they are tried on, `reference`
//! what is right, `measure` how far the target is from it. `run` drives the targets' workers, one operator at a time, so that one
//! that dies costs one operator; `report` shows what came of it. f64 is not measured: the reference is computed in it.

mod measure;
mod operators;
mod reference;
mod report;
mod run;
mod values;

pub use measure::{Fault, Measure, Occurrences, Point};
pub use operators::{Operator, SelectError, ids, operators, select};
pub use report::{Report, TargetReport};
pub use run::{Finding, execute};
