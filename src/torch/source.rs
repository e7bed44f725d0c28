//! `--suite torch[:SUITE,…][:samples=N]`: which of the package's suites, and how many samples of each operator.

use std::fmt;
use std::str::FromStr;

use super::SUITE;

const SAMPLES: &str = "samples=";

/// What the package is asked to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TorchSource {
    /// Names of its suites, `aten`; none: all.
    pub suites: Vec<String>,
    /// Of each operator and element type; none: as many as the package thinks right.
    pub samples: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' does not name torch's suites: {reason}; write {SUITE}, {SUITE}:aten,transformers or {SUITE}:aten:{SAMPLES}3"
)]
pub struct TorchSourceError {
    text: String,
    reason: &'static str,
}

impl FromStr for TorchSource {
    type Err = TorchSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason| TorchSourceError {
            text: text.to_owned(),
            reason,
        };
        let mut parts = text.split(':');
        if parts.next() != Some(SUITE) {
            return Err(bad("it begins otherwise"));
        }
        let mut source = Self::default();
        for part in parts {
            if let Some(samples) = part.strip_prefix(SAMPLES) {
                let samples = samples.parse().ok().filter(|&n: &u32| n > 0);
                source.samples = Some(samples.ok_or_else(|| bad("samples are a number above 0"))?);
                continue;
            }
            for name in part.split(',') {
                if name.is_empty() || name.starts_with('-') {
                    return Err(bad("a name is missing"));
                }
                source.suites.push(name.to_owned());
            }
        }
        Ok(source)
    }
}

impl fmt::Display for TorchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SUITE)?;
        if !self.suites.is_empty() {
            write!(f, ":{}", self.suites.join(","))?;
        }
        match self.samples {
            Some(samples) => write!(f, ":{SAMPLES}{samples}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for text in [
            "torch",
            "torch:aten",
            "torch:aten,transformers",
            "torch:samples=2",
            "torch:aten:samples=3",
        ] {
            assert_eq!(text.parse::<TorchSource>().unwrap().to_string(), text);
        }
        let source: TorchSource = "torch:aten,trl:samples=3".parse().unwrap();
        assert_eq!((source.suites.len(), source.samples), (2, Some(3)));
    }

    #[test]
    fn what_names_nothing_says_how_it_is_written() {
        for text in [
            "torch:",
            "torch:aten,",
            "torch:samples=0",
            "torch:samples=x",
            "torch:--help",
        ] {
            let error = text.parse::<TorchSource>().unwrap_err().to_string();
            assert!(error.contains("torch:aten:samples=3"), "{error}");
        }
    }
}
