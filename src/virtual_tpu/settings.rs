//! What a client may set: environment variables, and client options of the same names without the prefix.
//!
//! Options that are not among these are accepted and ignored, as libtpu ignores what it does not know. Where the
//! plug-ins are is settled elsewhere (`locate`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::slice::Slice;
use crate::hlo::MxuNumerics;
use crate::pjrt::Value;

pub const GENERATION: &str = "TPU_PARITY_GENERATION";
pub const NUMERICS: &str = "TPU_PARITY_NUMERICS";
pub const COMPILE_LOG: &str = "TPU_PARITY_COMPILE_LOG";
pub const COMPILE_TIMEOUT: &str = "TPU_PARITY_COMPILE_TIMEOUT";

/// A large model compiles for minutes; a compiler that takes longer than this hangs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub slice: Slice,
    pub numerics: MxuNumerics,
    pub compile_log: Option<PathBuf>,
    /// Of one compilation.
    pub compile_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct SettingsError {
    /// The variable or the option.
    pub name: String,
    pub reason: String,
}

impl Settings {
    /// `options` win over `environment`.
    ///
    /// # Errors
    /// A value that is not allowed, with the name of the variable or option and what is allowed.
    pub fn new(
        environment: impl Fn(&str) -> Option<OsString>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Self, SettingsError> {
        let get = |variable: &str| -> Result<Option<(String, String)>, SettingsError> {
            let option = variable.trim_start_matches("TPU_PARITY_").to_lowercase();
            if let Some(value) = options.get(&option) {
                return Ok(Some((
                    format!("client option '{option}'"),
                    value.to_string(),
                )));
            }
            match environment(variable).filter(|value| !value.is_empty()) {
                None => Ok(None),
                Some(value) => match value.into_string() {
                    Ok(value) => Ok(Some((variable.to_owned(), value))),
                    Err(value) => Err(SettingsError {
                        name: variable.to_owned(),
                        reason: format!("{} is not UTF-8", value.display()),
                    }),
                },
            }
        };
        Ok(Self {
            slice: parsed(get(GENERATION)?)?.unwrap_or_default(),
            numerics: parsed(get(NUMERICS)?)?.unwrap_or_default(),
            compile_log: get(COMPILE_LOG)?.map(|(_, path)| {
                // The client may go to another directory.
                std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path))
            }),
            compile_timeout: get(COMPILE_TIMEOUT)?
                .map(|(name, text)| seconds(name, &text))
                .transpose()?
                .unwrap_or(DEFAULT_TIMEOUT),
        })
    }

    pub fn from_environment(options: &BTreeMap<String, Value>) -> Result<Self, SettingsError> {
        Self::new(|name| std::env::var_os(name), options)
    }
}

fn parsed<T>(given: Option<(String, String)>) -> Result<Option<T>, SettingsError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    given
        .map(|(name, text)| {
            text.parse().map_err(|error: T::Err| SettingsError {
                name,
                reason: error.to_string(),
            })
        })
        .transpose()
}

fn seconds(name: String, text: &str) -> Result<Duration, SettingsError> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(SettingsError {
            name,
            reason: format!("'{text}' is not a number of seconds above 0"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        environment: &[(&str, &str)],
        options: &[(&str, Value)],
    ) -> Result<Settings, SettingsError> {
        let environment: BTreeMap<String, OsString> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
            .collect();
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Settings::new(|name| environment.get(name).cloned(), &options)
    }

    #[test]
    fn nothing_set_is_one_v6e_chip_with_the_matrix_units_rounding() {
        let settings = settings(&[], &[]).unwrap();
        assert_eq!(settings.slice.to_string(), "v6e:1x1");
        assert_eq!(settings.numerics, MxuNumerics::Mxu);
        assert_eq!(settings.compile_log, None);
    }

    #[test]
    fn options_win_over_the_environment_and_unknown_ones_are_ignored() {
        let settings = settings(
            &[
                (GENERATION, "v5e"),
                (COMPILE_LOG, "/tmp/log"),
                (COMPILE_TIMEOUT, "1.5"),
            ],
            &[
                ("generation", Value::from("v6e:2x4")),
                ("numerics", Value::from("exact")),
                ("premapped_buffer_size", Value::I64(0)),
            ],
        )
        .unwrap();
        assert_eq!(settings.slice.to_string(), "v6e:2x4");
        assert_eq!(settings.numerics, MxuNumerics::Exact);
        assert_eq!(settings.compile_log, Some(PathBuf::from("/tmp/log")));
        assert_eq!(settings.compile_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn a_bad_value_names_what_set_it_and_what_is_allowed() {
        let error = settings(&[(GENERATION, "v9")], &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("TPU_PARITY_GENERATION: 'v9'") && error.contains("v6e"),
            "{error}"
        );
        let error = settings(&[], &[("numerics", Value::from("f64"))])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("client option 'numerics'") && error.contains("exact"),
            "{error}"
        );
        let error = settings(&[(COMPILE_TIMEOUT, "0")], &[]).unwrap_err();
        assert_eq!(error.name, COMPILE_TIMEOUT);
    }
}
