//! What every entry of the table has in common: its arguments are checked, nothing unwinds out of it, and what it does not
//! do itself XLA CPU does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pjrt_sys::*;

use super::abi::Args;
use super::cpu;
use super::raised::Raised;
use crate::virtual_tpu::serve::code;
use crate::virtual_tpu::wire::Failure;

pub type Answer = Result<(), Raised>;

/// Defines entries: functions of C's calling convention, of a body that is Rust.
macro_rules! entry {
    ($($(#[$doc:meta])* fn $name:ident($args:ident: $type:ty) = $entry:literal $body:block)*) => {
        $(
            $(#[$doc])*
            pub unsafe extern "C" fn $name(args: *mut $type) -> *mut pjrt_sys::PJRT_Error {
                let body = |$args: &mut $type| -> $crate::virtual_tpu::plugin::entry::Answer { $body };
                // SAFETY: the C API has callers give a whole struct of the entry's arguments, which says its size.
                unsafe { $crate::virtual_tpu::plugin::entry::guard($entry, args, body) }
            }
        )*
    };
}
pub(super) use entry;

/// Runs an entry's body.
///
/// # Safety
/// `args` is null or points to a struct that begins with its size, is as large as that says, and is the caller's alone
/// during the call.
pub unsafe fn guard<T: Args>(
    entry: &'static str,
    args: *mut T,
    body: impl FnOnce(&mut T) -> Answer,
) -> *mut PJRT_Error {
    let run = || {
        if args.is_null() || !args.is_aligned() {
            return Err(bad_arguments(format!("{entry}: no arguments")).into());
        }
        // SAFETY: by the contract a size is there.
        let size = unsafe { args.cast::<usize>().read() };
        if size < T::SIZE {
            return Err(bad_arguments(format!(
                "{entry}: unexpected struct_size: {size}, where it takes {} at least",
                T::SIZE
            ))
            .into());
        }
        // SAFETY: by the contract, and for the size just checked; C structs are allocated with their padding.
        body(unsafe { &mut *args })
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(raised)) => raised.into_raw(),
        Err(_) => Raised::Own(Failure::new(
            code::INTERNAL,
            format!(
                "{entry}: a fault of tpu-parity's virtual TPU; its message is on standard error"
            ),
        ))
        .into_raw(),
    }
}

/// Has XLA CPU answer a call, with the client's own arguments.
macro_rules! forward {
    ($entry:literal, $args:expr) => {{
        const OFFSET: usize = $crate::virtual_tpu::plugin::abi::offset($entry);
        $crate::virtual_tpu::plugin::entry::call($entry, OFFSET, $args)
    }};
}
pub(super) use forward;

/// See `forward!`, which is where `offset` comes from.
pub fn call<T: Args>(entry: &'static str, offset: usize, args: &mut T) -> Answer {
    let function = cpu::entry(offset).ok_or_else(|| {
        Failure::new(
            code::UNIMPLEMENTED,
            format!("the XLA CPU plug-in beneath the virtual TPU has no {entry}"),
        )
    })?;
    // SAFETY: every entry but two, which are not called through here, is of this type for its own struct of arguments.
    // That `args` is the struct of `entry` holds at every call: each names the entry beside it.
    let error = unsafe {
        let function: unsafe extern "C" fn(*mut T) -> *mut PJRT_Error =
            std::mem::transmute(function);
        function(args)
    };
    match error.is_null() {
        true => Ok(()),
        false => Err(Raised::Cpu(error)),
    }
}

pub fn bad_arguments(message: String) -> Failure {
    Failure::new(code::INVALID_ARGUMENT, message)
}
