//! Where something stands in the text of a file that a person wrote.

/// The lines of a text, by byte offset.
#[derive(Debug, Clone)]
pub struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Self { starts }
    }

    /// The 1-based line of an offset; of one past the end, the last line.
    pub fn of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }
}

/// The line and, in one line, the complaint of an error of the TOML parser.
pub fn toml_error(text: &str, error: &toml::de::Error) -> (usize, String) {
    let offset = error.span().map_or(0, |span| span.start);
    (
        Lines::new(text).of(offset),
        error.message().trim().replace('\n', "; "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let lines = Lines::new("a\nb\n\nc");
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (4, 3), (5, 4), (99, 4)] {
            assert_eq!(lines.of(offset), line, "{offset}");
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
