//! Topologies, a client's own and those that are made by name: the devices of a slice, to compile for without a client.
//!
//! The handle of one that is made by name is the topology of an XLA CPU client with as many devices, made for it.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::Arc;

use pjrt_sys::*;

use super::abi::{TopologyDeserialize, TopologyFingerprint};
use super::compile::new_client;
use super::cpu;
use super::entry::{bad_arguments, entry, forward};
use super::executable::{free_bytes, hand_out};
use super::handles::{DESCRIPTIONS, DescriptionOf, TOPOLOGIES, VirtualTopology};
use super::raised::Raised;
use super::read;
use crate::pjrt::raw;
use crate::virtual_tpu::serve::plugin_failure;
use crate::virtual_tpu::settings::Settings;
use crate::virtual_tpu::slice::Slice;
use crate::virtual_tpu::wire::Failure;

/// Before a slice's name, in the bytes of a topology.
const SERIALIZED: &str = "tpu-parity topology 1 ";

fn named(name: &[u8]) -> Result<Slice, Failure> {
    let name = String::from_utf8_lossy(name);
    name.parse()
        .map_err(|error: crate::virtual_tpu::slice::SliceError| bad_arguments(error.to_string()))
}

fn create(slice: Slice) -> Result<*mut PJRT_TopologyDescription, Raised> {
    let settings = Settings::from_environment(&BTreeMap::new())?;
    let facts = cpu::load()?.pool()?.describe(&slice)?;
    let client = new_client(facts.devices.len())?;
    let mut args = PJRT_Client_TopologyDescription_Args::new();
    args.client = client.raw();
    forward!("PJRT_Client_TopologyDescription", &mut args)?;
    let topology = Arc::new(VirtualTopology::new(
        slice,
        settings.numerics,
        facts,
        Some(client),
    ));
    TOPOLOGIES.insert(args.topology, topology);
    Ok(args.topology)
}

fn serialized(topology: &VirtualTopology) -> String {
    format!("{SERIALIZED}{}", topology.slice)
}

entry! {
    fn topology_create(args: PJRT_TopologyDescription_Create_Args) = "PJRT_TopologyDescription_Create" {
        // SAFETY: the caller's name is whole for the duration of the call.
        let name = unsafe { read::bytes(args.topology_name, args.topology_name_size)? };
        let slice = match name.is_empty() {
            true => Slice::default(),
            false => named(name)?,
        };
        args.topology = create(slice)?;
        Ok(())
    }

    fn topology_destroy(args: PJRT_TopologyDescription_Destroy_Args) = "PJRT_TopologyDescription_Destroy" {
        if let Some(topology) = TOPOLOGIES.remove(args.topology) {
            DESCRIPTIONS.remove_all(|of| Arc::ptr_eq(&of.topology, &topology));
        }
        Ok(())
    }

    fn topology_platform_name(args: PJRT_TopologyDescription_PlatformName_Args) =
        "PJRT_TopologyDescription_PlatformName"
    {
        let topology = TOPOLOGIES.get(args.topology)?;
        let name = &topology.facts.platform_name;
        args.platform_name = name.as_ptr().cast::<c_char>();
        args.platform_name_size = name.len();
        Ok(())
    }

    fn topology_platform_version(args: PJRT_TopologyDescription_PlatformVersion_Args) =
        "PJRT_TopologyDescription_PlatformVersion"
    {
        let topology = TOPOLOGIES.get(args.topology)?;
        let version = &topology.platform_version;
        args.platform_version = version.as_ptr().cast::<c_char>();
        args.platform_version_size = version.len();
        Ok(())
    }

    fn topology_devices(args: PJRT_TopologyDescription_GetDeviceDescriptions_Args) =
        "PJRT_TopologyDescription_GetDeviceDescriptions"
    {
        const CALL: &str = "PJRT_TopologyDescription_GetDeviceDescriptions";
        let topology = TOPOLOGIES.get(args.topology)?;
        forward!("PJRT_TopologyDescription_GetDeviceDescriptions", args)?;
        // SAFETY: the array lives as long as the topology.
        let descriptions = unsafe { raw::slice(CALL, args.descriptions, args.num_descriptions) }
            .map_err(plugin_failure)?;
        for (index, description) in descriptions.iter().enumerate().take(topology.devices.len()) {
            let topology = Arc::clone(&topology);
            DESCRIPTIONS.insert(*description, DescriptionOf { topology, index });
        }
        Ok(())
    }

    fn topology_attributes(args: PJRT_TopologyDescription_Attributes_Args) =
        "PJRT_TopologyDescription_Attributes"
    {
        let topology = TOPOLOGIES.get(args.topology)?;
        args.attributes = topology.attributes.as_ptr();
        args.num_attributes = topology.attributes.len();
        Ok(())
    }

    fn topology_serialize(args: PJRT_TopologyDescription_Serialize_Args) =
        "PJRT_TopologyDescription_Serialize"
    {
        let topology = TOPOLOGIES.get(args.topology)?;
        let (owner, start, length) = hand_out(serialized(&topology).into_bytes());
        args.serialized_bytes = start;
        args.serialized_bytes_size = length;
        args.serialized_topology = owner.cast();
        args.serialized_topology_deleter = Some(free_serialized);
        Ok(())
    }

    fn topology_deserialize(args: TopologyDeserialize) = "PJRT_TopologyDescription_Deserialize" {
        // SAFETY: the caller's bytes are whole for the duration of the call.
        let bytes = unsafe {
            read::bytes(args.serialized_topology, args.serialized_topology_size)?
        };
        let name = bytes.strip_prefix(SERIALIZED.as_bytes()).ok_or_else(|| {
            bad_arguments("these bytes are no topology of tpu-parity's virtual TPU".to_owned())
        })?;
        args.topology = create(named(name)?)?;
        Ok(())
    }

    /// Equal for equal slices and compilers.
    fn topology_fingerprint(args: TopologyFingerprint) = "PJRT_TopologyDescription_Fingerprint" {
        let topology = TOPOLOGIES.get(args.topology)?;
        let text = format!("{}\n{}", serialized(&topology), topology.platform_version);
        let hash = blake3::hash(text.as_bytes());
        args.fingerprint = hash
            .as_bytes()
            .iter()
            .take(8)
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(())
    }
}

unsafe extern "C" fn free_serialized(topology: *mut PJRT_SerializedTopology) {
    // SAFETY: the caller gives back, once, what `topology_serialize` returned.
    unsafe { free_bytes(topology.cast()) };
}
