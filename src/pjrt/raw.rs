//! Reading what a plug-in hands back: strings, arrays, and the call itself.

use std::ffi::c_char;

use super::{Error, Result};

/// Calls an entry of the plug-in's table: a missing one is an error, and so is what the plug-in answers with.
macro_rules! call {
    ($plugin:expr, $entry:ident, $args:expr) => {{
        let plugin: &$crate::pjrt::Plugin = $plugin;
        match plugin.table().$entry {
            None => Err(plugin.missing(stringify!($entry))),
            Some(entry) => {
                // SAFETY: `entry` is the plug-in's function of that name, or the trampoline to it. The arguments are of
                // its type with their struct_size set, and every handle in them is alive: each wrapper owns its own and
                // keeps alive what that belongs to.
                let error = unsafe { entry(&raw mut $args) };
                plugin.check(stringify!($entry), error)
            }
        }
    }};
}
pub(super) use call;

/// `length` bytes as text; what is not UTF-8 is replaced.
///
/// # Safety
/// `text` is null, or `length` bytes that stay readable during the call.
pub unsafe fn text(text: *const c_char, length: usize) -> String {
    // SAFETY: by the contract; bytes need no alignment.
    let bytes = match unsafe { slice("", text.cast::<u8>(), length) } {
        Ok(bytes) => bytes,
        Err(_) => return String::new(),
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// An array that a plug-in returned. Null with a length, or a misaligned pointer, is [`Error::Malformed`].
///
/// # Safety
/// `items` is null, or `length` items that stay readable for `'a`.
pub unsafe fn slice<'a, T>(call: &'static str, items: *const T, length: usize) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    if items.is_null() || !items.is_aligned() {
        return Err(Error::Malformed {
            call,
            what: format!("a bad pointer to {length} items"),
        });
    }
    // SAFETY: not null, aligned, and by the contract readable for 'a.
    Ok(unsafe { std::slice::from_raw_parts(items, length) })
}

/// A handle that a plug-in returned, which must not be null.
pub fn handle<T>(call: &'static str, handle: *mut T) -> Result<*mut T> {
    if handle.is_null() {
        return Err(Error::Malformed {
            call,
            what: "a null handle".to_owned(),
        });
    }
    Ok(handle)
}

/// Zeros to write to, as many bytes as a plug-in asked for.
pub fn room(call: &'static str, bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes)
        .map_err(|_| Error::Malformed {
            call,
            what: format!("a size of {bytes} bytes, for which there is no memory"),
        })?;
    room.resize(bytes, 0);
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_size_is_malformed() {
        assert_eq!(room("PJRT_X", 3).unwrap(), [0, 0, 0]);
        for bytes in [usize::MAX, isize::MAX as usize] {
            assert!(matches!(
                room("PJRT_X", bytes),
                Err(Error::Malformed { call: "PJRT_X", .. })
            ));
        }
    }
}
