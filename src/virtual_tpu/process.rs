//! One compile helper as the plug-in sees it: started, asked, watched, and buried.

use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus};
use std::ptr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{Request, Response, receive, send};
use crate::run::stderr::StderrTail;
use crate::run::{spawner, sys};

/// How long a dead helper's standard error may take to close: a grandchild can hold it open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a process may take to end once it has closed its pipes.
const END: Duration = Duration::from_secs(5);

/// Dropping it kills the process.
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    /// Without a buffer, which would be written, and raise SIGPIPE, when it is dropped.
    input: ChildStdin,
    responses: Receiver<io::Result<(Response, Vec<u8>)>>,
    stderr: Arc<StderrTail>,
    stderr_closed: Receiver<()>,
}

pub enum Next {
    Response(Response, Vec<u8>),
    /// The process is dead, or talks nonsense and is of no more use; why.
    Dead(String),
    TimedOut,
}

impl Process {
    pub fn spawn(program: &Path) -> io::Result<Self> {
        let mut child = spawner::spawn(program, "compile-helper")?;
        let missing = || io::Error::other("a pipe of the compile helper is missing");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let (sender, responses) = mpsc::channel();
        // `thread::spawn` panics where there can be no more threads.
        thread::Builder::new().spawn(move || {
            let mut output = BufReader::with_capacity(1 << 16, output);
            while let Some(message) = receive(&mut output).transpose() {
                if sender.send(message).is_err() {
                    break;
                }
            }
        })?;
        let stderr = Arc::new(StderrTail::default());
        let (closed, stderr_closed) = mpsc::channel();
        let tail = Arc::clone(&stderr);
        thread::Builder::new().spawn(move || {
            tail.drain(errors);
            let _ = closed.send(());
        })?;
        Ok(Self {
            child,
            ended: None,
            input,
            responses,
            stderr,
            stderr_closed,
        })
    }

    /// A mark for what the helper writes to standard error from here on.
    pub fn mark(&self) -> u64 {
        self.stderr.position()
    }

    /// # Errors
    /// The helper no longer reads.
    pub fn send(&mut self, request: &Request, body: &[&[u8]]) -> io::Result<()> {
        without_sigpipe(|| send(&mut self.input, request, body))
    }

    pub fn next(&mut self, deadline: Instant, mark: u64) -> Next {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.responses.recv_timeout(left) {
            Ok(Ok((response, body))) => Next::Response(response, body),
            Ok(Err(error)) => Next::Dead(format!("wrote nonsense: {error}")),
            Err(RecvTimeoutError::Disconnected) => Next::Dead(self.bury(mark)),
            Err(RecvTimeoutError::Timeout) => Next::TimedOut,
        }
    }

    /// Waits for a process that closed its pipes, and says how it ended and why.
    pub fn bury(&mut self, mark: u64) -> String {
        let deadline = Instant::now() + END;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let by_itself = self.has_ended();
        self.kill();
        let ended = match self.ended {
            Some(status) if by_itself => describe(status),
            _ => "closed its pipe and was killed".to_owned(),
        };
        let _ = self.stderr_closed.recv_timeout(LAST_WORDS);
        match self.stderr.cause_since(mark) {
            Some(cause) => format!("{ended}: {cause}"),
            None => ended,
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some() || sys::has_ended(self.child.id())
    }

    fn kill(&mut self) {
        if self.ended.is_none() {
            sys::kill_group(self.child.id());
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `write` with SIGPIPE held back from this thread. Rust's programs ignore that signal, but this is another's process,
/// which it would end where a helper died before it read.
fn without_sigpipe(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: all zeros are valid sigset_ts, and every pointer is valid for its call. What changes is this thread's mask,
    // which is put back below.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        let is_pending = || {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending) == 0
                && libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
        };
        let mut before: libc::sigset_t = std::mem::zeroed();
        let was_pending = is_pending();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        let written = write();
        if written.is_err() && !was_pending && is_pending() {
            // Ours, raised by the write: taken off before the mask goes. It is pending, so that this does not wait.
            let mut signal = 0;
            libc::sigwait(&raw const pipe, &raw mut signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        written
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", crate::run::signal_name(signal)),
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;

    use super::*;

    thread_local! {
        static RAISED: Cell<bool> = const { Cell::new(false) };
    }

    extern "C" fn raised(_: libc::c_int) {
        RAISED.set(true);
    }

    /// As in a C or Python program that left SIGPIPE as it is: it would end here. A handler tells it from being ignored.
    #[test]
    fn a_helper_that_no_longer_reads_raises_no_sigpipe_in_its_client() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        // SAFETY: the handler touches a flag of the thread alone, which is where a write's SIGPIPE comes.
        let before =
            unsafe { libc::signal(libc::SIGPIPE, raised as *const () as libc::sighandler_t) };
        assert!(writer.write_all(b"as it is").is_err());
        let unguarded = RAISED.take();
        let written = without_sigpipe(|| writer.write_all(b"guarded"));
        // SAFETY: puts back what was there.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(unguarded && !RAISED.get());
    }
}
