//! Loading a plug-in: from a file to a table of functions that can be called.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::Library;
use pjrt_sys::*;

use super::entries::{ENTRIES, HEADER};
use super::raw::{self, call};
use super::value::{self, NamedValue, Value};
use super::{
    Client, CompileOptions, Error, ErrorCode, Executable, Program, Result, Topology, negotiate,
};

/// A loaded plug-in. Cheap to clone. It stays loaded until the process ends: plug-ins start threads and register
/// destructors that do not survive `dlclose`.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    path: PathBuf,
    /// The plug-in's own table, which also tells loaded plug-ins apart.
    own: *const PJRT_Api,
    /// The negotiated table.
    table: PJRT_Api,
    api_version: (i32, i32),
    crate_api: OnceLock<::pjrt::Api>,
}

// SAFETY: `own` points to a table that never changes and lives as long as the process, and so do the functions in
// `table`, which the C API requires to be callable from any thread.
unsafe impl Send for Inner {}
// SAFETY: as for Send; nothing in `Inner` changes after `load`, but for the OnceLock.
unsafe impl Sync for Inner {}

/// Every plug-in of this process, in the order of its slots.
static LOADED: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads the plug-in at `path` and initialises it; a plug-in that is loaded already is returned again.
    ///
    /// # Errors
    /// [`Error::Load`] for a file that is missing, no shared library, or refused by the dynamic linker;
    /// [`Error::NotAPlugin`] for a library without `GetPjrtApi`; [`Error::Version`]; what its initialiser answers.
    pub fn load(path: &Path) -> Result<Self> {
        let load_error = |reason: String| Error::Load {
            path: path.to_owned(),
            reason,
        };
        let path_on_disk = path
            .canonicalize()
            .map_err(|error| load_error(error.to_string()))?;
        check_is_elf(&path_on_disk).map_err(load_error)?;
        // One at a time: initialisers are not made to run beside each other, and slots are handed out in order.
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);

        // SAFETY: running a plug-in's initialisers is what the user asks for by naming it; they run in a worker process
        // that may die of them.
        let library = unsafe { Library::new(&path_on_disk) }
            .map_err(|error| load_error(error.to_string()))?;
        type GetPjrtApi = unsafe extern "C" fn() -> *const PJRT_Api;
        // SAFETY: the C API gives this symbol this type.
        let get_api = match unsafe { library.get::<GetPjrtApi>(b"GetPjrtApi\0") } {
            Ok(get_api) => *get_api,
            Err(_) => {
                return Err(Error::NotAPlugin {
                    path: path.to_owned(),
                });
            }
        };
        std::mem::forget(library);
        // SAFETY: the library is loaded and stays so, and with it the table.
        unsafe { Self::from_table(path, get_api(), &mut loaded) }
    }

    /// Negotiates with the plug-in whose table this is, and initialises it.
    ///
    /// # Safety
    /// `own` is null or a plug-in's table, which lives as long as the process.
    unsafe fn from_table(
        path: &Path,
        own: *const PJRT_Api,
        loaded: &mut Vec<Plugin>,
    ) -> Result<Self> {
        let malformed = |what: String| Error::Malformed {
            call: "GetPjrtApi",
            what,
        };
        if own.is_null() || !own.is_aligned() {
            return Err(malformed("no table".to_owned()));
        }
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.0.own == own) {
            return Ok(plugin.clone());
        }
        // SAFETY: a table begins with its size, and one of at least HEADER bytes holds its version.
        let version = unsafe {
            let size = (&raw const (*own).struct_size).read();
            if size < HEADER {
                return Err(malformed(format!("a table of {size} bytes")));
            }
            (&raw const (*own).pjrt_api_version).read()
        };
        let api_version = (version.major_version, version.minor_version);
        if api_version.0 != 0 || api_version.1 < negotiate::OLDEST_MINOR {
            return Err(Error::Version {
                path: path.to_owned(),
                found: api_version,
            });
        }
        let slot = loaded.len();
        if slot >= negotiate::SLOTS {
            return Err(Error::Load {
                path: path.to_owned(),
                reason: format!(
                    "this process holds {} plug-ins already, which is the most it can; use another process",
                    negotiate::SLOTS
                ),
            });
        }
        // SAFETY: `own` is a table that says its size and lives as long as the process; the slot is free, for slots are
        // handed out in order under the lock.
        let table = unsafe {
            let mut table = negotiate::copy(own);
            negotiate::negotiate(slot, own, &mut table);
            table
        };
        let plugin = Self(Arc::new(Inner {
            path: path.to_owned(),
            own,
            table,
            api_version,
            crate_api: OnceLock::new(),
        }));
        if plugin.0.table.PJRT_Plugin_Initialize.is_some() {
            let mut args = PJRT_Plugin_Initialize_Args::new();
            call!(&plugin, PJRT_Plugin_Initialize, args)?;
        }
        loaded.push(plugin.clone());
        Ok(plugin)
    }

    /// As given to [`Plugin::load`].
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Major and minor version of the PJRT C API that the plug-in was built with.
    pub fn api_version(&self) -> (i32, i32) {
        self.0.api_version
    }

    /// The `pjrt` crate's API over the negotiated table. The crate panics on much of what a plug-in may answer: prefer
    /// the wrappers of this module.
    pub fn api(&self) -> &::pjrt::Api {
        self.0.crate_api.get_or_init(|| {
            ::pjrt::Api::wrap(&raw const *Box::new(negotiate::for_crate(&self.0.table)))
        })
    }

    /// What the plug-in says of itself: `xla_version`, `stablehlo_current_version`, …
    pub fn attributes(&self) -> Result<BTreeMap<String, Value>> {
        const CALL: &str = "PJRT_Plugin_Attributes";
        let mut args = PJRT_Plugin_Attributes_Args::new();
        call!(self, PJRT_Plugin_Attributes, args)?;
        // SAFETY: attributes live as long as the process.
        unsafe { value::from_raw(CALL, args.attributes, args.num_attributes) }
    }

    /// The newest StableHLO version that the plug-in accepts, where it says so.
    pub fn stablehlo_version(&self) -> Option<[i64; 3]> {
        match self
            .attributes()
            .ok()?
            .remove("stablehlo_current_version")?
        {
            Value::I64List(version) => version.try_into().ok(),
            _ => None,
        }
    }

    /// A client of the plug-in's devices. `options` are the plug-in's own, such as `cpu_device_count`.
    pub fn create_client(&self, options: &[NamedValue]) -> Result<Client> {
        Client::create(self, options)
    }

    /// The topology of that name, for [`Plugin::compile`] without devices: `v6e:2x2`.
    pub fn create_topology(&self, name: &str, options: &[NamedValue]) -> Result<Topology> {
        Topology::create(self, name, options)
    }

    /// Compiles for a topology. The result can be inspected and serialised; running it takes a client.
    pub fn compile(
        &self,
        topology: &Topology,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Executable> {
        let options = options.encode();
        let program = program.to_raw();
        let mut args = PJRT_Compile_Args::new();
        args.topology = topology.raw();
        args.program = &raw const program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        call!(self, PJRT_Compile, args)?;
        let raw = raw::handle("PJRT_Compile", args.executable)?;
        Ok(Executable::own(self, None, raw))
    }

    /// Entries of the C API (as of 0.113) that the plug-in does not have, in the API's order.
    pub fn missing_entries(&self) -> Vec<&'static str> {
        // SAFETY: the table lives as long as the process and begins with its size.
        let size = unsafe { (&raw const (*self.0.own).struct_size).read() };
        let entry_is_missing = |index: usize| {
            let offset = HEADER + index * size_of::<usize>();
            if offset + size_of::<usize>() > size {
                return true;
            }
            // SAFETY: the entry lies within the table's own size; every entry is a function pointer, null or not.
            unsafe { self.0.own.byte_add(offset).cast::<usize>().read() == 0 }
        };
        (0..ENTRIES.len())
            .filter(|index| entry_is_missing(*index))
            .map(|index| ENTRIES[index])
            .collect()
    }

    pub(crate) fn table(&self) -> &PJRT_Api {
        &self.0.table
    }

    /// The plug-in's own table, as long as it says, which lives as long as the process.
    pub(crate) fn own_table(&self) -> *const PJRT_Api {
        self.0.own
    }

    pub(super) fn missing(&self, entry: &'static str) -> Error {
        Error::MissingEntry {
            entry,
            api_version: self.0.api_version,
        }
    }

    /// Turns what an entry returned into a result, and frees it.
    pub(crate) fn check(&self, call: &'static str, error: *mut PJRT_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let table = self.table();
        let mut message = String::new();
        if let Some(entry) = table.PJRT_Error_Message {
            let mut args = PJRT_Error_Message_Args::new();
            args.error = error;
            // SAFETY: `error` is a live error of this plug-in, and its message lives as long.
            unsafe {
                entry(&raw mut args);
                message = raw::text(args.message, args.message_size);
            }
        }
        let mut code = ErrorCode::Unknown;
        if let Some(entry) = table.PJRT_Error_GetCode {
            let mut args = PJRT_Error_GetCode_Args::new();
            args.error = error;
            // SAFETY: as above.
            let failed = unsafe { entry(&raw mut args) };
            if failed.is_null() {
                code = ErrorCode::from_raw(args.code);
            } else {
                self.destroy_error(failed);
            }
        }
        self.destroy_error(error);
        Err(Error::Plugin {
            code,
            message,
            call,
        })
    }

    fn destroy_error(&self, error: *mut PJRT_Error) {
        if let Some(entry) = self.table().PJRT_Error_Destroy {
            let mut args = PJRT_Error_Destroy_Args::new();
            args.error = error;
            // SAFETY: `error` is a live error of this plug-in and is not used again.
            unsafe { entry(&raw mut args) };
        }
    }

    /// Waits for an event and frees it; null is an event that has happened. Its error is that of the call it came from.
    pub(super) fn wait(&self, from: &'static str, event: *mut PJRT_Event) -> Result<()> {
        if event.is_null() {
            return Ok(());
        }
        let mut args = PJRT_Event_Await_Args::new();
        args.event = event;
        let result = call!(self, PJRT_Event_Await, args).map_err(|error| match error {
            Error::Plugin { code, message, .. } => Error::Plugin {
                code,
                message,
                call: from,
            },
            other => other,
        });
        let mut args = PJRT_Event_Destroy_Args::new();
        args.event = event;
        let destroyed = call!(self, PJRT_Event_Destroy, args);
        result.and(destroyed)
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("path", &self.0.path)
            .field("api_version", &self.0.api_version)
            .finish_non_exhaustive()
    }
}

/// The dynamic linker's own words for a text file ("invalid ELF header") are less plain.
fn check_is_elf(path: &Path) -> std::result::Result<(), String> {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    match read {
        Ok(()) if magic == *b"\x7fELF" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error.to_string()),
        _ => Err("it is not a shared library (no ELF header)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A plug-in of nothing but a table, which ends before `end` bytes.
    fn fake(version: (i32, i32), end: usize) -> Result<Plugin> {
        unsafe extern "C" fn not_called(_: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
            std::process::abort();
        }
        // SAFETY: zero is valid for every field.
        let mut own = Box::new(unsafe { std::mem::zeroed::<PJRT_Api>() });
        own.struct_size = end;
        own.pjrt_api_version.major_version = version.0;
        own.pjrt_api_version.minor_version = version.1;
        own.PJRT_Client_Create = Some(not_called);
        let mut loaded = LOADED.lock().unwrap();
        // SAFETY: the table is whole and leaked.
        unsafe { Plugin::from_table(Path::new("fake.so"), Box::leak(own), &mut loaded) }
    }

    #[test]
    fn an_entry_past_the_plugins_own_table_is_never_called() {
        let plugin = fake((0, 78), std::mem::offset_of!(PJRT_Api, PJRT_Client_Create)).unwrap();
        let error = plugin.create_client(&[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unsupported by this plug-in: its PJRT C API 0.78 has no PJRT_Client_Create"
        );
        assert!(plugin.missing_entries().contains(&"PJRT_Client_Create"));
        // The crate's API is there all the same: initialising is not its to do.
        assert_eq!(plugin.api().version().minor_version, 78);
    }

    #[test]
    fn tables_that_cannot_be_negotiated_are_refused() {
        let whole = size_of::<PJRT_Api>();
        for version in [(1, 0), (0, 53)] {
            let error = fake(version, whole).unwrap_err();
            assert!(matches!(error, Error::Version { found, .. } if found == version));
        }
        let error = fake((0, 78), 16).unwrap_err();
        assert_eq!(error.to_string(), "GetPjrtApi returned a table of 16 bytes");
        let mut loaded = LOADED.lock().unwrap();
        // SAFETY: null is allowed.
        let error = unsafe { Plugin::from_table(Path::new("x"), std::ptr::null(), &mut loaded) }
            .unwrap_err();
        assert_eq!(error.to_string(), "GetPjrtApi returned no table");
    }

    #[test]
    fn a_file_that_is_not_there_says_so() {
        let error = Plugin::load(Path::new("/nowhere/plugin.so")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("cannot load the plug-in /nowhere/plugin.so: No such file"),
            "{text}"
        );
    }

    #[test]
    fn a_text_file_is_not_a_shared_library() {
        for content in ["hello, I am a text file", ""] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(content.as_bytes()).unwrap();
            let error = Plugin::load(file.path()).unwrap_err().to_string();
            assert!(
                error.ends_with("not a shared library (no ELF header)"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_truncated_library_is_the_linkers_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\x7fELF and no more").unwrap();
        let error = Plugin::load(file.path()).unwrap_err();
        assert!(matches!(error, Error::Load { .. }), "{error}");
    }

    #[test]
    fn a_library_without_the_entry_point_is_not_a_plugin() {
        let libm = [
            "/lib/x86_64-linux-gnu/libm.so.6",
            "/lib64/libm.so.6",
            "/usr/lib/libm.so.6",
        ]
        .into_iter()
        .map(Path::new)
        .find(|path| path.exists())
        .expect("a libm on this machine");
        let error = Plugin::load(libm).unwrap_err();
        assert!(matches!(error, Error::NotAPlugin { .. }), "{error}");
        assert!(error.to_string().contains("no GetPjrtApi"), "{error}");
    }
}
