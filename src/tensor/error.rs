//! What can go wrong with tensors. Each message is one line.

use std::path::PathBuf;

use super::ElementType;

pub type Result<T, E = TensorError> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorError {
    #[error("a tensor of {element_type} with shape {shape:?} does not fit in memory")]
    TooLarge {
        element_type: ElementType,
        shape: Vec<usize>,
    },
    #[error("a tensor of {element_type} with shape {shape:?} takes {expected} bytes, not {actual}")]
    Length {
        element_type: ElementType,
        shape: Vec<usize>,
        expected: usize,
        actual: usize,
    },
    #[error(
        "a tensor of {element_type} with shape {shape:?} takes {expected} values, not {actual}"
    )]
    Values {
        element_type: ElementType,
        shape: Vec<usize>,
        expected: usize,
        actual: usize,
    },
    #[error("element {index} of a pred tensor is the byte {byte}; only 0 and 1 are")]
    Pred { index: usize, byte: u8 },
    #[error("{from} does not convert to {to}: take the real part first")]
    Conversion { from: ElementType, to: ElementType },
    #[error("the domain '{domain}' does not fit {element_type} with shape {shape:?}: {reason}")]
    Domain {
        domain: &'static str,
        element_type: ElementType,
        shape: Vec<usize>,
        reason: String,
    },
    #[error("{path}: {reason}", path = path.display())]
    File { path: PathBuf, reason: String },
}
