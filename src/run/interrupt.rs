//! Ctrl-C: the first asks the run to stop and leaves it readable, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{Result, RunError};

/// Whether the run was asked to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The exit code after an interrupt, by the shells' convention for SIGINT.
    pub const EXIT_CODE: u8 = 130;

    /// Raised by SIGINT and SIGTERM; a second of them exits at once. SIGHUP keeps its meaning, so that `nohup` has one.
    pub fn on_signals() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, raises it, and only the second exits.
            flag::register_conditional_shutdown(
                signal,
                i32::from(Self::EXIT_CODE),
                Arc::clone(&interrupt.0),
            )
            .and_then(|_| flag::register(signal, Arc::clone(&interrupt.0)))
            .map_err(RunError::Signals)?;
        }
        Ok(interrupt)
    }

    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
