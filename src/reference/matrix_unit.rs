//! A program as a TPU's matrix unit computes it by default: the operands of its products rounded to bf16.
//!
//! The program stays StableHLO: before each `dot_general`, `dot` and `convolution` of the default precision stands a
//! `reduce_precision` to bf16's eight exponent and seven mantissa bits, for each operand in f32 or f16. Only the short form that
//! StableHLO prints is read; another spelling of a product is an error, not a product that keeps its operands.

const PRODUCTS: [&str; 3] = ["dot_general", "dot", "convolution"];

/// # Errors
/// What the line reads that could not be taken apart.
pub fn in_bf16_passes(program: &str) -> Result<String, String> {
    let mut text = String::with_capacity(program.len() + program.len() / 4);
    let mut made = 0;
    for line in program.lines() {
        match product(line)? {
            None => text.push_str(line),
            Some(product) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                let mut rounded = line.to_owned();
                for (operand, kind) in product {
                    if !(kind.ends_with("xf32>") || kind.ends_with("xf16>")) {
                        continue;
                    }
                    let name = format!("%in_bf16_{made}");
                    made += 1;
                    text.push_str(&format!(
                        "{indent}{name} = stablehlo.reduce_precision {operand}, format = e8m7 : {kind}\n"
                    ));
                    rounded = replace_operand(&rounded, operand, &name);
                }
                text.push_str(&rounded);
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// The operands of a product at the default precision, with their types.
fn product(line: &str) -> Result<Option<[(&str, &str); 2]>, String> {
    let Some((_, call)) = line.split_once(" = ") else {
        return Ok(None);
    };
    let generic = |name: &&str| call.starts_with(&format!("\"stablehlo.{name}\""));
    let unreadable = || format!("cannot round the operands of `{}`", line.trim());
    if PRODUCTS.iter().any(generic) {
        return Err(unreadable());
    }
    let Some(rest) = PRODUCTS.iter().find_map(|name| {
        let rest = call.strip_prefix("stablehlo.")?.strip_prefix(name)?;
        rest.starts_with([' ', '(']).then_some(rest)
    }) else {
        return Ok(None);
    };
    if rest.contains("HIGH") {
        return Ok(None);
    }
    let (operands, signature) = rest.rsplit_once(" : (").ok_or_else(unreadable)?;
    let types = signature.split_once(") -> ").ok_or_else(unreadable)?.0;
    let (lhs_type, rhs_type) = types.split_once(", ").ok_or_else(unreadable)?;
    let mut names = operands
        .trim_start_matches([' ', '('])
        .split([',', ')', ' '])
        .filter(|word| !word.is_empty());
    match (names.next(), names.next()) {
        (Some(lhs), Some(rhs)) if lhs.starts_with('%') && rhs.starts_with('%') => {
            Ok(Some([(lhs, lhs_type), (rhs, rhs_type)]))
        }
        _ => Err(unreadable()),
    }
}

/// Replaces the first use of `operand` on the right of the line's `=` that is a whole name.
fn replace_operand(line: &str, operand: &str, name: &str) -> String {
    let from = line.find(" = ").map_or(0, |at| at + 3);
    let mut at = from;
    while let Some(found) = line[at..].find(operand) {
        let (start, end) = (at + found, at + found + operand.len());
        let whole = line[end..].chars().next().is_none_or(|next| {
            !(next.is_ascii_alphanumeric() || matches!(next, '_' | '#' | '.' | '$'))
        });
        if whole {
            return format!("{}{name}{}", &line[..start], &line[end..]);
        }
        at = end;
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operands_of_products_are_rounded_before_them() {
        let program = "  %2 = stablehlo.dot_general %1, %10, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.convolution(%1, %1) dim_numbers = [b, f]x[o, i]->[b, f], window = {} {feature_group_count = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %4 = stablehlo.add %3, %3 : tensor<2x2xf32>
";
        let expected = "  %in_bf16_0 = stablehlo.reduce_precision %1, format = e8m7 : tensor<2x3xf32>
  %in_bf16_1 = stablehlo.reduce_precision %10, format = e8m7 : tensor<3x4xf32>
  %2 = stablehlo.dot_general %in_bf16_0, %in_bf16_1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %in_bf16_2 = stablehlo.reduce_precision %1, format = e8m7 : tensor<2x3xf32>
  %in_bf16_3 = stablehlo.reduce_precision %1, format = e8m7 : tensor<2x3xf32>
  %3 = stablehlo.convolution(%in_bf16_2, %in_bf16_3) dim_numbers = [b, f]x[o, i]->[b, f], window = {} {feature_group_count = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %4 = stablehlo.add %3, %3 : tensor<2x2xf32>
";
        assert_eq!(in_bf16_passes(program).unwrap(), expected);
    }

    #[test]
    fn products_in_bf16_or_of_more_precision_stay() {
        for line in [
            "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>\n",
            "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n",
        ] {
            assert_eq!(in_bf16_passes(line).unwrap(), line);
        }
    }

    #[test]
    fn a_product_that_cannot_be_read_is_an_error() {
        let line = "%2 = \"stablehlo.dot_general\"(%0, %1) {} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>";
        assert!(in_bf16_passes(line).unwrap_err().contains("dot_general"));
    }
}
