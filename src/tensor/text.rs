//! Tensors inside JSON, for messages between processes: element type, shape, and the data in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{ElementType, Tensor};

#[derive(Serialize, Deserialize)]
pub(super) struct TensorText {
    element_type: ElementType,
    shape: Vec<usize>,
    data: String,
}

/// Bytes as base64, for fields of other types.
pub(super) mod in_base64 {
    use super::{Engine, STANDARD};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD
            .decode(String::deserialize(deserializer)?)
            .map_err(|e| D::Error::custom(format!("not base64: {e}")))
    }
}

impl From<Tensor> for TensorText {
    fn from(tensor: Tensor) -> Self {
        Self {
            element_type: tensor.element_type,
            data: STANDARD.encode(&tensor.data),
            shape: tensor.shape,
        }
    }
}

impl TryFrom<TensorText> for Tensor {
    type Error = String;

    fn try_from(text: TensorText) -> Result<Self, String> {
        let data = STANDARD
            .decode(&text.data)
            .map_err(|e| format!("tensor data is not base64: {e}"))?;
        Tensor::new(text.element_type, text.shape, data).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_survives_json_and_damage_is_told() {
        let tensor = Tensor::from_f64(
            ElementType::C64,
            vec![1, 2],
            &[1.0, f64::NAN, -0.0, f64::INFINITY],
        )
        .unwrap();
        let json = serde_json::to_string(&tensor).unwrap();
        assert_eq!(serde_json::from_str::<Tensor>(&json).unwrap(), tensor);
        let short = r#"{"element_type":"f32","shape":[2],"data":"AAAA"}"#;
        let error = serde_json::from_str::<Tensor>(short)
            .unwrap_err()
            .to_string();
        assert!(error.contains("takes 8 bytes, not 3"), "{error}");
    }
}
