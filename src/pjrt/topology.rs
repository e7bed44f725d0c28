//! Topologies: the devices of a machine that need not be here, to compile for ahead of time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pjrt_sys::*;

use super::device::{DeviceDescription, Owner};
use super::raw::{self, call};
use super::value::{self, NamedValue, Value};
use super::{Plugin, Result};

/// Cheap to clone.
#[derive(Clone)]
pub struct Topology(Arc<Inner>);

struct Inner {
    plugin: Plugin,
    raw: *mut PJRT_TopologyDescription,
}

// SAFETY: a topology never changes, and may be read from any thread.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut args = PJRT_TopologyDescription_Destroy_Args::new();
        args.topology = self.raw;
        let _ = call!(&self.plugin, PJRT_TopologyDescription_Destroy, args);
    }
}

impl Topology {
    pub(super) fn create(plugin: &Plugin, name: &str, options: &[NamedValue]) -> Result<Self> {
        let options = value::to_raw(options);
        let mut args = PJRT_TopologyDescription_Create_Args::new();
        args.topology_name = name.as_ptr().cast();
        args.topology_name_size = name.len();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        call!(plugin, PJRT_TopologyDescription_Create, args)?;
        Ok(Self(Arc::new(Inner {
            plugin: plugin.clone(),
            raw: raw::handle("PJRT_TopologyDescription_Create", args.topology)?,
        })))
    }

    pub fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    pub(super) fn raw(&self) -> *mut PJRT_TopologyDescription {
        self.0.raw
    }

    pub fn platform_name(&self) -> Result<String> {
        let mut args = PJRT_TopologyDescription_PlatformName_Args::new();
        args.topology = self.raw();
        call!(self.plugin(), PJRT_TopologyDescription_PlatformName, args)?;
        // SAFETY: the name lives as long as the topology.
        Ok(unsafe { raw::text(args.platform_name, args.platform_name_size) })
    }

    pub fn platform_version(&self) -> Result<String> {
        let mut args = PJRT_TopologyDescription_PlatformVersion_Args::new();
        args.topology = self.raw();
        call!(
            self.plugin(),
            PJRT_TopologyDescription_PlatformVersion,
            args
        )?;
        // SAFETY: the version lives as long as the topology.
        Ok(unsafe { raw::text(args.platform_version, args.platform_version_size) })
    }

    pub fn devices(&self) -> Result<Vec<DeviceDescription>> {
        const CALL: &str = "PJRT_TopologyDescription_GetDeviceDescriptions";
        let mut args = PJRT_TopologyDescription_GetDeviceDescriptions_Args::new();
        args.topology = self.raw();
        call!(
            self.plugin(),
            PJRT_TopologyDescription_GetDeviceDescriptions,
            args
        )?;
        // SAFETY: the array lives as long as the topology.
        let devices = unsafe { raw::slice(CALL, args.descriptions, args.num_descriptions)? };
        devices
            .iter()
            .map(|device| {
                Ok(DeviceDescription::of(
                    Owner::Topology(self.clone()),
                    raw::handle(CALL, *device)?,
                ))
            })
            .collect()
    }

    pub fn attributes(&self) -> Result<BTreeMap<String, Value>> {
        const CALL: &str = "PJRT_TopologyDescription_Attributes";
        let mut args = PJRT_TopologyDescription_Attributes_Args::new();
        args.topology = self.raw();
        call!(self.plugin(), PJRT_TopologyDescription_Attributes, args)?;
        // SAFETY: the attributes live as long as the topology.
        unsafe { value::from_raw(CALL, args.attributes, args.num_attributes) }
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("plugin", self.plugin())
            .finish_non_exhaustive()
    }
}
