//! Counts and pass rates of a group of cases on one target, hence of one evidence.

use serde::Serialize;

use super::{Verdict, VerdictKind};
use crate::outcome::OutcomeKind;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// All planned cases; the other counts add up to this.
    pub cases: usize,
    pub pass: usize,
    pub fail: usize,
    pub error: usize,
    pub unsupported: usize,
    pub crash: usize,
    pub timeout: usize,
    pub oom: usize,
    pub skipped: usize,
    /// Planned, and without an outcome. They count as not passing.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
    /// Failures that an expectation names, each among the failures above.
    #[serde(skip)]
    pub expected: usize,
}

impl Totals {
    pub fn of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Self {
        let mut totals = Self::default();
        for verdict in verdicts {
            totals.add(verdict);
        }
        totals
    }

    pub fn add(&mut self, verdict: &Verdict) {
        self.cases += 1;
        let count = match verdict.outcome {
            Some(OutcomeKind::Pass) => &mut self.pass,
            Some(OutcomeKind::Fail) => &mut self.fail,
            Some(OutcomeKind::Error) => &mut self.error,
            Some(OutcomeKind::Unsupported) => &mut self.unsupported,
            Some(OutcomeKind::Crash) => &mut self.crash,
            Some(OutcomeKind::Timeout) => &mut self.timeout,
            Some(OutcomeKind::Oom) => &mut self.oom,
            Some(OutcomeKind::Skipped) => &mut self.skipped,
            None => &mut self.missing,
        };
        *count += 1;
        if verdict.kind == VerdictKind::Known && verdict.expectation.is_some() {
            self.expected += 1;
        }
    }

    /// The counts that are not `pass`, by name.
    pub fn others(&self) -> [(&'static str, usize); 8] {
        [
            ("fail", self.fail),
            ("error", self.error),
            ("unsupported", self.unsupported),
            ("crash", self.crash),
            ("timeout", self.timeout),
            ("oom", self.oom),
            ("missing", self.missing),
            ("skipped", self.skipped),
        ]
    }

    /// The cases that count: all but the skipped.
    pub fn tests(&self) -> usize {
        self.cases - self.skipped
    }

    pub fn failing(&self) -> usize {
        self.tests() - self.pass
    }

    /// Whether all cases pass, none of them skipped, and there are some.
    pub fn all_pass(&self) -> bool {
        self.pass == self.cases && self.cases > 0
    }

    /// `pass / (cases − skipped)`; `None` if nothing counts.
    pub fn pass_rate(&self) -> Option<f64> {
        rate(self.pass, self.tests())
    }

    /// `pass / (cases − skipped − expected failures)`; `None` if nothing is left.
    pub fn pass_rate_without_known(&self) -> Option<f64> {
        rate(self.pass, self.tests() - self.expected)
    }

    /// The pass rate as `96.5%`, rounded down so that `100.0%` means all; `–` if nothing counts.
    pub fn percent(&self) -> String {
        percent(self.pass, self.tests())
    }

    /// `96.5% of the 1,512 tests that run pass`, with `, 12 skipped` where there are any.
    pub fn sentence(&self) -> String {
        let skipped = match self.skipped {
            0 => String::new(),
            n => format!(", {} skipped", thousands(n)),
        };
        let rate = match self.tests() {
            0 => "no test ran".to_owned(),
            n => format!(
                "{} of the {} tests that run pass",
                self.percent(),
                thousands(n)
            ),
        };
        rate + &skipped
    }

    /// As [`percent`](Self::percent), of [`pass_rate_without_known`](Self::pass_rate_without_known).
    pub fn percent_without_known(&self) -> String {
        percent(self.pass, self.tests() - self.expected)
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn rate(pass: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| pass as f64 / of as f64)
}

fn percent(pass: usize, of: usize) -> String {
    match (pass * 1000).checked_div(of) {
        None => "–".to_owned(),
        Some(tenths) => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

/// `1 case`, `1,512 cases`
pub fn cases(n: usize) -> String {
    match n {
        1 => "1 case".to_owned(),
        n => format!("{} cases", thousands(n)),
    }
}

/// `1,512`
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_down_so_that_only_all_is_100_percent() {
        assert_eq!(percent(9_999, 10_000), "99.9%");
        assert_eq!(percent(10_000, 10_000), "100.0%");
        assert_eq!(percent(965, 1000), "96.5%");
        assert_eq!(percent(0, 0), "–");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [0, 999, 1_512, 1_234_567].map(thousands),
            ["0", "999", "1,512", "1,234,567"]
        );
    }
}
