//! What a plug-in says of itself, in one record: for `doctor`, and for the environment that a run keeps.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::entries::{ENTRIES, KNOWN_TO_HEADER};
use super::{Client, Plugin, Result, Topology, tpu_present};
use crate::target::Generation;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Of the PJRT C API.
    pub api_version: (i32, i32),
    /// The newest that the plug-in accepts.
    pub stablehlo_version: Option<[i64; 3]>,
    pub platform_name: Option<String>,
    pub platform_version: Option<String>,
    /// Device kinds and how many there are of each; empty where there is no hardware for the plug-in.
    pub devices: BTreeMap<String, usize>,
    /// Why there are no devices.
    pub client_error: Option<String>,
    /// What the plug-in compiles for without hardware, by generation.
    pub topologies: BTreeMap<String, TopologyProbe>,
    /// Entries that this harness may call and the plug-in lacks.
    pub missing_entries: Vec<String>,
    /// Entries of later versions of the C API, up to 0.113, that the plug-in lacks; this harness needs none of them.
    pub newer_missing_entries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopologyProbe {
    Supported {
        /// As the plug-in calls it: `v6e:2x2`.
        name: String,
        device_kind: String,
        devices: usize,
    },
    Refused(String),
}

impl Probe {
    /// Loads the plug-in at `path` and asks it. Do so in a process that may die.
    pub fn load(path: &Path) -> Result<Self> {
        Self::of(&Plugin::load(path)?)
    }

    pub fn of(plugin: &Plugin) -> Result<Self> {
        let (missing, newer): (Vec<&str>, Vec<&str>) = plugin
            .missing_entries()
            .into_iter()
            .partition(|entry| ENTRIES[..KNOWN_TO_HEADER].contains(entry));
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let mut probe = Self {
            api_version: plugin.api_version(),
            stablehlo_version: plugin.stablehlo_version(),
            platform_name: None,
            platform_version: None,
            devices: BTreeMap::new(),
            client_error: None,
            topologies: BTreeMap::new(),
            missing_entries: owned(missing),
            newer_missing_entries: owned(newer),
        };
        probe.ask_topologies(plugin);
        let compiles = probe.compiles();
        if !compiles {
            // Refused by all: not a compiler for TPUs, and no news.
            probe.topologies.clear();
        }
        // libtpu's client takes seconds to find no TPU, and takes the TPU from others where there is one.
        if !compiles || tpu_present() {
            match plugin.create_client(&[]) {
                Ok(client) => probe.ask_client(&client)?,
                Err(error) => probe.client_error = Some(error.to_string()),
            }
        }
        Ok(probe)
    }

    /// Whether it compiles for some TPU without hardware.
    pub fn compiles(&self) -> bool {
        self.topologies
            .values()
            .any(|topology| matches!(topology, TopologyProbe::Supported { .. }))
    }

    /// Whether cases can run on it, or be compiled by it.
    pub fn is_usable(&self) -> bool {
        self.compiles() || !self.devices.is_empty()
    }

    fn ask_topologies(&mut self, plugin: &Plugin) {
        for generation in Generation::ALL {
            let name = generation.topology(None);
            let probe = plugin
                .create_topology(&name, &[])
                .and_then(|topology| self.ask_topology(&name, &topology))
                .unwrap_or_else(|error| TopologyProbe::Refused(error.to_string()));
            self.topologies
                .insert(generation.as_str().to_owned(), probe);
        }
    }

    fn ask_topology(&mut self, name: &str, topology: &Topology) -> Result<TopologyProbe> {
        self.platform_name = Some(topology.platform_name()?);
        self.platform_version = Some(topology.platform_version()?);
        let devices = topology.devices()?;
        Ok(TopologyProbe::Supported {
            name: name.to_owned(),
            device_kind: match devices.first() {
                Some(device) => device.kind()?,
                None => String::new(),
            },
            devices: devices.len(),
        })
    }

    fn ask_client(&mut self, client: &Client) -> Result<()> {
        self.platform_name = Some(client.platform_name()?);
        self.platform_version = Some(client.platform_version()?);
        for device in client.addressable_devices()? {
            *self.devices.entry(device.kind()?).or_default() += 1;
        }
        Ok(())
    }
}
