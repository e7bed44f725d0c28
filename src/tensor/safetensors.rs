//! Tensors in safetensors files.
