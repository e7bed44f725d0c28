//! The `until` of an expectation: `name >= version`, held against the plug-ins of a run.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A dotted version as wheels and plug-ins write it. `0.3`, `0.3.0` are equal; a release candidate or development version
/// (`0.3rc1`, `0.3.dev20261130`) comes before its release, a `.post1` and a local `+build` after it.
#[derive(Debug, Clone)]
pub struct Version {
    text: String,
    numbers: Vec<u64>,
    suffix: Option<Suffix>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Suffix {
    Before(String),
    After(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad version '{0}'")]
pub struct VersionError(pub String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || VersionError(text.to_owned());
        let mut numbers = Vec::new();
        let mut rest = text;
        loop {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                break;
            }
            numbers.push(rest[..digits].parse().map_err(|_| bad())?);
            rest = &rest[digits..];
            match rest.strip_prefix('.') {
                Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => rest = after,
                _ => break,
            }
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        if numbers.is_empty() || !rest.chars().all(allowed) {
            return Err(bad());
        }
        let word = rest.strip_prefix(['.', '-', '_']).unwrap_or(rest);
        let suffix = match word {
            "" if rest.is_empty() => None,
            _ if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '+') => {
                return Err(bad());
            }
            _ if word.starts_with('+') || word.starts_with("post") => {
                Some(Suffix::After(word.to_owned()))
            }
            _ => Some(Suffix::Before(word.to_owned())),
        };
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Ok(Self {
            text: text.to_owned(),
            numbers,
            suffix,
        })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |suffix: &Option<Suffix>| match suffix {
            Some(Suffix::Before(_)) => 0,
            None => 1,
            Some(Suffix::After(_)) => 2,
        };
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| rank(&self.suffix).cmp(&rank(&other.suffix)))
            .then_with(|| self.suffix.cmp(&other.suffix))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `name >= version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The name of a plug-in or package, as the run's environment has it: `libtpu`.
    pub name: String,
    pub version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad condition \"{0}\"")]
pub struct ConditionError(pub String);

impl Condition {
    /// Whether a version of `name` in the environment reaches this condition.
    pub fn reached(&self, versions: &[(String, Version)]) -> bool {
        versions
            .iter()
            .any(|(name, version)| *name == self.name && *version >= self.version)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ConditionError(text.to_owned());
        let (name, version) = text.split_once(">=").ok_or_else(bad)?;
        let name = name.trim();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(allowed) {
            return Err(bad());
        }
        Ok(Self {
            name: name.to_owned(),
            version: version.trim().parse().map_err(|_| bad())?,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} >= {}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_order_by_number_not_by_text() {
        // The order of PEP 440 for the forms that wheels on PyPI use.
        let ascending = [
            "0.0.9",
            "0.0.24",
            "0.0.52",
            "0.3.dev20261130",
            "0.3rc1",
            "0.3",
            "0.3.post1",
            "0.3.1",
            "2026.6.23",
        ];
        for pair in ascending.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert_eq!(version("0.3"), version("0.3.0"));
    }

    #[test]
    fn what_is_not_a_version_is_refused() {
        for text in ["", "x", "1..2", "1.", "v1", "1 2", "1.2-"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_is_reached_by_its_own_package_only() {
        let condition: Condition = "libtpu >= 0.0.60".parse().unwrap();
        let at = |name: &str, v: &str| condition.reached(&[(name.to_owned(), version(v))]);
        assert!(at("libtpu", "0.0.60") && at("libtpu", "0.1"));
        assert!(!at("libtpu", "0.0.52") && !at("xla-cpu", "0.11.2"));
        assert!(!condition.reached(&[]));
    }

    #[test]
    fn malformed_conditions_are_refused() {
        for text in [
            "libtpu",
            "libtpu > 1",
            ">= 1",
            "libtpu >= x",
            "lib tpu >= 1",
            "libtpu >= ",
        ] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
