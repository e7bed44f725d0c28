//! Which tolerances a run was judged by that are not the arithmetic's own, and where each comes from: reports list them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::tensor::ElementType;

/// One tolerance of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToleranceRecord {
    /// Suite and operator: `stablehlo/tanh`.
    pub operator: String,
    /// Of the results that it stands for.
    pub element_types: Vec<ElementType>,
    /// In words: `4 ulp`.
    pub tolerance: String,
    pub source: String,
    pub cases: usize,
}

impl ToleranceRecord {
    /// The tolerances in ulp and norm of these cases, by operator.
    pub fn of(cases: &[Case]) -> Vec<Self> {
        let mut rows: BTreeMap<(String, String, String), (BTreeSet<ElementType>, usize)> =
            BTreeMap::new();
        for case in cases {
            let (Some(source), Ok(results)) = (&case.tolerance_source, case.results()) else {
                continue;
            };
            let operator = format!("{}/{}", case.id.suite(), case.id.subject());
            let mut counted = BTreeSet::new();
            for (tolerance, (element_type, _)) in case.tolerances.iter().zip(results) {
                if !tolerance.needs_source() {
                    continue;
                }
                let key = (operator.clone(), tolerance.to_string(), source.clone());
                let row = rows.entry(key.clone()).or_default();
                row.0.insert(element_type);
                row.1 += usize::from(counted.insert(key));
            }
        }
        rows.into_iter()
            .map(
                |((operator, tolerance, source), (element_types, cases))| Self {
                    operator,
                    element_types: element_types.into_iter().collect(),
                    tolerance,
                    source,
                    cases,
                },
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Origin, ReferenceProgram};
    use crate::compare::Tolerance;

    fn case(id: &str, result: &str, tolerance: Tolerance) -> Case {
        Case {
            id: id.parse().unwrap(),
            origin: Origin {
                file: "f.toml".into(),
                line: 1,
            },
            program: format!("func.func @main() -> {result} {{\n}}"),
            reference_program: ReferenceProgram::Native,
            inputs: Vec::new(),
            seed: 0,
            tolerances: vec![tolerance],
            tolerance_source: Some("a paper".to_owned()),
            scale_program: None,
            layers: Vec::new(),
            distribution: None,
            unloadable: None,
        }
    }

    #[test]
    fn cases_of_an_operator_with_one_tolerance_make_one_row() {
        let rows = ToleranceRecord::of(&[
            case("s/tanh/f32/a", "tensor<2xf32>", Tolerance::Ulp(4.0)),
            case("s/tanh/f64/a", "tensor<2xf64>", Tolerance::Ulp(4.0)),
            case("s/tanh/bf16/a", "tensor<2xbf16>", Tolerance::Ulp(1.0)),
            case("s/abs/f32/a", "tensor<2xf32>", Tolerance::Exact),
        ]);
        let row = |element_types: &[ElementType], tolerance: &str, cases| ToleranceRecord {
            operator: "s/tanh".to_owned(),
            element_types: element_types.to_vec(),
            tolerance: tolerance.to_owned(),
            source: "a paper".to_owned(),
            cases,
        };
        assert_eq!(
            rows,
            [
                row(&[ElementType::BF16], "1 ulp", 1),
                row(&[ElementType::F32, ElementType::F64], "4 ulp", 2),
            ]
        );
    }
}
