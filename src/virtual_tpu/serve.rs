//! The compile helper: a process that holds both compilers, compiles what it is told to, and may die of it.
//!
//! Started by `tpu-parity compile-helper PARENT_PID`, a subcommand that is not for people. The plug-in, in its client's
//! process, never loads libtpu and never compiles.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use super::artifact::{Artifact, Facts};
use super::compiler::{self, Compiler};
use super::slice::Slice;
use super::topology::TopologyFacts;
use super::wire::{CompilerFacts, Failure, Job, Request, Response, Stage, receive, send};
use crate::hlo::{self, MxuNumerics};
use crate::pjrt::{self, Client, CompileOptions, NamedValue, Plugin, Program};
use crate::run::sys;

/// `PJRT_Error_Code`s, which are absl's.
pub mod code {
    pub const INVALID_ARGUMENT: u32 = 3;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const FAILED_PRECONDITION: u32 = 9;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const INTERNAL: u32 = 13;
}

/// Serves until the plug-in closes the pipe. `parent` is its process id.
pub fn serve(parent: u32) -> io::Result<()> {
    sys::die_with_parent(parent);
    sys::no_core_dumps();
    let (input, output) = sys::take_stdio()?;
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut output = BufWriter::with_capacity(1 << 16, output);
    // SAFETY: this is the start of the process, and no other thread runs.
    unsafe { pjrt::prepare_environment() };
    let mut helper = None;
    while let Some((request, body)) = receive::<Request>(&mut input)? {
        let answer = match (request, &mut helper) {
            (
                Request::Hello {
                    libtpu,
                    cpu,
                    cpu_sha256,
                },
                helper,
            ) => Helper::load(&libtpu, &cpu, cpu_sha256).map(|loaded| {
                let facts = loaded.facts();
                *helper = Some(loaded);
                (Response::Ready(facts), Vec::new())
            }),
            (Request::Describe { slice }, Some(helper)) => helper
                .describe(&slice)
                .map(|facts| (Response::Described(facts), Vec::new())),
            (Request::Compile(job), Some(helper)) => helper
                .compile(&job, &body, &mut output)?
                .map(|artifact| (Response::Compiled, artifact)),
            (_, None) => Err(Failure::new(code::INTERNAL, "no compilers are loaded yet")),
        };
        match answer {
            Ok((response, body)) => send(&mut output, &response, &[&body])?,
            Err(failure) => send(&mut output, &Response::Failed(failure), &[])?,
        }
    }
    Ok(())
}

struct Helper {
    libtpu: Plugin,
    cpu: Plugin,
    cpu_sha256: String,
    compilers: HashMap<(Slice, MxuNumerics), Compiler>,
    /// By their number of devices.
    clients: HashMap<usize, Client>,
}

impl Helper {
    fn load(libtpu: &Path, cpu: &Path, cpu_sha256: String) -> Result<Self, Failure> {
        Ok(Self {
            libtpu: Plugin::load(libtpu).map_err(plugin_failure)?,
            cpu: Plugin::load(cpu).map_err(plugin_failure)?,
            cpu_sha256,
            compilers: HashMap::new(),
            clients: HashMap::new(),
        })
    }

    fn facts(&self) -> CompilerFacts {
        CompilerFacts {
            stablehlo_version: self.libtpu.stablehlo_version(),
        }
    }

    fn describe(&mut self, slice: &Slice) -> Result<TopologyFacts, Failure> {
        let compiler = self.compiler(slice, MxuNumerics::default())?;
        TopologyFacts::of(compiler.topology()).map_err(plugin_failure)
    }

    fn compiler(&mut self, slice: &Slice, numerics: MxuNumerics) -> Result<&Compiler, Failure> {
        match self.compilers.entry((slice.clone(), numerics)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Compiler::open(
                &self.libtpu,
                slice.generation(),
                Some(slice.shape()),
                numerics,
            )
            .map(|compiler| &*entry.insert(compiler))
            .map_err(compiler_failure),
        }
    }

    fn client(&mut self, devices: usize) -> Result<&Client, Failure> {
        match self.clients.entry(devices) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => self
                .cpu
                .create_client(&[NamedValue::new("cpu_device_count", devices as i64)])
                .map(|client| &*entry.insert(client))
                .map_err(plugin_failure),
        }
    }

    /// The artifact's bytes. What is sent before them says how far the compilation has come.
    fn compile(
        &mut self,
        job: &Job,
        body: &[u8],
        output: &mut BufWriter<File>,
    ) -> io::Result<Result<Vec<u8>, Failure>> {
        send(output, &Response::Stage(Stage::Tpu), &[])?;
        let tpu = catch_unwind(AssertUnwindSafe(|| self.compile_for_tpu(job, body)));
        let compiled = match tpu {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(failure)) => return Ok(Err(failure)),
            Err(panic) => return Ok(Err(panicked(&*panic))),
        };
        let ForTpu {
            mut facts,
            optimized,
            program,
        } = compiled;
        send(output, &Response::Evidence(Box::new(facts.clone())), &[])?;
        let program = match program {
            Ok(program) => program,
            Err(error) => return Ok(Err(passes_failure(error))),
        };
        send(output, &Response::Stage(Stage::Cpu), &[])?;
        let start = Instant::now();
        let cpu = self.client(job.devices).and_then(|client| {
            client
                .compile(&program.program, &program.options)
                .and_then(|loaded| loaded.executable()?.serialize())
                .map_err(|error| in_stage(Stage::Cpu, error))
        });
        facts.cpu_seconds = Some(start.elapsed().as_secs_f64());
        Ok(cpu.and_then(|cpu| {
            let artifact = Artifact {
                facts,
                optimized,
                cpu,
            };
            artifact
                .encode(&self.cpu_sha256)
                .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
        }))
    }

    fn compile_for_tpu(&mut self, job: &Job, body: &[u8]) -> Result<ForTpu, Failure> {
        let (raw, code) = body
            .split_at_checked(job.options_length)
            .ok_or_else(|| Failure::new(code::INTERNAL, "a program shorter than its options"))?;
        let options = CompileOptions::decode(raw)
            .map_err(|error| Failure::new(code::INVALID_ARGUMENT, error.to_string()))?;
        let program = Program {
            format: job.format.clone(),
            code: code.to_vec(),
        };
        let compiled = self
            .compiler(&job.slice, job.numerics)?
            .compile(&program, &options)
            .map_err(compiler_failure)?;
        Ok(ForTpu {
            facts: Facts::of(&compiled, job, &options, raw),
            optimized: compiled.optimized.code,
            program: compiled.cpu,
        })
    }
}

struct ForTpu {
    facts: Facts,
    optimized: Vec<u8>,
    program: Result<compiler::CpuProgram, hlo::Error>,
}

/// A plug-in's own words and code, as if the client had called it.
pub fn plugin_failure(error: pjrt::Error) -> Failure {
    match error {
        pjrt::Error::Plugin { code, message, .. } => Failure::new(code.to_raw(), message),
        other => Failure::new(
            other
                .code()
                .map_or(code::FAILED_PRECONDITION, |code| code.to_raw()),
            other.to_string(),
        ),
    }
}

/// The client's program never was XLA CPU's: what it says against it needs a word of where it comes from.
fn in_stage(stage: Stage, error: pjrt::Error) -> Failure {
    let failure = plugin_failure(error);
    Failure {
        message: format!(
            "the program compiles for the TPU, and {} then says: {}",
            stage.compiler(),
            failure.message
        ),
        ..failure
    }
}

fn compiler_failure(error: compiler::Error) -> Failure {
    match error {
        compiler::Error::Plugin(error) => plugin_failure(error),
        other => Failure::new(code::INTERNAL, other.to_string()),
    }
}

fn passes_failure(error: hlo::Error) -> Failure {
    let message = format!("the virtual TPU cannot run this program: {error}");
    match error {
        hlo::Error::NotExecutable { construct, .. } => Failure {
            construct: Some(construct),
            ..Failure::new(code::UNIMPLEMENTED, message)
        },
        hlo::Error::Malformed { .. } => Failure::new(code::INTERNAL, message),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Failure::new(
        code::INTERNAL,
        format!("a pass over the TPU compiler's HLO panicked: {message}"),
    )
}
