//! One program at a time on several devices.
//!
//! A TPU's devices run what is launched on all of them in one order. XLA CPU runs each device's part on a thread of a pool
//! that has one a device: the parts of several programs, launched ahead by one thread or several, fill it while each waits in
//! a collective for those that found no thread, until XLA CPU ends the process. So the next program is launched once the
//! last has run. Programs for one device wait for no one and are not held up.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pjrt_sys::*;

use super::entry::{Answer, forward};
use super::raised::Raised;

/// How many devices still run the program that was launched last.
struct Gang {
    running: Mutex<usize>,
    done: Condvar,
}

static GANG: Gang = Gang {
    running: Mutex::new(0),
    done: Condvar::new(),
};

impl Gang {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no device runs anything, and takes them all.
    fn take(&self, devices: usize) {
        let mut running = self.lock();
        while *running > 0 {
            running = self
                .done
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *running = devices;
    }

    fn give_back(&self, devices: usize) {
        let mut running = self.lock();
        *running = running.saturating_sub(devices);
        if *running == 0 {
            // Each takes all devices: one is enough.
            self.done.notify_one();
        }
    }
}

/// Has XLA CPU run a program on several devices, after the one before it.
///
/// # Safety
/// The lists of `args` are as large as the call says.
pub unsafe fn execute(args: &mut PJRT_LoadedExecutable_Execute_Args) -> Answer {
    let devices = args.num_devices;
    GANG.take(devices);
    let given = args.device_complete_events;
    let mut own = vec![ptr::null_mut::<PJRT_Event>(); devices];
    if given.is_null() {
        args.device_complete_events = own.as_mut_ptr();
    }
    let launched = forward!("PJRT_LoadedExecutable_Execute", args);
    if launched.is_err() {
        args.device_complete_events = given;
        GANG.give_back(devices);
        return launched;
    }
    for device in 0..devices {
        // SAFETY: the list, the client's or ours, has an event for each device, which XLA CPU has just written.
        let event = unsafe { args.device_complete_events.add(device).read() };
        if !give_back_when_ready(event) {
            GANG.give_back(1);
        }
    }
    args.device_complete_events = given;
    if given.is_null() {
        for event in own {
            let mut destroy = PJRT_Event_Destroy_Args::new();
            destroy.event = event;
            // The callback has been called or is XLA CPU's to call, whatever becomes of the event.
            if let Err(raised) = forward!("PJRT_Event_Destroy", &mut destroy) {
                raised.discard();
            }
        }
    }
    launched
}

/// False if there is nothing to wait for.
fn give_back_when_ready(event: *mut PJRT_Event) -> bool {
    if event.is_null() {
        return false;
    }
    let mut args = PJRT_Event_OnReady_Args::new();
    args.event = event;
    args.callback = Some(ready);
    forward!("PJRT_Event_OnReady", &mut args)
        .map_err(|raised| raised.discard())
        .is_ok()
}

/// A failed program has run, too: its results say how.
unsafe extern "C" fn ready(error: *mut PJRT_Error, _: *mut c_void) {
    if !error.is_null() {
        Raised::Cpu(error).discard();
    }
    GANG.give_back(1);
}
