//! Globs over case ids: `*` and `?` stay within a part, `**` crosses slashes.

use globset::{GlobBuilder, GlobMatcher};

use super::SelectError;
use crate::case::Case;

/// The cases that one of `selects` names (all, when there is none) and none of `excludes` does, in their order.
///
/// A glob that matches no case at all is an error: it is a typing mistake, and a silent one would look like a clean run.
pub fn select(
    cases: Vec<Case>,
    selects: &[String],
    excludes: &[String],
) -> Result<Vec<Case>, SelectError> {
    let mut keep = vec![selects.is_empty(); cases.len()];
    for glob in selects {
        mark(&cases, glob, &mut keep, true)?;
    }
    for glob in excludes {
        mark(&cases, glob, &mut keep, false)?;
    }
    let kept: Vec<Case> = cases
        .into_iter()
        .zip(keep)
        .filter_map(|(case, keep)| keep.then_some(case))
        .collect();
    if kept.is_empty() && !excludes.is_empty() {
        return Err(SelectError::AllExcluded {
            excludes: excludes.to_vec(),
        });
    }
    Ok(kept)
}

fn mark(cases: &[Case], glob: &str, keep: &mut [bool], value: bool) -> Result<(), SelectError> {
    let matcher = compile(glob)?;
    let mut matched = false;
    for (case, keep) in cases.iter().zip(keep) {
        if matcher.is_match(case.id.as_str()) {
            *keep = value;
            matched = true;
        }
    }
    if matched {
        Ok(())
    } else {
        Err(SelectError::NoMatch {
            glob: glob.to_owned(),
            remedy: remedy(cases, glob),
        })
    }
}

fn compile(glob: &str) -> Result<GlobMatcher, SelectError> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| SelectError::BadGlob {
            glob: glob.to_owned(),
            reason: error.kind().to_string(),
        })
}

fn remedy(cases: &[Case], glob: &str) -> String {
    let below = format!("{}/**", glob.trim_end_matches('/'));
    if let Ok(matcher) = compile(&below)
        && cases.iter().any(|case| matcher.is_match(case.id.as_str()))
    {
        return format!("'{below}' selects what lies below it");
    }
    "`tpu-parity list --format ids` prints the ids there are".to_owned()
}
