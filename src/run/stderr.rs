//! The end of what a worker wrote to standard error, and the line of it that says why the worker died.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

const CAPACITY: usize = 64 * 1024;
const LONGEST_LINE: usize = 400;

#[derive(Debug, Default)]
pub(crate) struct StderrTail {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    /// Bytes ever written.
    total: u64,
}

impl StderrTail {
    /// Reads to the end of the stream.
    pub(crate) fn drain(&self, mut from: impl Read) {
        let mut buffer = [0; 8192];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => self.push(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes.extend(bytes);
        let excess = state.bytes.len().saturating_sub(CAPACITY);
        state.bytes.drain(..excess);
        state.total += bytes.len() as u64;
    }

    /// A mark for [`Self::cause_since`].
    pub(crate) fn position(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total
    }

    /// The line after the mark that tells most about a death, if any was written.
    pub(crate) fn cause_since(&self, mark: u64) -> Option<String> {
        let text = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = (state.total - mark).min(state.bytes.len() as u64) as usize;
            let bytes: Vec<u8> = state
                .bytes
                .iter()
                .skip(state.bytes.len() - wanted)
                .copied()
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        cause(&text)
    }
}

/// Words that only a line about the death itself carries, the strongest first.
const TELLING: [&str; 9] = [
    "Check failed",
    "terminate called",
    "what():",
    "LLVM ERROR",
    "Assertion",
    "panicked at",
    "CHECK failure",
    "fatal error",
    "Fatal",
];

fn cause(text: &str) -> Option<String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_stack_trace(line))
        .collect();
    if let Some(line) = lines.iter().rev().find(|line| is_fatal_log(line)) {
        return Some(clean(without_log_prefix(line)));
    }
    let telling = TELLING
        .iter()
        .find_map(|word| lines.iter().rposition(|line| line.contains(word)));
    let at = telling.or_else(|| lines.len().checked_sub(1))?;
    let mut line = without_log_prefix(lines[at]).to_owned();
    // C++ says what was thrown on the next line, and so does Rust.
    let continued = line.contains("terminate called") || line.contains("panicked at");
    if continued && let Some(next) = lines.get(at + 1) {
        line = format!("{line} {next}");
    }
    Some(clean(&line))
}

fn is_stack_trace(line: &str) -> bool {
    line.starts_with("@ ")
        || line.starts_with("***")
        || line.starts_with("PC: @")
        || line.starts_with("#") && line[1..].starts_with(|c: char| c.is_ascii_digit())
        || line.starts_with("note: run with `RUST_BACKTRACE")
}

/// glog and absl: `F1130 12:00:00.123456 1234 layout.cc:120] …`
fn is_fatal_log(line: &str) -> bool {
    line.starts_with('F') && has_log_prefix(line)
}

fn has_log_prefix(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 6
        && matches!(bytes[0], b'I' | b'W' | b'E' | b'F')
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
        && line.contains("] ")
}

/// Leaves `layout.cc:120] …`: date, time and thread differ from run to run, and a message must not.
fn without_log_prefix(line: &str) -> &str {
    if !has_log_prefix(line) {
        return line;
    }
    let Some(bracket) = line.find("] ") else {
        return line;
    };
    let file = line[..bracket].rfind(' ').map_or(0, |i| i + 1);
    &line[file..]
}

fn clean(line: &str) -> String {
    let mut text: String = line
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST_LINE)
        .collect();
    if line.chars().count() > LONGEST_LINE {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_check_is_found_above_its_stack_trace_and_without_what_varies() {
        let text = "I1130 12:00:00.1 7 cpu.cc:1] hello\n\
                    F1130 12:00:00.123456    4321 layout_util.cc:120] Check failed: has_layout ()\n\
                    *** Check failure stack trace: ***\n    @     0x7f00  foo\n#1 0x12 bar\n";
        assert_eq!(
            cause(text).unwrap(),
            "layout_util.cc:120] Check failed: has_layout ()"
        );
    }

    #[test]
    fn exceptions_and_panics_bring_their_second_line() {
        assert_eq!(
            cause("noise\nterminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n").unwrap(),
            "terminate called after throwing an instance of 'std::bad_alloc' what():  std::bad_alloc"
        );
        assert_eq!(
            cause(
                "thread 'main' panicked at src/x.rs:1:2:\nboom\nnote: run with `RUST_BACKTRACE=1`"
            )
            .unwrap(),
            "thread 'main' panicked at src/x.rs:1:2: boom"
        );
    }

    #[test]
    fn otherwise_the_last_line_counts_and_control_characters_do_not() {
        assert_eq!(cause("one\n\x1b[31mtwo\n\n").unwrap(), "[31mtwo");
        assert_eq!(cause("\n \n"), None);
    }

    #[test]
    fn only_the_end_is_kept_and_marks_survive_that() {
        let tail = StderrTail::default();
        tail.push(b"Check failed: early\n");
        let mark = tail.position();
        assert_eq!(tail.cause_since(mark), None);
        for _ in 0..10_000 {
            tail.push(b"some noise that fills the buffer\n");
        }
        tail.push(b"the end\n");
        assert_eq!(tail.cause_since(mark).unwrap(), "the end");
        assert_eq!(tail.cause_since(0).unwrap(), "the end");
    }
}
