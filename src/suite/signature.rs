//! Reads the signature of `@main` from rendered StableHLO, so that inputs and tolerances are checked against it when a suite
//! is loaded and not when a plug-in refuses the program.

use crate::tensor::ElementType;

/// Element type and shape of one parameter or result.
pub type TensorType = (ElementType, Vec<usize>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    pub parameters: Vec<TensorType>,
    pub results: Vec<TensorType>,
}

/// Fails with the reason where `@main` is missing or takes something other than ranked, static tensors.
pub fn signature(program: &str) -> Result<Signature, String> {
    let at = program
        .find("@main")
        .ok_or("the program has no function @main")?;
    let rest = &program[at + "@main".len()..];
    let open = rest.find('(').ok_or("@main has no parameter list")?;
    let close = closing(rest, open)?;
    let parameters = tensors(&rest[open + 1..close])?;
    let after = rest[close + 1..].trim_start();
    let results = match after.strip_prefix("->") {
        None => Vec::new(),
        Some(results) => {
            let results = results.trim_start();
            if results.starts_with('(') {
                tensors(&results[1..closing(results, 0)?])?
            } else {
                let end = results.find('{').unwrap_or(results.len());
                tensors(&results[..end])?
            }
        }
    };
    Ok(Signature {
        parameters,
        results,
    })
}

fn closing(text: &str, open: usize) -> Result<usize, String> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(index);
                }
            }
            _ => {}
        }
    }
    Err("a parenthesis of @main's signature is not closed".to_owned())
}

fn tensors(list: &str) -> Result<Vec<TensorType>, String> {
    let mut found = Vec::new();
    let mut rest = list;
    while let Some(at) = rest.find("tensor<") {
        let inner = &rest[at + "tensor<".len()..];
        let end = closing_angle(inner).ok_or("a tensor type is not closed")?;
        found.push(tensor(&inner[..end])?);
        rest = &inner[end + 1..];
    }
    Ok(found)
}

fn closing_angle(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

fn tensor(text: &str) -> Result<TensorType, String> {
    let bad = || format!("tensor<{text}> is not a static tensor of a known element type");
    let mut shape = Vec::new();
    let mut rest = text;
    while rest.starts_with(|c: char| c.is_ascii_digit() || c == '?') {
        let (dimension, tail) = rest.split_once('x').ok_or_else(bad)?;
        shape.push(dimension.parse().map_err(|_| bad())?);
        rest = tail;
    }
    let name = rest.split(',').next().unwrap_or(rest).trim();
    let element_type = ElementType::all()
        .find(|element_type| element_type.mlir() == name)
        .ok_or_else(bad)?;
    Ok((element_type, shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_gives_parameters_and_results() {
        let text = "func.func @main(%a: tensor<2x3xf32>, %b: tensor<complex<f32>>) -> (tensor<3xi1>, tensor<0x2xui8>) {";
        let signature = signature(text).unwrap();
        assert_eq!(
            signature.parameters,
            [
                (ElementType::F32, vec![2, 3]),
                (ElementType::C64, Vec::new())
            ]
        );
        assert_eq!(
            signature.results,
            [(ElementType::Pred, vec![3]), (ElementType::U8, vec![0, 2])]
        );
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert!(signature("func.func @f()").unwrap_err().contains("@main"));
        let dynamic = signature("func.func @main(%a: tensor<?xf32>) {").unwrap_err();
        assert!(dynamic.contains("static"), "{dynamic}");
    }
}
