//! What hangs beside XLA CPU's handles: the facts of the virtual TPU, by the handle's address, until it is destroyed.
//!
//! Handles stay XLA CPU's own, so everything that is not looked up here is its business, extensions included.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use pjrt_sys::PJRT_NamedValue;

use super::entry::bad_arguments;
use super::executable::ExecutableFacts;
use super::memory::Tracker;
use crate::hlo::MxuNumerics;
use crate::pjrt::{self, NamedValue, Value, value};
use crate::virtual_tpu::settings::Settings;
use crate::virtual_tpu::slice::Slice;
use crate::virtual_tpu::topology::{DeviceFacts, TopologyFacts};
use crate::virtual_tpu::wire::Failure;

/// By the address of a handle. Every execution looks some up: the standard hasher would show.
pub type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Spreads addresses over all bits, for tables that look at the lowest and the highest.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        // The golden ratio's bits, as in Fibonacci hashing.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Handles of one kind, by their address.
pub struct Handles<T> {
    /// For messages: `client`, `device`.
    kind: &'static str,
    map: RwLock<Option<ByAddress<T>>>,
}

impl<T: Clone> Handles<T> {
    const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            map: RwLock::new(None),
        }
    }

    pub fn insert<H>(&self, handle: *const H, facts: T) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.get_or_insert_default().insert(handle as usize, facts);
    }

    pub fn remove<H>(&self, handle: *const H) -> Option<T> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.as_mut()?.remove(&(handle as usize))
    }

    pub fn find<H>(&self, handle: *const H) -> Option<T> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.as_ref()?.get(&(handle as usize)).cloned()
    }

    /// # Errors
    /// A handle that this plug-in did not hand out, or that was destroyed.
    pub fn get<H>(&self, handle: *const H) -> Result<T, Failure> {
        self.find(handle)
            .ok_or_else(|| bad_arguments(format!("this is no {} of this plug-in", self.kind)))
    }

    pub fn remove_all(&self, is_gone: impl Fn(&T) -> bool) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = map.as_mut() {
            map.retain(|_, facts| !is_gone(facts));
        }
    }
}

pub static CLIENTS: Handles<Arc<VirtualClient>> = Handles::new("client");
pub static DEVICES: Handles<DeviceOf> = Handles::new("device");
pub static DESCRIPTIONS: Handles<DescriptionOf> = Handles::new("device description");
/// The devices' default memories, with the device's place in its client; what is in host memories is no HBM.
pub static MEMORIES: Handles<(Arc<Tracker>, usize)> = Handles::new("memory");
pub static TOPOLOGIES: Handles<Arc<VirtualTopology>> = Handles::new("topology");
pub static LOADED: Handles<Arc<ExecutableFacts>> = Handles::new("loaded executable");
pub static EXECUTABLES: Handles<ExecutableOf> = Handles::new("executable");

pub struct VirtualClient {
    pub settings: Settings,
    pub topology: Arc<VirtualTopology>,
    pub memory: Arc<Tracker>,
}

#[derive(Clone)]
pub struct DeviceOf {
    pub client: Arc<VirtualClient>,
    pub index: usize,
}

#[derive(Clone)]
pub struct DescriptionOf {
    pub topology: Arc<VirtualTopology>,
    pub index: usize,
}

#[derive(Clone)]
pub struct ExecutableOf {
    pub facts: Arc<ExecutableFacts>,
    /// Of an executable that was compiled for a topology: XLA CPU's, loaded on a client of the plug-in's own.
    pub loaded: Option<Arc<pjrt::Executable>>,
}

/// A slice's devices.
pub struct VirtualTopology {
    pub slice: Slice,
    pub facts: TopologyFacts,
    /// With a line of its own that says what this is.
    pub platform_version: String,
    pub attributes: NamedValues,
    pub devices: Vec<VirtualDevice>,
    /// Whose topology the handle is, where the client has no client of that slice.
    pub _own_client: Option<pjrt::Client>,
}

pub struct VirtualDevice {
    pub facts: DeviceFacts,
    pub attributes: NamedValues,
}

impl VirtualTopology {
    pub fn new(
        slice: Slice,
        numerics: MxuNumerics,
        facts: TopologyFacts,
        own_client: Option<pjrt::Client>,
    ) -> Self {
        // JAX reads the time of the build from the last line, and keeps executables by the whole: what changes results
        // must be in it.
        let platform_version = format!(
            "tpu-parity {} virtual TPU ({slice}) with {numerics} numerics: compiled by libtpu, executed on XLA CPU\n{}",
            env!("CARGO_PKG_VERSION"),
            facts.platform_version
        );
        Self {
            slice,
            platform_version,
            attributes: NamedValues::new(&facts.attributes),
            devices: facts
                .devices
                .iter()
                .map(|device| VirtualDevice {
                    facts: device.clone(),
                    attributes: NamedValues::new(&device.attributes),
                })
                .collect(),
            facts,
            _own_client: own_client,
        }
    }
}

/// Named values that C can read for as long as this lives.
pub struct NamedValues {
    raw: Vec<PJRT_NamedValue>,
    /// What `raw` borrows from; boxed, so that it stays where it is.
    _values: Box<[NamedValue]>,
}

// SAFETY: the pointers in `raw` lead into `_values`, which never changes.
unsafe impl Send for NamedValues {}
// SAFETY: as for Send.
unsafe impl Sync for NamedValues {}

impl NamedValues {
    pub fn new<'a>(values: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Self {
        let values: Box<[NamedValue]> = values
            .into_iter()
            .map(|(name, value)| NamedValue::new(name, value.clone()))
            .collect();
        Self {
            raw: value::to_raw(&values),
            _values: values,
        }
    }

    pub fn as_ptr(&self) -> *const PJRT_NamedValue {
        self.raw.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.raw.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_until_it_is_removed() {
        let handles: Handles<u32> = Handles::new("thing");
        let (a, b) = (1u8, 2u8);
        handles.insert(&raw const a, 7);
        assert_eq!(handles.get(&raw const a).unwrap(), 7);
        let error = handles.get(&raw const b).unwrap_err();
        assert!(error.message.contains("no thing"), "{error}");
        assert_eq!(handles.remove(&raw const a), Some(7));
        assert_eq!(handles.find(&raw const a), None);
        handles.insert(&raw const a, 1);
        handles.insert(&raw const b, 2);
        handles.remove_all(|facts| *facts == 1);
        assert_eq!(handles.find(&raw const a), None);
        assert_eq!(handles.find(&raw const b), Some(2));
    }
}
