//! Where a program uses an operator, and with which types: read from the text, as far as the types go.

use std::collections::BTreeSet;

use super::{Kind, Place};
use crate::tensor::ElementType;

/// The signatures that an operator has in a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses(Vec<Use>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Use {
    operands: Vec<Kind>,
    results: Vec<Kind>,
}

impl Uses {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What stands in a place, over all uses.
    pub fn at(&self, place: Place) -> BTreeSet<Kind> {
        let kinds = |used: &Use| -> Vec<Kind> {
            match place {
                Place::Operand(index) => used.operands.get(index).copied().into_iter().collect(),
                Place::Result(index) => used.results.get(index).copied().into_iter().collect(),
                Place::AnyOperand => used.operands.clone(),
                Place::AnyResult => used.results.clone(),
            }
        };
        self.0.iter().flat_map(kinds).collect()
    }
}

/// Reads the uses of `operator` (`stablehlo.add`) in a program, in either of MLIR's forms.
pub fn uses(program: &str, operator: &str) -> Uses {
    let mut found = Vec::new();
    for (start, _) in program.match_indices(operator) {
        let before = program[..start].chars().next_back();
        let rest = &program[start + operator.len()..];
        if before.is_some_and(is_name) || rest.starts_with(is_name) {
            continue;
        }
        let statement = without_regions(statement(rest));
        if let Some(types) = signature(&statement) {
            let (operands, results) = match types.split_once("->") {
                Some((operands, results)) => (kinds(operands), kinds(results)),
                None => (kinds(types), kinds(types)),
            };
            found.push(Use { operands, results });
        }
    }
    Uses(found)
}

/// A character of a name; `#` and `!` make it one of an attribute or a type.
fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '#' | '!')
}

/// Up to the end of the line on which all brackets are closed.
fn statement(rest: &str) -> &str {
    // The quote that closes the operator's own name.
    let rest = rest.strip_prefix('"').unwrap_or(rest);
    let mut depth = 0usize;
    let mut quoted = false;
    for (index, c) in rest.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return &rest[..index],
            ')' | ']' | '}' => depth -= 1,
            // The signature may stand on a line of its own.
            '\n' if depth == 0 && !rest[index..].trim_start().starts_with(':') => {
                return &rest[..index];
            }
            _ => {}
        }
    }
    rest
}

/// Without what stands in braces: regions and attributes, whose types are not the operator's.
fn without_regions(statement: &str) -> String {
    let mut depth = 0usize;
    statement
        .chars()
        .filter(|c| {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

/// What follows the first colon outside brackets.
fn signature(statement: &str) -> Option<&str> {
    let mut depth = 0i32;
    for (index, c) in statement.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ':' if depth == 0 => return Some(&statement[index + 1..]),
            _ => {}
        }
    }
    None
}

/// The element types of the tensors in a list of types, in order.
fn kinds(types: &str) -> Vec<Kind> {
    let mut found = Vec::new();
    let mut rest = types;
    while let Some(at) = rest.find("tensor<") {
        rest = &rest[at + "tensor<".len()..];
        let element =
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '?' | 'x'));
        if element.starts_with("!quant.uniform") {
            found.push(Kind::Quantized);
            continue;
        }
        let end = end_of_element(element);
        let name = element[..end].trim();
        let known = ElementType::all().find(|element_type| element_type.mlir() == name);
        found.extend(known.map(Kind::Element));
    }
    found
}

/// Where a tensor type's element type ends: at the bracket that closes the tensor, or at the comma before its encoding.
fn end_of_element(element: &str) -> usize {
    let mut depth = 1usize;
    for (index, c) in element.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 1 => return index,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    element.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(program: &str, operator: &str, place: Place) -> Vec<String> {
        let kinds = uses(program, operator).at(place);
        kinds.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_type_stands_for_operands_and_result() {
        let program =
            "%0 = stablehlo.add %x, %y : tensor<4x?xcomplex<f32>>\n  return %0 : tensor<f64>";
        assert_eq!(at(program, "stablehlo.add", Place::Operand(0)), ["c64"]);
        assert_eq!(at(program, "stablehlo.add", Place::Result(0)), ["c64"]);
    }

    #[test]
    fn a_generic_operator_has_its_own_types_and_not_its_regions() {
        let program = r#"%0 = "stablehlo.reduce"(%x, %i) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) {dimensions = array<i64: 0>, note = dense<0> : tensor<2xi64>} : (tensor<4xi8>, tensor<ui2>) -> tensor<i1>"#;
        assert_eq!(at(program, "stablehlo.reduce", Place::Operand(0)), ["i8"]);
        assert_eq!(
            at(program, "stablehlo.reduce", Place::AnyOperand),
            ["i8", "u2"]
        );
        assert_eq!(at(program, "stablehlo.reduce", Place::Result(0)), ["pred"]);
        assert_eq!(
            at(program, "stablehlo.add", Place::Operand(1)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_loop_has_the_types_before_its_regions() {
        let program =
            "%0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4xbf16>\n  cond {\n";
        assert_eq!(
            at(program, "stablehlo.while", Place::AnyOperand),
            ["i32", "bf16"]
        );
    }

    #[test]
    fn a_signature_may_stand_on_the_next_line() {
        let program = "%0 = \"stablehlo.sort\"(%x) {a = 1 : i64}\n    : (tensor<4xf16>) -> tensor<4xf16>\n  return";
        assert_eq!(at(program, "stablehlo.sort", Place::Operand(0)), ["f16"]);
    }

    #[test]
    fn quantized_values_and_tuples_count() {
        let program = "%q = stablehlo.uniform_quantize %x : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5:0, 2.0:1}>>\n%t = stablehlo.tuple %x, %y : tuple<tensor<3xf32>, tensor<i1>>";
        assert_eq!(
            at(program, "stablehlo.uniform_quantize", Place::Result(0)),
            ["quantized"]
        );
        assert_eq!(
            at(program, "stablehlo.tuple", Place::AnyResult),
            ["pred", "f32"]
        );
    }

    #[test]
    fn longer_names_and_attributes_are_not_uses() {
        for program in [
            "%0 = stablehlo.reduce_window %x : tensor<f32>",
            "{numbers = #stablehlo.reduce<offset_dims = []>} : tensor<f32>",
            "%0 = other.stablehlo.reduce %x : tensor<f32>",
        ] {
            assert!(uses(program, "stablehlo.reduce").is_empty(), "{program}");
        }
    }
}
