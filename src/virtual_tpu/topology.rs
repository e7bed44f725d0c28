//! What is known of a slice's devices, as libtpu tells it, in a form that travels between processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::pjrt::{Error, Topology, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyFacts {
    pub platform_name: String,
    /// In libtpu's words.
    pub platform_version: String,
    pub attributes: BTreeMap<String, Value>,
    pub devices: Vec<DeviceFacts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    pub id: i64,
    /// `TPU v6 lite`
    pub kind: String,
    pub debug_string: String,
    pub to_string: String,
    /// `coords`, `core_on_chip`, `num_cores`, `device_memory_bytes_limit`
    pub attributes: BTreeMap<String, Value>,
}

impl TopologyFacts {
    pub fn of(topology: &Topology) -> Result<Self, Error> {
        let devices = topology.devices()?;
        Ok(Self {
            platform_name: topology.platform_name()?,
            platform_version: topology.platform_version()?,
            attributes: topology.attributes()?,
            devices: devices
                .iter()
                .map(|device| {
                    Ok(DeviceFacts {
                        id: device.id()?,
                        kind: device.kind()?,
                        debug_string: device.debug_string()?,
                        to_string: device.text()?,
                        attributes: device.attributes()?,
                    })
                })
                .collect::<Result<_, Error>>()?,
        })
    }
}

impl DeviceFacts {
    /// Bytes of HBM that programs may use.
    pub fn memory_limit(&self) -> Option<i64> {
        match self.attributes.get("device_memory_bytes_limit") {
            Some(Value::I64(limit)) => Some(*limit),
            _ => None,
        }
    }
}
