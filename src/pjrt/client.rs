//! A client: the devices of a plug-in, and what is compiled for and kept on them.

use std::fmt;
use std::sync::Arc;

use pjrt_sys::*;

use super::raw::{self, call};
use super::value;
use super::{
    Buffer, CompileOptions, Device, Error, LoadedExecutable, NamedValue, Plugin, Program, Result,
};
use crate::tensor::Tensor;

/// Cheap to clone; the plug-in's client goes with the last of its clones, devices, buffers and executables.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    plugin: Plugin,
    raw: *mut PJRT_Client,
}

// SAFETY: the C API's functions on a client may be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: as for Send: a plug-in's client does its own locking.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut args = PJRT_Client_Destroy_Args::new();
        args.client = self.raw;
        // There is no one to tell.
        let _ = call!(&self.plugin, PJRT_Client_Destroy, args);
    }
}

impl Client {
    pub(super) fn create(plugin: &Plugin, options: &[NamedValue]) -> Result<Self> {
        let options = value::to_raw(options);
        let mut args = PJRT_Client_Create_Args::new();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        call!(plugin, PJRT_Client_Create, args)?;
        Ok(Self(Arc::new(Inner {
            plugin: plugin.clone(),
            raw: raw::handle("PJRT_Client_Create", args.client)?,
        })))
    }

    pub fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Client {
        self.0.raw
    }

    /// `cpu`, `tpu`, …
    pub fn platform_name(&self) -> Result<String> {
        let mut args = PJRT_Client_PlatformName_Args::new();
        args.client = self.raw();
        call!(self.plugin(), PJRT_Client_PlatformName, args)?;
        // SAFETY: the name lives as long as the client.
        Ok(unsafe { raw::text(args.platform_name, args.platform_name_size) })
    }

    /// Free text, often of several lines.
    pub fn platform_version(&self) -> Result<String> {
        let mut args = PJRT_Client_PlatformVersion_Args::new();
        args.client = self.raw();
        call!(self.plugin(), PJRT_Client_PlatformVersion, args)?;
        // SAFETY: the version lives as long as the client.
        Ok(unsafe { raw::text(args.platform_version, args.platform_version_size) })
    }

    /// Every device, those of other processes included.
    pub fn devices(&self) -> Result<Vec<Device>> {
        const CALL: &str = "PJRT_Client_Devices";
        let mut args = PJRT_Client_Devices_Args::new();
        args.client = self.raw();
        call!(self.plugin(), PJRT_Client_Devices, args)?;
        // SAFETY: the array lives as long as the client.
        self.adopt(CALL, unsafe {
            raw::slice(CALL, args.devices, args.num_devices)?
        })
    }

    /// The devices that this process can run on.
    pub fn addressable_devices(&self) -> Result<Vec<Device>> {
        const CALL: &str = "PJRT_Client_AddressableDevices";
        let mut args = PJRT_Client_AddressableDevices_Args::new();
        args.client = self.raw();
        call!(self.plugin(), PJRT_Client_AddressableDevices, args)?;
        // SAFETY: the array lives as long as the client.
        self.adopt(CALL, unsafe {
            raw::slice(CALL, args.addressable_devices, args.num_addressable_devices)?
        })
    }

    /// Plug-ins do not check whose handles they are given.
    pub(super) fn expect_own(&self, other: &Client, what: &str) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        Err(Error::Argument(format!("{what} belongs to another client")))
    }

    pub(super) fn adopt(
        &self,
        call: &'static str,
        devices: &[*mut PJRT_Device],
    ) -> Result<Vec<Device>> {
        devices
            .iter()
            .map(|device| Ok(Device::of(self, raw::handle(call, *device)?)))
            .collect()
    }

    pub fn compile(&self, program: &Program, options: &CompileOptions) -> Result<LoadedExecutable> {
        let options = options.encode();
        let program = program.to_raw();
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = self.raw();
        args.program = &raw const program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        call!(self.plugin(), PJRT_Client_Compile, args)?;
        LoadedExecutable::own(self, raw::handle("PJRT_Client_Compile", args.executable)?)
    }

    /// Loads what [`super::Executable::serialize`] gave, which must come from the same plug-in at the same version.
    pub fn deserialize(&self, serialized: &[u8]) -> Result<LoadedExecutable> {
        const CALL: &str = "PJRT_Executable_DeserializeAndLoad";
        let mut args = PJRT_Executable_DeserializeAndLoad_Args::new();
        args.client = self.raw();
        args.serialized_executable = serialized.as_ptr().cast();
        args.serialized_executable_size = serialized.len();
        call!(self.plugin(), PJRT_Executable_DeserializeAndLoad, args)?;
        LoadedExecutable::own(self, raw::handle(CALL, args.loaded_executable)?)
    }

    /// Copies a tensor to a device; the tensor is free again when this returns.
    pub fn buffer_from_host(&self, tensor: &Tensor, device: &Device) -> Result<Buffer> {
        self.expect_own(device.client(), "the device")?;
        Buffer::from_host(self, tensor, device)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("plugin", self.plugin())
            .finish_non_exhaustive()
    }
}
