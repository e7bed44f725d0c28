//! Devices, and their descriptions, which topologies have too.

use std::collections::BTreeMap;
use std::fmt;

use pjrt_sys::*;

use super::raw::{self, call};
use super::{Client, Plugin, Result, Topology, Value, value};

/// A device of a client. Cheap to clone.
#[derive(Clone)]
pub struct Device {
    client: Client,
    raw: *mut PJRT_Device,
}

// SAFETY: a device belongs to its client, which `client` keeps alive, and may be used from any thread as that may.
unsafe impl Send for Device {}
// SAFETY: as for Send.
unsafe impl Sync for Device {}

impl Device {
    pub(super) fn of(client: &Client, raw: *mut PJRT_Device) -> Self {
        Self {
            client: client.clone(),
            raw,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn raw(&self) -> *mut PJRT_Device {
        self.raw
    }

    pub fn description(&self) -> Result<DeviceDescription> {
        let mut args = PJRT_Device_GetDescription_Args::new();
        args.device = self.raw;
        call!(self.client.plugin(), PJRT_Device_GetDescription, args)?;
        Ok(DeviceDescription {
            owner: Owner::Client(self.client.clone()),
            raw: raw::handle("PJRT_Device_GetDescription", args.device_description)?,
        })
    }

    pub fn id(&self) -> Result<i64> {
        self.description()?.id()
    }

    pub fn kind(&self) -> Result<String> {
        self.description()?.kind()
    }

    pub fn debug_string(&self) -> Result<String> {
        self.description()?.debug_string()
    }

    pub fn attributes(&self) -> Result<BTreeMap<String, Value>> {
        self.description()?.attributes()
    }

    /// Bytes and counts that the plug-in keeps: `bytes_in_use` always, the others where it says that they are set.
    /// CPU plug-ins answer UNIMPLEMENTED.
    pub fn memory_stats(&self) -> Result<BTreeMap<String, i64>> {
        let mut args = PJRT_Device_MemoryStats_Args::new();
        args.device = self.raw;
        call!(self.client.plugin(), PJRT_Device_MemoryStats, args)?;
        let mut stats = BTreeMap::from([("bytes_in_use".to_owned(), args.bytes_in_use)]);
        macro_rules! take {
            ($($field:ident if $set:ident),* $(,)?) => {
                $(if args.$set {
                    stats.insert(stringify!($field).to_owned(), args.$field);
                })*
            };
        }
        take! {
            peak_bytes_in_use if peak_bytes_in_use_is_set,
            num_allocs if num_allocs_is_set,
            largest_alloc_size if largest_alloc_size_is_set,
            bytes_limit if bytes_limit_is_set,
            bytes_reserved if bytes_reserved_is_set,
            peak_bytes_reserved if peak_bytes_reserved_is_set,
            bytes_reservable_limit if bytes_reservable_limit_is_set,
            largest_free_block_bytes if largest_free_block_bytes_is_set,
            pool_bytes if pool_bytes_is_set,
            peak_pool_bytes if peak_pool_bytes_is_set,
        }
        Ok(stats)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.debug_string().unwrap_or_default())
    }
}

/// What a description belongs to, and keeps alive.
#[derive(Clone)]
pub(super) enum Owner {
    Client(Client),
    Topology(Topology),
}

/// What is known of a device without running on it.
#[derive(Clone)]
pub struct DeviceDescription {
    owner: Owner,
    raw: *mut PJRT_DeviceDescription,
}

// SAFETY: a description belongs to its owner, which `owner` keeps alive, and never changes.
unsafe impl Send for DeviceDescription {}
// SAFETY: as for Send.
unsafe impl Sync for DeviceDescription {}

impl DeviceDescription {
    pub(super) fn of(owner: Owner, raw: *mut PJRT_DeviceDescription) -> Self {
        Self { owner, raw }
    }

    fn plugin(&self) -> &Plugin {
        match &self.owner {
            Owner::Client(client) => client.plugin(),
            Owner::Topology(topology) => topology.plugin(),
        }
    }

    /// Unique among the devices of all processes.
    pub fn id(&self) -> Result<i64> {
        let mut args = PJRT_DeviceDescription_Id_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_Id, args)?;
        Ok(args.id.into())
    }

    pub fn process_index(&self) -> Result<i64> {
        let mut args = PJRT_DeviceDescription_ProcessIndex_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_ProcessIndex, args)?;
        Ok(args.process_index.into())
    }

    /// The vendor's name of the hardware: `TPU v6 lite`, `cpu`.
    pub fn kind(&self) -> Result<String> {
        let mut args = PJRT_DeviceDescription_Kind_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_Kind, args)?;
        // SAFETY: the text lives as long as the description's owner.
        Ok(unsafe { raw::text(args.device_kind, args.device_kind_size) })
    }

    pub fn debug_string(&self) -> Result<String> {
        let mut args = PJRT_DeviceDescription_DebugString_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_DebugString, args)?;
        // SAFETY: the text lives as long as the description's owner.
        Ok(unsafe { raw::text(args.debug_string, args.debug_string_size) })
    }

    /// For people, and terse: `TpuDevice(id=0, …)`.
    pub fn text(&self) -> Result<String> {
        let mut args = PJRT_DeviceDescription_ToString_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_ToString, args)?;
        // SAFETY: the text lives as long as the description's owner.
        Ok(unsafe { raw::text(args.to_string, args.to_string_size) })
    }

    /// `coords`, `core_on_chip`, … for a TPU; often empty elsewhere.
    pub fn attributes(&self) -> Result<BTreeMap<String, Value>> {
        const CALL: &str = "PJRT_DeviceDescription_Attributes";
        let mut args = PJRT_DeviceDescription_Attributes_Args::new();
        args.device_description = self.raw;
        call!(self.plugin(), PJRT_DeviceDescription_Attributes, args)?;
        // SAFETY: the attributes live as long as the description's owner.
        unsafe { value::from_raw(CALL, args.attributes, args.num_attributes) }
    }
}

impl fmt::Debug for DeviceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceDescription({})",
            self.debug_string().unwrap_or_default()
        )
    }
}
