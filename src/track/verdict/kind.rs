//! The kinds of verdicts, the worst first.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// Failed, and passed in the baseline.
    Regressed,
    /// Failed, neither expected nor failing alike in the baseline.
    NewFailure,
    /// Planned, and without a result: the run was cut short, or there was no sound reference to compare with.
    Missing,
    /// Expected to fail, and passed at the first attempt.
    Fixed,
    /// Skipped, and passed in the baseline: what was shown then is not shown now.
    NewlySkipped,
    /// Passed at a later attempt than the first.
    Flaky,
    /// Failed as an expectation says, or without one in the same way as the baseline.
    Known,
    /// Passed or skipped, and not in the baseline.
    New,
    /// Passed or skipped, and nothing else to say.
    Ok,
}

impl VerdictKind {
    pub const ALL: [VerdictKind; 9] = [
        Self::Regressed,
        Self::NewFailure,
        Self::Missing,
        Self::Fixed,
        Self::NewlySkipped,
        Self::Flaky,
        Self::Known,
        Self::New,
        Self::Ok,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::NewFailure => "new-failure",
            Self::Missing => "missing",
            Self::Fixed => "fixed",
            Self::NewlySkipped => "newly-skipped",
            Self::Flaky => "flaky",
            Self::Known => "known",
            Self::New => "new",
            Self::Ok => "ok",
        }
    }

    /// Whether a verdict of this kind fails the gate; `fixed` and `newly-skipped` do in a strict one.
    pub fn is_unexpected(self, strict: bool) -> bool {
        match self {
            Self::Regressed | Self::NewFailure | Self::Missing => true,
            Self::Fixed | Self::NewlySkipped => strict,
            Self::Flaky | Self::Known | Self::New | Self::Ok => false,
        }
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
