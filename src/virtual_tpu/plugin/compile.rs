//! Compiling, loading and running: a program goes to a compile helper, and what comes back is loaded on XLA CPU.

use std::collections::BTreeMap;
use std::io::Write;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use pjrt_sys::*;

use super::abi::{DeserializeAndLoad, Load};
use super::cpu;
use super::entry::{entry, forward};
use super::executable::ExecutableFacts;
use super::gang;
use super::handles::{
    CLIENTS, EXECUTABLES, ExecutableOf, LOADED, TOPOLOGIES, VirtualClient, VirtualTopology,
};
use super::memory::{self, Place};
use super::raised::Raised;
use super::read;
use crate::pjrt::{Client, CompileOptions, NamedValue};
use crate::virtual_tpu::artifact::{Artifact, ArtifactError, Facts};
use crate::virtual_tpu::compile_log::{self, Record};
use crate::virtual_tpu::compiler::cpu_options;
use crate::virtual_tpu::pool::CompileError;
use crate::virtual_tpu::record::Asked;
use crate::virtual_tpu::serve::{code, plugin_failure};
use crate::virtual_tpu::settings::Settings;
use crate::virtual_tpu::wire::{Failure, Job};

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        let code = match error {
            ArtifactError::Foreign | ArtifactError::Damaged => code::INVALID_ARGUMENT,
            ArtifactError::Version { .. } | ArtifactError::CpuPlugin { .. } => {
                code::FAILED_PRECONDITION
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Failed(failure) => failure,
            other => Self::new(other.code(), other.to_string()),
        }
    }
}

/// Compiles in a helper, and logs what came of it.
fn compile(
    settings: &Settings,
    topology: &VirtualTopology,
    program: &PJRT_Program,
    options: &[u8],
) -> Result<Artifact, Failure> {
    let cpu = cpu::load()?;
    let pool = cpu.pool()?;
    // SAFETY: the caller's program is whole for the duration of the call.
    let (format, code) = unsafe {
        (
            read::bytes(program.format, program.format_size)?,
            read::bytes(program.code, program.code_size)?,
        )
    };
    let job = Job {
        slice: topology.slice.clone(),
        numerics: settings.numerics,
        devices: topology.devices.len(),
        format: String::from_utf8_lossy(format).into_owned(),
        options_length: options.len(),
    };
    let start = Instant::now();
    let answer = pool.compile(job, options, code, settings.compile_timeout);
    let artifact = answer.artifact.and_then(|bytes| {
        Artifact::decode(&bytes, &cpu.sha256).map_err(|error| Failure::from(error).into())
    });
    if settings.compile_log.is_some() {
        let facts = match &artifact {
            Ok(artifact) => Some(&artifact.facts),
            Err(_) => answer.facts.as_deref(),
        };
        let asked = Asked {
            slice: &topology.slice,
            numerics: settings.numerics,
            program: code,
            options,
        };
        log(settings, &asked, facts, artifact.as_ref().err(), start);
    }
    Ok(artifact?)
}

fn log(
    settings: &Settings,
    asked: &Asked<'_>,
    facts: Option<&Facts>,
    error: Option<&CompileError>,
    start: Instant,
) {
    let Some(path) = &settings.compile_log else {
        return;
    };
    let record = Record::of(asked, facts, error, start.elapsed());
    // The program compiled, whatever becomes of the line.
    if let Err(error) = compile_log::append(path, &record) {
        // `eprintln` panics where standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "tpu-parity: cannot write the compile log {}: {error}",
            path.display()
        );
    }
}

/// Loads XLA CPU's part on a client, and remembers the rest beside the handle.
fn load(
    client: *mut PJRT_Client,
    virtual_client: &VirtualClient,
    artifact: Artifact,
) -> Result<*mut PJRT_LoadedExecutable, Raised> {
    let facts = &artifact.facts;
    let slice = &virtual_client.topology.slice;
    if facts.slice.generation() != slice.generation() {
        return Err(Failure::new(
            code::FAILED_PRECONDITION,
            format!(
                "the executable was compiled for {}, and this client's devices are {slice}",
                facts.slice
            ),
        )
        .into());
    }
    let devices = virtual_client.topology.devices.len();
    let wanted = facts.replicas * facts.partitions;
    if wanted > devices {
        return Err(Failure::new(
            code::FAILED_PRECONDITION,
            format!("the executable runs on {wanted} devices, and this client has {devices}"),
        )
        .into());
    }
    let given = CompileOptions::decode(&facts.compile_options).map_err(plugin_failure)?;
    let options = cpu_options(&given, wanted).encode();
    let mut args = DeserializeAndLoad {
        struct_size: size_of::<DeserializeAndLoad>(),
        extension_start: ptr::null_mut(),
        client,
        serialized_executable: artifact.cpu.as_ptr().cast(),
        serialized_executable_size: artifact.cpu.len(),
        loaded_executable: ptr::null_mut(),
        overridden_serialized_compile_options: options.as_ptr().cast(),
        overridden_serialized_compile_options_size: options.len(),
        load_options: ptr::null_mut(),
    };
    forward!("PJRT_Executable_DeserializeAndLoad", &mut args)?;
    let loaded = args.loaded_executable;
    let outputs = num_outputs(loaded)?;
    LOADED.insert(loaded, ExecutableFacts::new(artifact, outputs));
    Ok(loaded)
}

/// Results per device.
fn num_outputs(loaded: *mut PJRT_LoadedExecutable) -> Result<usize, Raised> {
    let mut args = PJRT_LoadedExecutable_GetExecutable_Args::new();
    args.loaded_executable = loaded;
    forward!("PJRT_LoadedExecutable_GetExecutable", &mut args)?;
    let mut outputs = PJRT_Executable_NumOutputs_Args::new();
    outputs.executable = args.executable;
    let counted = forward!("PJRT_Executable_NumOutputs", &mut outputs);
    let mut destroy = PJRT_Executable_Destroy_Args::new();
    destroy.executable = args.executable;
    forward!("PJRT_Executable_Destroy", &mut destroy)?;
    counted?;
    Ok(outputs.num_outputs)
}

/// A client of XLA CPU's that no client of ours sees, for executables that are compiled for a topology.
pub fn own_client(devices: usize) -> Result<Client, Failure> {
    static CLIENTS: OnceLock<Mutex<BTreeMap<usize, Client>>> = OnceLock::new();
    let mut clients = CLIENTS
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(&devices) {
        return Ok(client.clone());
    }
    let client = new_client(devices)?;
    clients.insert(devices, client.clone());
    Ok(client)
}

pub fn new_client(devices: usize) -> Result<Client, Failure> {
    cpu::load()?
        .plugin
        .create_client(&[NamedValue::new("cpu_device_count", devices as i64)])
        .map_err(plugin_failure)
}

entry! {
    fn client_compile(args: PJRT_Client_Compile_Args) = "PJRT_Client_Compile" {
        let client = CLIENTS.get(args.client)?;
        // SAFETY: the caller's program and options are whole for the duration of the call.
        let (program, options) = unsafe {
            (
                read::reference(args.program)?,
                read::bytes(args.compile_options, args.compile_options_size)?,
            )
        };
        let artifact = compile(&client.settings, &client.topology, program, options)?;
        args.executable = load(args.client, &client, artifact)?;
        Ok(())
    }

    fn compile_for_topology(args: PJRT_Compile_Args) = "PJRT_Compile" {
        let topology = TOPOLOGIES.get(args.topology)?;
        let settings = match CLIENTS.find(args.client) {
            Some(client) => client.settings.clone(),
            None => Settings::from_environment(&BTreeMap::new())?,
        };
        // SAFETY: the caller's program and options are whole for the duration of the call.
        let (program, options) = unsafe {
            (
                read::reference(args.program)?,
                read::bytes(args.compile_options, args.compile_options_size)?,
            )
        };
        let artifact = compile(&settings, &topology, program, options)?;
        let client = own_client(topology.devices.len())?;
        let executable = client
            .deserialize(&artifact.cpu)
            .and_then(|loaded| loaded.executable())
            .map_err(plugin_failure)?;
        let outputs = executable.num_outputs().map_err(plugin_failure)?;
        args.executable = executable.raw();
        let entry = ExecutableOf {
            facts: ExecutableFacts::new(artifact, outputs),
            loaded: Some(Arc::new(executable)),
        };
        EXECUTABLES.insert(args.executable, entry);
        Ok(())
    }

    fn deserialize_and_load(args: PJRT_Executable_DeserializeAndLoad_Args) = "PJRT_Executable_DeserializeAndLoad" {
        let client = CLIENTS.get(args.client)?;
        // SAFETY: the caller's bytes are whole for the duration of the call.
        let serialized = unsafe {
            read::bytes(args.serialized_executable, args.serialized_executable_size)?
        };
        let mut artifact = Artifact::decode(serialized, &cpu::load()?.sha256).map_err(Failure::from)?;
        if args.struct_size >= std::mem::offset_of!(DeserializeAndLoad, load_options) {
            // SAFETY: the caller's struct is of the later form, by its own size, and its options are whole.
            let options = unsafe {
                let args = (&raw mut *args).cast::<DeserializeAndLoad>();
                read::bytes(
                    (*args).overridden_serialized_compile_options,
                    (*args).overridden_serialized_compile_options_size,
                )?
            };
            if !options.is_empty() {
                artifact.facts.compile_options = options.to_vec();
            }
        }
        args.loaded_executable = load(args.client, &client, artifact)?;
        Ok(())
    }

    fn client_load(args: Load) = "PJRT_Client_Load" {
        let client = CLIENTS.get(args.client)?;
        let facts = EXECUTABLES.get(args.executable)?.facts;
        args.loaded_executable = load(args.client, &client, facts.artifact.clone())?;
        Ok(())
    }

    fn loaded_execute(args: PJRT_LoadedExecutable_Execute_Args) = "PJRT_LoadedExecutable_Execute" {
        let facts = LOADED.get(args.executable)?;
        let given = args.options;
        // SAFETY: options are as long as they say.
        let mut options = unsafe { WideOptions::of(given) };
        if let Some(options) = &mut options {
            args.options = options.as_mut_ptr();
        }
        let launched = match args.execute_device.is_null() && args.num_devices > 1 {
            // SAFETY: the caller's lists are as large as its call says.
            true => unsafe { gang::execute(args) },
            false => forward!("PJRT_LoadedExecutable_Execute", args),
        };
        args.options = given;
        launched?;
        // SAFETY: XLA CPU has just read and written these lists, whose sizes the call gives.
        unsafe { account(args, &facts) };
        Ok(())
    }
}

/// `PJRT_ExecuteOptions` as XLA CPU wants it. A client of an older PJRT has a shorter one, and XLA refuses that, though every field
/// that is missing has a meaning when it is zero: PyTorch/XLA 2.9 has 80 bytes, XLA CPU 0.81 to 0.115 asks for 112.
struct WideOptions([u64; 14]);

impl WideOptions {
    /// `None` where they are long enough, or not there.
    ///
    /// # Safety
    /// `given` is null, or points to as many bytes as it says in its first field.
    unsafe fn of(given: *const PJRT_ExecuteOptions) -> Option<Self> {
        if given.is_null() {
            return None;
        }
        // SAFETY: the size comes first in every PJRT struct.
        let size = unsafe { (*given).struct_size };
        let mut wide = [0u64; 14];
        if size < size_of::<usize>() || size >= size_of_val(&wide) {
            return None;
        }
        // SAFETY: by the contract, and what is shorter fits.
        unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), wide.as_mut_ptr().cast(), size) };
        wide[0] = size_of_val(&wide) as u64;
        Some(Self(wide))
    }

    fn as_mut_ptr(&mut self) -> *mut PJRT_ExecuteOptions {
        self.0.as_mut_ptr().cast()
    }
}

/// Counts the results, and no longer counts the arguments that they took over.
///
/// # Safety
/// The lists are as large as the call says, and its results are there.
unsafe fn account(args: &PJRT_LoadedExecutable_Execute_Args, facts: &ExecutableFacts) {
    if args.output_lists.is_null() {
        return;
    }
    let temporary = facts
        .artifact
        .facts
        .memory
        .get("temp")
        .copied()
        .unwrap_or_default();
    // SAFETY: by the contract.
    let results = |device: usize| unsafe {
        let list = args.output_lists.add(device).read();
        (0..facts.outputs).map(move |index| list.add(index).read())
    };
    let measure = || -> Vec<Vec<Option<Place>>> {
        (0..args.num_devices)
            .map(|device| results(device).map(memory::measure).collect())
            .collect()
    };
    let measured;
    let places = match args.execute_device.is_null() {
        true => facts.places.get_or_init(measure),
        false => {
            measured = measure();
            &measured
        }
    };
    for (device, places) in places.iter().enumerate().take(args.num_devices) {
        for index in &facts.artifact.facts.aliased_parameters {
            if *index < args.num_args {
                // SAFETY: by the contract.
                memory::remove_if_deleted(unsafe {
                    args.argument_lists.add(device).read().add(*index).read()
                });
            }
        }
        for (place, result) in places.iter().zip(results(device)) {
            if let Some(place) = place {
                place.fill(result, temporary);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execute_options_of_an_older_client_are_lengthened_with_zeros() {
        let mut old = [80u64, 0, 0, 0, 0, 0, 7, 0x1000, 2, 0x2000];
        let given: *const PJRT_ExecuteOptions = old.as_mut_ptr().cast();
        // SAFETY: it points to 80 bytes and says so.
        let wide = unsafe { WideOptions::of(given) }.unwrap();
        assert_eq!(
            wide.0,
            [112, 0, 0, 0, 0, 0, 7, 0x1000, 2, 0x2000, 0, 0, 0, 0]
        );
        let mut new = [0u64; 15];
        new[0] = 120;
        // SAFETY: it points to 120 bytes and says so.
        assert!(unsafe { WideOptions::of(new.as_mut_ptr().cast()) }.is_none());
        // SAFETY: null is allowed.
        assert!(unsafe { WideOptions::of(ptr::null()) }.is_none());
    }
}
