//! Makes text from plug-ins and people harmless where it is put: a terminal, Markdown, XML.
//!
//! A plug-in's message may hold anything: control characters, terminal escapes, markup, another machine's paths.

/// One line without control characters, terminal escapes included: white space becomes a space, the rest is shown as `\x1b`.
pub fn line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' | '\u{85}' => {
                if !clean.ends_with(' ') {
                    clean.push(' ');
                }
            }
            c if c.is_control() => clean.push_str(&format!("\\x{:02x}", u32::from(c))),
            // Marks that reorder or hide what stands beside them, and characters that XML forbids.
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => clean.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => clean.push(c),
        }
    }
    clean
}

/// At most `limit` characters, an ellipsis for the rest.
pub fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// Absolute paths lose their directories: `/opt/x/libtpu.so` becomes `libtpu.so`. A committed report names no machine.
pub fn without_paths(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let starts = before.is_none_or(|b: char| b.is_whitespace() || "\"'`([{<=,;:|".contains(b));
        if c == '/' && starts && !rest.starts_with("//") {
            let end = rest
                .find(|c: char| c.is_whitespace() || c.is_control() || "\"'`)]}>,;:|".contains(c))
                .unwrap_or(rest.len());
            let path = &rest[..end];
            let name = path
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or_default();
            // A lone `/x` is as likely a quotient as a path.
            let kept = if path.matches('/').count() > 1 && !name.is_empty() {
                name
            } else {
                path
            };
            clean.push_str(kept);
            before = path.chars().last();
            rest = &rest[end..];
            continue;
        }
        clean.push(c);
        before = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    clean
}

/// A Markdown code span in running text or a list, not in a table: nothing in it is markup.
pub fn markdown_code(text: &str) -> String {
    let text = line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.is_empty() || text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Markdown text, safe in a table's cell too: every character that could be markup is an escape or an entity.
pub fn markdown_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '|' => clean.push_str("&#124;"),
            '<' => clean.push_str("&lt;"),
            '>' => clean.push_str("&gt;"),
            '&' => clean.push_str("&amp;"),
            // Mentions and bare addresses are recognised after escapes are resolved; a word joiner would be hidden text.
            '@' => clean.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '!' | '~' | '$' => {
                clean.push('\\');
                clean.push(c);
            }
            c => clean.push(c),
        }
    }
    clean.replace("://", "&#58;//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_escapes_are_shown_not_obeyed() {
        assert_eq!(line("a\n\tb\u{1b}[31mred\u{0}"), "a b\\x1b[31mred\\x00");
        assert_eq!(line("abc\u{202e}def\u{ffff}"), "abc\\u{202e}def\\u{ffff}");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(shorten("αβγδ", 4), "αβγδ");
        assert_eq!(shorten("αβγδε", 4), "αβγ…");
    }

    #[test]
    fn absolute_paths_keep_their_name_only() {
        for (text, clean) in [
            (
                "cannot open /opt/someone/plugins/x.so: gone",
                "cannot open x.so: gone",
            ),
            (
                "F /build/xla/service/hlo.cc:123] Check",
                "F hlo.cc:123] Check",
            ),
            ("(\"/a/b/c\")", "(\"c\")"),
            ("third_party/xla/hlo.cc:1", "third_party/xla/hlo.cc:1"),
            ("see https://example.com/a/b", "see https://example.com/a/b"),
            ("a / b, 1/2, x/y/z", "a / b, 1/2, x/y/z"),
            ("/", "/"),
        ] {
            assert_eq!(without_paths(text), clean);
        }
    }

    #[test]
    fn code_spans_hold_backticks() {
        assert_eq!(markdown_code("a"), "`a`");
        assert_eq!(markdown_code("`a`` b"), "``` `a`` b ```");
        assert_eq!(markdown_code(""), "`  `");
    }

    #[test]
    fn text_in_a_table_has_no_markup() {
        assert_eq!(
            markdown_text("a|b <img> `c`\n# *d* [e](http://f) @g"),
            "a&#124;b &lt;img&gt; \\`c\\` \\# \\*d\\* \\[e\\](http&#58;//f) &#64;g"
        );
    }
}
