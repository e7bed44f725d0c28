//! What is compiled, and how.

use pjrt_sys::PJRT_Program;
use pjrt_sys::protos::xla;
use prost::Message;

use super::{Error, Result, Value};

/// A program in one of the formats that plug-ins take or return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// `mlir` (text or bytecode), `hlo` (`HloModuleProto`), or `hlo_with_config` (`HloModuleProtoWithConfig`).
    pub format: String,
    pub code: Vec<u8>,
}

impl Program {
    /// An MLIR module as text.
    pub fn mlir(code: &str) -> Self {
        Self {
            format: "mlir".to_owned(),
            code: code.as_bytes().to_vec(),
        }
    }

    /// An MLIR module as bytecode or a portable artifact.
    pub fn mlir_bytecode(code: Vec<u8>) -> Self {
        Self {
            format: "mlir".to_owned(),
            code,
        }
    }

    /// A serialised `HloModuleProto`.
    pub fn hlo(code: Vec<u8>) -> Self {
        Self {
            format: "hlo".to_owned(),
            code,
        }
    }

    /// Borrows from `self`.
    pub(super) fn to_raw(&self) -> PJRT_Program {
        let mut raw = PJRT_Program::new();
        // Plug-ins only read it; the C struct serves for output too.
        raw.code = self.code.as_ptr().cast_mut().cast();
        raw.code_size = self.code.len();
        raw.format = self.format.as_ptr().cast();
        raw.format_size = self.format.len();
        raw
    }
}

/// XLA's compile options. The default is one replica and one partition, on whatever device the client has first.
#[derive(Debug, Clone, PartialEq)]
pub struct CompileOptions {
    proto: xla::CompileOptionsProto,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            proto: xla::CompileOptionsProto {
                executable_build_options: Some(xla::ExecutableBuildOptionsProto {
                    device_ordinal: -1,
                    num_replicas: 1,
                    num_partitions: 1,
                    ..Default::default()
                }),
                ..Default::default()
            },
        }
    }
}

impl CompileOptions {
    pub fn new() -> Self {
        Self::default()
    }

    /// The program runs on this many devices, each with its own arguments.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.build_options().num_replicas = replicas as i64;
        self
    }

    /// The program is split over this many devices by the shardings in it (SPMD).
    pub fn partitions(mut self, partitions: usize) -> Self {
        let options = self.build_options();
        options.num_partitions = partitions as i64;
        options.use_spmd_partitioning = partitions > 1;
        self
    }

    /// The ids of the devices to run on: one row a replica, one column a partition.
    pub fn devices(mut self, ids: &[Vec<i64>]) -> Self {
        let partitions = ids.first().map_or(0, Vec::len);
        let computation_devices = (0..partitions)
            .map(
                |partition| xla::device_assignment_proto::ComputationDevice {
                    replica_device_ids: ids
                        .iter()
                        .filter_map(|row| row.get(partition).copied())
                        .collect(),
                },
            )
            .collect();
        self.build_options().device_assignment = Some(xla::DeviceAssignmentProto {
            replica_count: ids.len() as i32,
            computation_count: partitions as i32,
            computation_devices,
        });
        self
    }

    /// Overrides one of the compiler's flags for this program: `xla_cpu_enable_fast_math`, `xla_tpu_…`.
    /// A list of integers becomes a string of them, separated by commas.
    pub fn flag(mut self, name: &str, value: impl Into<Value>) -> Self {
        use xla::option_override_proto::Value as Override;
        let value = match value.into() {
            Value::Bool(value) => Override::BoolField(value),
            Value::I64(value) => Override::IntField(value),
            Value::F32(value) => Override::DoubleField(value.into()),
            Value::String(value) => Override::StringField(value),
            Value::I64List(values) => {
                let values: Vec<String> = values.iter().map(i64::to_string).collect();
                Override::StringField(values.join(","))
            }
        };
        self.proto.env_option_overrides.insert(
            name.to_owned(),
            xla::OptionOverrideProto { value: Some(value) },
        );
        self
    }

    /// From a serialised `CompileOptionsProto`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let proto = xla::CompileOptionsProto::decode(bytes).map_err(|error| {
            Error::Argument(format!(
                "the compile options are no CompileOptionsProto: {error}"
            ))
        })?;
        Ok(Self { proto })
    }

    pub fn proto(&self) -> &xla::CompileOptionsProto {
        &self.proto
    }

    /// How many replicas and partitions there are, at least one of each.
    pub fn devices_in_use(&self) -> (usize, usize) {
        let count = |n: i64| usize::try_from(n).unwrap_or(1).max(1);
        match &self.proto.executable_build_options {
            Some(build) => (count(build.num_replicas), count(build.num_partitions)),
            None => (1, 1),
        }
    }

    /// The inverse of [`CompileOptions::devices`].
    pub fn assigned_devices(&self) -> Option<Vec<Vec<i64>>> {
        let build = self.proto.executable_build_options.as_ref()?;
        let assignment = build.device_assignment.as_ref()?;
        let replicas = usize::try_from(assignment.replica_count).ok()?;
        let row = |replica: usize| {
            assignment
                .computation_devices
                .iter()
                .map(|column| column.replica_device_ids.get(replica).copied())
                .collect::<Option<Vec<i64>>>()
        };
        (0..replicas).map(row).collect()
    }

    /// Everything else.
    pub fn proto_mut(&mut self) -> &mut xla::CompileOptionsProto {
        &mut self.proto
    }

    /// A serialised `CompileOptionsProto`.
    pub fn encode(&self) -> Vec<u8> {
        self.proto.encode_to_vec()
    }

    fn build_options(&mut self) -> &mut xla::ExecutableBuildOptionsProto {
        self.proto
            .executable_build_options
            .get_or_insert_with(Default::default)
    }
}

impl From<::pjrt::CompileOptions> for CompileOptions {
    fn from(options: ::pjrt::CompileOptions) -> Self {
        Self {
            proto: options.proto().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_crates_own() {
        assert_eq!(
            CompileOptions::default(),
            CompileOptions::from(::pjrt::CompileOptions::new())
        );
    }

    #[test]
    fn devices_are_rows_of_replicas() {
        let mut options = CompileOptions::new()
            .replicas(2)
            .partitions(1)
            .devices(&[vec![3], vec![1]]);
        let build = options.build_options();
        let assignment = build.device_assignment.clone().unwrap();
        assert_eq!(
            (assignment.replica_count, assignment.computation_count),
            (2, 1)
        );
        assert_eq!(assignment.computation_devices[0].replica_device_ids, [3, 1]);
        assert_eq!(options.assigned_devices().unwrap(), [[3], [1]]);
        assert_eq!(options.devices_in_use(), (2, 1));
        assert_eq!(CompileOptions::decode(&options.encode()).unwrap(), options);
    }
}
