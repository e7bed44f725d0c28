//! How much of a device's HBM is in use, counted from the buffers that its client holds.
//!
//! Sizes are XLA CPU's, which pads nothing: a TPU lays arrays out in tiles and needs more for small ones. The peak takes in
//! what the TPU's compiler says that a program needs besides its arguments and results. Nothing is refused for lack of
//! memory here; a single program that is too large is refused by the compiler.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use pjrt_sys::*;

use super::abi::RetrieveBuffer;
use super::cpu;
use super::entry::{entry, forward};
use super::handles::{ByAddress, MEMORIES};

/// The memories of one client.
pub struct Tracker {
    devices: Vec<Usage>,
}

#[derive(Default)]
pub struct Usage {
    pub in_use: AtomicI64,
    pub peak: AtomicI64,
    pub largest: AtomicI64,
    pub allocations: AtomicI64,
}

/// What a buffer takes, and of which device's memory.
#[derive(Clone)]
pub struct Place {
    tracker: Arc<Tracker>,
    device: usize,
    bytes: i64,
}

const SHARDS: usize = 16;

type Shard = Mutex<ByAddress<Place>>;

/// The buffers that live, in parts that threads can lock beside each other.
static BUFFERS: LazyLock<[Shard; SHARDS]> = LazyLock::new(Default::default);

fn shard(buffer: *mut PJRT_Buffer) -> MutexGuard<'static, ByAddress<Place>> {
    // Objects lie at multiples of 16 bytes, and often one after another.
    let index = (buffer as usize >> 6) % SHARDS;
    BUFFERS[index]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Tracker {
    pub fn new(devices: usize) -> Self {
        Self {
            devices: (0..devices).map(|_| Usage::default()).collect(),
        }
    }

    pub fn usage(&self, device: usize) -> Option<&Usage> {
        self.devices.get(device)
    }
}

impl Place {
    /// Counts a buffer. `temporary` is what was needed besides while it was made.
    pub fn fill(&self, buffer: *mut PJRT_Buffer, temporary: i64) {
        let Some(usage) = self.tracker.usage(self.device) else {
            return;
        };
        let in_use = usage.in_use.fetch_add(self.bytes, Ordering::Relaxed) + self.bytes;
        raise(&usage.peak, in_use + temporary);
        raise(&usage.largest, self.bytes);
        usage.allocations.fetch_add(1, Ordering::Relaxed);
        shard(buffer).insert(buffer as usize, self.clone());
    }
}

/// A maximum that is mostly there already.
fn raise(maximum: &AtomicI64, value: i64) {
    if maximum.load(Ordering::Relaxed) < value {
        maximum.fetch_max(value, Ordering::Relaxed);
    }
}

impl Usage {
    /// What is in use stays.
    pub fn clear(&self) {
        let in_use = self.in_use.load(Ordering::Relaxed);
        self.peak.store(in_use, Ordering::Relaxed);
        self.largest.store(0, Ordering::Relaxed);
        self.allocations.store(0, Ordering::Relaxed);
    }
}

/// A buffer gives up its memory.
pub fn remove(buffer: *mut PJRT_Buffer) {
    let place = shard(buffer).remove(&(buffer as usize));
    if let Some(place) = place
        && let Some(usage) = place.tracker.usage(place.device)
    {
        usage.in_use.fetch_sub(place.bytes, Ordering::Relaxed);
    }
}

/// Where a buffer is that XLA CPU has just made; `None` for one in a host's memory, which is no HBM.
pub fn measure(buffer: *mut PJRT_Buffer) -> Option<Place> {
    let plugin = &cpu::load().ok()?.plugin;
    let mut memory = PJRT_Buffer_Memory_Args::new();
    memory.buffer = buffer;
    let mut size = PJRT_Buffer_OnDeviceSizeInBytes_Args::new();
    size.buffer = buffer;
    let table = plugin.table();
    let memory_entry = table.PJRT_Buffer_Memory?;
    let size_entry = table.PJRT_Buffer_OnDeviceSizeInBytes?;
    // SAFETY: the buffer is alive: XLA CPU has just returned it, and its client has not seen it yet.
    let errors = unsafe { [memory_entry(&raw mut memory), size_entry(&raw mut size)] };
    let [memory_result, size_result] =
        errors.map(|error| plugin.check("PJRT_Buffer_Memory", error));
    memory_result.and(size_result).ok()?;
    let (tracker, device) = MEMORIES.find(memory.memory)?;
    Some(Place {
        tracker,
        device,
        bytes: i64::try_from(size.on_device_size_in_bytes).ok()?,
    })
}

/// Counts a buffer that XLA CPU has just made.
fn add(buffer: *mut PJRT_Buffer) {
    if let Some(place) = measure(buffer) {
        place.fill(buffer, 0);
    }
}

/// An argument that a result may have taken over gives up its memory if so.
pub fn remove_if_deleted(buffer: *mut PJRT_Buffer) {
    let Ok(cpu) = cpu::load() else { return };
    let Some(entry) = cpu.plugin.table().PJRT_Buffer_IsDeleted else {
        return;
    };
    let mut args = PJRT_Buffer_IsDeleted_Args::new();
    args.buffer = buffer;
    // SAFETY: the caller's arguments stay alive until it destroys them, which is not during its call.
    let error = unsafe { entry(&raw mut args) };
    if cpu.plugin.check("PJRT_Buffer_IsDeleted", error).is_ok() && args.is_deleted {
        remove(buffer);
    }
}

entry! {
    fn buffer_from_host_buffer(args: PJRT_Client_BufferFromHostBuffer_Args) = "PJRT_Client_BufferFromHostBuffer" {
        forward!("PJRT_Client_BufferFromHostBuffer", args)?;
        add(args.buffer);
        Ok(())
    }

    fn buffer_copy_to_device(args: PJRT_Buffer_CopyToDevice_Args) = "PJRT_Buffer_CopyToDevice" {
        forward!("PJRT_Buffer_CopyToDevice", args)?;
        add(args.dst_buffer);
        Ok(())
    }

    fn buffer_copy_to_memory(args: PJRT_Buffer_CopyToMemory_Args) = "PJRT_Buffer_CopyToMemory" {
        forward!("PJRT_Buffer_CopyToMemory", args)?;
        add(args.dst_buffer);
        Ok(())
    }

    fn retrieve_buffer(args: RetrieveBuffer) = "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer" {
        forward!("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", args)?;
        add(args.buffer_out);
        Ok(())
    }

    fn buffer_delete(args: PJRT_Buffer_Delete_Args) = "PJRT_Buffer_Delete" {
        remove(args.buffer);
        forward!("PJRT_Buffer_Delete", args)
    }

    fn buffer_destroy(args: PJRT_Buffer_Destroy_Args) = "PJRT_Buffer_Destroy" {
        // Before XLA CPU may hand the same address out again.
        remove(args.buffer);
        forward!("PJRT_Buffer_Destroy", args)
    }

    /// A TPU's memory is not the host's, and clients must not look into it.
    fn buffer_is_on_cpu(args: PJRT_Buffer_IsOnCpu_Args) = "PJRT_Buffer_IsOnCpu" {
        forward!("PJRT_Buffer_IsOnCpu", args)?;
        args.is_on_cpu = false;
        Ok(())
    }
}
