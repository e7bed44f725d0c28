//! What a TPU compiler's executable tells of itself: code size, memory, cost, and the compiler's estimate of time.
//!
//! None of it is what a case is about, so none of it can fail a case, but for a program that does not fit into the device.

use super::device::Stop;
use crate::outcome::{Estimate, Metrics, OutcomeKind, Stage, known_cost};
use crate::pjrt::{Error, Executable, Program, Topology, Value};
use crate::store::PluginRecord;
use crate::target::Generation;
use crate::virtual_tpu::Optimized;

/// Libtpu's attribute of a device: bytes of HBM that are left for programs.
const MEMORY_LIMIT: &str = "device_memory_bytes_limit";

/// Notes what the topology says of itself; returns the number of its devices.
pub(super) fn note_topology(
    topology: &Topology,
    generation: Generation,
    record: &mut PluginRecord,
) -> Result<i64, Error> {
    record.platform = topology.platform_name()?;
    record.platform_version = topology.platform_version()?;
    let mut count = 0;
    for device in topology.devices()? {
        *record.devices.entry(device.kind()?).or_default() += 1;
        count += 1;
        if let Some(Value::I64(bytes)) = device.attributes().unwrap_or_default().get(MEMORY_LIMIT) {
            record.memory_limit = Some(*bytes);
        }
    }
    record.memory_limit.get_or_insert(generation.hbm_per_chip());
    Ok(count)
}

/// As far as the plug-in tells. `optimized` is the program after the TPU compiler's passes.
pub(super) fn measure(executable: &Executable, optimized: Option<&Program>, metrics: &mut Metrics) {
    metrics.code_size = executable.code_size().ok();
    metrics.memory = executable.memory_stats().unwrap_or_default();
    metrics.cost = executable
        .cost_analysis()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_f64().filter(|v| v.is_finite())?)))
        .collect();
    metrics.hbm = hbm(metrics);
    let optimized = optimized.and_then(|program| Optimized::read(program).ok());
    let estimate = Estimate {
        cycles: optimized.as_ref().and_then(Optimized::estimated_cycles),
        seconds: known_cost(&metrics.cost, "optimal_seconds"),
    };
    metrics.estimate = (estimate != Estimate::default()).then_some(estimate);
    metrics.instructions = optimized.map_or_else(Default::default, |o| o.instructions());
}

/// Buffers and code. `total_allocation` is libtpu's own sum of the buffers, with what shares memory counted once; an older
/// one gives the parts alone.
fn hbm(metrics: &Metrics) -> Option<i64> {
    let bytes = |name: &str| metrics.memory.get(name).copied();
    let part = |name: &str| bytes(name).unwrap_or_default();
    let buffers = match bytes("total_allocation").filter(|total| *total > 0) {
        Some(total) => total,
        None => bytes("argument")? + part("output") - part("alias") + part("temp"),
    };
    Some(buffers + part("generated_code"))
}

/// A program that needs more HBM than a device has does not fit. Libtpu refuses most of them itself (RESOURCE_EXHAUSTED,
/// "CompileTimeHbmOom"), but does not count the code.
pub(super) fn fits(metrics: &Metrics, limit: Option<i64>) -> Result<(), Stop> {
    match (metrics.hbm, limit) {
        (Some(needed), Some(limit)) if needed > limit => Err(Stop::new(
            OutcomeKind::Oom,
            Stage::Compile,
            format!(
                "the program takes {needed} bytes of HBM, code included, and a device has {limit}"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(memory: &[(&str, i64)]) -> Metrics {
        let memory = memory.iter().map(|(name, n)| ((*name).to_owned(), *n));
        Metrics {
            memory: memory.collect(),
            ..Metrics::default()
        }
    }

    #[test]
    fn hbm_is_the_buffers_and_the_code() {
        // Of a 4096³ matmul in bf16 for v5e: three matrices of 32 MiB, 1 KiB of padding, the code.
        let newer = metrics(&[
            ("argument", 67_108_864),
            ("output", 33_554_432),
            ("total_allocation", 100_663_808),
            ("generated_code", 1_661_952),
        ]);
        assert_eq!(hbm(&newer), Some(102_325_760));
        let older = metrics(&[
            ("argument", 100),
            ("output", 30),
            ("alias", 10),
            ("temp", 5),
        ]);
        assert_eq!(hbm(&older), Some(125));
        assert_eq!(hbm(&metrics(&[])), None);
    }

    #[test]
    fn a_program_that_exceeds_the_device_is_out_of_memory_at_compile() {
        let mut metrics = Metrics {
            hbm: Some(100),
            ..Metrics::default()
        };
        assert!(fits(&metrics, Some(100)).is_ok());
        assert!(fits(&metrics, None).is_ok());
        metrics.hbm = Some(101);
        let stop = fits(&metrics, Some(100)).err().unwrap();
        assert_eq!((stop.kind, stop.stage), (OutcomeKind::Oom, Stage::Compile));
        assert!(stop.message.contains("101 bytes"), "{}", stop.message);
    }
}
