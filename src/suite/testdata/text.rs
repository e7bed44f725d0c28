//! MLIR's textual form, as far as a test has to be taken apart: comments, strings, brackets, statements and SSA names.
//!
//! Nothing here knows an operator. What is not recognised is passed on as it stands.

/// The parts of a file between lines `// -----`, as `-split-input-file` splits it, each with the 1-based line it starts on.
pub(super) fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("// -----") {
            parts.push((start_line, &text[start..offset]));
            start = offset + line.len();
            start_line = index + 2;
        }
        offset += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts.retain(|(_, part)| !without_comments(part).trim().is_empty());
    parts
}

/// The text less its `//` comments; lines stay where they are.
pub(super) fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut end = line.len();
        for (at, _) in Cursor::new(line) {
            if line.as_bytes()[at..].starts_with(b"//") {
                end = at;
                break;
            }
        }
        kept.push_str(line[..end].trim_end());
        if line.ends_with('\n') {
            kept.push('\n');
        }
    }
    kept
}

/// Walks over the bytes outside strings; a string's opening quote is given, its content is not.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self::from(text, 0)
    }

    pub fn from(text: &'a str, at: usize) -> Self {
        Self {
            bytes: text.as_bytes(),
            at,
        }
    }
}

impl Iterator for Cursor<'_> {
    type Item = (usize, u8);

    fn next(&mut self) -> Option<(usize, u8)> {
        let at = self.at;
        let byte = *self.bytes.get(at)?;
        self.at += 1;
        if byte == b'"' {
            while let Some(&inner) = self.bytes.get(self.at) {
                self.at += if inner == b'\\' { 2 } else { 1 };
                if inner == b'"' {
                    break;
                }
            }
        }
        Some((at, byte))
    }
}

/// The position of the bracket that closes the one at `open`, of `(`, `[` and `{`.
pub(super) fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in Cursor::from(text, open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The position of the `>` that closes the `<` at `open`.
pub(super) fn closing_angle(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut before = 0;
    for (at, byte) in Cursor::from(text, open) {
        match byte {
            b'<' => depth += 1,
            b'>' if before != b'-' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        before = byte;
    }
    None
}

/// The lines of a function's body, joined where a bracket is open at the end of one. (A line that begins a region on the next
/// stays apart; such operators are passed on as they are.)
pub(super) fn statements(body: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let (mut start, mut depth) = (0, 0isize);
    for (at, byte) in Cursor::new(body) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b'\n' if depth <= 0 => {
                statements.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    statements.push(body.get(start..).unwrap_or_default());
    statements.retain(|statement| !statement.trim().is_empty());
    statements
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-')
}

/// The name that stands at the start of the text, without its sigil.
pub(super) fn name(text: &str) -> &str {
    let end = text.bytes().position(|b| !is_name(b));
    &text[..end.unwrap_or(text.len())]
}

/// `%name` or `%name#index`, the use of an SSA value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value {
    pub name: String,
    /// 0 where it is not written.
    pub index: usize,
}

/// The uses of values in the text, in order, each with where it is written.
pub(super) fn values(text: &str) -> Vec<(std::ops::Range<usize>, Value)> {
    let mut found = Vec::new();
    for (at, byte) in Cursor::new(text) {
        if byte != b'%' {
            continue;
        }
        let name = name(&text[at + 1..]);
        let mut end = at + 1 + name.len();
        let digits: &str = text[end..].strip_prefix('#').map_or("", |rest| {
            let count = rest.bytes().position(|b| !b.is_ascii_digit());
            &rest[..count.unwrap_or(rest.len())]
        });
        if !digits.is_empty() {
            end += 1 + digits.len();
        }
        found.push((
            at..end,
            Value {
                name: name.to_owned(),
                index: digits.parse().unwrap_or(0),
            },
        ));
    }
    found
}

/// The statement without the results it defines, and their name: `%0:2 = op …` gives `0` and `op …`.
pub(super) fn definition(statement: &str) -> (Option<&str>, &str) {
    let trimmed = statement.trim();
    let Some(rest) = trimmed.strip_prefix('%') else {
        return (None, trimmed);
    };
    let defined = name(rest);
    match rest.split_once('=') {
        Some((left, operation)) if !left.contains([',', '(']) => {
            (Some(defined), operation.trim_start())
        }
        _ => (None, trimmed),
    }
}

/// The operator that the text starts with, with or without quotes.
pub(super) fn operator(operation: &str) -> &str {
    name(operation.strip_prefix('"').unwrap_or(operation))
}

/// What stands after `key =`, outside strings.
pub(super) fn attribute<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    Cursor::new(text).find_map(|(at, _)| {
        let starts = at == 0 || !is_name(text.as_bytes()[at - 1]);
        let rest = starts.then(|| text.get(at..)?.strip_prefix(key))??;
        Some(rest.trim_start().strip_prefix('=')?.trim_start())
    })
}

/// The types `tensor<…>` in the text, as written.
pub(super) fn tensor_types(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find("tensor<")) {
        let start = from + start;
        let Some(end) = closing_angle(text, start + "tensor".len()) else {
            break;
        };
        found.push(&text[start..=end]);
        from = end + 1;
    }
    found
}
