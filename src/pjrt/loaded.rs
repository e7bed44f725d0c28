//! An executable on its devices.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use pjrt_sys::*;

use super::raw::{self, call};
use super::{Buffer, Client, Device, Error, Executable, Result};

pub struct LoadedExecutable {
    loaded: Arc<Loaded>,
    /// Results per device.
    num_outputs: usize,
    devices: Vec<Device>,
}

/// The plug-in's handle. An [`Executable`] shares it: on XLA CPU, one that outlives what it was loaded as reads freed
/// memory.
pub(super) struct Loaded {
    client: Client,
    raw: *mut PJRT_LoadedExecutable,
}

// SAFETY: the C API's functions on an executable may be called from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as for Send.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut args = PJRT_LoadedExecutable_Destroy_Args::new();
        args.executable = self.raw;
        let _ = call!(self.client.plugin(), PJRT_LoadedExecutable_Destroy, args);
    }
}

#[derive(Debug, Clone, Default)]
pub struct ExecuteOptions {
    /// Arguments that stay valid although the program would take them over for its results.
    pub non_donatable: Vec<i64>,
    /// Tells launches of a multi-device program apart, where the runtime checks their order.
    pub launch_id: i32,
    /// Runs on this device alone, for a program compiled for any; the arguments are then those of one device.
    pub device: Option<Device>,
}

impl LoadedExecutable {
    /// Takes over a handle that the plug-in returned.
    pub(super) fn own(client: &Client, raw: *mut PJRT_LoadedExecutable) -> Result<Self> {
        let loaded = Arc::new(Loaded {
            client: client.clone(),
            raw,
        });
        Ok(Self {
            num_outputs: loaded.executable()?.num_outputs()?,
            devices: loaded.addressable_devices()?,
            loaded,
        })
    }

    /// What was compiled, to inspect and serialise.
    pub fn executable(&self) -> Result<Executable> {
        self.loaded.executable()
    }

    /// The devices of this process that it runs on, in the order of [`LoadedExecutable::execute`]'s arguments.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Runs the program and waits for it: `arguments[d][i]` is argument `i` on the `d`-th of
    /// [`LoadedExecutable::devices`], and the results come in the same order. A donated argument is deleted.
    pub fn execute(
        &self,
        arguments: &[Vec<&Buffer>],
        options: &ExecuteOptions,
    ) -> Result<Vec<Vec<Buffer>>> {
        let devices = match options.device {
            Some(_) => 1,
            None => self.devices.len(),
        };
        let num_args = arguments.first().map_or(0, Vec::len);
        if arguments.len() != devices || arguments.iter().any(|list| list.len() != num_args) {
            let counts: Vec<usize> = arguments.iter().map(Vec::len).collect();
            return Err(Error::Argument(format!(
                "the program runs on {devices} devices, and takes as many lists of as many arguments, not lists of {counts:?}"
            )));
        }
        for buffer in arguments.iter().flatten() {
            self.loaded
                .client
                .expect_own(buffer.client(), "an argument")?;
        }
        if let Some(device) = &options.device {
            self.loaded
                .client
                .expect_own(device.client(), "the device")?;
        }
        let lists: Vec<Vec<*mut PJRT_Buffer>> = arguments
            .iter()
            .map(|list| list.iter().map(|buffer| buffer.raw()).collect())
            .collect();
        let lists: Vec<*const *mut PJRT_Buffer> = lists.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![ptr::null_mut::<PJRT_Buffer>(); self.num_outputs]; devices];
        let output_lists: Vec<*mut *mut PJRT_Buffer> =
            outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![ptr::null_mut::<PJRT_Event>(); devices];

        let mut raw_options = PJRT_ExecuteOptions::new();
        raw_options.launch_id = options.launch_id;
        raw_options.non_donatable_input_indices = options.non_donatable.as_ptr();
        raw_options.num_non_donatable_input_indices = options.non_donatable.len();
        let mut args = PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.loaded.raw;
        args.options = &raw mut raw_options;
        args.argument_lists = lists.as_ptr();
        args.num_devices = devices;
        args.num_args = num_args;
        args.output_lists = output_lists.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        if let Some(device) = &options.device {
            args.execute_device = device.raw();
        }
        let plugin = self.loaded.client.plugin();
        call!(plugin, PJRT_LoadedExecutable_Execute, args)?;

        // Own every result and wait for every device before the first error ends this.
        let mut results = Vec::with_capacity(devices);
        for list in outputs {
            let owned: Vec<Result<Buffer>> = list
                .into_iter()
                .map(|buffer| {
                    let buffer = raw::handle("PJRT_LoadedExecutable_Execute", buffer)?;
                    Ok(Buffer::own(&self.loaded.client, buffer))
                })
                .collect();
            results.push(owned);
        }
        let done: Vec<Result<()>> = events
            .into_iter()
            .map(|event| plugin.wait("PJRT_LoadedExecutable_Execute", event))
            .collect();
        done.into_iter().collect::<Result<()>>()?;
        results
            .into_iter()
            .map(|list| list.into_iter().collect())
            .collect()
    }
}

impl Loaded {
    fn executable(self: &Arc<Self>) -> Result<Executable> {
        let mut args = PJRT_LoadedExecutable_GetExecutable_Args::new();
        args.loaded_executable = self.raw;
        call!(
            self.client.plugin(),
            PJRT_LoadedExecutable_GetExecutable,
            args
        )?;
        let raw = raw::handle("PJRT_LoadedExecutable_GetExecutable", args.executable)?;
        Ok(Executable::own(
            self.client.plugin(),
            Some(self.clone()),
            raw,
        ))
    }

    fn addressable_devices(&self) -> Result<Vec<Device>> {
        const CALL: &str = "PJRT_LoadedExecutable_AddressableDevices";
        let mut args = PJRT_LoadedExecutable_AddressableDevices_Args::new();
        args.executable = self.raw;
        call!(
            self.client.plugin(),
            PJRT_LoadedExecutable_AddressableDevices,
            args
        )?;
        // SAFETY: the array lives as long as the executable, which outlives this call.
        let devices =
            unsafe { raw::slice(CALL, args.addressable_devices, args.num_addressable_devices)? };
        self.client.adopt(CALL, devices)
    }
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedExecutable")
            .field("num_outputs", &self.num_outputs)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}
