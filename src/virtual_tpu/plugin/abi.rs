//! The parts of the PJRT C API that are newer than the header of `pjrt-sys` (0.54), and where entries stand in the table.
//!
//! The structs are those of OpenXLA's `pjrt_c_api.h` as of 0.115; they only ever grow at the end.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;

use pjrt_sys::*;

use crate::pjrt::entries::{ENTRIES, HEADER};

/// Bytes from the start of the table to an entry.
pub const fn offset(entry: &str) -> usize {
    let mut index = 0;
    while index < ENTRIES.len() {
        if same(ENTRIES[index], entry) {
            return HEADER + index * size_of::<usize>();
        }
        index += 1;
    }
    panic!("no such entry");
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// A struct of arguments, and the bytes of it that a caller must give.
pub trait Args {
    const SIZE: usize;
}

macro_rules! of_the_header {
    ($($args:ident),* $(,)?) => {
        $(impl Args for $args {
            const SIZE: usize = <$args>::STRUCT_SIZE;
        })*
    };
}

of_the_header! {
    PJRT_Error_Destroy_Args,
    PJRT_Error_Message_Args,
    PJRT_Error_GetCode_Args,
    PJRT_Plugin_Initialize_Args,
    PJRT_Client_Create_Args,
    PJRT_Client_Destroy_Args,
    PJRT_Client_PlatformName_Args,
    PJRT_Client_PlatformVersion_Args,
    PJRT_Client_TopologyDescription_Args,
    PJRT_Client_Devices_Args,
    PJRT_Client_Compile_Args,
    PJRT_Client_BufferFromHostBuffer_Args,
    PJRT_DeviceDescription_Attributes_Args,
    PJRT_DeviceDescription_Kind_Args,
    PJRT_DeviceDescription_DebugString_Args,
    PJRT_DeviceDescription_ToString_Args,
    PJRT_Device_GetDescription_Args,
    PJRT_Device_DefaultMemory_Args,
    PJRT_Device_MemoryStats_Args,
    PJRT_Event_Destroy_Args,
    PJRT_Event_OnReady_Args,
    PJRT_Executable_Destroy_Args,
    PJRT_Executable_Name_Args,
    PJRT_Executable_NumOutputs_Args,
    PJRT_Executable_NumReplicas_Args,
    PJRT_Executable_NumPartitions_Args,
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
    PJRT_Executable_GetCostAnalysis_Args,
    PJRT_Executable_OptimizedProgram_Args,
    PJRT_Executable_Serialize_Args,
    PJRT_Executable_Fingerprint_Args,
    PJRT_LoadedExecutable_Destroy_Args,
    PJRT_LoadedExecutable_GetExecutable_Args,
    PJRT_LoadedExecutable_Execute_Args,
    PJRT_LoadedExecutable_Fingerprint_Args,
    PJRT_Executable_DeserializeAndLoad_Args,
    PJRT_Buffer_Destroy_Args,
    PJRT_Buffer_Delete_Args,
    PJRT_Buffer_IsOnCpu_Args,
    PJRT_Buffer_CopyToDevice_Args,
    PJRT_Buffer_CopyToMemory_Args,
    PJRT_TopologyDescription_Create_Args,
    PJRT_TopologyDescription_Destroy_Args,
    PJRT_TopologyDescription_PlatformName_Args,
    PJRT_TopologyDescription_PlatformVersion_Args,
    PJRT_TopologyDescription_GetDeviceDescriptions_Args,
    PJRT_TopologyDescription_Serialize_Args,
    PJRT_TopologyDescription_Attributes_Args,
    PJRT_Compile_Args,
}

impl Args for PJRT_Plugin_Attributes_Args {
    // The header's own constant leaves the last field out.
    const SIZE: usize = size_of::<Self>();
}

macro_rules! newer {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                pub struct_size: usize,
                pub extension_start: *mut PJRT_Extension_Base,
                $(pub $field: $type,)*
            }

            impl Args for $name {
                const SIZE: usize = size_of::<Self>();
            }
        )*
    };
}

/// Frees what a call returned, given the object that owns it.
pub type Deleter = Option<unsafe extern "C" fn(*mut c_void)>;

newer! {
    /// `PJRT_Error_ForEachPayload_Args`
    ForEachPayload { error: *const PJRT_Error, visitor: *const c_void, user_arg: *mut c_void }

    /// `PJRT_Executable_GetCompiledMemoryStats_Args`, whose statistics the plug-in's version counts.
    CompiledMemoryStats { executable: *mut PJRT_Executable }

    /// `PJRT_Device_GetAttributes_Args`
    DeviceAttributes {
        device: *mut PJRT_Device,
        attributes: *const PJRT_NamedValue,
        num_attributes: usize,
        device_attributes: *mut c_void,
        attributes_deleter: Deleter,
    }

    /// `PJRT_Device_ClearMemoryStats_Args`
    ClearMemoryStats { device: *mut PJRT_Device }

    /// `PJRT_LoadedExecutable_GetDeviceAssignment_Args`
    DeviceAssignment {
        executable: *mut PJRT_LoadedExecutable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_device_assignment: *mut c_void,
        serialized_device_assignment_deleter: Deleter,
    }

    /// `PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args`
    LogicalIds {
        executable: *mut PJRT_LoadedExecutable,
        addressable_device_logical_ids: *const LogicalId,
        num_addressable_device_logical_ids: usize,
    }

    /// `PJRT_Executable_GetCompileOptions_Args`
    CompileOptionsOf {
        executable: *mut PJRT_Executable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_compile_options: *mut c_void,
        serialized_compile_options_deleter: Deleter,
    }

    /// `PJRT_Client_Load_Args`
    Load {
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable,
        loaded_executable: *mut PJRT_LoadedExecutable,
    }

    /// `PJRT_TopologyDescription_Deserialize_Args`
    TopologyDeserialize {
        serialized_topology: *const c_char,
        serialized_topology_size: usize,
        topology: *mut PJRT_TopologyDescription,
    }

    /// `PJRT_TopologyDescription_Fingerprint_Args`
    TopologyFingerprint { topology: *mut PJRT_TopologyDescription, fingerprint: u64 }

    /// `PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args`
    RetrieveBuffer {
        transfer_manager: *mut c_void,
        buffer_index: c_int,
        buffer_out: *mut PJRT_Buffer,
    }

    /// `PJRT_Executable_DeserializeAndLoad_Args` with the fields that were added after 0.54.
    DeserializeAndLoad {
        client: *mut PJRT_Client,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
        load_options: *mut c_void,
    }

    /// The arguments of both functions of the shardings extension: `…_ParameterShardings_Args`, `…_OutputShardings_Args`.
    Shardings {
        executable: *mut PJRT_Executable,
        count: usize,
        shardings: *const *const c_char,
        sharding_sizes: *const usize,
    }
}

/// `PJRT_LogicalDeviceIds`
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalId {
    pub replica: c_int,
    pub partition: c_int,
}

/// `PJRT_Extension_Type_Shardings`
pub const SHARDINGS: PJRT_Extension_Type = 19;

/// `PJRT_Shardings_Extension`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ShardingsExtension {
    pub base: PJRT_Extension_Base,
    pub parameter_shardings: Option<unsafe extern "C" fn(*mut Shardings) -> *mut PJRT_Error>,
    pub output_shardings: Option<unsafe extern "C" fn(*mut Shardings) -> *mut PJRT_Error>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn entries_stand_where_the_header_has_them() {
        assert_eq!(offset("PJRT_Error_Destroy"), HEADER);
        assert_eq!(
            offset("PJRT_Client_Compile"),
            offset_of!(PJRT_Api, PJRT_Client_Compile)
        );
    }

    /// Sizes as clients of 0.116 send them.
    #[test]
    fn newer_structs_have_the_sizes_that_clients_send() {
        assert_eq!(size_of::<ForEachPayload>(), 40);
        assert_eq!(size_of::<DeviceAttributes>(), 56);
        assert_eq!(size_of::<DeviceAssignment>(), 56);
        assert_eq!(size_of::<LogicalIds>(), 40);
        assert_eq!(size_of::<TopologyFingerprint>(), 32);
        assert_eq!(size_of::<DeserializeAndLoad>(), 72);
        assert_eq!(size_of::<Shardings>(), 48);
        assert_eq!(size_of::<ShardingsExtension>(), 40);
    }
}
