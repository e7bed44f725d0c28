//! Executes cases on targets in worker processes that may die.
//!
//! A [`Plan`] says which cases run where. A [`Pool`] keeps the workers of one target and turns one case into one outcome,
//! whatever the plug-in does. [`execute`] drives the pools with several lanes and writes each final outcome to the journal.
//! In a worker, `worker` speaks the protocol and `device` does the work. Nothing here knows of expectations: judging is
//! `track`'s job.

mod agreement;
mod compile_log;
mod compute;
mod device;
mod error;
mod interrupt;
mod lanes;
mod measure;
mod parse_error;
mod plan;
mod pool;
mod process;
mod progress;
mod protocol;
mod refusal;
pub(crate) mod spawner;
mod spmd;
pub(crate) mod stderr;
mod summary;
mod supervisor;
pub(crate) mod sys;
mod terms;
mod torch;
mod virtual_tpu;
pub mod worker;

pub(crate) use compute::{as_reference, needs_scale, without_subnormals};
pub use error::RunError;
pub use interrupt::Interrupt;
pub(crate) use lanes::in_lanes;
pub use parse_error::parser_message;
pub use plan::{Executor, Plan, PlannedTarget, Shard, ShardError};
pub use pool::{Computed, Found, Pool, Reference, RunOptions};
pub(crate) use process::signal_name;
pub use progress::Progress;
pub use protocol::Outputs;
pub use summary::{Counts, summary_table};
pub use supervisor::{Fleet, Lost, Summary, execute};
pub use terms::{Term, Terms};

pub type Result<T> = std::result::Result<T, RunError>;
