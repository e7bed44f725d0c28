//! The function table that clients get: XLA CPU's, with the entries that make a TPU of it in their places.

use std::mem::size_of;
use std::ptr;
use std::sync::OnceLock;

use pjrt_sys::*;

use super::abi::{SHARDINGS, ShardingsExtension, offset};
use super::raised::Raised;
use super::{client, compile, cpu, executable, memory, raised, topology};
use crate::pjrt::entries::ENTRIES;
use crate::virtual_tpu::wire::Failure;

macro_rules! overrides {
    ($($entry:literal => $function:path),* $(,)?) => {
        /// Offset in the table, and what stands there.
        const OVERRIDES: &[(usize, *const ())] = &[
            $((offset($entry), $function as *const ())),*
        ];
    };
}

overrides! {
    "PJRT_Error_Destroy" => raised::error_destroy,
    "PJRT_Error_Message" => raised::error_message,
    "PJRT_Error_GetCode" => raised::error_get_code,
    "PJRT_Error_ForEachPayload" => raised::error_for_each_payload,
    "PJRT_Plugin_Initialize" => client::plugin_initialize,
    "PJRT_Plugin_Attributes" => client::plugin_attributes,
    "PJRT_Client_Create" => client::client_create,
    "PJRT_Client_Destroy" => client::client_destroy,
    "PJRT_Client_PlatformName" => client::client_platform_name,
    "PJRT_Client_PlatformVersion" => client::client_platform_version,
    "PJRT_Client_TopologyDescription" => client::client_topology,
    "PJRT_DeviceDescription_Kind" => client::description_kind,
    "PJRT_DeviceDescription_DebugString" => client::description_debug_string,
    "PJRT_DeviceDescription_ToString" => client::description_to_string,
    "PJRT_DeviceDescription_Attributes" => client::description_attributes,
    "PJRT_Device_GetAttributes" => client::device_attributes,
    "PJRT_Device_MemoryStats" => client::device_memory_stats,
    "PJRT_Device_ClearMemoryStats" => client::device_clear_memory_stats,
    "PJRT_TopologyDescription_Create" => topology::topology_create,
    "PJRT_TopologyDescription_Destroy" => topology::topology_destroy,
    "PJRT_TopologyDescription_PlatformName" => topology::topology_platform_name,
    "PJRT_TopologyDescription_PlatformVersion" => topology::topology_platform_version,
    "PJRT_TopologyDescription_GetDeviceDescriptions" => topology::topology_devices,
    "PJRT_TopologyDescription_Attributes" => topology::topology_attributes,
    "PJRT_TopologyDescription_Serialize" => topology::topology_serialize,
    "PJRT_TopologyDescription_Deserialize" => topology::topology_deserialize,
    "PJRT_TopologyDescription_Fingerprint" => topology::topology_fingerprint,
    "PJRT_Client_Compile" => compile::client_compile,
    "PJRT_Compile" => compile::compile_for_topology,
    "PJRT_Executable_DeserializeAndLoad" => compile::deserialize_and_load,
    "PJRT_Client_Load" => compile::client_load,
    "PJRT_LoadedExecutable_Execute" => compile::loaded_execute,
    "PJRT_Executable_Name" => executable::executable_name,
    "PJRT_Executable_NumReplicas" => executable::executable_num_replicas,
    "PJRT_Executable_NumPartitions" => executable::executable_num_partitions,
    "PJRT_Executable_SizeOfGeneratedCodeInBytes" => executable::executable_code_size,
    "PJRT_Executable_GetCostAnalysis" => executable::executable_cost_analysis,
    "PJRT_Executable_Fingerprint" => executable::executable_fingerprint,
    "PJRT_LoadedExecutable_Fingerprint" => executable::loaded_fingerprint,
    "PJRT_Executable_OptimizedProgram" => executable::executable_optimized_program,
    "PJRT_Executable_Serialize" => executable::executable_serialize,
    "PJRT_Executable_GetCompiledMemoryStats" => executable::executable_memory_stats,
    "PJRT_Executable_GetCompileOptions" => executable::executable_compile_options,
    "PJRT_Executable_Destroy" => executable::executable_destroy,
    "PJRT_LoadedExecutable_Destroy" => executable::loaded_destroy,
    "PJRT_LoadedExecutable_GetExecutable" => executable::loaded_get_executable,
    "PJRT_LoadedExecutable_GetDeviceAssignment" => executable::loaded_device_assignment,
    "PJRT_LoadedExecutable_AddressableDeviceLogicalIds" => executable::loaded_logical_ids,
    "PJRT_Client_BufferFromHostBuffer" => memory::buffer_from_host_buffer,
    "PJRT_Buffer_CopyToDevice" => memory::buffer_copy_to_device,
    "PJRT_Buffer_CopyToMemory" => memory::buffer_copy_to_memory,
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer" => memory::retrieve_buffer,
    "PJRT_Buffer_Delete" => memory::buffer_delete,
    "PJRT_Buffer_Destroy" => memory::buffer_destroy,
    "PJRT_Buffer_IsOnCpu" => memory::buffer_is_on_cpu,
}

struct Table(*const PJRT_Api);

// SAFETY: the table never changes once it is made, and is never freed.
unsafe impl Send for Table {}
// SAFETY: as for Send.
unsafe impl Sync for Table {}

/// The PJRT plug-in's one symbol.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE
        .get_or_init(|| match cpu::load() {
            // SAFETY: a loaded plug-in's table lives as long as the process.
            Ok(cpu) => Table(unsafe { virtual_table(cpu.plugin.own_table()) }),
            Err(failure) => Table(failing_table(&failure)),
        })
        .0
}

/// # Safety
/// `own` is a plug-in's table that lives as long as the process.
unsafe fn virtual_table(own: *const PJRT_Api) -> *const PJRT_Api {
    // SAFETY: by the contract; a table begins with its size.
    let size = unsafe { (&raw const (*own).struct_size).read() };
    let table = room(size);
    // SAFETY: both are of at least `size` bytes, and the room is new.
    unsafe {
        ptr::copy_nonoverlapping(own.cast::<u8>(), table.cast::<u8>(), size);
    }
    for (offset, function) in OVERRIDES {
        if offset + size_of::<usize>() > size {
            continue;
        }
        // SAFETY: the entry lies within the table. What XLA CPU has no function for, its clients must not find.
        unsafe {
            let entry = table.byte_add(*offset).cast::<*const ()>();
            if !entry.read().is_null() {
                entry.write(*function);
            }
        }
    }
    // SAFETY: the copy is whole, and so is the chain of extensions that it leads to.
    unsafe {
        (*table).extension_start = extensions((*table).extension_start);
    }
    table
}

/// A chain of copies, in which shardings are those of the program that was compiled for the TPU.
///
/// # Safety
/// `first` is null or leads along a plug-in's chain of extensions, which lives as long as the process.
unsafe fn extensions(first: *mut PJRT_Extension_Base) -> *mut PJRT_Extension_Base {
    if first.is_null() {
        return first;
    }
    // SAFETY: by the contract a whole extension, which says its size.
    let base = unsafe { first.read() };
    let copy = room(base.struct_size.max(size_of::<PJRT_Extension_Base>()));
    // SAFETY: the room is new and as large; extensions are plain data.
    unsafe {
        ptr::copy_nonoverlapping(first.cast::<u8>(), copy.cast::<u8>(), base.struct_size);
        let copy = copy.cast::<PJRT_Extension_Base>();
        (*copy).next = extensions(base.next);
        if base.type_ == SHARDINGS && base.struct_size >= size_of::<ShardingsExtension>() {
            let shardings = copy.cast::<ShardingsExtension>();
            (*shardings).parameter_shardings = Some(executable::executable_parameter_shardings);
            (*shardings).output_shardings = Some(executable::executable_output_shardings);
        }
        copy
    }
}

/// Zeros that are never freed.
fn room(bytes: usize) -> *mut PJRT_Api {
    let words = bytes.max(size_of::<PJRT_Api>()).div_ceil(size_of::<u64>());
    vec![0u64; words].leak().as_mut_ptr().cast()
}

/// There is no way to fail here: a table whose entries do, so that the client hears why.
fn failing_table(failure: &Failure) -> *const PJRT_Api {
    static FAILURE: OnceLock<Failure> = OnceLock::new();
    let _ = FAILURE.set(failure.clone());
    unsafe extern "C" fn fail(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
        let failure = FAILURE.get().cloned();
        failure.map_or(ptr::null_mut(), |failure| Raised::Own(failure).into_raw())
    }
    /// The version whose entries are all known here.
    const MINOR: i32 = 113;
    let size = offset("PJRT_Error_Destroy") + ENTRIES.len() * size_of::<usize>();
    let table = room(size);
    for index in 0..ENTRIES.len() {
        let offset = offset("PJRT_Error_Destroy") + index * size_of::<usize>();
        // SAFETY: the entry lies within the room.
        unsafe {
            table
                .byte_add(offset)
                .cast::<*const ()>()
                .write(fail as *const ());
        }
    }
    for (offset, function) in &OVERRIDES[..4] {
        // SAFETY: as above; the first four are those of errors, which need nothing beneath them for ours.
        unsafe {
            table.byte_add(*offset).cast::<*const ()>().write(*function);
        }
    }
    // SAFETY: the room is of at least a whole header.
    unsafe {
        (*table).struct_size = size;
        (*table).pjrt_api_version = PJRT_Api_Version {
            struct_size: PJRT_Api_Version::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            major_version: 0,
            minor_version: MINOR,
        };
    }
    table
}
