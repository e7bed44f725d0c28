//! What a process of the package and this program say to each other: a JSON object a line, requests on its standard input,
//! answers on a descriptor of its own, since libraries print to the other two.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::{OutcomeKind, Stage};

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// First, once: open the device.
    Hello { target: &'a str, exchange: &'a Path },
    /// Then any number of cases, one at a time.
    Case(&'a str),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// Answers `Hello`.
    Ready(Ready),
    /// Answers what it cannot do; the process then ends.
    Refused(String),
    /// The case has reached this stage.
    Stage(Stage),
    /// Answers `Case`.
    Done(Box<Done>),
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Ready {
    /// Name and version: `torch 2.15.0`.
    #[serde(default)]
    pub packages: Vec<String>,
    /// As the device calls itself: `TPU v6 lite`.
    #[serde(default)]
    pub device: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Done {
    /// None where there are results to compare.
    #[serde(default)]
    pub outcome: Option<OutcomeKind>,
    #[serde(default)]
    pub stage: Option<Stage>,
    #[serde(default)]
    pub message: Option<String>,
    /// The class of the exception.
    #[serde(default)]
    pub code: Option<String>,
    /// On the device, compilation included.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Programs compiled for the device.
    #[serde(default)]
    pub compiles: Option<u64>,
    /// That PyTorch dispatched: `aten.addmm`.
    #[serde(default)]
    pub operators: Vec<String>,
    #[serde(default)]
    pub figures: Option<Value>,
    /// Of the tensors, in the folder that `Hello` named.
    #[serde(default)]
    pub file: Option<PathBuf>,
    #[serde(default)]
    pub results: Vec<Named>,
}

/// A result, of which the file has `reference.NAME`, `cpu.NAME` and `device.NAME`.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Named {
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_lines_that_the_package_reads() {
        let text = |request: &Request<'_>| serde_json::to_string(request).unwrap();
        let hello = Request::Hello {
            target: "vtpu-v6e",
            exchange: Path::new("/dev/shm/x"),
        };
        assert_eq!(
            text(&hello),
            r#"{"hello":{"target":"vtpu-v6e","exchange":"/dev/shm/x"}}"#
        );
        assert_eq!(
            text(&Request::Case("aten/add/f32")),
            r#"{"case":"aten/add/f32"}"#
        );
    }

    #[test]
    fn answers_may_leave_out_what_they_do_not_know() {
        let read = |text: &str| serde_json::from_str::<Response>(text);
        assert_eq!(
            read(r#"{"stage":"lower"}"#).unwrap(),
            Response::Stage(Stage::Lower)
        );
        let done = read(
            r#"{"done":{"outcome":"unsupported","stage":null,"message":"no","code":"NotImplementedError","compiles":null}}"#,
        );
        let Response::Done(done) = done.unwrap() else {
            panic!("not done");
        };
        assert_eq!(done.outcome, Some(OutcomeKind::Unsupported));
        assert!(done.results.is_empty() && done.stage.is_none());
        for nonsense in [
            "[]",
            "{}",
            r#"{"done":{"outcome":"splendid"}}"#,
            "Segmentation fault",
        ] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
    }
}
