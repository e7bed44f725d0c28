//! One case on a virtual TPU: compiled by libtpu, turned into a program for XLA CPU, and executed there.
//!
//! Stage `compile` is libtpu's alone, as on an `aot-<gen>` target. What happens to its program afterwards belongs to stage
//! `run`: a construct without a meaning on CPU is `unsupported` there, and what our passes get wrong an `error`.

use std::time::{Duration, Instant};

use super::Executor;
use super::compile_log::CompileLog;
use super::device::{Stop, generate_inputs, milliseconds};
use super::measure::{fits, measure, note_topology};
use super::spmd;
use crate::case::Case;
use crate::compare::Numerics;
use crate::hlo;
use crate::outcome::{Metrics, NotExecutable, OutcomeKind, Stage};
use crate::pjrt::{
    Client, Device as PjrtDevice, Error, LoadedExecutable, NamedValue, Plugin, Program,
};
use crate::store::{ExecutorRecord, PluginRecord};
use crate::target::Generation;
use crate::tensor::Tensor;
use crate::virtual_tpu::{self, Compiled, Compiler, CpuProgram};

/// Both halves of a virtual TPU, opened.
pub(super) struct VirtualTpu {
    compiler: Compiler,
    client: Client,
    device: PjrtDevice,
    pub(super) numerics: Numerics,
    /// Bytes of HBM that programs can have on one device.
    memory_limit: Option<i64>,
    log: Option<CompileLog>,
    /// Of the TPU compiler.
    flags: Vec<NamedValue>,
}

impl VirtualTpu {
    /// Opens the TPU compiler for the slice, and an XLA CPU client with a device for each of the slice's.
    pub(super) fn open(
        libtpu: &Plugin,
        generation: Generation,
        slice: Option<&str>,
        executor: &Executor,
        flags: &[NamedValue],
        record: &mut PluginRecord,
    ) -> Result<Self, virtual_tpu::Error> {
        let compiler = Compiler::open(libtpu, generation, slice, executor.numerics)?;
        let topology = compiler.topology();
        let count = note_topology(topology, generation, record)?;
        let cpu = Plugin::load(&executor.plugin)?;
        let client = cpu.create_client(&[NamedValue::new("cpu_device_count", count)])?;
        let device = client.addressable_devices()?.into_iter().next();
        let device = device.ok_or(Error::Malformed {
            call: "PJRT_Client_AddressableDevices",
            what: "no device".to_owned(),
        })?;
        record.executor = Some(ExecutorRecord {
            name: executor.name.clone(),
            path: executor.plugin.clone(),
            sha256: executor.sha256.clone(),
            api_version: cpu.api_version(),
            platform: client.platform_name()?,
            platform_version: crate::line::one_line(&client.platform_version()?),
            numerics: executor.numerics,
        });
        Ok(Self {
            compiler,
            client,
            device,
            numerics: Numerics::of_virtual(executor.numerics),
            memory_limit: record.memory_limit,
            flags: flags.to_vec(),
            log: CompileLog::from_environment(&record.target, executor.numerics),
        })
    }

    /// As [`run_unlogged`](Self::run_unlogged), with a line in the compile log where there is one.
    pub(super) fn run(
        &self,
        case: &Case,
        metrics: &mut Metrics,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Vec<Tensor>, Stop> {
        let results = self.run_unlogged(case, metrics, on_stage);
        if let Some(log) = &self.log {
            log.add(case, metrics, results.as_ref().err());
        }
        results
    }

    /// Compiles and executes; `metrics` keeps what the compile measured whatever comes of the rest.
    fn run_unlogged(
        &self,
        case: &Case,
        metrics: &mut Metrics,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Vec<Tensor>, Stop> {
        on_stage(Stage::Compile);
        let inputs = generate_inputs(case)?;
        let compiled = self.compile_for_tpu(case)?;
        metrics.compile_ms = Some(rounded(compiled.libtpu_time));
        metrics.passes_ms = Some(rounded(compiled.passes_time));
        measure(&compiled.executable, Some(&compiled.optimized), metrics);
        fits(metrics, self.memory_limit)?;
        on_stage(Stage::Run);
        let cpu = compiled.cpu.map_err(|error| match error {
            hlo::Error::NotExecutable {
                construct,
                instruction,
            } => {
                let message = format!("not executable on CPU: {construct}");
                metrics.not_executable = Some(NotExecutable {
                    construct,
                    instruction,
                });
                Stop::new(OutcomeKind::Unsupported, Stage::Run, message)
            }
            error @ hlo::Error::Malformed { .. } => {
                Stop::new(OutcomeKind::Error, Stage::Run, error)
            }
        })?;
        let start = Instant::now();
        let executable = self.compile_for_cpu(&cpu)?;
        metrics.cpu_compile_ms = Some(milliseconds(start));
        let start = Instant::now();
        let results = spmd::execute_case(&self.client, &self.device, case, &executable, &inputs)?;
        metrics.run_ms = Some(milliseconds(start));
        Ok(results)
    }

    /// With the TPU compiler, and no more: for a program that is to be refused.
    pub(super) fn compile(&self, case: &Case, on_stage: &mut dyn FnMut(Stage)) -> Result<(), Stop> {
        on_stage(Stage::Compile);
        self.compile_for_tpu(case).map(drop)
    }

    fn compile_for_tpu(&self, case: &Case) -> Result<Compiled, Stop> {
        let program = Program::mlir(&case.program);
        self.compiler
            .compile(&program, &spmd::compile_options(case, &self.flags))
            .map_err(|error| match error {
                virtual_tpu::Error::Plugin(error) => Stop::compile(case, &error),
                error => Stop::new(OutcomeKind::Error, Stage::Compile, error),
            })
    }

    /// A refusal, of whatever kind, is the passes' fault: what they let through is to be executable.
    fn compile_for_cpu(&self, cpu: &CpuProgram) -> Result<LoadedExecutable, Stop> {
        self.client
            .compile(&cpu.program, &cpu.options)
            .map_err(|error| {
                let mut stop = Stop::plugin(Stage::Run, &error);
                stop.kind = OutcomeKind::Error;
                stop.message = format!(
                    "XLA CPU refuses the program that the passes made of the TPU compiler's: {}",
                    stop.message
                );
                stop
            })
    }
}

fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
