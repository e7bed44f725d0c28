//! A PJRT plug-in that misbehaves to order, for the tests of `run`.
//!
//! It "compiles" anything, and a program returns its first argument (f32 only). A line `// hostile: WORD` in the program
//! asks for one of the misdeeds below; the environment variable `HOSTILE_LOAD` asks for one while the plug-in loads, where
//! `COUNT PATH` is to load that many times only, counted in the file. The client option `platform` is the name it goes by.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::c_char;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pjrt_sys::*;

const PLATFORM: &str = "hostile";
const F32: PJRT_Buffer_Type = PJRT_Buffer_Type_PJRT_Buffer_Type_F32;

struct Failure {
    code: PJRT_Error_Code,
    message: String,
}

struct Program {
    misdeed: String,
}

struct Array {
    dims: Vec<i64>,
    data: Vec<f32>,
}

fn error(code: u32, message: &str) -> *mut PJRT_Error {
    let failure = Failure {
        code: code as PJRT_Error_Code,
        message: message.to_owned(),
    };
    Box::into_raw(Box::new(failure)).cast()
}

const INVALID_ARGUMENT: u32 = 3;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

fn write_raw(fd: i32, text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        if written <= 0 {
            return;
        }
        rest = &rest[written as usize..];
    }
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn die_of_a_check() -> ! {
    write_raw(
        2,
        b"F1130 12:00:00.123456    4321 layout.cc:120] Check failed: has_layout \n*** Check failure stack trace: ***\n    @     0x7f  foo\n",
    );
    unsafe { libc::abort() }
}

/// True the first time that it is asked about a path.
fn first_time(path: &str) -> bool {
    let path = Path::new(path);
    let first = !path.exists();
    let _ = std::fs::write(path, "");
    first
}

/// A child that holds all of this process's pipes; its id goes into the file.
fn fork_and_stay(path: &str) {
    match unsafe { libc::fork() } {
        0 => loop {
            unsafe { libc::pause() };
        },
        child => {
            let _ = std::fs::write(path, child.to_string());
        }
    }
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    unsafe { drop(Box::from_raw((*args).error.cast::<Failure>())) }
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    unsafe {
        let failure = &*(*args).error.cast::<Failure>();
        (*args).message = failure.message.as_ptr().cast();
        (*args).message_size = failure.message.len();
    }
}

unsafe extern "C" fn error_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    unsafe { (*args).code = (*(*args).error.cast::<Failure>()).code }
    ptr::null_mut()
}

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    match std::env::var("HOSTILE_LOAD").unwrap_or_default().as_str() {
        "abort" => die_of_a_check(),
        "hang" => hang(),
        "error" => error(INTERNAL, "no device\nfor you"),
        other => match other.split_once(' ') {
            Some((most, path)) => {
                let loads = std::fs::read(path).unwrap_or_default().len();
                let _ = std::fs::write(path, vec![b'x'; loads + 1]);
                if loads < most.parse().unwrap_or(0) {
                    return ptr::null_mut();
                }
                error(INTERNAL, "loaded too often")
            }
            None => ptr::null_mut(),
        },
    }
}

/// Set by the misdeed `damage`, and what the next program dies of.
static DAMAGED: AtomicBool = AtomicBool::new(false);
static CALLED: OnceLock<String> = OnceLock::new();

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    for index in 0..unsafe { (*args).num_options } {
        let option = unsafe { &*(*args).create_options.add(index) };
        let text = |from: *const c_char, size| {
            let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
            String::from_utf8_lossy(bytes).into_owned()
        };
        if text(option.name, option.name_size) == "platform" {
            let value = unsafe { option.__bindgen_anon_1.string_value };
            let _ = CALLED.set(text(value, option.value_size));
        }
    }
    unsafe { (*args).client = ptr::without_provenance_mut(16) }
    ptr::null_mut()
}

unsafe extern "C" fn client_destroy(_: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    ptr::null_mut()
}

unsafe extern "C" fn platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    let name = CALLED.get().map_or(PLATFORM, String::as_str);
    unsafe {
        (*args).platform_name = name.as_ptr().cast();
        (*args).platform_name_size = name.len();
    }
    ptr::null_mut()
}

unsafe extern "C" fn platform_version(
    args: *mut PJRT_Client_PlatformVersion_Args,
) -> *mut PJRT_Error {
    unsafe {
        (*args).platform_version = PLATFORM.as_ptr().cast();
        (*args).platform_version_size = PLATFORM.len();
    }
    ptr::null_mut()
}

/// One device; the handle is never looked into.
struct Devices([*mut PJRT_Device; 1]);
unsafe impl Sync for Devices {}
static DEVICES: Devices = Devices([ptr::without_provenance_mut(32)]);

unsafe extern "C" fn devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr();
        (*args).num_addressable_devices = 1;
    }
    ptr::null_mut()
}

unsafe extern "C" fn loaded_devices(
    args: *mut PJRT_LoadedExecutable_AddressableDevices_Args,
) -> *mut PJRT_Error {
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr();
        (*args).num_addressable_devices = 1;
    }
    ptr::null_mut()
}

unsafe extern "C" fn description(args: *mut PJRT_Device_GetDescription_Args) -> *mut PJRT_Error {
    unsafe { (*args).device_description = ptr::without_provenance_mut(48) }
    ptr::null_mut()
}

unsafe extern "C" fn kind(args: *mut PJRT_DeviceDescription_Kind_Args) -> *mut PJRT_Error {
    unsafe {
        (*args).device_kind = PLATFORM.as_ptr().cast();
        (*args).device_kind_size = PLATFORM.len();
    }
    ptr::null_mut()
}

fn misdeed_in(code: *const c_char, size: usize) -> String {
    let bytes = unsafe { std::slice::from_raw_parts(code.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes)
        .lines()
        .find_map(|line| line.trim().strip_prefix("// hostile: ").map(str::to_owned))
        .unwrap_or_default()
}

/// What the program asks for, done; `None` when a null handle is to be returned.
fn compile(program: *const PJRT_Program) -> Result<Option<Program>, *mut PJRT_Error> {
    let program = unsafe { &*program };
    let misdeed = misdeed_in(program.code, program.code_size);
    if DAMAGED.load(Ordering::SeqCst) {
        die_of_a_check();
    }
    match misdeed.as_str() {
        "abort-in-compile" => die_of_a_check(),
        "throw-in-compile" => {
            write_raw(
                2,
                b"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
            );
            unsafe { libc::abort() }
        }
        "hang-in-compile" => hang(),
        "exit-in-compile" => unsafe { libc::_exit(0) },
        "kill-in-compile" => {
            unsafe { libc::raise(libc::SIGKILL) };
        }
        "unimplemented" => return Err(error(UNIMPLEMENTED, "dot on s64\nis not implemented")),
        "exhausted" => return Err(error(RESOURCE_EXHAUSTED, "no memory for 1 TiB")),
        "escape" => return Err(error(INTERNAL, "\x1b[31mred")),
        "internal" => return Err(error(INTERNAL, "confused")),
        "invalid" => return Err(error(INVALID_ARGUMENT, "what is this?")),
        "null-executable" => return Ok(None),
        "noise" => {
            write_raw(1, b"{\"done\":{}}\nnoise on standard output\n");
            let mut byte = 0u8;
            let read = unsafe { libc::read(0, (&raw mut byte).cast(), 1) };
            if read != 0 {
                return Err(error(INTERNAL, "standard input is not empty"));
            }
        }
        "flood" => write_raw(2, "a great deal of noise\n".repeat(100_000).as_bytes()),
        "flood-then-abort" => {
            write_raw(2, "a great deal of noise\n".repeat(100_000).as_bytes());
            die_of_a_check();
        }
        "sleep" => std::thread::sleep(Duration::from_millis(100)),
        other => {
            if let Some(path) = other.strip_prefix("crash-once=")
                && first_time(path)
            {
                die_of_a_check();
            }
        }
    }
    Ok(Some(Program { misdeed }))
}

unsafe extern "C" fn client_compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    match compile(unsafe { (*args).program }) {
        Ok(program) => {
            let handle = program.map_or(ptr::null_mut(), |p| Box::into_raw(Box::new(p)));
            unsafe { (*args).executable = handle.cast() };
            ptr::null_mut()
        }
        Err(error) => error,
    }
}

unsafe extern "C" fn topology_compile(args: *mut PJRT_Compile_Args) -> *mut PJRT_Error {
    match compile(unsafe { (*args).program }) {
        Ok(program) => {
            let handle = program.map_or(ptr::null_mut(), |_| ptr::without_provenance_mut(64));
            unsafe { (*args).executable = handle };
            ptr::null_mut()
        }
        Err(error) => error,
    }
}

unsafe extern "C" fn topology_create(
    args: *mut PJRT_TopologyDescription_Create_Args,
) -> *mut PJRT_Error {
    unsafe { (*args).topology = ptr::without_provenance_mut(80) }
    ptr::null_mut()
}

unsafe extern "C" fn topology_destroy(
    _: *mut PJRT_TopologyDescription_Destroy_Args,
) -> *mut PJRT_Error {
    ptr::null_mut()
}

unsafe extern "C" fn topology_name(
    args: *mut PJRT_TopologyDescription_PlatformName_Args,
) -> *mut PJRT_Error {
    unsafe {
        (*args).platform_name = PLATFORM.as_ptr().cast();
        (*args).platform_name_size = PLATFORM.len();
    }
    ptr::null_mut()
}

unsafe extern "C" fn topology_version(
    args: *mut PJRT_TopologyDescription_PlatformVersion_Args,
) -> *mut PJRT_Error {
    unsafe {
        (*args).platform_version = PLATFORM.as_ptr().cast();
        (*args).platform_version_size = PLATFORM.len();
    }
    ptr::null_mut()
}

unsafe extern "C" fn topology_devices(
    args: *mut PJRT_TopologyDescription_GetDeviceDescriptions_Args,
) -> *mut PJRT_Error {
    unsafe { (*args).num_descriptions = 0 }
    ptr::null_mut()
}

unsafe extern "C" fn loaded_destroy(
    args: *mut PJRT_LoadedExecutable_Destroy_Args,
) -> *mut PJRT_Error {
    unsafe { drop(Box::from_raw((*args).executable.cast::<Program>())) }
    ptr::null_mut()
}

unsafe extern "C" fn get_executable(
    args: *mut PJRT_LoadedExecutable_GetExecutable_Args,
) -> *mut PJRT_Error {
    unsafe { (*args).executable = ptr::without_provenance_mut(64) }
    ptr::null_mut()
}

unsafe extern "C" fn executable_destroy(_: *mut PJRT_Executable_Destroy_Args) -> *mut PJRT_Error {
    ptr::null_mut()
}

unsafe extern "C" fn num_outputs(args: *mut PJRT_Executable_NumOutputs_Args) -> *mut PJRT_Error {
    unsafe { (*args).num_outputs = 1 }
    ptr::null_mut()
}

unsafe extern "C" fn from_host(
    args: *mut PJRT_Client_BufferFromHostBuffer_Args,
) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    if args.type_ != F32 {
        return error(UNIMPLEMENTED, "only f32");
    }
    let dims = if args.num_dims == 0 {
        Vec::new()
    } else {
        unsafe { std::slice::from_raw_parts(args.dims, args.num_dims) }.to_vec()
    };
    let length = dims.iter().product::<i64>() as usize;
    let mut data = vec![0f32; length];
    unsafe {
        ptr::copy_nonoverlapping(args.data.cast::<u8>(), data.as_mut_ptr().cast(), length * 4)
    };
    args.buffer = Box::into_raw(Box::new(Array { dims, data })).cast();
    args.done_with_host_buffer = ptr::null_mut();
    ptr::null_mut()
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let program = unsafe { &*args.executable.cast::<Program>() };
    let argument = unsafe { &*(**args.argument_lists).cast::<Array>() };
    let mut result = Array {
        dims: argument.dims.clone(),
        data: argument.data.clone(),
    };
    match program.misdeed.as_str() {
        "abort-in-run" => die_of_a_check(),
        "segfault-in-run" => unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        "hang-in-run" => hang(),
        "unimplemented-in-run" => return error(UNIMPLEMENTED, "cannot run this"),
        "null-result" => return ptr::null_mut(),
        "wrong" => result.data[0] += 1.0,
        "short" => {
            result.dims = vec![1];
            result.data.truncate(1);
        }
        "damage" => DAMAGED.store(true, Ordering::SeqCst),
        "freeze-later" => {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) }
            });
        }
        "abort-later" => {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                die_of_a_check()
            });
        }
        other => {
            if let Some(path) = other.strip_prefix("wrong-once=")
                && first_time(path)
            {
                result.data[0] += 1.0;
            }
            if let Some(path) = other.strip_prefix("fork-then-segfault=") {
                fork_and_stay(path);
                unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) }
            }
        }
    }
    unsafe {
        **args.output_lists = Box::into_raw(Box::new(result)).cast();
        if !args.device_complete_events.is_null() {
            *args.device_complete_events = ptr::null_mut();
        }
    }
    ptr::null_mut()
}

unsafe extern "C" fn buffer_destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    unsafe { drop(Box::from_raw((*args).buffer.cast::<Array>())) }
    ptr::null_mut()
}

unsafe extern "C" fn element_type(args: *mut PJRT_Buffer_ElementType_Args) -> *mut PJRT_Error {
    unsafe { (*args).type_ = F32 }
    ptr::null_mut()
}

unsafe extern "C" fn dimensions(args: *mut PJRT_Buffer_Dimensions_Args) -> *mut PJRT_Error {
    unsafe {
        let array = &*(*args).buffer.cast::<Array>();
        (*args).dims = array.dims.as_ptr();
        (*args).num_dims = array.dims.len();
    }
    ptr::null_mut()
}

unsafe extern "C" fn to_host(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let array = unsafe { &*args.src.cast::<Array>() };
    let size = array.data.len() * 4;
    if args.dst.is_null() {
        args.dst_size = size;
    } else {
        unsafe {
            ptr::copy_nonoverlapping(array.data.as_ptr().cast::<u8>(), args.dst.cast(), size)
        };
        args.event = ptr::null_mut();
    }
    ptr::null_mut()
}

struct Table(PJRT_Api);
unsafe impl Send for Table {}
unsafe impl Sync for Table {}

#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut version = PJRT_Api_Version::new();
        version.major_version = 0;
        version.minor_version = 54;
        Table(PJRT_Api {
            struct_size: size_of::<PJRT_Api>(),
            pjrt_api_version: version,
            PJRT_Error_Destroy: Some(error_destroy),
            PJRT_Error_Message: Some(error_message),
            PJRT_Error_GetCode: Some(error_code),
            PJRT_Plugin_Initialize: Some(initialize),
            PJRT_Client_Create: Some(client_create),
            PJRT_Client_Destroy: Some(client_destroy),
            PJRT_Client_PlatformName: Some(platform_name),
            PJRT_Client_PlatformVersion: Some(platform_version),
            PJRT_Client_AddressableDevices: Some(devices),
            PJRT_Device_GetDescription: Some(description),
            PJRT_DeviceDescription_Kind: Some(kind),
            PJRT_Client_Compile: Some(client_compile),
            PJRT_Compile: Some(topology_compile),
            PJRT_TopologyDescription_Create: Some(topology_create),
            PJRT_TopologyDescription_Destroy: Some(topology_destroy),
            PJRT_TopologyDescription_PlatformName: Some(topology_name),
            PJRT_TopologyDescription_PlatformVersion: Some(topology_version),
            PJRT_TopologyDescription_GetDeviceDescriptions: Some(topology_devices),
            PJRT_LoadedExecutable_Destroy: Some(loaded_destroy),
            PJRT_LoadedExecutable_GetExecutable: Some(get_executable),
            PJRT_LoadedExecutable_AddressableDevices: Some(loaded_devices),
            PJRT_Executable_Destroy: Some(executable_destroy),
            PJRT_Executable_NumOutputs: Some(num_outputs),
            PJRT_Client_BufferFromHostBuffer: Some(from_host),
            PJRT_LoadedExecutable_Execute: Some(execute),
            PJRT_Buffer_Destroy: Some(buffer_destroy),
            PJRT_Buffer_ElementType: Some(element_type),
            PJRT_Buffer_Dimensions: Some(dimensions),
            PJRT_Buffer_ToHostBuffer: Some(to_host),
            ..PJRT_Api::default()
        })
    });
    &raw const table.0
}
