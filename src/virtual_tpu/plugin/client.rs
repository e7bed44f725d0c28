//! The client and its devices: a TPU's to look at, XLA CPU's beneath.

use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use pjrt_sys::*;

use super::abi::{ClearMemoryStats, DeviceAttributes};
use super::cpu;
use super::entry::{Answer, entry, forward};
use super::executable::free_bytes;
use super::handles::{
    CLIENTS, DESCRIPTIONS, DEVICES, DescriptionOf, DeviceOf, MEMORIES, NamedValues, TOPOLOGIES,
    VirtualClient, VirtualTopology,
};
use super::memory::Tracker;
use super::raised::Raised;
use crate::pjrt::{NamedValue, Value, raw, value};
use crate::virtual_tpu::serve::{code, plugin_failure};
use crate::virtual_tpu::settings::{COMPILE_LOG, Settings, SettingsError};
use crate::virtual_tpu::wire::Failure;

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::new(code::INVALID_ARGUMENT, error.to_string())
    }
}

/// Points two fields of a client's struct at a text.
macro_rules! give_text {
    ($args:ident, $text:expr => $start:ident, $length:ident) => {{
        let text: &str = $text;
        $args.$start = text.as_ptr().cast::<c_char>();
        $args.$length = text.len();
    }};
}

entry! {
    fn plugin_initialize(args: PJRT_Plugin_Initialize_Args) = "PJRT_Plugin_Initialize" {
        let cpu = cpu::load()?;
        // XLA CPU's own was initialised when it was loaded. libtpu loads while the client goes on; what is wrong with it
        // is said when a client is made.
        let _ = (args, cpu.pool());
        Ok(())
    }

    /// XLA CPU's, but for the newest StableHLO that is understood: that is libtpu's, for XLA CPU never reads any.
    fn plugin_attributes(args: PJRT_Plugin_Attributes_Args) = "PJRT_Plugin_Attributes" {
        static ATTRIBUTES: OnceLock<NamedValues> = OnceLock::new();
        let cpu = cpu::load()?;
        if ATTRIBUTES.get().is_none() {
            let mut attributes = cpu.plugin.attributes().map_err(plugin_failure)?;
            let version = cpu.pool()?.compiler_facts()?.stablehlo_version;
            if let Some(version) = version {
                attributes.insert(
                    "stablehlo_current_version".to_owned(),
                    Value::I64List(version.to_vec()),
                );
            }
            let _ = ATTRIBUTES.set(NamedValues::new(&attributes));
        }
        if let Some(attributes) = ATTRIBUTES.get() {
            args.attributes = attributes.as_ptr();
            args.num_attributes = attributes.len();
        }
        Ok(())
    }

    fn client_create(args: PJRT_Client_Create_Args) = "PJRT_Client_Create" {
        // SAFETY: the caller's options are whole for the duration of the call.
        let options = unsafe {
            value::from_raw("PJRT_Client_Create", args.create_options, args.num_options)
        }
        .map_err(plugin_failure)?;
        let settings = Settings::from_environment(&options)?;
        check_log(&settings)?;
        let facts = cpu::load()?.pool()?.describe(&settings.slice)?;
        let devices = facts.devices.len();
        create_cpu_client(args, devices)?;
        let topology = Arc::new(VirtualTopology::new(
            settings.slice.clone(),
            settings.numerics,
            facts,
            None,
        ));
        let client = Arc::new(VirtualClient {
            settings,
            topology,
            memory: Arc::new(Tracker::new(devices)),
        });
        register(args.client, &client).inspect_err(|_| {
            forget(args.client, &client);
            let mut destroy = PJRT_Client_Destroy_Args::new();
            destroy.client = args.client;
            if let Err(raised) = forward!("PJRT_Client_Destroy", &mut destroy) {
                raised.discard();
            }
            args.client = ptr::null_mut();
        })
    }

    fn client_destroy(args: PJRT_Client_Destroy_Args) = "PJRT_Client_Destroy" {
        if let Ok(client) = CLIENTS.get(args.client) {
            forget(args.client, &client);
        }
        forward!("PJRT_Client_Destroy", args)
    }

    fn client_platform_name(args: PJRT_Client_PlatformName_Args) = "PJRT_Client_PlatformName" {
        let client = CLIENTS.get(args.client)?;
        give_text!(args, &client.topology.facts.platform_name => platform_name, platform_name_size);
        Ok(())
    }

    fn client_platform_version(args: PJRT_Client_PlatformVersion_Args) = "PJRT_Client_PlatformVersion" {
        let client = CLIENTS.get(args.client)?;
        give_text!(args, &client.topology.platform_version => platform_version, platform_version_size);
        Ok(())
    }

    fn client_topology(args: PJRT_Client_TopologyDescription_Args) = "PJRT_Client_TopologyDescription" {
        let client = CLIENTS.get(args.client)?;
        forward!("PJRT_Client_TopologyDescription", args)?;
        TOPOLOGIES.insert(args.topology, Arc::clone(&client.topology));
        Ok(())
    }

    fn description_kind(args: PJRT_DeviceDescription_Kind_Args) = "PJRT_DeviceDescription_Kind" {
        let of = DESCRIPTIONS.get(args.device_description)?;
        give_text!(args, &of.topology.devices[of.index].facts.kind => device_kind, device_kind_size);
        Ok(())
    }

    fn description_debug_string(args: PJRT_DeviceDescription_DebugString_Args) =
        "PJRT_DeviceDescription_DebugString"
    {
        let of = DESCRIPTIONS.get(args.device_description)?;
        give_text!(args, &of.topology.devices[of.index].facts.debug_string => debug_string, debug_string_size);
        Ok(())
    }

    fn description_to_string(args: PJRT_DeviceDescription_ToString_Args) = "PJRT_DeviceDescription_ToString" {
        let of = DESCRIPTIONS.get(args.device_description)?;
        give_text!(args, &of.topology.devices[of.index].facts.to_string => to_string, to_string_size);
        Ok(())
    }

    fn description_attributes(args: PJRT_DeviceDescription_Attributes_Args) = "PJRT_DeviceDescription_Attributes" {
        let of = DESCRIPTIONS.get(args.device_description)?;
        let attributes = &of.topology.devices[of.index].attributes;
        args.attributes = attributes.as_ptr();
        args.num_attributes = attributes.len();
        Ok(())
    }

    fn device_attributes(args: DeviceAttributes) = "PJRT_Device_GetAttributes" {
        let device = DEVICES.get(args.device)?;
        let attributes = &device.client.topology.devices[device.index].attributes;
        args.attributes = attributes.as_ptr();
        args.num_attributes = attributes.len();
        // They live as long as the client, so there is nothing to free.
        args.device_attributes = ptr::null_mut();
        args.attributes_deleter = Some(free_bytes);
        Ok(())
    }

    fn device_memory_stats(args: PJRT_Device_MemoryStats_Args) = "PJRT_Device_MemoryStats" {
        let device = DEVICES.get(args.device)?;
        if let Some(usage) = device.client.memory.usage(device.index) {
            args.bytes_in_use = usage.in_use.load(Ordering::Relaxed);
            args.peak_bytes_in_use = usage.peak.load(Ordering::Relaxed);
            args.peak_bytes_in_use_is_set = true;
            args.num_allocs = usage.allocations.load(Ordering::Relaxed);
            args.num_allocs_is_set = true;
            args.largest_alloc_size = usage.largest.load(Ordering::Relaxed);
            args.largest_alloc_size_is_set = true;
        }
        let limit = device.client.topology.devices[device.index].facts.memory_limit();
        args.bytes_limit_is_set = limit.is_some();
        args.bytes_limit = limit.unwrap_or_default();
        args.bytes_reserved_is_set = false;
        args.peak_bytes_reserved_is_set = false;
        args.bytes_reservable_limit_is_set = false;
        args.largest_free_block_bytes_is_set = false;
        args.pool_bytes_is_set = false;
        args.peak_pool_bytes_is_set = false;
        Ok(())
    }

    fn device_clear_memory_stats(args: ClearMemoryStats) = "PJRT_Device_ClearMemoryStats" {
        let device = DEVICES.get(args.device)?;
        if let Some(usage) = device.client.memory.usage(device.index) {
            usage.clear();
        }
        Ok(())
    }
}

/// What belongs to a client goes with it.
fn forget(handle: *const PJRT_Client, client: &Arc<VirtualClient>) {
    CLIENTS.remove(handle);
    DEVICES.remove_all(|device| Arc::ptr_eq(&device.client, client));
    DESCRIPTIONS.remove_all(|of| Arc::ptr_eq(&of.topology, &client.topology));
    TOPOLOGIES.remove_all(|topology| Arc::ptr_eq(topology, &client.topology));
    MEMORIES.remove_all(|(tracker, _)| Arc::ptr_eq(tracker, &client.memory));
}

/// A log that cannot be written is said now, not after an hour of compiling.
fn check_log(settings: &Settings) -> Result<(), Failure> {
    let Some(path) = &settings.compile_log else {
        return Ok(());
    };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(drop)
        .map_err(|error| {
            let reason = format!("{COMPILE_LOG}: cannot write {}: {error}", path.display());
            Failure::new(code::INVALID_ARGUMENT, reason)
        })
}

/// With as many devices as the slice has, and none of the client's own options, most of which XLA CPU refuses.
fn create_cpu_client(args: &mut PJRT_Client_Create_Args, devices: usize) -> Answer {
    let options = [NamedValue::new("cpu_device_count", devices as i64)];
    let options = value::to_raw(&options);
    let given = (args.create_options, args.num_options);
    args.create_options = options.as_ptr();
    args.num_options = options.len();
    let created = forward!("PJRT_Client_Create", args);
    (args.create_options, args.num_options) = given;
    created
}

/// Remembers the client and what belongs to it by their handles.
fn register(handle: *mut PJRT_Client, client: &Arc<VirtualClient>) -> Answer {
    let mut list = PJRT_Client_Devices_Args::new();
    list.client = handle;
    forward!("PJRT_Client_Devices", &mut list)?;
    // SAFETY: the array lives as long as the client.
    let devices = unsafe { raw::slice("PJRT_Client_Devices", list.devices, list.num_devices) }
        .map_err(plugin_failure)?;
    if devices.len() != client.topology.devices.len() {
        return Err(Raised::Own(Failure::new(
            code::INTERNAL,
            format!(
                "XLA CPU shows {} devices for the {} of {}",
                devices.len(),
                client.topology.devices.len(),
                client.topology.slice
            ),
        )));
    }
    for (index, device) in devices.iter().enumerate() {
        let mut description = PJRT_Device_GetDescription_Args::new();
        description.device = *device;
        forward!("PJRT_Device_GetDescription", &mut description)?;
        let mut memory = PJRT_Device_DefaultMemory_Args::new();
        memory.device = *device;
        forward!("PJRT_Device_DefaultMemory", &mut memory)?;
        let client = Arc::clone(client);
        let topology = Arc::clone(&client.topology);
        DESCRIPTIONS.insert(
            description.device_description,
            DescriptionOf { topology, index },
        );
        MEMORIES.insert(memory.memory, (Arc::clone(&client.memory), index));
        DEVICES.insert(*device, DeviceOf { client, index });
    }
    CLIENTS.insert(handle, Arc::clone(client));
    Ok(())
}
