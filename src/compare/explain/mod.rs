//! Says in one paragraph what kind of failure a mismatch is, from the result and its reference alone.
//!
//! Each kind is a test that either holds for the elements looked at or is not mentioned, and each sentence gives the figure
//! that was measured. Large tensors are sampled. What the cause is in the target, nothing here knows.

mod amount;
mod elements;
mod evidence;
mod layout;
mod place;

use serde::{Deserialize, Serialize};

use self::evidence::Evidence;
use super::scan::Scan;
use super::{CompareError, Numerics, ReferenceTensor, Tolerance, fitting, of_elements};
use crate::tensor::Tensor;

/// A kind of failure. In the order in which they are named where several explain as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The result is another tensor that was at hand: an input, or what an earlier case gave.
    Stale,
    Nan,
    /// A number where NaN is expected.
    NanLost,
    Infinite,
    SignOfZero,
    FlushedSubnormals,
    Zeros,
    /// One value everywhere, which is not the reference's.
    Constant,
    SignFlipped,
    Conjugated,
    Transposed,
    Shifted,
    Reversed,
    /// The right values in other places.
    Permuted,
    ConstantFactor,
    UniformBias,
    Truncated,
    /// Rounded to a narrower format.
    Narrowed,
    /// Errors of the size that a narrower format's arithmetic makes.
    LowPrecision,
    OneSided,
    Boundary,
    AboveASize,
}

impl Fault {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale output",
            Self::Nan => "NaN for a number",
            Self::NanLost => "a number for NaN",
            Self::Infinite => "infinity for a number",
            Self::SignOfZero => "sign of zero",
            Self::FlushedSubnormals => "flushed subnormals",
            Self::Zeros => "zeros",
            Self::Constant => "one value everywhere",
            Self::SignFlipped => "flipped signs",
            Self::Conjugated => "conjugated",
            Self::Transposed => "transposed",
            Self::Shifted => "shifted",
            Self::Reversed => "reversed",
            Self::Permuted => "permuted",
            Self::ConstantFactor => "constant factor",
            Self::UniformBias => "uniform bias",
            Self::Truncated => "truncated",
            Self::Narrowed => "rounded to a narrower format",
            Self::LowPrecision => "computed in a narrower format",
            Self::OneSided => "errors of one sign",
            Self::Boundary => "at a boundary only",
            Self::AboveASize => "above a size only",
        }
    }
}

/// What kind of failure a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The likeliest first; none where no kind fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// One paragraph.
    pub text: String,
}

/// A tensor that a stale or mixed-up result may turn out to be.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    /// As `input 0`.
    pub name: String,
    pub tensor: &'a Tensor,
}

/// One kind that fits.
struct Finding {
    fault: Fault,
    /// Of the differing elements that were looked at, how many it accounts for.
    explains: usize,
    sentence: String,
}

/// Sentences of kinds in one paragraph.
const MOST: usize = 3;

/// What kind of failure it is that `got` does not agree with the reference; `None` where it does. At most some thousand elements
/// are looked at closely, evenly spread over those that differ and those that agree.
///
/// # Errors
/// As [`super::compare`] refuses two tensors.
pub fn explain(
    got: &Tensor,
    reference: &ReferenceTensor,
    tolerance: &Tolerance,
    numerics: &Numerics,
    known: &[Known<'_>],
) -> Result<Option<Explanation>, CompareError> {
    let reference = fitting(got, reference, numerics)?;
    let tolerance = of_elements(tolerance, &reference, numerics)?;
    let scan = Scan::new(got, &reference, &tolerance, numerics)?;
    let evidence = Evidence::gather(&scan);
    if evidence.mismatches == 0 {
        return Ok(None);
    }
    let mut findings = elements::findings(&evidence);
    findings.extend(layout::findings(&evidence, known));
    findings.extend(amount::findings(&evidence));
    settle(&mut findings, evidence.differing.len());
    // Where they lie is always worth a sentence.
    findings.truncate(MOST - 1);
    findings.extend(place::finding(&evidence));
    let mut text = evidence.extent();
    if findings.is_empty() {
        text.push_str(" No simple pattern accounts for them.");
    }
    for finding in &findings {
        text.push(' ');
        text.push_str(&finding.sentence);
    }
    let faults = findings.iter().map(|finding| finding.fault).collect();
    Ok(Some(Explanation { faults, text }))
}

/// What explains most comes first. Beside a kind that explains everything, the others that do say the same in other words.
fn settle(findings: &mut Vec<Finding>, differing: usize) {
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.explains), finding.fault));
    if findings
        .first()
        .is_some_and(|first| first.explains == differing)
    {
        findings.truncate(1);
    }
}

#[cfg(test)]
mod tests;
