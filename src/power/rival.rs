//! The rules by which others decide whether a result is right, from their published definitions.
//!
//! Each is computed in the element type's own arithmetic, as the library does; `benches/rivals.py` compares the verdicts with
//! those of the libraries themselves. Messages, and what the libraries do with shapes and devices, are left out.

use crate::tensor::{ElementType, FloatFormat, Tensor};

/// A rule in use elsewhere; [`Rule::source`] says what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    JaxAllclose,
    TorchAssertClose,
    Correlation,
}

impl Rule {
    pub const ALL: [Rule; 3] = [Self::JaxAllclose, Self::TorchAssertClose, Self::Correlation];

    pub fn name(self) -> &'static str {
        match self {
            Self::JaxAllclose => "assert_allclose, JAX's tolerances",
            Self::TorchAssertClose => "torch.testing.assert_close",
            Self::Correlation => "correlation ≥ 0.99",
        }
    }

    /// The definition, and where it is published.
    pub fn source(self) -> &'static str {
        match self {
            Self::JaxAllclose => {
                "`numpy.testing.assert_allclose` as JAX's tests call it: |got − ref| ≤ atol + rtol·|ref|, NaN equal to NaN, \
                 infinities equal to themselves, with rtol = atol by element type (`_default_tolerance` in \
                 `jax/_src/public_test_util.py`, JAX 0.10.2; a tolerance of 0 leaves numpy's own, rtol 10⁻⁷ and atol 0). bf16 and the \
                 floats of 8 bits and fewer are compared in f32."
            }
            Self::TorchAssertClose => {
                "with its defaults: the same formula with the table of `torch/testing/_comparison.py` (`_DTYPE_PRECISIONS`, \
                 PyTorch 2.15), 0 for all other types, and NaN equal to nothing (`equal_nan=False`)."
            }
            Self::Correlation => {
                "Pearson's, over all elements, as `comp_pcc` of the tests of tenstorrent/tt-metal computes it: what is not finite \
                 counts as 0, tensors of NaN alone are equal, a tensor of zeros is equal to none but itself, and where the correlation is \
                 not defined (one element, all elements equal) anything is accepted. Parts of complex elements count in turn."
            }
        }
    }

    /// Whether the rule takes `got` for right, where `expected` is; `None` where the library does not have the element type.
    pub fn accepts(self, got: &Tensor, expected: &Tensor) -> Option<bool> {
        let element_type = got.element_type();
        match self {
            Self::JaxAllclose => {
                let tolerance = jax_tolerance(element_type)?;
                let (rtol, atol) = if tolerance == 0.0 {
                    (1e-7, 0.0)
                } else {
                    (tolerance, tolerance)
                };
                Some(all_close(
                    got,
                    expected,
                    rtol,
                    atol,
                    jax_arithmetic(element_type),
                    true,
                ))
            }
            Self::TorchAssertClose => {
                let (rtol, atol) = torch_tolerance(element_type)?;
                let arithmetic = element_type.float_format();
                Some(all_close(got, expected, rtol, atol, arithmetic, false))
            }
            Self::Correlation => Some(correlates(&got.to_f64(), &expected.to_f64())),
        }
    }
}

fn jax_tolerance(element_type: ElementType) -> Option<f64> {
    use ElementType::*;
    Some(match element_type {
        Pred | I2 | I4 | I8 | I16 | I32 | I64 | U2 | U4 | U8 | U16 | U32 | U64 => 0.0,
        F4E2M1FN | F8E8M0FNU => 1.0,
        F8E3M4 | F8E4M3 | F8E4M3B11FNUZ | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ => 1e-1,
        BF16 => 1e-2,
        F16 => 1e-3,
        F32 | C64 => 1e-6,
        F64 | C128 => 1e-15,
        F6E2M3FN | F6E3M2FN => return None,
    })
}

/// numpy compares integers and bools in f64.
fn jax_arithmetic(element_type: ElementType) -> Option<FloatFormat> {
    let computed_in = match element_type {
        ElementType::F16 => ElementType::F16,
        t if t.is_float() && t != ElementType::F64 => ElementType::F32,
        ElementType::C64 => ElementType::F32,
        _ => ElementType::F64,
    };
    computed_in.float_format()
}

fn torch_tolerance(element_type: ElementType) -> Option<(f64, f64)> {
    use ElementType::*;
    Some(match element_type {
        F16 => (1e-3, 1e-5),
        BF16 => (1.6e-2, 1e-5),
        F32 | C64 => (1.3e-6, 1e-5),
        F64 | C128 => (1e-7, 1e-7),
        Pred | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => (0.0, 0.0),
        F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU => (0.0, 0.0),
        I2 | I4 | U2 | U4 | F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3B11FNUZ => {
            return None;
        }
    })
}

fn all_close(
    got: &Tensor,
    expected: &Tensor,
    rtol: f64,
    atol: f64,
    arithmetic: Option<FloatFormat>,
    equal_nan: bool,
) -> bool {
    let exact = rtol == 0.0 && atol == 0.0;
    if exact && !got.element_type().is_float() {
        return (0..got.len()).all(|i| got.bits(i) == expected.bits(i));
    }
    let round = |x: f64| match &arithmetic {
        Some(format) if format.mantissa_bits < 52 => format.round_to(x),
        _ => x,
    };
    let (got, expected, parts) = (
        got.to_f64(),
        expected.to_f64(),
        if got.element_type().is_complex() {
            2
        } else {
            1
        },
    );
    let modulus = |z: &[f64]| match z {
        [re, im] => round(re.hypot(*im)),
        _ => z.first().map_or(0.0, |x| x.abs()),
    };
    let elements = got.chunks_exact(parts).zip(expected.chunks_exact(parts));
    elements.into_iter().all(|(g, r)| {
        if g == r {
            return true;
        }
        let nan = |z: &[f64]| z.iter().any(|x| x.is_nan());
        if nan(g) || nan(r) {
            return equal_nan && nan(g) && nan(r);
        }
        if exact || !r.iter().all(|x| x.is_finite()) {
            return false;
        }
        let difference: Vec<f64> = g.iter().zip(r).map(|(g, r)| round(g - r)).collect();
        let allowed = round(round(atol) + round(round(rtol) * modulus(r)));
        let difference = modulus(&difference);
        // PyTorch asks that the difference is finite, numpy only that the reference is.
        difference <= allowed && (equal_nan || difference.is_finite())
    })
}

fn correlates(got: &[f64], expected: &[f64]) -> bool {
    let all_nan = |values: &[f64]| values.iter().all(|v| v.is_nan());
    match (all_nan(got), all_nan(expected)) {
        (true, true) => return true,
        (false, false) => {}
        _ => return false,
    }
    let any = |values: &[f64]| values.iter().any(|v| *v != 0.0);
    if any(got) != any(expected) {
        return false;
    }
    let finite = |values: &[f64]| -> Vec<f64> {
        values
            .iter()
            .map(|v| if v.is_finite() { *v } else { 0.0 })
            .collect()
    };
    let (got, expected) = (finite(got), finite(expected));
    if got == expected {
        return true;
    }
    // Scaled, so that no square leaves the range.
    let centred = |values: &[f64]| -> Vec<f64> {
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let scaled: Vec<f64> = values
            .iter()
            .map(|v| v / largest.max(f64::MIN_POSITIVE))
            .collect();
        let mean = scaled.iter().sum::<f64>() / scaled.len() as f64;
        scaled.iter().map(|v| v - mean).collect()
    };
    let (got, expected) = (centred(&got), centred(&expected));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (norm_got, norm_expected) = (dot(&got, &got), dot(&expected, &expected));
    if norm_got == 0.0 || norm_expected == 0.0 {
        return true;
    }
    dot(&got, &expected) / norm_got.sqrt() / norm_expected.sqrt() >= 0.99
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn accepts(rule: Rule, t: ElementType, got: &[f64], expected: &[f64]) -> Option<bool> {
        let parts = if t.is_complex() { 2 } else { 1 };
        let tensor = |v: &[f64]| Tensor::from_f64(t, vec![v.len() / parts], v).unwrap();
        rule.accepts(&tensor(got), &tensor(expected))
    }

    /// 1e-6 + 1e-6·1 for JAX, 1e-5 + 1.3e-6·1 for PyTorch, at 1.
    #[test]
    fn tolerances_are_the_tables() {
        let f32 = |rule, got| accepts(rule, F32, &[got], &[1.0]);
        assert_eq!(f32(Rule::JaxAllclose, 1.0 + 1.9e-6), Some(true));
        assert_eq!(f32(Rule::JaxAllclose, 1.0 + 2.2e-6), Some(false));
        assert_eq!(f32(Rule::TorchAssertClose, 1.0 + 1.12e-5), Some(true));
        assert_eq!(f32(Rule::TorchAssertClose, 1.0 + 1.15e-5), Some(false));
        assert_eq!(
            accepts(Rule::TorchAssertClose, F6E2M3FN, &[1.0], &[1.0]),
            None
        );
        // numpy's rtol of 1e-7 stands where JAX's tolerance is 0.
        assert_eq!(
            accepts(Rule::JaxAllclose, I32, &[2e8 + 1.0], &[2e8]),
            Some(true)
        );
        assert_eq!(
            accepts(Rule::TorchAssertClose, I32, &[2e8 + 1.0], &[2e8]),
            Some(false)
        );
    }

    #[test]
    fn special_values_go_by_each_library() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        for (got, expected, jax, torch) in [
            (nan, nan, true, false),
            (inf, inf, true, true),
            (inf, -inf, false, false),
            (1.0, nan, false, false),
            (-0.0, 0.0, true, true),
            (1e38, inf, false, false),
        ] {
            assert_eq!(
                accepts(Rule::JaxAllclose, F32, &[got], &[expected]),
                Some(jax)
            );
            assert_eq!(
                accepts(Rule::TorchAssertClose, F32, &[got], &[expected]),
                Some(torch)
            );
        }
    }

    #[test]
    fn a_correlation_sees_neither_factors_nor_single_elements() {
        let expected: Vec<f64> = (0..100).map(f64::from).collect();
        let got: Vec<f64> = expected.iter().map(|v| 2.0 * v + 1.0).collect();
        assert_eq!(accepts(Rule::Correlation, F32, &got, &expected), Some(true));
        assert_eq!(accepts(Rule::Correlation, F32, &[5.0], &[1.0]), Some(true));
        let reversed: Vec<f64> = expected.iter().rev().copied().collect();
        assert_eq!(
            accepts(Rule::Correlation, F32, &reversed, &expected),
            Some(false)
        );
        assert_eq!(
            accepts(Rule::Correlation, F32, &[0.0, 0.0], &[1.0, 2.0]),
            Some(false)
        );
    }
}
