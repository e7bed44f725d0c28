//! `ci/plugins.toml`: which plug-ins `ci/setup` installs, and the hashes they must have.

use std::path::Path;

use serde::Deserialize;

use super::{ProjectError, Result};
use crate::text::toml_error;

/// One plug-in that `ci/setup` installs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub name: String,
    /// The package on PyPI.
    pub wheel: String,
    pub version: String,
    pub wheel_file: String,
    pub wheel_sha256: String,
    /// Inside the wheel.
    pub file: String,
    /// Of that file, in lower-case hex.
    pub sha256: String,
    /// Whose terms the download comes under.
    pub terms: String,
    pub python: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    plugin: Vec<Pin>,
}

pub fn parse(path: &Path, text: &str) -> Result<Vec<Pin>> {
    let bad = |line, reason: String| ProjectError::Pins {
        path: path.to_owned(),
        line,
        reason,
    };
    let pins: Pins = toml::from_str(text).map_err(|error| {
        let (line, complaint) = toml_error(text, &error);
        bad(line, complaint)
    })?;
    let line_of = |needle: &str| {
        text.lines()
            .position(|line| line.contains(needle))
            .map_or(1, |line| line + 1)
    };
    for (index, pin) in pins.plugin.iter().enumerate() {
        if pins.plugin[..index]
            .iter()
            .any(|other| other.name == pin.name)
        {
            return Err(bad(1, format!("the name '{}' is pinned twice", pin.name)));
        }
        let is_plain = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        if !is_plain(&pin.name) || pin.name.starts_with('.') {
            return Err(bad(
                line_of(&pin.name),
                format!("'{}' is no name for a folder", pin.name),
            ));
        }
        for hash in [&pin.sha256, &pin.wheel_sha256] {
            let is_hash =
                hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !is_hash {
                return Err(bad(
                    line_of(hash),
                    format!("'{hash}' is not a SHA-256 in lower-case hex"),
                ));
            }
        }
    }
    Ok(pins.plugin)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const PIN: &str = r#"
[[plugin]]
name = "fake"
wheel = "fake"
version = "1"
wheel_file = "fake-1.whl"
wheel_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
file = "fake/fake.so"
sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
terms = "none"
"#;

    #[test]
    fn bad_pins_name_file_and_line() {
        let path = Path::new("ci/plugins.toml");
        for (text, expected) in [
            (
                PIN.replace("version = \"1\"", "version = 1"),
                "ci/plugins.toml:5: ",
            ),
            (PIN.replace("2cf2", "2CF2"), "ci/plugins.toml:9: '2CF2"),
            (
                PIN.replace("\"fake\"\nwheel", "\"../x\"\nwheel"),
                "ci/plugins.toml:3: '../x'",
            ),
            (format!("{PIN}{PIN}"), "pinned twice"),
            (
                PIN.replace("terms", "term"),
                "ci/plugins.toml:10: unknown field",
            ),
        ] {
            let error = parse(path, &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
