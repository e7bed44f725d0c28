//! Tensors in safetensors files.
//!
//! Types that safetensors has are stored as such, so that any reader of the format opens them. The others (sub-byte types,
//! some f8, c128) are stored as `U8`, c128 with a last dimension of 16; the header's `tpu-parity` entry, a JSON list of
//! name and element type in the order written, says what they are. The same tensors give the same bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};

use super::{ElementType, Result, Tensor, TensorError};

const METADATA_KEY: &str = "tpu-parity";

fn dtype(element_type: ElementType) -> Option<Dtype> {
    use ElementType::*;
    Some(match element_type {
        Pred => Dtype::BOOL,
        I8 => Dtype::I8,
        I16 => Dtype::I16,
        I32 => Dtype::I32,
        I64 => Dtype::I64,
        U8 => Dtype::U8,
        U16 => Dtype::U16,
        U32 => Dtype::U32,
        U64 => Dtype::U64,
        // safetensors follows PyTorch, whose float8_e4m3fn it calls F8_E4M3.
        F8E4M3FN => Dtype::F8_E4M3,
        F8E4M3FNUZ => Dtype::F8_E4M3FNUZ,
        F8E5M2 => Dtype::F8_E5M2,
        F8E5M2FNUZ => Dtype::F8_E5M2FNUZ,
        F8E8M0FNU => Dtype::F8_E8M0,
        BF16 => Dtype::BF16,
        F16 => Dtype::F16,
        F32 => Dtype::F32,
        F64 => Dtype::F64,
        C64 => Dtype::C64,
        // F4 and F6 exist, but packed.
        I2 | I4 | U2 | U4 | F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3B11FNUZ
        | C128 => return None,
    })
}

/// The dtype and shape that a tensor has in a file.
fn stored_as(element_type: ElementType, shape: &[usize]) -> (Dtype, Vec<usize>) {
    let mut shape = shape.to_vec();
    let dtype = dtype(element_type).unwrap_or_else(|| {
        if element_type.bytes() > 1 {
            shape.push(element_type.bytes());
        }
        Dtype::U8
    });
    (dtype, shape)
}

fn file_error(path: &Path, reason: impl ToString) -> TensorError {
    TensorError::File {
        path: path.to_path_buf(),
        reason: reason.to_string().replace('\n', " "),
    }
}

/// Writes named tensors to a file, replacing it.
///
/// # Errors
/// When two have the same name, or the file cannot be written.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    let bytes = to_bytes(tensors).map_err(|reason| file_error(path, reason))?;
    std::fs::write(path, bytes)
        .map_err(|error| file_error(path, format!("cannot be written: {error}")))
}

fn to_bytes(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, String> {
    let mut names = BTreeSet::new();
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(name)) {
        return Err(format!("two tensors are named '{name}'"));
    }
    let types: Vec<(&str, ElementType)> = tensors
        .iter()
        .map(|(name, t)| (name.as_str(), t.element_type()))
        .collect();
    let types = serde_json::to_string(&types).map_err(|e| e.to_string())?;
    let views = tensors
        .iter()
        .map(|(name, tensor)| {
            let (dtype, shape) = stored_as(tensor.element_type(), tensor.shape());
            TensorView::new(dtype, shape, tensor.data()).map(|view| (name.as_str(), view))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    // One entry: the order of several would be random.
    serialize(
        views,
        Some(HashMap::from([(METADATA_KEY.to_owned(), types)])),
    )
    .map_err(|e| e.to_string())
}

/// Reads a file's tensors, in the order they were written; of a file that something else wrote, in the order of their names.
///
/// # Errors
/// When the file cannot be read, is truncated or not safetensors, or holds a packed sub-byte type.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let bytes = std::fs::read(path)
        .map_err(|error| file_error(path, format!("cannot be read: {error}")))?;
    from_bytes(&bytes).map_err(|reason| file_error(path, reason))
}

fn from_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let damaged = |e: &dyn std::fmt::Display| format!("not a whole safetensors file: {e}");
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(&e))?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(&e))?;
    let mut views: BTreeMap<&str, TensorView> = file.iter().collect();
    let listed = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get(METADATA_KEY));
    let mut tensors = Vec::with_capacity(views.len());
    if let Some(types) = listed {
        let types: Vec<(String, ElementType)> = serde_json::from_str(types)
            .map_err(|e| format!("the header's '{METADATA_KEY}' entry is malformed: {e}"))?;
        for (name, element_type) in types {
            let view = views.remove(name.as_str()).ok_or_else(|| {
                format!("the header lists tensor '{name}', which is not there or listed twice")
            })?;
            let tensor =
                tensor(&view, element_type).map_err(|e| format!("tensor '{name}': {e}"))?;
            tensors.push((name, tensor));
        }
    }
    for (name, view) in views {
        let element_type = ElementType::all()
            .find(|t| dtype(*t) == Some(view.dtype()))
            .ok_or_else(|| {
                format!(
                    "tensor '{name}' has the type {}, which is not supported",
                    view.dtype()
                )
            })?;
        let tensor = tensor(&view, element_type).map_err(|e| format!("tensor '{name}': {e}"))?;
        tensors.push((name.to_owned(), tensor));
    }
    Ok(tensors)
}

fn tensor(view: &TensorView, element_type: ElementType) -> Result<Tensor, String> {
    let mut shape = view.shape().to_vec();
    if dtype(element_type).is_none() && element_type.bytes() > 1 {
        shape.pop();
    }
    if stored_as(element_type, &shape) != (view.dtype(), view.shape().to_vec()) {
        return Err(format!(
            "it is stored as {} {:?}, which {element_type} is not",
            view.dtype(),
            view.shape()
        ));
    }
    Tensor::new(element_type, shape, view.data().to_vec()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{Domain, InputSpec};
    use super::*;

    fn every_type() -> Vec<(String, Tensor)> {
        ElementType::all()
            .flat_map(|element_type| {
                [vec![], vec![2, 3], vec![0, 4]].map(|shape| (element_type, shape))
            })
            .map(|(element_type, shape)| {
                let name = format!("{element_type} {shape:?}");
                let spec = InputSpec {
                    element_type,
                    shape,
                    domain: Domain::Special,
                };
                (name, spec.generate(1, 0).unwrap())
            })
            .collect()
    }

    #[test]
    fn every_type_comes_back_as_it_was_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.safetensors");
        let tensors = every_type();
        write(&path, &tensors).unwrap();
        assert_eq!(read(&path).unwrap(), tensors);
        assert_eq!(to_bytes(&tensors), to_bytes(&every_type()));
    }

    #[test]
    fn a_file_of_another_writer_is_read_by_its_own_types() {
        let data = [0u8, 1, 2, 3];
        let views = [
            (
                "b",
                TensorView::new(Dtype::F8_E4M3, vec![4], &data).unwrap(),
            ),
            ("a", TensorView::new(Dtype::F16, vec![2], &data).unwrap()),
        ];
        let tensors = from_bytes(&serialize(views, None).unwrap()).unwrap();
        let types: Vec<_> = tensors
            .iter()
            .map(|(n, t)| (n.as_str(), t.element_type()))
            .collect();
        assert_eq!(
            types,
            [("a", ElementType::F16), ("b", ElementType::F8E4M3FN)]
        );
        let packed = [("p", TensorView::new(Dtype::F4, vec![8], &data).unwrap())];
        let error = from_bytes(&serialize(packed, None).unwrap()).unwrap_err();
        assert!(error.contains("'p' has the type F4"), "{error}");
    }

    #[test]
    fn every_truncation_is_one_line_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.safetensors");
        let bytes = to_bytes(&every_type()[..12]).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let message = read(&path).unwrap_err().to_string();
            assert!(
                message.contains("cut.safetensors: not a whole"),
                "{message}"
            );
            assert_eq!(message.lines().count(), 1);
        }
        std::fs::write(&path, "not tensors at all, just text").unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .contains("cut.safetensors: not a whole")
        );
        let missing = folder.path().join("none.safetensors");
        assert!(
            read(&missing)
                .unwrap_err()
                .to_string()
                .contains("none.safetensors: cannot be read")
        );
        assert!(
            write(folder.path(), &[])
                .unwrap_err()
                .to_string()
                .contains("cannot be written")
        );
    }

    #[test]
    fn names_must_differ() {
        let t = Tensor::zeros(ElementType::F32, vec![1]).unwrap();
        let twice = [("x".to_owned(), t.clone()), ("x".to_owned(), t)];
        assert_eq!(to_bytes(&twice).unwrap_err(), "two tensors are named 'x'");
    }

    #[test]
    fn a_listed_type_must_match_what_is_stored() {
        let data = [0u8; 4];
        let view = || [("x", TensorView::new(Dtype::F32, vec![1], &data).unwrap())];
        for (list, reason) in [
            (r#"[["x","i4"]]"#, "stored as F32"),
            (r#"[["x","c128"]]"#, "stored as F32"),
            (r#"[["y","f32"]]"#, "not there"),
            (r#"[["x","f33"]]"#, "unknown element type 'f33'"),
        ] {
            let metadata = HashMap::from([(METADATA_KEY.to_owned(), list.to_owned())]);
            let error = from_bytes(&serialize(view(), Some(metadata)).unwrap()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
