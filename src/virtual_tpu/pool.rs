//! The compile helpers of a process: as many as there are cores, started when they are needed, each compiling one program
//! at a time. One that dies takes its program with it and is replaced.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::artifact::Facts;
use super::process::{Next, Process};
use super::serve::code;
use super::slice::Slice;
use super::topology::TopologyFacts;
use super::wire::{CompilerFacts, Failure, Job, Request, Response, Stage};

/// Loading both compilers takes a fifth of a second on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// What a helper needs to start.
#[derive(Debug, Clone)]
pub struct Parts {
    pub program: PathBuf,
    pub libtpu: PathBuf,
    pub cpu: PathBuf,
    pub cpu_sha256: String,
}

pub struct Pool {
    parts: Parts,
    /// The process whose helpers these are.
    process: u32,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
    facts: OnceLock<CompilerFacts>,
}

#[derive(Default)]
struct State {
    idle: Vec<Process>,
    /// Busy and idle, and those that are starting.
    alive: usize,
    /// Whether the first one is, which is no one's yet: 0 or 1.
    starting: usize,
    waiting: usize,
}

/// What came of a compilation.
pub struct Answer {
    /// What the TPU's compiler said, if it came that far.
    pub facts: Option<Box<Facts>>,
    pub artifact: Result<Vec<u8>, CompileError>,
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error("{} died of this program: it {how}", stage.compiler())]
    Died { stage: Stage, how: String },
    #[error(
        "{} did not finish within {} s (TPU_PARITY_COMPILE_TIMEOUT sets the limit)",
        stage.compiler(),
        limit.as_secs_f64()
    )]
    TimedOut { stage: Stage, limit: Duration },
}

impl CompileError {
    /// `PJRT_Error_Code`.
    pub fn code(&self) -> u32 {
        match self {
            Self::Failed(failure) => failure.code,
            Self::Died { .. } => code::INTERNAL,
            Self::TimedOut { .. } => code::DEADLINE_EXCEEDED,
        }
    }
}

impl Pool {
    /// Starts the first helper on a thread of its own, so that its compilers load while the client goes on.
    pub fn start(parts: Parts) -> Arc<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let pool = Arc::new(Self {
            parts,
            process: std::process::id(),
            most: cores,
            state: Mutex::new(State {
                alive: 1,
                starting: 1,
                ..State::default()
            }),
            changed: Condvar::new(),
            facts: OnceLock::new(),
        });
        let first = Arc::clone(&pool);
        // `thread::spawn` panics where there can be no more threads.
        let spawned = thread::Builder::new().spawn(move || {
            let launched = first.launch();
            let mut state = first.lock();
            state.starting = 0;
            // Without one, those who wait for it start their own, and tell their clients what is wrong.
            state.idle.extend(launched.ok());
            first.changed.notify_all();
        });
        if spawned.is_err() {
            *pool.lock() = State::default();
        }
        pool
    }

    pub fn compiler_facts(&self) -> Result<&CompilerFacts, Failure> {
        if self.facts.get().is_none() {
            let process = self.take()?;
            self.put_back(process);
        }
        self.facts.get().ok_or_else(|| {
            Failure::new(
                code::INTERNAL,
                "the compile helper did not introduce itself",
            )
        })
    }

    /// The devices of a slice, in libtpu's words.
    pub fn describe(&self, slice: &Slice) -> Result<TopologyFacts, Failure> {
        let deadline = Instant::now() + START_TIMEOUT;
        let (mut process, mark) = self.ask(
            &Request::Describe {
                slice: slice.clone(),
            },
            &[],
        )?;
        match process.next(deadline, mark) {
            Next::Response(Response::Described(facts), _) => {
                self.put_back(process);
                Ok(facts)
            }
            Next::Response(Response::Failed(failure), _) => {
                self.put_back(process);
                Err(failure)
            }
            other => {
                self.lost();
                Err(unexpected("describing a slice", other))
            }
        }
    }

    pub fn compile(&self, job: Job, options: &[u8], program: &[u8], limit: Duration) -> Answer {
        let request = Request::Compile(job);
        let mut again = true;
        loop {
            let asked = self.ask(&request, &[options, program]);
            let (process, mark) = match asked {
                Ok(asked) => asked,
                Err(failure) => {
                    return Answer {
                        facts: None,
                        artifact: Err(failure.into()),
                    };
                }
            };
            match self.follow(process, mark, limit) {
                Some(answer) => return answer,
                // It was dead before it took the program up.
                None if again => again = false,
                None => {
                    let failure =
                        Failure::new(code::INTERNAL, "compile helpers die while they are idle");
                    return Answer {
                        facts: None,
                        artifact: Err(failure.into()),
                    };
                }
            }
        }
    }

    /// `None` if the helper died without having begun.
    fn follow(&self, mut process: Process, mark: u64, limit: Duration) -> Option<Answer> {
        let mut facts = None;
        let mut stage = None;
        let deadline = Instant::now() + limit;
        let artifact = loop {
            match process.next(deadline, mark) {
                Next::Response(Response::Stage(reached), _) => stage = Some(reached),
                Next::Response(Response::Evidence(evidence), _) => facts = Some(evidence),
                Next::Response(Response::Compiled, artifact) => {
                    self.put_back(process);
                    break Ok(artifact);
                }
                Next::Response(Response::Failed(failure), _) => {
                    self.put_back(process);
                    break Err(failure.into());
                }
                Next::Dead(how) => {
                    self.lost();
                    break Err(CompileError::Died { stage: stage?, how });
                }
                Next::TimedOut => {
                    self.lost();
                    let stage = stage.unwrap_or(Stage::Tpu);
                    break Err(CompileError::TimedOut { stage, limit });
                }
                other @ Next::Response(..) => {
                    self.lost();
                    break Err(unexpected("compiling", other).into());
                }
            }
        };
        Some(Answer { facts, artifact })
    }

    /// Sends to a free helper. One that died while it was idle, of the system's memory killer say, is replaced once.
    fn ask(&self, request: &Request, body: &[&[u8]]) -> Result<(Process, u64), Failure> {
        let mut again = true;
        loop {
            let mut process = self.take()?;
            let mark = process.mark();
            match process.send(request, body) {
                Ok(()) => return Ok((process, mark)),
                Err(_) if again => {
                    self.lost();
                    again = false;
                }
                Err(error) => {
                    self.lost();
                    return Err(Failure::new(
                        code::INTERNAL,
                        format!("the compile helper {}: {error}", process.bury(mark)),
                    ));
                }
            }
        }
    }

    /// A helper that is ready, once there is one.
    fn take(&self) -> Result<Process, Failure> {
        // Its pipes would be shared, and the threads that read them are not here.
        if std::process::id() != self.process {
            return Err(Failure::new(
                code::FAILED_PRECONDITION,
                "this process was forked from one that uses the virtual TPU, and cannot compile; start it anew instead \
                 (multiprocessing's 'spawn')",
            ));
        }
        let mut state = self.lock();
        loop {
            if let Some(process) = state.idle.pop() {
                return Ok(process);
            }
            // The first helper, while it starts, will do for one who waits, and is sooner there than another.
            if state.waiting >= state.starting && state.alive < self.most {
                state.alive += 1;
                drop(state);
                return self.launch();
            }
            state.waiting += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Starts a helper that is counted already.
    fn launch(&self) -> Result<Process, Failure> {
        self.try_launch().inspect_err(|_| self.lost())
    }

    fn try_launch(&self) -> Result<Process, Failure> {
        let program = &self.parts.program;
        let mut process = Process::spawn(program).map_err(|error| {
            Failure::new(
                code::FAILED_PRECONDITION,
                format!(
                    "cannot start the compile helper {}: {error}",
                    program.display()
                ),
            )
        })?;
        let hello = Request::Hello {
            libtpu: self.parts.libtpu.clone(),
            cpu: self.parts.cpu.clone(),
            cpu_sha256: self.parts.cpu_sha256.clone(),
        };
        // A failed write shows in the answer.
        let _ = process.send(&hello, &[]);
        match process.next(Instant::now() + START_TIMEOUT, 0) {
            Next::Response(Response::Ready(facts), _) => {
                let _ = self.facts.set(facts);
                Ok(process)
            }
            Next::Response(Response::Failed(failure), _) => Err(failure),
            other => Err(unexpected("loading the compilers", other)),
        }
    }

    fn put_back(&self, process: Process) {
        self.lock().idle.push(process);
        self.changed.notify_one();
    }

    fn lost(&self) {
        self.lock().alive -= 1;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unexpected(doing: &str, next: Next) -> Failure {
    let what = match next {
        Next::Response(..) => "answered out of turn".to_owned(),
        Next::Dead(how) => how,
        Next::TimedOut => format!("did not answer within {} s", START_TIMEOUT.as_secs()),
    };
    Failure::new(
        code::INTERNAL,
        format!("{doing}, the compile helper {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_is_told_so_in_place_of_sharing_its_parents_helpers() {
        let nowhere = PathBuf::from("none");
        let pool = Pool {
            parts: Parts {
                program: nowhere.clone(),
                libtpu: nowhere.clone(),
                cpu: nowhere,
                cpu_sha256: String::new(),
            },
            // As it stands in the child's copy: the parent's.
            process: std::process::id() + 1,
            most: 1,
            state: Mutex::default(),
            changed: Condvar::new(),
            facts: OnceLock::new(),
        };
        let refused = pool.describe(&Slice::default()).unwrap_err();
        assert_eq!(refused.code, code::FAILED_PRECONDITION);
        assert!(refused.message.contains("spawn"), "{refused}");
    }
}
