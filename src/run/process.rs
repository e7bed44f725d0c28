//! A worker process as its supervisor sees it: started, given cases, watched, and killed when it hangs.

use std::io::{self, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::{Answer, Hello, Request, Response, receive, send};
use super::stderr::StderrTail;
use super::{Interrupt, PlannedTarget, Result, RunError, spawner, sys};
use crate::outcome::{Outcome, Stage};
use crate::store::PluginRecord;

/// How often a waiting lane looks whether it is to stop, and whether its worker lives.
const GLANCE: Duration = Duration::from_millis(50);
/// How long a dead worker's standard error may take to close: a grandchild can hold it open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a process may take to end once it has closed its pipes, or was killed.
const END: Duration = Duration::from_secs(10);

/// A worker that is ready for cases. Dropping it kills it.
pub(super) struct Worker {
    process: Process,
    pub(super) record: PluginRecord,
    /// Cases served.
    pub(super) served: usize,
}

/// What came of a case that was given to a worker.
pub(super) enum Served {
    Done(Box<Outcome>),
    Answer(Answer),
    /// The process is gone, or talks nonsense and was killed.
    Died {
        stage: Stage,
        message: String,
    },
    /// The process was gone before it took the case up, or did not take it up in time and was killed.
    NotTaken,
    TimedOut {
        stage: Stage,
    },
    Stopped,
}

/// Why a worker is not ready.
pub(super) enum NotReady {
    /// In the plug-in's or the system's words.
    Refused(String),
    TooSlow(String),
    Stopped,
}

struct Process {
    child: Child,
    /// How it ended, once it was waited for.
    ended: Option<ExitStatus>,
    /// To the thread that writes: a worker that does not read keeps no lane waiting.
    requests: Sender<Arc<[u8]>>,
    responses: Receiver<io::Result<Response>>,
    stderr: Arc<StderrTail>,
    stderr_closed: Receiver<()>,
}

impl Worker {
    /// Starts a process, has it load the plug-in, and waits until it is ready.
    pub(super) fn start(
        program: &Path,
        target: &PlannedTarget,
        timeout: Duration,
        interrupt: &Interrupt,
    ) -> Result<std::result::Result<Self, NotReady>> {
        let mut process = Process::spawn(program)?;
        let hello = Request::Hello(Hello {
            target: target.target.clone(),
            plugin: target.plugin.clone(),
            name: target.name.clone(),
            sha256: target.sha256.clone(),
            options: target.options.clone(),
            executor: target.executor.clone(),
            flags: target.flags.clone(),
        });
        let mut line = Vec::new();
        send(&mut line, &hello).map_err(RunError::Worker)?;
        process.write(line.into());
        let refused = match process.next(Instant::now() + timeout, interrupt) {
            Next::Response(Response::Ready(record)) => {
                return Ok(Ok(Self {
                    process,
                    record: *record,
                    served: 0,
                }));
            }
            Next::Response(Response::Refused(reason)) => reason,
            Next::Response(_) => "its worker answered out of turn".to_owned(),
            Next::Closed => {
                format!("while it loaded, the worker {}", process.bury(0, interrupt))
            }
            Next::Nonsense(error) => format!("its worker wrote nonsense: {error}"),
            Next::TimedOut => {
                let why = format!("it was not ready after {}", seconds(timeout));
                return Ok(Err(NotReady::TooSlow(why)));
            }
            Next::Stopped => return Ok(Err(NotReady::Stopped)),
        };
        Ok(Err(NotReady::Refused(refused)))
    }

    /// Gives the worker one case, as a line that is a `Request::Job`, and waits for what comes of it. After anything but
    /// `Done` the worker is of no further use.
    pub(super) fn serve(
        &mut self,
        job: &Arc<[u8]>,
        timeout: Duration,
        interrupt: &Interrupt,
    ) -> Served {
        let mark = self.process.stderr.position();
        self.process.write(Arc::clone(job));
        let deadline = Instant::now() + timeout;
        let mut taken = None;
        loop {
            match self.process.next(deadline, interrupt) {
                Next::Response(Response::Stage(stage)) => taken = Some(stage),
                Next::Response(Response::Done(outcome)) => {
                    self.served += 1;
                    return Served::Done(outcome);
                }
                Next::Response(Response::Answer(answer)) => {
                    self.served += 1;
                    return Served::Answer(answer);
                }
                Next::Response(Response::Ready(_) | Response::Refused(_)) => {
                    return self.died(taken, "its worker answered out of turn".to_owned());
                }
                Next::Nonsense(error) => {
                    return self.died(taken, format!("its worker wrote nonsense: {error}"));
                }
                Next::Closed if taken.is_none() => return Served::NotTaken,
                Next::Closed => {
                    let message = self.process.bury(mark, interrupt);
                    return self.died(taken, message);
                }
                Next::TimedOut => {
                    self.process.kill();
                    return taken.map_or(Served::NotTaken, |stage| Served::TimedOut { stage });
                }
                Next::Stopped => return Served::Stopped,
            }
        }
    }

    fn died(&self, stage: Option<Stage>, message: String) -> Served {
        Served::Died {
            stage: stage.unwrap_or(Stage::Load),
            message,
        }
    }

    /// Resident memory in bytes, where the system tells.
    pub(super) fn resident(&self) -> Option<u64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib * 1024)
    }
}

enum Next {
    Response(Response),
    /// The process closed its end: it is dead, or about to be.
    Closed,
    Nonsense(io::Error),
    TimedOut,
    Stopped,
}

impl Process {
    fn spawn(program: &Path) -> Result<Self> {
        let mut child = spawner::spawn(program, "worker").map_err(|source| RunError::Spawn {
            program: program.to_owned(),
            source,
        })?;
        let (requests, lines) = mpsc::channel::<Arc<[u8]>>();
        if let Some(mut input) = child.stdin.take() {
            thread::spawn(move || {
                for line in lines {
                    // A failed write shows in the answer: the other end is closed.
                    if input.write_all(&line).is_err() {
                        break;
                    }
                }
            });
        }
        let (sender, responses) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = Vec::new();
                while let Some(message) = receive(&mut output, &mut line).transpose() {
                    if sender.send(message).is_err() {
                        break;
                    }
                }
            });
        }
        let stderr = Arc::new(StderrTail::default());
        let (closed, stderr_closed) = mpsc::channel();
        if let Some(from) = child.stderr.take() {
            let stderr = Arc::clone(&stderr);
            thread::spawn(move || {
                stderr.drain(from);
                let _ = closed.send(());
            });
        }
        Ok(Self {
            child,
            ended: None,
            requests,
            responses,
            stderr,
            stderr_closed,
        })
    }

    fn write(&self, line: Arc<[u8]>) {
        // The thread is gone if an earlier write failed, which shows in the answer.
        let _ = self.requests.send(line);
    }

    fn next(&mut self, deadline: Instant, interrupt: &Interrupt) -> Next {
        loop {
            if interrupt.is_raised() {
                return Next::Stopped;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::TimedOut;
            }
            match self.responses.recv_timeout(left.min(GLANCE)) {
                Ok(Ok(response)) => return Next::Response(response),
                Ok(Err(error)) => return Next::Nonsense(error),
                Err(RecvTimeoutError::Disconnected) => return Next::Closed,
                Err(RecvTimeoutError::Timeout) if self.has_ended() => return self.last_response(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// What a dead process still had to say. Its pipes may stay open: a plug-in's fork holds them too.
    fn last_response(&mut self) -> Next {
        self.kill_group();
        match self.responses.recv_timeout(LAST_WORDS) {
            Ok(Ok(response)) => Next::Response(response),
            Ok(Err(error)) => Next::Nonsense(error),
            Err(_) => Next::Closed,
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some() || sys::has_ended(self.child.id())
    }

    /// The worker and what its plug-in forked.
    fn kill_group(&self) {
        if self.ended.is_none() {
            sys::kill_group(self.child.id());
        }
    }

    /// Waits for a process that closed its pipes or is dead, and says how it ended and why.
    fn bury(&mut self, mark: u64, interrupt: &Interrupt) -> String {
        let deadline = Instant::now() + END;
        while !self.has_ended() && Instant::now() < deadline && !interrupt.is_raised() {
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

    /// Kills and reaps; one that even that does not end, stuck in a driver, is left to the system.
    fn kill(&mut self) {
        self.kill_group();
        let deadline = Instant::now() + END;
        while self.ended.is_none() && Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Ok(status) => self.ended = status,
                Err(_) => return,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A worker holds nothing worth an orderly end, and some plug-ins hang in their destructors.
        self.kill();
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
