//! Elements as text, for messages and mismatches.

use super::format::FloatFormat;
use super::{ElementType, Tensor};

/// The shortest decimal that reads back as the same value of the format; of 8-bit and smaller floats the value itself,
/// which is short, and whose shortest form would mislead (`450` for the f8e4m3fn value 448).
pub(crate) fn format_float(element_type: ElementType, value: f64) -> String {
    match element_type.float_format() {
        Some(format) if matches!(element_type, ElementType::BF16 | ElementType::F16) => {
            shortest(&format, value).unwrap_or_else(|| plain(format!("{value:?}")))
        }
        Some(_) if !matches!(element_type, ElementType::F64 | ElementType::C128) => {
            plain(format!("{:?}", value as f32))
        }
        _ => plain(format!("{value:?}")),
    }
}

/// Rust's debug form keeps an exponent short and a sign on zero, but also writes `1.0` for 1.
fn plain(text: String) -> String {
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn shortest(format: &FloatFormat, value: f64) -> Option<String> {
    if !value.is_finite() || value == 0.0 {
        return None;
    }
    (0..=5).find_map(|digits| {
        let text = format!("{value:.digits$e}");
        let short: f64 = text.parse().ok()?;
        (format.encode(short) == format.encode(value)).then(|| plain(format!("{short:?}")))
    })
}

impl Tensor {
    /// Element `index` as text: the shortest decimal that reads back the same, `true`/`false`, `-0`, `NaN`, `inf`,
    /// complex as `(re,im)`.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len), as slices do.
    pub fn format_element(&self, index: usize) -> String {
        let element_type = self.element_type();
        let bits = self.bits(index);
        if element_type == ElementType::Pred {
            (bits != 0).to_string()
        } else if element_type.is_complex() {
            let part = |i| format_float(element_type, self.get_f64(i));
            format!("({},{})", part(2 * index), part(2 * index + 1))
        } else if element_type.is_float() {
            format_float(element_type, self.get_f64(index))
        } else if element_type.is_signed_integer() {
            let unused = 128 - element_type.bits();
            ((bits << unused) as i128 >> unused).to_string()
        } else {
            bits.to_string()
        }
    }
}
