//! The XLA CPU plug-in beneath: found, checked, loaded once a process, and its table.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::pjrt::entries::HEADER;
use crate::pjrt::{self, Plugin};
use crate::virtual_tpu::locate;
use crate::virtual_tpu::pool::{Parts, Pool};
use crate::virtual_tpu::serve::code;
use crate::virtual_tpu::wire::Failure;

pub struct Cpu {
    pub plugin: Plugin,
    pub sha256: String,
    path: PathBuf,
    home: PathBuf,
    pool: OnceLock<Result<Arc<Pool>, Failure>>,
}

static CPU: OnceLock<Result<Cpu, Failure>> = OnceLock::new();

/// The plug-in, loaded at the first call.
pub fn load() -> Result<&'static Cpu, Failure> {
    CPU.get_or_init(Cpu::load).as_ref().map_err(Clone::clone)
}

/// XLA CPU's function at an offset of its table; `None` where its table ends before, or has none.
pub fn entry(offset: usize) -> Option<*const ()> {
    let own = load().ok()?.plugin.own_table();
    // SAFETY: the table lives as long as the process and begins with its size; every entry is a pointer, null or not.
    let function = unsafe {
        let size = (&raw const (*own).struct_size).read();
        if offset < HEADER || offset + size_of::<usize>() > size {
            return None;
        }
        own.byte_add(offset).cast::<*const ()>().read()
    };
    (!function.is_null()).then_some(function)
}

impl Cpu {
    fn load() -> Result<Self, Failure> {
        let home = home();
        let failed = |reason: String| Failure::new(code::FAILED_PRECONDITION, reason);
        let found = locate::cpu_plugin(&home).map_err(|error| failed(error.to_string()))?;
        let plugin =
            Plugin::load(&found.path).map_err(|error: pjrt::Error| failed(error.to_string()))?;
        Ok(Self {
            plugin,
            sha256: found.sha256,
            path: found.path,
            home,
            pool: OnceLock::new(),
        })
    }

    /// The compile helpers, the first of which is started by the first call.
    pub fn pool(&self) -> Result<&Arc<Pool>, Failure> {
        let start = || {
            let failed = |error: locate::LocateError| {
                Failure::new(code::FAILED_PRECONDITION, error.to_string())
            };
            Ok(Pool::start(Parts {
                program: locate::program(&self.home).map_err(failed)?,
                libtpu: locate::libtpu(&self.home).map_err(failed)?.path,
                cpu: self.path.clone(),
                cpu_sha256: self.sha256.clone(),
            }))
        };
        self.pool.get_or_init(start).as_ref().map_err(Clone::clone)
    }
}

/// The folder of the shared library that this code is part of.
fn home() -> PathBuf {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` takes any address and writes to `info`, which is valid for the call.
    let found = unsafe { libc::dladdr(home as *const () as *const libc::c_void, &raw mut info) };
    let path = match found != 0 && !info.dli_fname.is_null() {
        // SAFETY: the name is a C string that lives as long as the library is loaded.
        true => unsafe { CStr::from_ptr(info.dli_fname) },
        false => c".",
    };
    let path = PathBuf::from(String::from_utf8_lossy(path.to_bytes()).into_owned());
    let path = path.canonicalize().unwrap_or(path);
    path.parent().map(Path::to_owned).unwrap_or_default()
}
