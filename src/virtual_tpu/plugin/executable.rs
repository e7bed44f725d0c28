//! What clients ask of an executable: answered as the TPU's compiler would, not XLA CPU's.
//!
//! XLA CPU runs a program of R replicas and P partitions as one of R·P replicas; clients see R and P. Output types, shapes,
//! layouts and memories are XLA CPU's, for its buffers are what comes out.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::{Arc, OnceLock};

use pjrt_sys::protos::xla;
use pjrt_sys::*;
use prost::Message;

use super::abi::{
    CompileOptionsOf, CompiledMemoryStats, DeviceAssignment, LogicalId, LogicalIds, Shardings,
};
use super::cpu;
use super::entry::{Answer, bad_arguments, entry, forward};
use super::handles::{EXECUTABLES, ExecutableOf, LOADED, NamedValues};
use super::memory::Place;
use crate::pjrt::CompileOptions;
use crate::pjrt::executable::STATISTICS;
use crate::virtual_tpu::artifact::{Artifact, Bytes};
use crate::virtual_tpu::serve::code;
use crate::virtual_tpu::wire::Failure;

/// One compiled program, in forms that C can read for as long as this lives.
pub struct ExecutableFacts {
    pub artifact: Artifact,
    cost: NamedValues,
    parameter_shardings: ShardingLists,
    output_shardings: ShardingLists,
    /// Of R × P devices, where P is above 1; else XLA CPU's own answers are right.
    assignment: Option<Vec<u8>>,
    logical_ids: Vec<LogicalId>,
    /// Results per device.
    pub outputs: usize,
    /// Where results lie, by device and result; the same at every execution on the devices that it was compiled for.
    pub places: OnceLock<Vec<Vec<Option<Place>>>>,
}

struct ShardingLists {
    pointers: Vec<*const c_char>,
    sizes: Vec<usize>,
    known: bool,
}

// SAFETY: the pointers lead into the artifact that stands beside them, which never changes.
unsafe impl Send for ShardingLists {}
// SAFETY: as for Send.
unsafe impl Sync for ShardingLists {}

impl ShardingLists {
    fn new(shardings: Option<&Vec<Bytes>>) -> Self {
        let list = shardings.map_or(&[][..], Vec::as_slice);
        Self {
            pointers: list
                .iter()
                .map(|Bytes(bytes)| bytes.as_ptr().cast())
                .collect(),
            sizes: list.iter().map(|Bytes(bytes)| bytes.len()).collect(),
            known: shardings.is_some(),
        }
    }

    fn write(&self, args: &mut Shardings) {
        args.count = self.pointers.len();
        (args.shardings, args.sharding_sizes) = match self.known {
            true => (self.pointers.as_ptr(), self.sizes.as_ptr()),
            false => (ptr::null(), ptr::null()),
        };
    }
}

impl ExecutableFacts {
    pub fn new(artifact: Artifact, outputs: usize) -> Arc<Self> {
        let facts = &artifact.facts;
        let (replicas, partitions) = (facts.replicas, facts.partitions);
        let logical_ids = (0..replicas)
            .flat_map(|replica| (0..partitions).map(move |partition| (replica, partition)))
            .map(|(replica, partition)| LogicalId {
                replica: replica as i32,
                partition: partition as i32,
            })
            .collect();
        Arc::new(Self {
            cost: NamedValues::new(&facts.cost),
            // The bytes themselves are on the heap, and stay there when the artifact moves.
            parameter_shardings: ShardingLists::new(facts.parameter_shardings.as_ref()),
            output_shardings: ShardingLists::new(facts.output_shardings.as_ref()),
            assignment: (partitions > 1)
                .then(|| assignment(&facts.compile_options, replicas, partitions)),
            logical_ids,
            outputs,
            places: OnceLock::new(),
            artifact,
        })
    }
}

/// A serialised `DeviceAssignmentProto`: the client's, or else device r·P + p for replica r and partition p.
fn assignment(options: &[u8], replicas: usize, partitions: usize) -> Vec<u8> {
    let given = CompileOptions::decode(options)
        .ok()
        .and_then(|options| options.assigned_devices());
    let device = |replica: usize, partition: usize| {
        given
            .as_ref()
            .and_then(|rows| rows.get(replica)?.get(partition).copied())
            .unwrap_or((replica * partitions + partition) as i64)
    };
    xla::DeviceAssignmentProto {
        replica_count: replicas as i32,
        computation_count: partitions as i32,
        computation_devices: (0..partitions)
            .map(
                |partition| xla::device_assignment_proto::ComputationDevice {
                    replica_device_ids: (0..replicas)
                        .map(|replica| device(replica, partition))
                        .collect(),
                },
            )
            .collect(),
    }
    .encode_to_vec()
}

fn of(executable: *const PJRT_Executable) -> Result<Arc<ExecutableFacts>, Failure> {
    EXECUTABLES
        .get(executable)
        .map(|executable| executable.facts)
}

/// Bytes that a call returns are a box of their own, which this frees.
pub unsafe extern "C" fn free_bytes(bytes: *mut c_void) {
    if !bytes.is_null() {
        // SAFETY: the caller gives back, once, what `hand_out` returned.
        drop(unsafe { Box::from_raw(bytes.cast::<Vec<u8>>()) });
    }
}

/// The bytes' owner, for [`free_bytes`], where they are, and how many.
pub fn hand_out(bytes: Vec<u8>) -> (*mut c_void, *const c_char, usize) {
    let owner = Box::new(bytes);
    let (start, length) = (owner.as_ptr().cast(), owner.len());
    (Box::into_raw(owner).cast(), start, length)
}

entry! {
    fn executable_name(args: PJRT_Executable_Name_Args) = "PJRT_Executable_Name" {
        let facts = of(args.executable)?;
        let name = &facts.artifact.facts.name;
        args.executable_name = name.as_ptr().cast();
        args.executable_name_size = name.len();
        Ok(())
    }

    fn executable_num_replicas(args: PJRT_Executable_NumReplicas_Args) = "PJRT_Executable_NumReplicas" {
        args.num_replicas = of(args.executable)?.artifact.facts.replicas;
        Ok(())
    }

    fn executable_num_partitions(args: PJRT_Executable_NumPartitions_Args) = "PJRT_Executable_NumPartitions" {
        args.num_partitions = of(args.executable)?.artifact.facts.partitions;
        Ok(())
    }

    fn executable_code_size(args: PJRT_Executable_SizeOfGeneratedCodeInBytes_Args) =
        "PJRT_Executable_SizeOfGeneratedCodeInBytes"
    {
        args.size_in_bytes = of(args.executable)?.artifact.facts.code_size;
        Ok(())
    }

    fn executable_cost_analysis(args: PJRT_Executable_GetCostAnalysis_Args) = "PJRT_Executable_GetCostAnalysis" {
        let facts = of(args.executable)?;
        args.num_properties = facts.cost.len();
        args.properties = facts.cost.as_ptr();
        Ok(())
    }

    fn executable_fingerprint(args: PJRT_Executable_Fingerprint_Args) = "PJRT_Executable_Fingerprint" {
        let facts = of(args.executable)?;
        let fingerprint = &facts.artifact.facts.fingerprint;
        args.executable_fingerprint = fingerprint.as_ptr().cast();
        args.executable_fingerprint_size = fingerprint.len();
        Ok(())
    }

    fn loaded_fingerprint(args: PJRT_LoadedExecutable_Fingerprint_Args) = "PJRT_LoadedExecutable_Fingerprint" {
        let facts = LOADED.get(args.executable)?;
        let fingerprint = &facts.artifact.facts.fingerprint;
        args.executable_fingerprint = fingerprint.as_ptr().cast();
        args.executable_fingerprint_size = fingerprint.len();
        Ok(())
    }

    fn executable_optimized_program(args: PJRT_Executable_OptimizedProgram_Args) =
        "PJRT_Executable_OptimizedProgram"
    {
        let facts = of(args.executable)?;
        if args.program.is_null() {
            return Err(bad_arguments("no room for a program".to_owned()).into());
        }
        // SAFETY: the caller gives a whole PJRT_Program for the answer.
        let program = unsafe { &mut *args.program };
        let optimized = &facts.artifact.optimized;
        let format = &facts.artifact.facts.optimized_format;
        if !program.code.is_null() {
            if program.code_size < optimized.len() {
                return Err(bad_arguments(format!(
                    "the program takes {} bytes, and there is room for {}",
                    optimized.len(),
                    program.code_size
                ))
                .into());
            }
            // SAFETY: the caller's room is as large as it says, which is enough, and not ours.
            unsafe {
                ptr::copy_nonoverlapping(optimized.as_ptr(), program.code.cast(), optimized.len());
            }
        }
        program.code_size = optimized.len();
        program.format = format.as_ptr().cast();
        program.format_size = format.len();
        Ok(())
    }

    fn executable_serialize(args: PJRT_Executable_Serialize_Args) = "PJRT_Executable_Serialize" {
        let bytes = of(args.executable)?
            .artifact
            .encode(&cpu::load()?.sha256)
            .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        let (owner, start, length) = hand_out(bytes);
        args.serialized_bytes = start;
        args.serialized_bytes_size = length;
        args.serialized_executable = owner.cast();
        args.serialized_executable_deleter = Some(free_serialized);
        Ok(())
    }

    fn executable_memory_stats(args: CompiledMemoryStats) = "PJRT_Executable_GetCompiledMemoryStats" {
        let facts = of(args.executable)?;
        let memory = &facts.artifact.facts.memory;
        let first = offset_of!(CompiledMemoryStats, executable) + size_of::<usize>();
        let room = (args.struct_size - first) / size_of::<i64>();
        for (index, name) in STATISTICS.iter().enumerate().take(room) {
            let value = memory.get(*name).copied().unwrap_or_default();
            // SAFETY: the caller's struct goes on for `room` numbers after its executable, by its own size.
            unsafe {
                (&raw mut *args).byte_add(first).cast::<i64>().add(index).write(value);
            }
        }
        Ok(())
    }

    fn executable_compile_options(args: CompileOptionsOf) = "PJRT_Executable_GetCompileOptions" {
        let facts = of(args.executable)?;
        let (owner, start, length) = hand_out(facts.artifact.facts.compile_options.clone());
        args.serialized_bytes = start;
        args.serialized_bytes_size = length;
        args.serialized_compile_options = owner;
        args.serialized_compile_options_deleter = Some(free_bytes);
        Ok(())
    }

    fn executable_destroy(args: PJRT_Executable_Destroy_Args) = "PJRT_Executable_Destroy" {
        match EXECUTABLES.remove(args.executable) {
            // What frees XLA CPU's executable is that this goes.
            Some(ExecutableOf { loaded: Some(_), .. }) => Ok(()),
            _ => forward!("PJRT_Executable_Destroy", args),
        }
    }

    fn loaded_destroy(args: PJRT_LoadedExecutable_Destroy_Args) = "PJRT_LoadedExecutable_Destroy" {
        LOADED.remove(args.executable);
        forward!("PJRT_LoadedExecutable_Destroy", args)
    }

    fn loaded_get_executable(args: PJRT_LoadedExecutable_GetExecutable_Args) =
        "PJRT_LoadedExecutable_GetExecutable"
    {
        let facts = LOADED.get(args.loaded_executable)?;
        forward!("PJRT_LoadedExecutable_GetExecutable", args)?;
        EXECUTABLES.insert(args.executable, ExecutableOf { facts, loaded: None });
        Ok(())
    }

    fn loaded_device_assignment(args: DeviceAssignment) = "PJRT_LoadedExecutable_GetDeviceAssignment" {
        let facts = LOADED.get(args.executable)?;
        let Some(assignment) = &facts.assignment else {
            return forward!("PJRT_LoadedExecutable_GetDeviceAssignment", args);
        };
        let (owner, start, length) = hand_out(assignment.clone());
        args.serialized_bytes = start;
        args.serialized_bytes_size = length;
        args.serialized_device_assignment = owner;
        args.serialized_device_assignment_deleter = Some(free_bytes);
        Ok(())
    }

    fn loaded_logical_ids(args: LogicalIds) = "PJRT_LoadedExecutable_AddressableDeviceLogicalIds" {
        let facts = LOADED.get(args.executable)?;
        if facts.assignment.is_none() {
            return forward!("PJRT_LoadedExecutable_AddressableDeviceLogicalIds", args);
        }
        args.addressable_device_logical_ids = facts.logical_ids.as_ptr();
        args.num_addressable_device_logical_ids = facts.logical_ids.len();
        Ok(())
    }

    fn executable_parameter_shardings(args: Shardings) = "PJRT_Shardings_PJRT_Executable_ParameterShardings" {
        shardings(args, |facts| &facts.parameter_shardings)
    }

    fn executable_output_shardings(args: Shardings) = "PJRT_Shardings_PJRT_Executable_OutputShardings" {
        shardings(args, |facts| &facts.output_shardings)
    }
}

fn shardings(
    args: &mut Shardings,
    list: impl FnOnce(&ExecutableFacts) -> &ShardingLists,
) -> Answer {
    let facts = of(args.executable)?;
    list(&facts).write(args);
    Ok(())
}

unsafe extern "C" fn free_serialized(executable: *mut PJRT_SerializedExecutable) {
    // SAFETY: the caller gives back, once, what `executable_serialize` returned.
    unsafe { free_bytes(executable.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(options: &CompileOptions) -> xla::DeviceAssignmentProto {
        xla::DeviceAssignmentProto::decode(&assignment(&options.encode(), 2, 2)[..]).unwrap()
    }

    #[test]
    fn the_assignment_is_of_replicas_and_partitions() {
        let columns = |assignment: xla::DeviceAssignmentProto| -> Vec<Vec<i64>> {
            assignment
                .computation_devices
                .into_iter()
                .map(|column| column.replica_device_ids)
                .collect()
        };
        let options = CompileOptions::new().replicas(2).partitions(2);
        assert_eq!(columns(decoded(&options)), [[0, 2], [1, 3]]);
        let options = options.devices(&[vec![3, 2], vec![1, 0]]);
        assert_eq!(columns(decoded(&options)), [[3, 1], [2, 0]]);
    }
}
