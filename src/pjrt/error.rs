//! What can go wrong with a plug-in, with PJRT's own code where there is one.

use std::fmt;
use std::path::PathBuf;

use crate::line::one_line;
use crate::tensor::{ElementType, TensorError};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot load the plug-in {}: {reason}", path.display())]
    Load { path: PathBuf, reason: String },
    #[error("{} is not a PJRT plug-in: it exports no GetPjrtApi", path.display())]
    NotAPlugin { path: PathBuf },
    #[error(
        "{} speaks PJRT C API {}.{}, and this harness speaks 0.{} and later of major version 0",
        path.display(), found.0, found.1, super::negotiate::OLDEST_MINOR
    )]
    Version { path: PathBuf, found: (i32, i32) },
    #[error("unsupported by this plug-in: its PJRT C API {}.{} has no {entry}", api_version.0, api_version.1)]
    MissingEntry {
        entry: &'static str,
        api_version: (i32, i32),
    },
    #[error("{call}: {code}: {}", one_line(message))]
    Plugin {
        code: ErrorCode,
        /// As the plug-in wrote it, which may be many lines.
        message: String,
        call: &'static str,
    },
    /// The plug-in reported success, and what it returned cannot be read.
    #[error("{call} returned {what}")]
    Malformed { call: &'static str, what: String },
    #[error("the plug-in's PJRT has no buffer type for {0}")]
    NoBufferType(ElementType),
    #[error(
        "the plug-in returned a buffer of PJRT type {0}, which StableHLO has no element type for"
    )]
    UnknownBufferType(u32),
    /// The call itself is wrong; nothing reached the plug-in.
    #[error("{0}")]
    Argument(String),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl Error {
    /// PJRT's own code, for errors that a plug-in answered with; `UNIMPLEMENTED` for an entry or an element type that it
    /// lacks, and for a buffer type that StableHLO lacks.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Plugin { code, .. } => Some(*code),
            Self::MissingEntry { .. } | Self::NoBufferType(_) | Self::UnknownBufferType(_) => {
                Some(ErrorCode::Unimplemented)
            }
            _ => None,
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $number:literal $name:literal),* $(,)?) => {
        /// `PJRT_Error_Code`, which is absl's status code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($variant,)*
            /// A code that the C API does not define.
            Other(u32),
        }

        impl ErrorCode {
            pub(super) fn from_raw(code: u32) -> Self {
                match code {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// `PJRT_Error_Code`.
            pub fn to_raw(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Other(code) => code,
                }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.pad($name),)*
                    Self::Other(code) => write!(f, "CODE_{code}"),
                }
            }
        }
    };
}

codes! {
    Cancelled = 1 "CANCELLED",
    Unknown = 2 "UNKNOWN",
    InvalidArgument = 3 "INVALID_ARGUMENT",
    DeadlineExceeded = 4 "DEADLINE_EXCEEDED",
    NotFound = 5 "NOT_FOUND",
    AlreadyExists = 6 "ALREADY_EXISTS",
    PermissionDenied = 7 "PERMISSION_DENIED",
    ResourceExhausted = 8 "RESOURCE_EXHAUSTED",
    FailedPrecondition = 9 "FAILED_PRECONDITION",
    Aborted = 10 "ABORTED",
    OutOfRange = 11 "OUT_OF_RANGE",
    Unimplemented = 12 "UNIMPLEMENTED",
    Internal = 13 "INTERNAL",
    Unavailable = 14 "UNAVAILABLE",
    DataLoss = 15 "DATA_LOSS",
    Unauthenticated = 16 "UNAUTHENTICATED",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_error_is_one_line_with_its_code() {
        let error = Error::Plugin {
            code: ErrorCode::from_raw(3),
            message: "bad program\n\n  at line 3\n".to_owned(),
            call: "PJRT_Client_Compile",
        };
        assert_eq!(
            error.to_string(),
            "PJRT_Client_Compile: INVALID_ARGUMENT: bad program; at line 3"
        );
        assert_eq!(error.code(), Some(ErrorCode::InvalidArgument));
    }

    #[test]
    fn a_missing_entry_counts_as_unimplemented() {
        let error = Error::MissingEntry {
            entry: "PJRT_Compile",
            api_version: (0, 54),
        };
        assert_eq!(error.code(), Some(ErrorCode::Unimplemented));
        assert_eq!(
            error.to_string(),
            "unsupported by this plug-in: its PJRT C API 0.54 has no PJRT_Compile"
        );
    }

    #[test]
    fn a_type_without_a_buffer_counts_as_unimplemented() {
        for error in [
            Error::NoBufferType(ElementType::F6E2M3FN),
            Error::UnknownBufferType(23),
        ] {
            assert_eq!(error.code(), Some(ErrorCode::Unimplemented), "{error}");
        }
    }

    #[test]
    fn codes_outside_the_api_keep_their_number() {
        assert_eq!(ErrorCode::from_raw(99).to_string(), "CODE_99");
        for code in [1, 13, 99] {
            assert_eq!(ErrorCode::from_raw(code).to_raw(), code);
        }
    }
}
