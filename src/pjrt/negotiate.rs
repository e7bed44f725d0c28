//! One function table for plug-ins of many versions of the PJRT C API.
//!
//! The header that we compile against is 0.54. Since then entries and fields have only been added at the end, so:
//! the entries that a plug-in has are the first `struct_size` bytes of its table, and the rest are `None` here; and
//! an argument struct that has grown is handed over as a zero-padded copy of the size that the plug-in's version
//! asks for, by a trampoline that stands in the table in place of the plug-in's own function.
//!
//! A C function pointer carries no data, so which plug-in a trampoline speaks for is a const generic: there is one set
//! of trampolines per slot, and as many plug-ins fit in a process as there are slots.

use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pjrt_sys::*;

/// The header's version: anything older may lack fields that the wrappers read.
pub const OLDEST_MINOR: i32 = 54;

/// How many plug-ins one process can hold. They are never unloaded, so slots are never reused.
pub const SLOTS: usize = 8;

/// The plug-ins' own tables, by slot.
static OWN: [AtomicPtr<PJRT_Api>; SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];

/// Bytes that any grown struct fits in.
const ROOM: usize = 256;

/// The size of each struct that has grown since 0.54, by the first minor version known to ask for it (the oldest plug-in
/// looked at being 0.78). A plug-in takes a struct that is larger than it knows, and refuses a smaller one.
mod sizes {
    type Sizes = &'static [(i32, usize)];

    pub const CLIENT_CREATE: Sizes = &[(0, 88)];
    pub const PLUGIN_ATTRIBUTES: Sizes = &[(0, 32)];
    pub const EXECUTE_OPTIONS: Sizes = &[(0, 112)];
    /// `peak_memory_in_bytes`, `total_size_in_bytes`, then three more.
    pub const COMPILED_MEMORY_STATS: Sizes = &[(0, 104), (81, 112), (90, 120), (113, 144)];
    /// `overridden_serialized_compile_options`, then `load_options`.
    pub const DESERIALIZE_AND_LOAD: Sizes = &[(0, 64), (113, 72)];
    pub const VIEW_OF_DEVICE_BUFFER: Sizes = &[(0, 112)];

    pub fn of(sizes: Sizes, minor: i32) -> usize {
        sizes
            .iter()
            .take_while(|(since, _)| *since <= minor)
            .last()
            .map_or(0, |(_, size)| *size)
    }
}

/// The size of `PJRT_Executable_GetCompiledMemoryStats_Args` for a plug-in.
pub fn compiled_memory_stats_size(minor: i32) -> usize {
    sizes::of(sizes::COMPILED_MEMORY_STATS, minor)
}

/// The plug-in's own table and its minor version.
fn own(slot: usize) -> (&'static PJRT_Api, i32) {
    // SAFETY: a trampoline of `slot` is reachable only through the table that `negotiate` returned after it stored the
    // slot's pointer, which is a plug-in's table: it lives as long as the process, for plug-ins are never unloaded. Only
    // fields that `negotiate` found to lie within the plug-in's struct_size are read through the reference.
    let table = unsafe { &*OWN[slot].load(Ordering::Acquire) };
    (table, table.pjrt_api_version.minor_version)
}

/// Calls `f` with a zero-padded copy of `args` that is `size` bytes long, and copies back what it wrote.
///
/// # Safety
/// `args` points to a whole `T`, the struct of the 0.54 header, whose first field is its `struct_size`; `T` is at most
/// [`ROOM`] bytes.
unsafe fn grown<T>(
    args: *mut T,
    size: usize,
    f: impl FnOnce(*mut T) -> *mut PJRT_Error,
) -> *mut PJRT_Error {
    const WORD: usize = size_of::<usize>();
    const {
        assert!(size_of::<T>() <= ROOM && size_of::<T>() >= WORD);
    }
    // SAFETY: by the contract `args` holds a whole `T`, which begins with its size.
    let given = unsafe { args.cast::<usize>().read() };
    if given >= size {
        return f(args);
    }
    let mut copy = [0usize; ROOM / WORD];
    // SAFETY: both are at least size_of::<T>() bytes and do not overlap. All of `T` is copied, not `given` bytes: the
    // header's own size constant of one struct leaves its last field out.
    unsafe {
        ptr::copy_nonoverlapping(
            args.cast::<u8>(),
            copy.as_mut_ptr().cast::<u8>(),
            size_of::<T>(),
        );
    }
    copy[0] = size;
    let error = f(copy.as_mut_ptr().cast::<T>());
    // SAFETY: as above; the size field of the caller's struct is left as it was.
    unsafe {
        ptr::copy_nonoverlapping(
            copy.as_ptr().cast::<u8>().add(WORD),
            args.cast::<u8>().add(WORD),
            size_of::<T>() - WORD,
        );
    }
    error
}

macro_rules! trampoline {
    ($name:ident, $entry:ident, $args:ident, $sizes:ident) => {
        unsafe extern "C" fn $name<const SLOT: usize>(args: *mut $args) -> *mut PJRT_Error {
            let (table, minor) = own(SLOT);
            let Some(entry) = table.$entry else {
                // `negotiate` puts a trampoline only where the plug-in has the entry.
                return ptr::null_mut();
            };
            // SAFETY: the caller holds a whole struct of the header, as the C API demands; `entry` is the plug-in's
            // own function of this name.
            unsafe { grown(args, sizes::of(sizes::$sizes, minor), |args| entry(args)) }
        }
    };
}

trampoline!(
    client_create,
    PJRT_Client_Create,
    PJRT_Client_Create_Args,
    CLIENT_CREATE
);
trampoline!(
    plugin_attributes,
    PJRT_Plugin_Attributes,
    PJRT_Plugin_Attributes_Args,
    PLUGIN_ATTRIBUTES
);
trampoline!(
    compiled_memory_stats,
    PJRT_Executable_GetCompiledMemoryStats,
    PJRT_Executable_GetCompiledMemoryStats_Args,
    COMPILED_MEMORY_STATS
);
trampoline!(
    deserialize_and_load,
    PJRT_Executable_DeserializeAndLoad,
    PJRT_Executable_DeserializeAndLoad_Args,
    DESERIALIZE_AND_LOAD
);
trampoline!(
    view_of_device_buffer,
    PJRT_Client_CreateViewOfDeviceBuffer,
    PJRT_Client_CreateViewOfDeviceBuffer_Args,
    VIEW_OF_DEVICE_BUFFER
);

/// Here it is not the arguments that have grown but the options that they point to.
unsafe extern "C" fn execute<const SLOT: usize>(
    args: *mut PJRT_LoadedExecutable_Execute_Args,
) -> *mut PJRT_Error {
    let (table, minor) = own(SLOT);
    let Some(entry) = table.PJRT_LoadedExecutable_Execute else {
        return ptr::null_mut();
    };
    // SAFETY: the caller holds whole structs of the header, `options` among them, as the C API demands. The caller's
    // pointer to its options is put back before anyone can see that it was changed.
    unsafe {
        let options = (*args).options;
        grown(
            options,
            sizes::of(sizes::EXECUTE_OPTIONS, minor),
            |options_copy| {
                (*args).options = options_copy;
                let error = entry(args);
                (*args).options = options;
                error
            },
        )
    }
}

/// Stands in for `PJRT_Plugin_Initialize` in the table that the `pjrt` crate gets: the plug-in is initialised once, by
/// us, and the crate panics if initialising fails.
unsafe extern "C" fn already_initialized(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    ptr::null_mut()
}

/// Replaces the entries whose structs have grown, where the plug-in has them.
fn patch<const SLOT: usize>(table: &mut PJRT_Api) {
    macro_rules! replace {
        ($($entry:ident => $trampoline:ident),* $(,)?) => {
            $(if table.$entry.is_some() {
                table.$entry = Some($trampoline::<SLOT>);
            })*
        };
    }
    replace! {
        PJRT_Client_Create => client_create,
        PJRT_Plugin_Attributes => plugin_attributes,
        PJRT_LoadedExecutable_Execute => execute,
        PJRT_Executable_GetCompiledMemoryStats => compiled_memory_stats,
        PJRT_Executable_DeserializeAndLoad => deserialize_and_load,
        PJRT_Client_CreateViewOfDeviceBuffer => view_of_device_buffer,
    }
}

const PATCH: [fn(&mut PJRT_Api); SLOTS] = [
    patch::<0>, patch::<1>, patch::<2>, patch::<3>, patch::<4>, patch::<5>, patch::<6>, patch::<7>,
];

/// A copy of the plug-in's table, as long as the header's, `None` where the plug-in's own ends.
///
/// # Safety
/// `own` points to a plug-in's table of `struct_size` bytes.
pub unsafe fn copy(own: *const PJRT_Api) -> PJRT_Api {
    // SAFETY: every field of PJRT_Api is valid when zero: sizes, null pointers, `None`.
    let mut table = unsafe { std::mem::zeroed::<PJRT_Api>() };
    // SAFETY: by the contract `struct_size` bytes can be read, and no more than the copy has are.
    unsafe {
        let length = (*own).struct_size.min(size_of::<PJRT_Api>());
        ptr::copy_nonoverlapping(own.cast::<u8>(), (&raw mut table).cast::<u8>(), length);
    }
    table
}

/// Puts the trampolines of `slot` into `table`, a [`copy`] of the plug-in's own.
///
/// # Safety
/// `own` lives as long as the process, `table` is its copy, and no other plug-in has the slot.
pub unsafe fn negotiate(slot: usize, own: *const PJRT_Api, table: &mut PJRT_Api) {
    OWN[slot].store(own.cast_mut(), Ordering::Release);
    PATCH[slot](table);
}

/// The table as the `pjrt` crate may have it.
pub fn for_crate(table: &PJRT_Api) -> PJRT_Api {
    PJRT_Api {
        PJRT_Plugin_Initialize: Some(already_initialized),
        ..*table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_has_the_size_that_the_version_asks_for() {
        for (minor, size) in [
            (78, 104),
            (81, 112),
            (89, 112),
            (90, 120),
            (106, 120),
            (117, 144),
        ] {
            assert_eq!(compiled_memory_stats_size(minor), size, "0.{minor}");
        }
    }

    /// A plug-in of a later version: it refuses a struct that is too small, reads the fields we know and writes back.
    #[test]
    fn a_grown_copy_carries_fields_there_and_back() {
        let mut args = PJRT_Client_Create_Args::new();
        args.num_options = 3;
        let given = args.struct_size;
        // SAFETY: `args` is a whole struct of the header.
        let error = unsafe {
            grown(&raw mut args, 88, |copy| {
                assert_eq!((*copy).struct_size, 88);
                assert_eq!((*copy).num_options, 3);
                let past_the_header = copy.cast::<u8>().add(size_of::<PJRT_Client_Create_Args>());
                assert_eq!(past_the_header.cast::<u64>().read(), 0);
                (*copy).client = ptr::dangling_mut();
                ptr::null_mut()
            })
        };
        assert!(error.is_null());
        assert!(!args.client.is_null());
        assert_eq!(args.struct_size, given);
    }

    #[test]
    fn entries_past_the_plugins_own_size_are_none() {
        // SAFETY: zero is valid for every field.
        let mut own = unsafe { std::mem::zeroed::<PJRT_Api>() };
        own.PJRT_Compile = Some(compile);
        own.PJRT_Client_Create = Some(client_create::<7>);
        unsafe extern "C" fn compile(_: *mut PJRT_Compile_Args) -> *mut PJRT_Error {
            ptr::null_mut()
        }
        own.struct_size = std::mem::offset_of!(PJRT_Api, PJRT_Compile);
        // SAFETY: `own` is a whole table.
        let table = unsafe { copy(&raw const own) };
        assert!(table.PJRT_Client_Create.is_some());
        assert!(table.PJRT_Compile.is_none());
    }
}
