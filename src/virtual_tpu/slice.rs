//! Which virtual TPU: a generation and the shape of its slice, `v6e:2x4`, in the forms in which clients name one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::target::{Generation, Target};

/// A slice of one generation. A bare generation is one chip: most clients drive every device that they see, and one is
/// what most programs need.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slice {
    generation: Generation,
    /// `2x4`; three sizes where the generation's slices have three dimensions.
    shape: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no slice of a TPU: write <gen> or <gen>:<shape> with <gen> one of v4, v5e, v5p, v6e, 7x (v6e, v6e:2x4, v5p:2x2x1)"
)]
pub struct SliceError {
    text: String,
}

impl Slice {
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// As in a target: `2x4`.
    pub fn shape(&self) -> &str {
        &self.shape
    }
}

impl Default for Slice {
    fn default() -> Self {
        Self {
            generation: Generation::V6e,
            shape: "1x1".to_owned(),
        }
    }
}

impl FromStr for Slice {
    type Err = SliceError;

    /// Besides the project's own form, libtpu's (`tpu7x:2x2x1`), and a third size of 1 for slices of two dimensions.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || SliceError {
            text: text.to_owned(),
        };
        let own = text.strip_prefix("tpu").unwrap_or(text);
        let parse = |text: &str| match format!("aot-{text}").parse() {
            Ok(Target::Aot { generation, slice }) => Some((generation, slice)),
            _ => None,
        };
        let (generation, slice) = parse(own)
            .or_else(|| parse(own.strip_suffix("x1")?))
            .ok_or_else(error)?;
        let one_chip = || match generation {
            Generation::V5e | Generation::V6e => "1x1".to_owned(),
            Generation::V4 | Generation::V5p | Generation::V7x => "1x1x1".to_owned(),
        };
        Ok(Self {
            generation,
            shape: slice.unwrap_or_else(one_chip),
        })
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation.as_str(), self.shape)
    }
}

impl TryFrom<String> for Slice {
    type Error = SliceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Slice> for String {
    fn from(slice: Slice) -> Self {
        slice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_in_every_form_that_clients_use() {
        for (text, slice) in [
            ("v6e", "v6e:1x1"),
            ("7x", "7x:1x1x1"),
            ("tpu7x:2x2x1", "7x:2x2x1"),
            ("v6e:2x4", "v6e:2x4"),
            ("v5e:2x2x1", "v5e:2x2"),
            ("v4:2x2x1", "v4:2x2x1"),
        ] {
            assert_eq!(text.parse::<Slice>().unwrap().to_string(), slice, "{text}");
        }
        assert_eq!(Slice::default().to_string(), "v6e:1x1");
    }

    #[test]
    fn what_is_no_slice_is_refused_with_what_there_is() {
        for text in ["", "v9", "v6e:", "v6e:2x2x2", "v6e:0x2", "gpu", "v4:2x2"] {
            let error = text.parse::<Slice>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{text}'")) && error.contains("v5p"),
                "{error}"
            );
        }
    }
}
