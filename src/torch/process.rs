//! One process of the package, from the side of the worker that started it.
//!
//! It has no time limit here and no one watches its memory: the worker's own supervisor does, and kills both. A process that
//! dies or talks nonsense is [`Lost`], and takes its worker with it, so that its supervisor sees one death and not two kinds.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::protocol::{Request, Response};
use super::{Client, TorchError};
use crate::run::sys;

/// How often it is looked whether a silent process lives.
const GLANCE: Duration = Duration::from_millis(50);
/// How long what a dead process had written may take to arrive: what it forked can hold the pipe open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Bytes of a line.
const LONGEST_LINE: u64 = 16 << 20;

/// Dropping it kills the process.
pub(super) struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Result<Response, String>>,
}

/// The process is gone.
#[derive(Debug)]
pub(crate) enum Lost {
    Died(ExitStatus),
    /// It was killed, for this reason.
    Killed(String),
}

impl Lost {
    /// Ends this process in the same way: what the other wrote to standard error is its own last words, too.
    pub(crate) fn end(self) -> ! {
        match self {
            Self::Died(status) => sys::end_like(status),
            Self::Killed(reason) => {
                eprintln!("fatal error: {reason}");
                std::process::exit(1)
            }
        }
    }
}

impl Process {
    pub fn start(client: &Client) -> Result<Self, TorchError> {
        let cannot = |source| TorchError::Start {
            python: client.python.clone(),
            source,
        };
        let (from, to) = io::pipe().map_err(cannot)?;
        let mut command = client.command();
        command
            .args(["work", "--answers", &to.as_raw_fd().to_string()])
            .stdin(Stdio::piped())
            // Its standard output is of no meaning; a worker's is standard error.
            .stdout(io::stderr())
            .stderr(Stdio::inherit());
        sys::tie_child(&mut command, Some(to.as_raw_fd()));
        let mut child = command.spawn().map_err(cannot)?;
        drop(to);
        let no_input = || cannot(io::Error::other("it has no standard input"));
        let requests = child.stdin.take().ok_or_else(no_input)?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            while let Some(response) = receive(&mut from) {
                let is_last = response.is_err();
                if sender.send(response).is_err() || is_last {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            requests,
            answers,
        })
    }

    pub fn send(&mut self, request: &Request<'_>) {
        let Ok(mut line) = serde_json::to_vec(request) else {
            return;
        };
        line.push(b'\n');
        // A process that no longer reads shows in its answer: there is none.
        let _ = self.requests.write_all(&line);
    }

    pub fn next(&mut self) -> Result<Response, Lost> {
        loop {
            match self.answers.recv_timeout(GLANCE) {
                Ok(response) => return self.understood(response),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Ok(Some(_)) = self.child.try_wait() {
                return match self.answers.recv_timeout(LAST_WORDS) {
                    Ok(response) => self.understood(response),
                    Err(_) => Err(self.lost()),
                };
            }
        }
    }

    fn understood(&mut self, response: Result<Response, String>) -> Result<Response, Lost> {
        response
            .map_err(|reason| self.kill(&format!("the Python process answered nonsense: {reason}")))
    }

    /// Of a process that has closed its pipe.
    fn lost(&mut self) -> Lost {
        let mut waited = Duration::ZERO;
        while waited < LAST_WORDS {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Lost::Died(status);
            }
            thread::sleep(GLANCE);
            waited += GLANCE;
        }
        self.kill("the Python process closed its pipe")
    }

    pub fn kill(&mut self, reason: &str) -> Lost {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        Lost::Killed(reason.to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` at the end of the stream; a last line that its writer's death cut off is none.
fn receive(from: &mut impl BufRead) -> Option<Result<Response, String>> {
    let mut line = Vec::new();
    if let Err(error) = from
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)
    {
        return Some(Err(error.to_string()));
    }
    if !line.ends_with(b"\n") {
        let too_long = line.len() as u64 == LONGEST_LINE;
        return too_long.then(|| Err(format!("a line of more than {LONGEST_LINE} bytes")));
    }
    let read = serde_json::from_slice(&line).map_err(|error| format!("{error}: {}", shown(&line)));
    Some(read)
}

/// The start of a line.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
    format!("{:?}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Stage;

    #[test]
    fn lines_are_read_up_to_a_limit_and_a_cut_one_is_none() {
        let mut from = &b"{\"stage\":\"run\"}\nSegmentation fault\n{\"sta"[..];
        assert_eq!(receive(&mut from), Some(Ok(Response::Stage(Stage::Run))));
        let error = receive(&mut from).unwrap().unwrap_err();
        assert!(error.contains("\"Segmentation fault\""), "{error}");
        assert_eq!(receive(&mut from), None);
        let mut endless = BufReader::new(io::repeat(b'x'));
        let error = receive(&mut endless).unwrap().unwrap_err();
        assert!(error.contains("a line of more than"), "{error}");
    }
}
