//! Case ids from the names of files: `add_float32_20_20.mlir` gives `stablehlo-testdata/add/float32_20_20`.
//!
//! An id depends on the file's own name alone, so that a file more moves no other case.

use std::path::Path;

use super::SUITE;
use crate::case::CaseId;

/// The operators of JAX's `lax` whose names are more than a word, and those whose tests' names go on with a word: what comes after
/// one of them in a file's name tells the test.
const OPERATORS: &[&str] = &[
    "add_any",
    "add_transpose",
    "argmax",
    "argmin",
    "bessel_i0e",
    "bessel_i1e",
    "bitcast_convert_type",
    "broadcast_in_dim",
    "broadcast_to",
    "clamp",
    "complex",
    "concatenate",
    "conj",
    "conv_general_dilated",
    "convert_element_type",
    "device_put",
    "div",
    "dot_general",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_slice",
    "einsum",
    "eq",
    "erf_inv",
    "eye",
    "fft",
    "gather",
    "getitem_op",
    "image_resize",
    "index_in_dim",
    "integer_pow",
    "iota",
    "is_finite",
    "jnp_pad",
    "pad",
    "population_count",
    "pow",
    "random_categorical",
    "random_gamma",
    "random_randint",
    "random_split",
    "random_uniform",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_precision",
    "reduce_prod",
    "reduce_sum",
    "reduce_window",
    "reduce_window_add",
    "reduce_window_max",
    "reduce_window_min",
    "reduce_window_mul",
    "regularized_incomplete_beta",
    "rem",
    "repeat",
    "rev",
    "rng_bit_generator",
    "round",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "select_and_gather_add",
    "select_and_scatter_add",
    "select_n",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "slice",
    "slice_in_dim",
    "sort",
    "squeeze",
    "stop_gradient",
    "top_k",
    "transpose",
    "tri",
    "triangular_solve",
    "tridiagonal_solve",
    "zeros_like",
];

/// Words that begin the description of a test after its operator's name.
const DESCRIPTIVE: &[&str] = &[
    "bfloat16",
    "bool",
    "broadcasting",
    "chlo",
    "dynamic",
    "lhs",
    "qi8",
    "shape",
];

/// The id of a file's test; `function` tells the tests of one file apart.
pub(super) fn case_id(file: &Path, function: Option<&str>) -> CaseId {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let operator = operator(&stem);
    let rest = stem
        .strip_prefix(operator)
        .map(|rest| rest.trim_matches('_'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(&stem);
    let folders = file.parent().into_iter().flat_map(Path::components);
    let written: Vec<String> = [operator.to_owned()]
        .into_iter()
        .chain(folders.map(|part| part.as_os_str().to_string_lossy().into_owned()))
        .chain([rest.to_owned()])
        .chain(function.map(str::to_owned))
        .collect();
    let mapped: Vec<String> = written.iter().map(|part| in_alphabet(part)).collect();
    let id = join(&mapped);
    if mapped == written {
        id
    } else {
        let place = format!("{}:{}", file.display(), function.unwrap_or_default());
        with_hash(&id, &place)
    }
}

/// Every part is made of the alphabet by now, and none is empty.
fn join(parts: &[String]) -> CaseId {
    let text = format!("{SUITE}/{}", parts.join("/"));
    CaseId::try_from(text).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The id with the first eight hex digits of the place's BLAKE3 at its end.
pub(super) fn with_hash(id: &CaseId, place: &str) -> CaseId {
    let hash = blake3::hash(place.as_bytes()).to_hex();
    let text = format!("{id}-{}", &hash[..8]);
    CaseId::try_from(text).unwrap_or_else(|error| unreachable!("{error}"))
}

fn in_alphabet(part: &str) -> String {
    let mapped: String = part
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '.' | '_' | '-') => c,
            _ => '_',
        })
        .collect();
    if mapped.is_empty() {
        "_".to_owned()
    } else {
        mapped
    }
}

/// The longest known operator that the name starts with; or the words before the first that describes the test.
fn operator(stem: &str) -> &str {
    let stem = stem.strip_prefix("vmap_").unwrap_or(stem);
    let known = OPERATORS
        .iter()
        .filter(|name| {
            stem.strip_prefix(**name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
        .max_by_key(|name| name.len());
    if let Some(name) = known {
        return &stem[..name.len()];
    }
    let mut end = 0;
    for word in stem.split('_') {
        let describes = word.is_empty()
            || DESCRIPTIVE.contains(&word)
            || word.starts_with(|c: char| c.is_ascii_digit())
            || is_type(word);
        if end > 0 && describes {
            break;
        }
        end += word.len() + usize::from(end > 0);
    }
    &stem[..end.min(stem.len())]
}

/// `float32`, `uint8`, `complex64`.
fn is_type(word: &str) -> bool {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    name.len() < word.len() && matches!(name, "float" | "int" | "uint" | "complex" | "bfloat")
}
