//! Reading what a client's arguments point to.

use std::ffi::c_char;

use super::entry::bad_arguments;
use crate::virtual_tpu::wire::Failure;

/// # Safety
/// `start` is null or points to `length` bytes that stay readable for `'a`.
pub unsafe fn bytes<'a>(start: *const c_char, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() || length > isize::MAX as usize {
        return Err(bad_arguments(format!("a bad pointer to {length} bytes")));
    }
    // SAFETY: not null, and by the contract readable for 'a.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// # Safety
/// `object` is null or points to a whole `T` that nothing changes for `'a`.
pub unsafe fn reference<'a, T>(object: *const T) -> Result<&'a T, Failure> {
    if !object.is_aligned() {
        return Err(bad_arguments("a misaligned pointer".to_owned()));
    }
    // SAFETY: aligned, and by the contract null or a whole T.
    unsafe { object.as_ref() }.ok_or_else(|| bad_arguments("a null pointer".to_owned()))
}
