//! A compiled program, and everything that the compiler says of it.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::size_of;
use std::sync::Arc;

use pjrt_sys::*;

use super::loaded::Loaded;
use super::raw::{self, call};
use super::value::{self, Value};
use super::{Error, Plugin, Program, Result, element, negotiate};
use crate::tensor::ElementType;

pub struct Executable {
    plugin: Plugin,
    /// What it was loaded as, which must outlive it.
    _loaded: Option<Arc<Loaded>>,
    raw: *mut PJRT_Executable,
}

// SAFETY: an executable never changes, and the C API's functions on it may be called from any thread.
unsafe impl Send for Executable {}
// SAFETY: as for Send.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args = PJRT_Executable_Destroy_Args::new();
        args.executable = self.raw;
        let _ = call!(&self.plugin, PJRT_Executable_Destroy, args);
    }
}

/// `PJRT_Executable_GetCompiledMemoryStats_Args` as of PJRT C API 0.113: a header, then one i64 a statistic.
#[repr(C)]
struct CompiledMemoryStats {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    executable: *mut PJRT_Executable,
    values: [i64; STATISTICS.len()],
}

pub(crate) const STATISTICS: [&str; 15] = [
    "generated_code",
    "argument",
    "output",
    "alias",
    "temp",
    "host_generated_code",
    "host_argument",
    "host_output",
    "host_alias",
    "host_temp",
    "peak",
    "total",
    "total_allocation",
    "indefinite_allocations",
    "peak_unpadded_heap",
];

impl Executable {
    /// Takes over a handle that the plug-in returned.
    pub(super) fn own(
        plugin: &Plugin,
        loaded: Option<Arc<Loaded>>,
        raw: *mut PJRT_Executable,
    ) -> Self {
        Self {
            plugin: plugin.clone(),
            _loaded: loaded,
            raw,
        }
    }

    /// The plug-in's handle, which is `self`'s own.
    pub(crate) fn raw(&self) -> *mut PJRT_Executable {
        self.raw
    }

    pub fn name(&self) -> Result<String> {
        let mut args = PJRT_Executable_Name_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_Name, args)?;
        // SAFETY: the name lives as long as the executable.
        Ok(unsafe { raw::text(args.executable_name, args.executable_name_size) })
    }

    pub fn num_outputs(&self) -> Result<usize> {
        let mut args = PJRT_Executable_NumOutputs_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_NumOutputs, args)?;
        // More than any program has, and few enough to make room for.
        if args.num_outputs > 1 << 20 {
            return Err(Error::Malformed {
                call: "PJRT_Executable_NumOutputs",
                what: format!("{} outputs", args.num_outputs),
            });
        }
        Ok(args.num_outputs)
    }

    pub fn num_replicas(&self) -> Result<usize> {
        let mut args = PJRT_Executable_NumReplicas_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_NumReplicas, args)?;
        Ok(args.num_replicas)
    }

    pub fn num_partitions(&self) -> Result<usize> {
        let mut args = PJRT_Executable_NumPartitions_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_NumPartitions, args)?;
        Ok(args.num_partitions)
    }

    /// Bytes of generated code; -1 where the plug-in does not know.
    pub fn code_size(&self) -> Result<i64> {
        let mut args = PJRT_Executable_SizeOfGeneratedCodeInBytes_Args::new();
        args.executable = self.raw;
        call!(
            &self.plugin,
            PJRT_Executable_SizeOfGeneratedCodeInBytes,
            args
        )?;
        Ok(args.size_in_bytes)
    }

    pub fn output_element_types(&self) -> Result<Vec<ElementType>> {
        const CALL: &str = "PJRT_Executable_OutputElementTypes";
        let mut args = PJRT_Executable_OutputElementTypes_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_OutputElementTypes, args)?;
        // SAFETY: the array lives as long as the executable.
        let types = unsafe { raw::slice(CALL, args.output_types, args.num_output_types)? };
        types
            .iter()
            .map(|buffer_type| element::element_type(*buffer_type))
            .collect()
    }

    pub fn output_dimensions(&self) -> Result<Vec<Vec<i64>>> {
        const CALL: &str = "PJRT_Executable_OutputDimensions";
        let mut args = PJRT_Executable_OutputDimensions_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_OutputDimensions, args)?;
        // SAFETY: the array lives as long as the executable.
        let ranks = unsafe { raw::slice(CALL, args.dim_sizes, args.num_outputs)? };
        let total = ranks
            .iter()
            .try_fold(0usize, |sum, rank| sum.checked_add(*rank))
            .ok_or_else(|| Error::Malformed {
                call: CALL,
                what: format!("the ranks {ranks:?}"),
            })?;
        // SAFETY: the dimensions of all outputs stand in one array, one output after another.
        let mut rest = unsafe { raw::slice(CALL, args.dims, total)? };
        let mut dimensions = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let (these, others) = rest.split_at(*rank);
            dimensions.push(these.to_vec());
            rest = others;
        }
        Ok(dimensions)
    }

    /// Bytes by purpose: `argument`, `output`, `alias`, `temp`, `generated_code`, the same on the host as `host_…`, and
    /// `peak`, `total`, … where the plug-in is new enough to say.
    pub fn memory_stats(&self) -> Result<BTreeMap<String, i64>> {
        let size = negotiate::compiled_memory_stats_size(self.plugin.api_version().1)
            .min(size_of::<CompiledMemoryStats>());
        let mut stats = CompiledMemoryStats {
            struct_size: size,
            extension_start: std::ptr::null_mut(),
            executable: self.raw,
            values: [0; STATISTICS.len()],
        };
        let Some(entry) = self.plugin.table().PJRT_Executable_GetCompiledMemoryStats else {
            return Err(self
                .plugin
                .missing("PJRT_Executable_GetCompiledMemoryStats"));
        };
        // SAFETY: the struct is the C API's, longer than the header's, and says its size; a trampoline hands one of at
        // least the plug-in's size through as it is.
        let error = unsafe { entry((&raw mut stats).cast()) };
        self.plugin
            .check("PJRT_Executable_GetCompiledMemoryStats", error)?;
        let known = (size - std::mem::offset_of!(CompiledMemoryStats, values)) / size_of::<i64>();
        Ok(STATISTICS
            .iter()
            .zip(stats.values)
            .take(known)
            .map(|(name, value)| ((*name).to_owned(), value))
            .collect())
    }

    /// The compiler's estimate: `flops`, `bytes accessed`, `optimal_seconds`, …
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, Value>> {
        const CALL: &str = "PJRT_Executable_GetCostAnalysis";
        let mut args = PJRT_Executable_GetCostAnalysis_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_GetCostAnalysis, args)?;
        // SAFETY: the properties live as long as the executable.
        unsafe { value::from_raw(CALL, args.properties, args.num_properties) }
    }

    /// The program after the compiler's passes, as `hlo_with_config` from today's plug-ins.
    pub fn optimized_program(&self) -> Result<Program> {
        let mut raw = PJRT_Program::new();
        let mut args = PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.raw;
        args.program = &raw mut raw;
        // Without room the plug-in tells the size, and with it fills the room.
        call!(&self.plugin, PJRT_Executable_OptimizedProgram, args)?;
        let mut code = raw::room("PJRT_Executable_OptimizedProgram", raw.code_size)?;
        raw.code = code.as_mut_ptr().cast();
        call!(&self.plugin, PJRT_Executable_OptimizedProgram, args)?;
        code.truncate(raw.code_size);
        Ok(Program {
            // SAFETY: the name of the format lives as long as the executable.
            format: unsafe { raw::text(raw.format, raw.format_size) },
            code,
        })
    }

    /// For [`super::Client::deserialize`] with the same plug-in at the same version.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        const CALL: &str = "PJRT_Executable_Serialize";
        let mut args = PJRT_Executable_Serialize_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_Serialize, args)?;
        // SAFETY: the bytes live until the deleter is called.
        let bytes = unsafe {
            raw::slice(
                CALL,
                args.serialized_bytes.cast::<u8>(),
                args.serialized_bytes_size,
            )
        }
        .map(<[u8]>::to_vec);
        if let Some(delete) = args.serialized_executable_deleter {
            // SAFETY: called once, after the bytes have been copied.
            unsafe { delete(args.serialized_executable) };
        }
        bytes
    }

    /// Equal for equal programs, options and compiler; not text.
    pub fn fingerprint(&self) -> Result<Vec<u8>> {
        const CALL: &str = "PJRT_Executable_Fingerprint";
        let mut args = PJRT_Executable_Fingerprint_Args::new();
        args.executable = self.raw;
        call!(&self.plugin, PJRT_Executable_Fingerprint, args)?;
        // SAFETY: the bytes live as long as the executable.
        unsafe {
            raw::slice(
                CALL,
                args.executable_fingerprint.cast::<u8>(),
                args.executable_fingerprint_size,
            )
        }
        .map(<[u8]>::to_vec)
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({})", self.name().unwrap_or_default())
    }
}
