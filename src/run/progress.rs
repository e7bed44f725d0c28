//! How far a run is: a bar on a terminal, a plain line every ten seconds elsewhere. On standard error.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::Counts;
use crate::outcome::Outcome;

const PLAIN_EVERY: Duration = Duration::from_secs(10);

pub struct Progress {
    total: usize,
    start: Instant,
    style: Style,
    state: Mutex<State>,
}

enum Style {
    Bar(ProgressBar),
    Plain,
    Hidden,
}

struct State {
    counts: Counts,
    last_line: Instant,
}

impl Progress {
    /// For this many outcomes to come.
    pub fn new(total: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::with_style(total, Style::Plain);
        }
        let bar = ProgressBar::with_draw_target(
            Some(total as u64),
            ProgressDrawTarget::stderr_with_hz(10),
        );
        let template = "{bar:24} {pos}/{len} {percent}% {rate} {eta} left {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            // indicatif's own `per_sec` shows four decimals.
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{:.1}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self::with_style(total, Style::Bar(bar))
    }

    pub fn hidden() -> Self {
        Self::with_style(0, Style::Hidden)
    }

    fn with_style(total: usize, style: Style) -> Self {
        let now = Instant::now();
        Self {
            total,
            start: now,
            style,
            state: Mutex::new(State {
                counts: Counts::default(),
                last_line: now,
            }),
        }
    }

    pub fn finished(&self, outcome: &Outcome) {
        let mut state = self.state();
        state.counts.add(outcome.outcome);
        if let Style::Bar(bar) = &self.style {
            bar.inc(1);
            bar.set_message(state.counts.not_passing());
        }
    }

    /// To be called several times a second.
    pub fn tick(&self) {
        match &self.style {
            Style::Bar(bar) => bar.tick(),
            Style::Plain => {
                let mut state = self.state();
                if state.last_line.elapsed() >= PLAIN_EVERY {
                    state.last_line = Instant::now();
                    self.line(&state.counts);
                }
            }
            Style::Hidden => {}
        }
    }

    pub fn end(&self) {
        match &self.style {
            Style::Bar(bar) => bar.finish_and_clear(),
            Style::Plain => self.line(&self.state().counts),
            Style::Hidden => {}
        }
    }

    fn line(&self, counts: &Counts) {
        // Standard error may be closed; that is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "{}",
            line(counts, self.total, self.start.elapsed())
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `412/1576 (26%), 31.2/s, 37 s left, 3 fail, 1 crash`
fn line(counts: &Counts, total: usize, elapsed: Duration) -> String {
    let done = counts.total();
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let mut text = format!("{done}/{total}");
    if let Some(percent) = (done * 100).checked_div(total) {
        text.push_str(&format!(" ({percent}%)"));
    }
    text.push_str(&format!(", {rate:.1}/s"));
    if done > 0 && done < total {
        text.push_str(&format!(", {:.0} s left", (total - done) as f64 / rate));
    }
    let not_passing = counts.not_passing();
    if !not_passing.is_empty() {
        text.push_str(&format!(", {not_passing}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::OutcomeKind;

    #[test]
    fn a_plain_line_has_rate_and_time_left() {
        let mut counts = Counts::default();
        for _ in 0..38 {
            counts.add(OutcomeKind::Pass);
        }
        counts.add(OutcomeKind::Fail);
        counts.add(OutcomeKind::Crash);
        assert_eq!(
            line(&counts, 100, Duration::from_secs(4)),
            "40/100 (40%), 10.0/s, 6 s left, 1 fail, 1 crash"
        );
        assert_eq!(line(&Counts::default(), 0, Duration::ZERO), "0/0, 0.0/s");
    }
}
