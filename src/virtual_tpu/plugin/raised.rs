//! Errors that the plug-in itself answers with, beside those of XLA CPU, which pass through as they are.
//!
//! Since 0.112 a `PJRT_Error` begins with a pointer to a table of functions, and clients may call those in place of the
//! API's entries. Ours begin with it in every version: by it they are known from XLA CPU's.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr;

use pjrt_sys::*;

use super::abi::{ForEachPayload, offset};
use super::entry::{entry, forward};
use crate::virtual_tpu::wire::Failure;

/// Why an entry fails.
pub enum Raised {
    Own(Failure),
    /// XLA CPU's own, not yet handed on.
    Cpu(*mut PJRT_Error),
}

impl Raised {
    /// Gives the error to the caller, who must free it.
    pub fn into_raw(self) -> *mut PJRT_Error {
        match self {
            Self::Cpu(error) => error,
            Self::Own(Failure { code, message, .. }) => {
                let own = Box::new(OwnError {
                    functions: &FUNCTIONS,
                    code,
                    message,
                });
                Box::into_raw(own).cast()
            }
        }
    }
}

impl Raised {
    /// Frees an error that no one is told of.
    pub fn discard(self) {
        let mut args = PJRT_Error_Destroy_Args::new();
        args.error = self.into_raw();
        // SAFETY: the struct is whole, and the error is given back once.
        unsafe { error_destroy(&raw mut args) };
    }
}

impl<T: Into<Failure>> From<T> for Raised {
    fn from(failure: T) -> Self {
        Self::Own(failure.into())
    }
}

#[repr(C)]
struct OwnError {
    functions: &'static Functions,
    code: u32,
    message: String,
}

/// `PJRT_Error_FunctionTable`
#[repr(C)]
struct Functions {
    struct_size: usize,
    instance_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    destroy: unsafe extern "C" fn(*mut PJRT_Error),
    message: unsafe extern "C" fn(*const PJRT_Error, *mut *const c_char, *mut usize),
    code: unsafe extern "C" fn(*const PJRT_Error) -> PJRT_Error_Code,
    for_each_payload: unsafe extern "C" fn(*const PJRT_Error, *const c_void, *mut c_void),
}

// SAFETY: the table never changes, and its only pointer is null.
unsafe impl Sync for Functions {}

static FUNCTIONS: Functions = Functions {
    struct_size: size_of::<Functions>(),
    instance_size: size_of::<OwnError>(),
    extension_start: ptr::null_mut(),
    destroy,
    message,
    code,
    for_each_payload,
};

/// The error, if it is one of ours.
///
/// # Safety
/// `error` is null or a live error of this plug-in or of XLA CPU.
unsafe fn own<'a>(error: *const PJRT_Error) -> Option<&'a OwnError> {
    if error.is_null() {
        return None;
    }
    // SAFETY: every error is an object of at least a pointer: a table of functions, or absl's status.
    let first = unsafe { error.cast::<*const Functions>().read() };
    // SAFETY: what begins with our table was made by `into_raw`.
    ptr::eq(first, &FUNCTIONS).then(|| unsafe { &*error.cast::<OwnError>() })
}

unsafe extern "C" fn destroy(error: *mut PJRT_Error) {
    // SAFETY: the caller gives back an error; ours was boxed by `into_raw` and is not used again.
    unsafe {
        if own(error).is_some() {
            drop(Box::from_raw(error.cast::<OwnError>()));
        }
    }
}

unsafe extern "C" fn message(error: *const PJRT_Error, text: *mut *const c_char, size: *mut usize) {
    // SAFETY: the caller gives a live error and room for both results.
    unsafe {
        if let Some(own) = own(error) {
            text.write(own.message.as_ptr().cast());
            size.write(own.message.len());
        }
    }
}

unsafe extern "C" fn code(error: *const PJRT_Error) -> PJRT_Error_Code {
    // SAFETY: the caller gives a live error.
    unsafe { own(error) }.map_or(0, |own| own.code)
}

unsafe extern "C" fn for_each_payload(_: *const PJRT_Error, _: *const c_void, _: *mut c_void) {
    // Ours have none.
}

pub unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: the caller holds a whole struct with an error that it gives back, or null.
    unsafe {
        if args.is_null() {
            return;
        }
        if own((*args).error).is_some() {
            destroy((*args).error);
        } else {
            forward_void(const { offset("PJRT_Error_Destroy") }, args);
        }
    }
}

pub unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: the caller holds a whole struct with a live error.
    unsafe {
        if args.is_null() {
            return;
        }
        match own((*args).error) {
            Some(own) => {
                (*args).message = own.message.as_ptr().cast();
                (*args).message_size = own.message.len();
            }
            None => forward_void(const { offset("PJRT_Error_Message") }, args),
        }
    }
}

/// Calls XLA CPU's entry where that returns nothing.
///
/// # Safety
/// `args` is what the entry at `offset` takes.
unsafe fn forward_void<T>(offset: usize, args: *mut T) {
    if let Some(function) = super::cpu::entry(offset) {
        // SAFETY: the two entries that return nothing, and are called through here, take a pointer to their arguments.
        unsafe {
            let function: unsafe extern "C" fn(*mut T) = std::mem::transmute(function);
            function(args);
        }
    }
}

entry! {
    fn error_get_code(args: PJRT_Error_GetCode_Args) = "PJRT_Error_GetCode" {
        // SAFETY: the caller holds a live error.
        match unsafe { own(args.error) } {
            Some(own) => args.code = own.code,
            None => forward!("PJRT_Error_GetCode", args)?,
        }
        Ok(())
    }

    fn error_for_each_payload(args: ForEachPayload) = "PJRT_Error_ForEachPayload" {
        // SAFETY: the caller holds a live error.
        match unsafe { own(args.error) } {
            Some(_) => Ok(()),
            None => forward!("PJRT_Error_ForEachPayload", args),
        }
    }
}
