//! A module's functions: where each stands in the text, what it is called, and which of them are tests.

use std::ops::Range;

use super::{check, text};

/// A module's text, without comments, and its functions with a body.
pub(super) struct Module<'a> {
    pub text: &'a str,
    pub functions: Vec<Function<'a>>,
}

pub(super) struct Function<'a> {
    pub name: String,
    /// From `func.func` to the end of the body.
    pub range: Range<usize>,
    /// Between the parentheses.
    pub parameters: &'a str,
    /// Between the parameters and the body.
    pub results: &'a str,
    /// Between the braces.
    pub body: &'a str,
}

impl<'a> Module<'a> {
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut functions = Vec::new();
        let mut from = 0;
        while let Some(start) = find_function(text, from) {
            match Function::parse(text, start)? {
                Some(function) => {
                    from = function.range.end;
                    functions.push(function);
                }
                None => from = start + KEYWORD.len(),
            }
        }
        Ok(Self { text, functions })
    }

    /// The functions that check something; or, where none does, `main`.
    pub fn tests(&self) -> Vec<&Function<'a>> {
        let checking: Vec<_> = self.functions.iter().filter(|f| f.checks()).collect();
        if !checking.is_empty() {
            return checking;
        }
        self.function("main").into_iter().collect()
    }

    pub fn function(&self, name: &str) -> Option<&Function<'a>> {
        self.functions.iter().find(|f| f.name == name)
    }
}

const KEYWORD: &str = "func.func";

fn find_function(text: &str, from: usize) -> Option<usize> {
    text::Cursor::from(text, from)
        .map(|(at, _)| at)
        .find(|&at| text.as_bytes()[at..].starts_with(KEYWORD.as_bytes()))
}

impl<'a> Function<'a> {
    /// `None` for a declaration without a body.
    fn parse(text: &'a str, start: usize) -> Result<Option<Self>, String> {
        let at = text[start..]
            .find('@')
            .map(|at| start + at + 1)
            .ok_or("a function has no name")?;
        let (name, after) = match text[at..].strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"').ok_or("a function's name is not closed")?;
                (&quoted[..end], at + end + 2)
            }
            None => {
                let name = text::name(&text[at..]);
                (name, at + name.len())
            }
        };
        let unclosed = || format!("the brackets of function @{name} do not close");
        if !text[after..].starts_with('(') {
            return Err(format!("function @{name} has no parameter list"));
        }
        let close = text::closing(text, after).ok_or_else(unclosed)?;
        let Some(open) = body(text, close + 1) else {
            return Ok(None);
        };
        let end = text::closing(text, open).ok_or_else(unclosed)?;
        Ok(Some(Self {
            name: name.to_owned(),
            range: start..end + 1,
            parameters: &text[after + 1..close],
            results: &text[close + 1..open],
            body: &text[open + 1..end],
        }))
    }

    pub fn statements(&self) -> Vec<&'a str> {
        text::statements(self.body)
    }

    fn checks(&self) -> bool {
        self.statements().into_iter().any(check::is_check)
    }
}

/// The brace that opens the body; there may be result types and `attributes {…}` before it.
fn body(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    let mut attributes = false;
    loop {
        let rest = text.get(at..)?;
        let skipped = rest.len() - rest.trim_start().len();
        at += skipped;
        let rest = &text[at..];
        match rest.as_bytes().first()? {
            b'{' if attributes => {
                at = text::closing(text, at)? + 1;
                attributes = false;
            }
            b'{' => return Some(at),
            b'(' => at = text::closing(text, at)? + 1,
            b'}' => return None,
            _ if rest.starts_with(KEYWORD) => return None,
            _ if rest.starts_with("attributes") => {
                attributes = true;
                at += "attributes".len();
            }
            _ if rest.starts_with("tensor<") => {
                at = text::closing_angle(text, at + "tensor".len())? + 1;
            }
            _ => at += rest.chars().next()?.len_utf8(),
        }
    }
}
