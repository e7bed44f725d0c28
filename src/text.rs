//! Where something stands in the text of a file that a person wrote.

/// The 1-based line of a byte offset; of one past the end, the last line.
pub fn line_of(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    1 + text.as_bytes()[..end]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// The line and, in one line, the complaint of an error of the TOML parser.
pub fn toml_error(text: &str, error: &toml::de::Error) -> (usize, String) {
    let offset = error.span().map_or(0, |span| span.start);
    (
        line_of(text, offset),
        error.message().trim().replace('\n', "; "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let text = "a\nb\n\nc";
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (4, 3), (5, 4), (99, 4)] {
            assert_eq!(line_of(text, offset), line, "{offset}");
        }
    }

    #[test]
    fn a_toml_error_is_a_line_and_one_line() {
        let text = "a = 1\nb = = 1\n";
        let error = toml::from_str::<toml::Value>(text).unwrap_err();
        let (line, complaint) = toml_error(text, &error);
        assert_eq!(line, 2, "{complaint}");
        assert!(!complaint.is_empty() && !complaint.contains('\n'));
    }
}
