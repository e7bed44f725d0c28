//! From StableHLO to a program for XLA CPU, by way of the TPU compiler.
//!
//! Nothing is compiled for the CPU here: the caller does that, in this process or in another one.

use std::time::{Duration, Instant};

use pjrt_sys::protos::xla;
use prost::Message;

use super::Optimized;
use crate::hlo::{self, MxuNumerics};
use crate::pjrt::{self, CompileOptions, Executable, NamedValue, Plugin, Program, Topology};
use crate::target::Generation;

/// The TPU compiler for one slice.
pub struct Compiler {
    topology: Topology,
    generation: Generation,
    numerics: MxuNumerics,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Plugin(#[from] pjrt::Error),
    /// What the TPU compiler returned is in no form that is known here.
    #[error("the TPU compiler returned a program that cannot be read: {0}")]
    Unreadable(String),
}

/// What became of a program.
pub struct Compiled {
    /// The TPU's executable, to ask about memory, cost and code size.
    pub executable: Executable,
    /// The program after the TPU compiler's passes, in the format `hlo_with_config`.
    pub optimized: Program,
    /// What XLA CPU is to compile, or why it cannot.
    pub cpu: Result<CpuProgram, hlo::Error>,
    pub libtpu_time: Duration,
    pub passes_time: Duration,
}

/// A program for XLA CPU with the meaning of the TPU's.
#[derive(Debug, Clone)]
pub struct CpuProgram {
    pub program: Program,
    /// R·P replicas of one partition, on the devices of the same ids.
    pub options: CompileOptions,
}

impl Compiler {
    /// `slice` as in a target (`2x4`); without one, libtpu's smallest usual one.
    pub fn open(
        libtpu: &Plugin,
        generation: Generation,
        slice: Option<&str>,
        numerics: MxuNumerics,
    ) -> Result<Self, Error> {
        let name = generation.topology(slice);
        // With bounds of our own libtpu takes shapes that no TPU has.
        libtpu.create_topology(&name, &[])?;
        // One process has all of the slice: libtpu would spread a slice of more than four chips over several hosts.
        let bounds = NamedValue::new("chips_per_host_bounds", chips_per_host(&name));
        Ok(Self {
            topology: libtpu.create_topology(&name, &[bounds])?,
            generation,
            numerics,
        })
    }

    /// The slice's devices, with the kinds, coordinates and attributes that libtpu gives them.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled, Error> {
        let start = Instant::now();
        let executable = self
            .topology
            .plugin()
            .compile(&self.topology, program, options)?;
        let optimized = executable.optimized_program()?;
        let libtpu_time = start.elapsed();
        let start = Instant::now();
        let cpu = self.cpu_program(Optimized::read(&optimized)?.module(), options);
        Ok(Compiled {
            executable,
            optimized,
            cpu,
            libtpu_time,
            passes_time: start.elapsed(),
        })
    }

    fn cpu_program(
        &self,
        module: &xla::HloModuleProto,
        options: &CompileOptions,
    ) -> Result<CpuProgram, hlo::Error> {
        let (replicas, partitions) = options.devices_in_use();
        let options_for_passes = hlo::Options {
            generation: self.generation,
            numerics: self.numerics,
            replicas,
            partitions,
        };
        let mut options = cpu_options(options, replicas * partitions);
        if hlo::splits_f64(module) {
            options = options.flag("xla_disable_hlo_passes", "algsimp");
        }
        let module = hlo::to_cpu(module.clone(), &options_for_passes)?;
        if uses(&module, "atan2") {
            // XLA CPU's atan2 in vectors of 256 bits reads beyond its operands where the divisor is a constant 1.
            options = options.flag("xla_cpu_prefer_vector_width", 128);
        }
        Ok(CpuProgram {
            program: Program::hlo(module.encode_to_vec()),
            options,
        })
    }
}

fn uses(module: &xla::HloModuleProto, opcode: &str) -> bool {
    let mut instructions = module.computations.iter().flat_map(|c| &c.instructions);
    instructions.any(|instruction| instruction.opcode == opcode)
}

/// The shape of the slice that a topology's name ends with, in three dimensions.
fn chips_per_host(topology: &str) -> Vec<i64> {
    let shape = topology.rsplit(':').next().unwrap_or_default();
    let sizes = shape.split('x').map(|size| size.parse().unwrap_or(1));
    sizes.chain(std::iter::repeat(1)).take(3).collect()
}

/// The client's choice of devices, flattened as the program is: device `r·P + p` runs replica r of partition p. Excess
/// precision would let XLA CPU skip roundings that the TPU makes, and its fast `maximum` and `minimum` drop NaNs.
pub(super) fn cpu_options(options: &CompileOptions, replicas: usize) -> CompileOptions {
    let given = options.proto();
    let mut cpu = CompileOptions::new()
        .replicas(replicas)
        .flag("xla_allow_excess_precision", false)
        .flag("xla_cpu_enable_fast_min_max", false);
    if let Some(ids) = options.assigned_devices() {
        let flattened: Vec<Vec<i64>> = ids.into_iter().flatten().map(|id| vec![id]).collect();
        cpu = cpu.devices(&flattened);
    } else if let Some(ordinal) = given
        .executable_build_options
        .as_ref()
        .map(|build| build.device_ordinal)
        && let Some(build) = &mut cpu.proto_mut().executable_build_options
    {
        build.device_ordinal = ordinal;
    }
    let proto = cpu.proto_mut();
    proto.parameter_is_tupled_arguments = given.parameter_is_tupled_arguments;
    proto.compile_portable_executable = given.compile_portable_executable;
    cpu
}
