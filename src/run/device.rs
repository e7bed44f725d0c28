//! One case on one target, in this process: compile, run, compare.
//!
//! Stages are announced before they begin, since any of them may be the last thing that this process does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use super::Computed;
use super::agreement::compare_all;
use super::measure::{fits, measure, note_topology};
use super::parse_error::parser_message;
use super::protocol::{Hello, Outputs};
use super::refusal;
use super::spmd;
use super::terms::{self, Terms};
use super::torch::Torch;
use super::virtual_tpu::VirtualTpu;
use crate::case::{Case, CaseId};
use crate::compare::{Numerics, ReferenceTensor};
use crate::line::one_line;
use crate::oracle::OracleError;
use crate::outcome::{Evidence, Metrics, Outcome, OutcomeKind, Stage};
use crate::pjrt::{
    Client, CompileOptions, Device as PjrtDevice, Error, ErrorCode, ExecuteOptions,
    LoadedExecutable, NamedValue, Plugin, Program, Topology,
};
use crate::store::PluginRecord;
use crate::target::Target;
use crate::tensor::Tensor;
use crate::virtual_tpu;

/// An opened target.
pub(super) struct Device {
    target: Target,
    kind: Kind,
    /// How many devices it shows.
    devices: usize,
    hello: Hello,
    /// What the last case that ran gave, for it may come again where it does not belong.
    last: RefCell<Option<(CaseId, Vec<Tensor>)>>,
    /// Larger slices of the same generation, by name, for cases that need more devices than a target without a slice has.
    larger: RefCell<BTreeMap<&'static str, Rc<Result<Device, String>>>>,
}

enum Kind {
    Runs {
        client: Client,
        device: PjrtDevice,
        numerics: Numerics,
    },
    Compiles {
        plugin: Plugin,
        topology: Topology,
        memory_limit: Option<i64>,
    },
    Virtual(Box<VirtualTpu>),
    Torch(Torch),
}

/// Why a target cannot be opened, for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Plugin(#[from] Error),
    #[error(transparent)]
    Compiler(#[from] virtual_tpu::Error),
    #[error(transparent)]
    Torch(#[from] OracleError),
    #[error("the target {0} needs a plug-in to execute on, and none is given")]
    NoExecutor(Target),
}

/// Where and how a case ended short of a pass.
pub(super) struct Stop {
    pub(super) kind: OutcomeKind,
    pub(super) stage: Stage,
    pub(super) message: String,
    pub(super) code: Option<String>,
}

impl Stop {
    pub(super) fn new(kind: OutcomeKind, stage: Stage, message: impl ToString) -> Self {
        Self {
            kind,
            stage,
            message: message.to_string(),
            code: None,
        }
    }

    pub(super) fn plugin(stage: Stage, error: &Error) -> Self {
        let code = error.code();
        let kind = match code {
            Some(ErrorCode::Unimplemented) => OutcomeKind::Unsupported,
            Some(ErrorCode::ResourceExhausted) => OutcomeKind::Oom,
            _ => OutcomeKind::Error,
        };
        Self {
            kind,
            stage,
            message: one_line(&error.to_string()),
            code: code.map(|code| code.to_string()),
        }
    }

    /// Of a program that does not even parse, the message says where it was declared: the mistake may lie there.
    pub(super) fn compile(case: &Case, error: &Error) -> Self {
        let mut stop = Self::plugin(Stage::Compile, error);
        if case.breaks().is_none() && parser_message(&stop.message).is_some() {
            stop.message = format!("{}: {}", case.origin, stop.message);
        }
        stop
    }
}

impl Device {
    /// Loads the plug-in and opens the target.
    pub(super) fn open(hello: &Hello) -> Result<(Self, PluginRecord), OpenError> {
        if hello.target == Target::Torch {
            let (torch, record) = Torch::open(hello)?;
            return Ok((Self::new(hello, Kind::Torch(torch), &record), record));
        }
        let plugin = Plugin::load(&hello.plugin)?;
        let mut record = PluginRecord {
            target: hello.target.clone(),
            name: hello.name.clone(),
            path: hello.plugin.clone(),
            sha256: hello.sha256.clone(),
            api_version: plugin.api_version(),
            platform: String::new(),
            platform_version: String::new(),
            stablehlo_version: plugin
                .stablehlo_version()
                .map(|[major, minor, patch]| format!("{major}.{minor}.{patch}")),
            devices: BTreeMap::new(),
            memory_limit: None,
            executor: None,
            flags: hello.flags.clone(),
        };
        let kind = match &hello.target {
            Target::Aot { generation, slice } => {
                let name = generation.topology(slice.as_deref());
                let topology = plugin.create_topology(&name, &hello.options)?;
                note_topology(&topology, *generation, &mut record)?;
                Kind::Compiles {
                    plugin,
                    topology,
                    memory_limit: record.memory_limit,
                }
            }
            Target::Virtual { generation, slice } => {
                let no_executor = || OpenError::NoExecutor(hello.target.clone());
                let executor = hello.executor.as_ref().ok_or_else(no_executor)?;
                let slice = slice.as_deref();
                let device = VirtualTpu::open(
                    &plugin,
                    *generation,
                    slice,
                    executor,
                    &hello.flags,
                    &mut record,
                )?;
                Kind::Virtual(Box::new(device))
            }
            Target::Cpu | Target::Tpu | Target::Torch | Target::Plugin(_) => {
                let client = plugin.create_client(&client_options(hello))?;
                record.platform = client.platform_name()?;
                record.platform_version = client.platform_version()?;
                let mut devices = client.addressable_devices()?;
                for device in &devices {
                    *record.devices.entry(device.kind()?).or_default() += 1;
                }
                if devices.is_empty() {
                    return Err(Error::Malformed {
                        call: "PJRT_Client_AddressableDevices",
                        what: "no device".to_owned(),
                    }
                    .into());
                }
                Kind::Runs {
                    device: devices.swap_remove(0),
                    client,
                    numerics: Numerics::for_platform(&record.platform),
                }
            }
        };
        // Some plug-ins put their whole build log into the version.
        record.platform_version = one_line(&record.platform_version);
        Ok((Self::new(hello, kind, &record), record))
    }

    fn new(hello: &Hello, kind: Kind, record: &PluginRecord) -> Self {
        Self {
            target: hello.target.clone(),
            kind,
            // A plug-in that names none has one all the same.
            devices: record.devices.values().sum::<usize>().max(1),
            hello: hello.clone(),
            last: RefCell::default(),
            larger: RefCell::default(),
        }
    }

    /// Never fails: whatever happens, short of the process's death, is an outcome.
    pub(super) fn execute(
        &self,
        case: &Case,
        reference: &Result<Vec<ReferenceTensor>, String>,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Outcome {
        let mut metrics = Metrics::default();
        if case.devices() > self.devices {
            let larger = self.with_devices(case.devices());
            return match larger.as_deref() {
                Some(Ok(larger)) => Outcome {
                    target: self.target.to_string(),
                    ..larger.execute(case, reference, on_stage)
                },
                Some(Err(why)) => {
                    let stop = Stop::new(OutcomeKind::Error, Stage::Load, why);
                    self.outcome(case, Err(stop), metrics)
                }
                None => self.outcome(case, Err(spmd::too_few(case, self.devices)), metrics),
            };
        }
        if let Some(reason) = &case.unloadable {
            let stop = Stop::new(OutcomeKind::Error, Stage::Load, reason);
            return self.outcome(case, Err(stop), metrics);
        }
        if let Some(constraint) = case.breaks() {
            let ended = refusal::judge(constraint, self.compile(case, on_stage), &mut metrics);
            return self.outcome(case, ended, metrics);
        }
        let results = self.results(case, &mut metrics, on_stage);
        let ended = results.and_then(|results| {
            let Some((results, numerics)) = results else {
                return Ok(Stage::Compile);
            };
            on_stage(Stage::Compare);
            let last = self.last.borrow_mut().take();
            let compared = compare_all(case, &results, reference, numerics, &last, &mut metrics);
            self.last.replace(Some((case.id.clone(), results)));
            compared.map(|()| Stage::Compare)
        });
        self.outcome(case, ended, metrics)
    }

    /// The results, and the numerics that they come of; none where the target compiles and runs nothing.
    fn results(
        &self,
        case: &Case,
        metrics: &mut Metrics,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Option<(Vec<Tensor>, &Numerics)>, Stop> {
        let options = spmd::compile_options(case, &self.hello.flags);
        match &self.kind {
            Kind::Compiles {
                plugin,
                topology,
                memory_limit,
            } => aot_compile(plugin, topology, case, &options, metrics, on_stage)
                .and_then(|()| fits(metrics, *memory_limit))
                .map(|()| None),
            Kind::Runs {
                client,
                device,
                numerics,
            } => run(client, device, case, &options, metrics, on_stage)
                .map(|results| Some((results, numerics))),
            Kind::Virtual(device) => device
                .run(case, metrics, on_stage)
                .map(|results| Some((results, &device.numerics))),
            Kind::Torch(torch) => torch
                .run(case, on_stage)
                .map(|results| Some((results, &Torch::NUMERICS))),
        }
    }

    /// The results of a case, compared with nothing.
    pub(super) fn outputs(
        &self,
        case: &Case,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Outputs, Box<Outcome>> {
        let mut metrics = Metrics::default();
        let nothing = |why: &str| Stop::new(OutcomeKind::Error, Stage::Load, why);
        let found = if let Some(reason) = &case.unloadable {
            Err(nothing(reason))
        } else if case.devices() > self.devices {
            match self.with_devices(case.devices()).as_deref() {
                Some(Ok(larger)) => return larger.outputs(case, on_stage),
                Some(Err(why)) => Err(nothing(why)),
                None => Err(spmd::too_few(case, self.devices)),
            }
        } else {
            self.results(case, &mut metrics, on_stage)
                .and_then(|found| {
                    let (results, numerics) =
                        found.ok_or_else(|| nothing("the target runs no programs"))?;
                    Ok(Outputs {
                        results,
                        numerics: *numerics,
                    })
                })
        };
        found.map_err(|stop| Box::new(self.outcome(case, Err(stop), metrics)))
    }

    /// The terms that the case's sums are made of.
    pub(super) fn terms(
        &self,
        case: &Case,
        on_stage: &mut dyn FnMut(Stage),
    ) -> Result<Terms, Box<Outcome>> {
        let found = match &self.kind {
            Kind::Runs { client, device, .. } => terms::terms(client, device, case, on_stage),
            Kind::Compiles { .. } | Kind::Virtual(_) | Kind::Torch(_) => Err(Stop::new(
                OutcomeKind::Unsupported,
                Stage::Load,
                "terms are computed on a CPU",
            )),
        };
        found.map_err(|stop| Box::new(self.outcome(case, Err(stop), Metrics::default())))
    }

    /// Compiles and no more: for a program that is to be refused.
    fn compile(&self, case: &Case, on_stage: &mut dyn FnMut(Stage)) -> Result<(), Stop> {
        let mut unused = Metrics::default();
        let options = spmd::compile_options(case, &self.hello.flags);
        match &self.kind {
            Kind::Compiles {
                plugin, topology, ..
            } => aot_compile(plugin, topology, case, &options, &mut unused, on_stage),
            Kind::Runs { client, .. } => {
                on_stage(Stage::Compile);
                compile_and_load(client, case, &case.program, &options).map(drop)
            }
            Kind::Virtual(device) => device.compile(case, on_stage),
            Kind::Torch(_) => Err(Stop::new(
                OutcomeKind::Unsupported,
                Stage::Compile,
                "PyTorch compiles nothing",
            )),
        }
    }

    /// Where a target without a slice stands for the generation, the smallest slice that is large enough: it needs no
    /// hardware, so nothing is skipped for the want of it. None where the devices are what they are.
    fn with_devices(&self, devices: usize) -> Option<Rc<Result<Self, String>>> {
        let (Target::Aot { generation, slice } | Target::Virtual { generation, slice }) =
            &self.target
        else {
            return None;
        };
        if slice.is_some() {
            return None;
        }
        let slice = spmd::slice_with(*generation, devices)?;
        let open = || {
            let mut hello = self.hello.clone();
            let (Target::Aot { slice: of, .. } | Target::Virtual { slice: of, .. }) =
                &mut hello.target
            else {
                return Err("only a generation has slices".to_owned());
            };
            *of = Some(slice.to_owned());
            let (device, _) = Self::open(&hello).map_err(|error| error.to_string())?;
            Ok(device)
        };
        let mut larger = self.larger.borrow_mut();
        let device = larger.entry(slice).or_insert_with(|| Rc::new(open()));
        Some(Rc::clone(device))
    }

    /// The reference of a case; an error says why there can be none.
    pub(super) fn reference(&self, case: &Case, on_stage: &mut dyn FnMut(Stage)) -> Computed {
        let computed = match &self.kind {
            Kind::Compiles { .. } | Kind::Virtual(_) | Kind::Torch(_) => Err(Stop::new(
                OutcomeKind::Unsupported,
                Stage::Load,
                "references are computed on XLA CPU",
            )),
            Kind::Runs { client, device, .. } => {
                super::compute::reference(client, device, case, on_stage)
            }
        };
        computed.map_err(|stop| Box::new(self.outcome(case, Err(stop), Metrics::default())))
    }

    fn outcome(&self, case: &Case, ended: Result<Stage, Stop>, metrics: Metrics) -> Outcome {
        let (outcome, stage, message, code) = match ended {
            Ok(stage) => (OutcomeKind::Pass, stage, None, None),
            Err(stop) => (stop.kind, stop.stage, Some(stop.message), stop.code),
        };
        Outcome {
            case: case.id.clone(),
            target: self.target.to_string(),
            evidence: self.target.evidence(),
            outcome,
            stage,
            message,
            code,
            metrics,
            attempts: vec![outcome],
        }
    }
}

/// The outcome of a case whose worker has none to give.
pub(super) fn unserved(
    case: &Case,
    target: &Target,
    outcome: OutcomeKind,
    stage: Stage,
    reason: String,
) -> Outcome {
    Outcome {
        case: case.id.clone(),
        target: target.to_string(),
        evidence: target.evidence(),
        outcome,
        stage,
        message: Some(reason),
        code: None,
        metrics: Metrics::default(),
        attempts: vec![outcome],
    }
}

/// Whether the target runs programs, and so needs references.
pub(super) fn runs_programs(target: &Target) -> bool {
    target.evidence() != Evidence::Compile
}

/// XLA CPU shows as many devices as it is asked for.
fn client_options(hello: &Hello) -> Vec<NamedValue> {
    const COUNT: &str = "cpu_device_count";
    let mut options = hello.options.clone();
    if hello.target == Target::Cpu && !options.iter().any(|option| option.name == COUNT) {
        options.push(NamedValue::new(COUNT, spmd::CPU_DEVICES));
    }
    options
}

fn aot_compile(
    plugin: &Plugin,
    topology: &Topology,
    case: &Case,
    options: &CompileOptions,
    metrics: &mut Metrics,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<(), Stop> {
    on_stage(Stage::Compile);
    let program = Program::mlir(&case.program);
    let start = Instant::now();
    let executable = plugin
        .compile(topology, &program, options)
        .map_err(|e| Stop::compile(case, &e))?;
    metrics.compile_ms = Some(milliseconds(start));
    measure(
        &executable,
        executable.optimized_program().ok().as_ref(),
        metrics,
    );
    Ok(())
}

fn run(
    client: &Client,
    device: &PjrtDevice,
    case: &Case,
    options: &CompileOptions,
    metrics: &mut Metrics,
    on_stage: &mut dyn FnMut(Stage),
) -> Result<Vec<Tensor>, Stop> {
    on_stage(Stage::Compile);
    let inputs = generate_inputs(case)?;
    let start = Instant::now();
    let executable = compile_and_load(client, case, &case.program, options)?;
    metrics.compile_ms = Some(milliseconds(start));
    on_stage(Stage::Run);
    let start = Instant::now();
    let results = spmd::execute_case(client, device, case, &executable, &inputs)?;
    metrics.run_ms = Some(milliseconds(start));
    Ok(results)
}

/// Compiles a program of the case: its own, or the one for its reference.
pub(super) fn compile_and_load(
    client: &Client,
    case: &Case,
    program: &str,
    options: &CompileOptions,
) -> Result<LoadedExecutable, Stop> {
    client
        .compile(&Program::mlir(program), options)
        .map_err(|e| Stop::compile(case, &e))
}

pub(super) fn generate_inputs(case: &Case) -> Result<Vec<Tensor>, Stop> {
    let generate = |(operand, spec): (usize, &crate::tensor::InputSpec)| {
        spec.generate(case.seed, operand).map_err(|e| {
            let message = format!("{}: input {operand}: {e}", case.origin);
            Stop::new(OutcomeKind::Error, Stage::Load, message)
        })
    };
    case.inputs.iter().enumerate().map(generate).collect()
}

/// From host tensors to host tensors, on one device.
pub(super) fn execute(
    client: &Client,
    device: &PjrtDevice,
    executable: &LoadedExecutable,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Error> {
    let buffers = inputs
        .iter()
        .map(|input| client.buffer_from_host(input, device))
        .collect::<Result<Vec<_>, _>>()?;
    let results = executable.execute(
        &[buffers.iter().collect::<Vec<_>>()],
        &ExecuteOptions::default(),
    )?;
    let [results] = <[_; 1]>::try_from(results).map_err(|results| Error::Malformed {
        call: "PJRT_LoadedExecutable_Execute",
        what: format!("results for {} devices, not 1", results.len()),
    })?;
    results.iter().map(|buffer| buffer.to_host()).collect()
}

pub(super) fn milliseconds(start: Instant) -> f64 {
    // To the microsecond: more digits are noise, and make the journal longer.
    (start.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
