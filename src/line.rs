//! Text of many lines as one: every message of this program is one line.

/// The lines that hold anything, joined by `; `, each with single spaces between its words.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_spaces_are_single() {
        assert_eq!(one_line("one line"), "one line");
        assert_eq!(
            one_line("bad  program\n\n\tat line 3\r\n"),
            "bad program; at line 3"
        );
        assert_eq!(one_line(" \n"), "");
    }
}
