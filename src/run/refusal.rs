//! A program that must be refused: what its compile says of the plug-in.
//!
//! The specification has no words for how a program is refused; PJRT has, and `INVALID_ARGUMENT` is the code for what is wrong
//! whatever the state of the system. Nothing here compiles.

use super::device::Stop;
use crate::outcome::{Metrics, OutcomeKind, Stage};
use crate::pjrt::ErrorCode;

/// `INVALID_ARGUMENT` is a pass and any other code an error, since a caller cannot tell it from a failure of the plug-in
/// itself; what compiles has failed.
pub(super) fn judge(
    constraint: &str,
    compiled: Result<(), Stop>,
    metrics: &mut Metrics,
) -> Result<Stage, Stop> {
    let wanted = ErrorCode::InvalidArgument.to_string();
    match compiled {
        Ok(()) => {
            let message = format!("accepted, where it breaks {constraint}");
            Err(Stop::new(OutcomeKind::Fail, Stage::Compile, message))
        }
        Err(stop) if stop.code.as_deref() == Some(wanted.as_str()) => {
            metrics.refusal = Some(stop.message);
            Ok(Stage::Compile)
        }
        Err(mut stop) => {
            stop.kind = OutcomeKind::Error;
            if let Some(code) = &stop.code {
                stop.message = format!("refused with {code}, not {wanted}: {}", stop.message);
            }
            Err(stop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pjrt::Error;

    fn answer(code: ErrorCode) -> Result<(), Stop> {
        let error = Error::Plugin {
            code,
            message: "operands differ".to_owned(),
            call: "PJRT_Client_Compile",
        };
        Err(Stop::plugin(Stage::Compile, &error))
    }

    #[test]
    fn a_refusal_with_the_right_code_passes_and_is_kept() {
        let mut metrics = Metrics::default();
        let ended = judge("C1", answer(ErrorCode::InvalidArgument), &mut metrics);
        assert!(matches!(ended, Ok(Stage::Compile)));
        assert_eq!(
            metrics.refusal.as_deref(),
            Some("PJRT_Client_Compile: INVALID_ARGUMENT: operands differ")
        );
    }

    #[test]
    fn any_other_code_is_an_error_with_what_was_said() {
        for code in [
            ErrorCode::Unknown,
            ErrorCode::Unimplemented,
            ErrorCode::Internal,
        ] {
            let mut metrics = Metrics::default();
            let Err(stop) = judge("C1", answer(code), &mut metrics) else {
                panic!("{code} passes");
            };
            assert_eq!(
                (stop.kind, stop.stage),
                (OutcomeKind::Error, Stage::Compile)
            );
            assert_eq!(
                stop.message,
                format!(
                    "refused with {code}, not INVALID_ARGUMENT: PJRT_Client_Compile: {code}: operands differ"
                )
            );
            assert_eq!(metrics, Metrics::default());
        }
    }

    #[test]
    fn what_compiles_has_failed() {
        let Err(stop) = judge("C1: one shape", Ok(()), &mut Metrics::default()) else {
            panic!("it passes");
        };
        assert_eq!((stop.kind, stop.stage), (OutcomeKind::Fail, Stage::Compile));
        assert_eq!(stop.message, "accepted, where it breaks C1: one shape");
    }
}
