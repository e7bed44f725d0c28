//! Tells a program that a plug-in cannot read from one that it reads and cannot compile.
//!
//! XLA's plug-ins report both with the same code and the same form of message. What they say of a program that does not
//! parse, or that StableHLO's own verifier refuses, ends in the sentence below; what they cannot translate to HLO or
//! compile does not (measured on the three CPU plug-ins and on libtpu).

const SENTENCE: &str = "Failed to parse using StableHLO";

/// The parser's first complaint, as `-:2:28: error: unexpected character`, where `message` is an error about a program
/// that is not valid StableHLO, or not in the version that the plug-in knows.
pub fn parser_message(message: &str) -> Option<&str> {
    let (complaints, _) = message.split_once(SENTENCE)?;
    let start = complaints.find(" -:").map_or(0, |space| space + 1);
    let first = &complaints[start..];
    Some(first.split("; ").next().unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::parser_message;

    /// Messages of the pinned CPU plug-in.
    #[test]
    fn only_what_does_not_parse_is_a_parse_error() {
        let end = "<unknown>:0: error: Failed to parse using StableHLO v1.20.0, this could indicate forward incompatibility";
        for (complaint, expected) in [
            ("-:2:28: error: unexpected character", None),
            (
                "-:2:8: error: custom op 'stablehlo.negatee' is unknown",
                None,
            ),
            (
                "-:2:8: error: 'stablehlo.iota' op requires attribute 'iota_dimension'; -:2:8: note: see current operation: %0 = \"stablehlo.iota\"()",
                Some("-:2:8: error: 'stablehlo.iota' op requires attribute 'iota_dimension'"),
            ),
        ] {
            let message =
                format!("suites/s/f.toml:7: PJRT_Client_Compile: UNKNOWN: {complaint}; {end}");
            assert_eq!(
                parser_message(&message),
                Some(expected.unwrap_or(complaint))
            );
        }
        for message in [
            "PJRT_Client_Compile: UNKNOWN: -:3:8: error: 'stablehlo.dynamic_conv' op can't be translated to XLA HLO; -:3:8: note: see current operation",
            "PJRT_Client_Compile: UNKNOWN: -:3:3: error: Expected element type in shape to be floating for cbrt operation; got C64.",
            "PJRT_Client_Compile: NOT_FOUND: No registered implementation for untyped custom call to nowhere for Host",
        ] {
            assert_eq!(parser_message(message), None);
        }
    }
}
