//! How fast a large f32 result is compared: `cargo bench --bench compare`.

use std::time::Instant;

use tpu_parity::compare::{Numerics, ReferenceTensor, Tolerance, compare};
use tpu_parity::tensor::{Domain, ElementType, InputSpec};

const RUNS: u32 = 10;

fn main() {
    let spec = InputSpec {
        element_type: ElementType::F64,
        shape: vec![4096, 4096],
        domain: Domain::Any,
    };
    let Ok(values) = spec.generate(1, 0) else {
        return;
    };
    let Ok(got) = values.convert(ElementType::F32) else {
        return;
    };
    let reference = ReferenceTensor {
        yardstick: None,
        flushed: None,
        scale: Some(values.clone()),
        values,
        element_type: ElementType::F32,
    };
    let numerics = Numerics {
        matmul_bf16_passes: false,
        flush_subnormals: true,
        f64_as_f32_pairs: false,
    };
    let accumulate = Tolerance::Accumulate {
        terms: 512,
        accumulator: ElementType::F32,
        precision: None,
    };
    for tolerance in [
        Tolerance::Exact,
        Tolerance::Ulp(4.0),
        accumulate,
        Tolerance::Norm(4.0),
    ] {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        for _ in 0..RUNS {
            let _ = std::hint::black_box(compare(&got, &reference, &tolerance, &numerics));
        }
        let wall = wall.elapsed().as_secs_f64() / f64::from(RUNS);
        let cpu = (cpu_seconds() - cpu) / f64::from(RUNS);
        let megabytes = got.data().len() as f64 / 1e6;
        println!(
            "{tolerance:?}: {:.0} MB/s of f32 results, {:.0} MB/s a core",
            megabytes / wall,
            megabytes / cpu
        );
    }
}

/// User time of this process: on a machine that others use as well, it tells more than the clock on the wall.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Field 14, in ticks of 10 ms; the second field, the name, is in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_whitespace()
        .nth(11)
        .and_then(|f| f.parse().ok())
        .unwrap_or(0.0);
    ticks / 100.0
}
