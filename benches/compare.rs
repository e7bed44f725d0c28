//! How fast a large f32 result is compared: `cargo bench --bench compare`.

use std::time::Instant;

use tpu_parity::compare::{Numerics, ReferenceTensor, Tolerance, compare};
use tpu_parity::tensor::{Domain, ElementType, InputSpec};

fn main() {
    let spec = InputSpec {
        element_type: ElementType::F32,
        shape: vec![4096, 4096],
        domain: Domain::Any,
    };
    let Ok(got) = spec.generate(1, 0) else { return };
    let values = got.widen();
    let reference = ReferenceTensor {
        scale: Some(values.clone()),
        values,
        element_type: ElementType::F32,
    };
    let numerics = Numerics {
        matmul_bf16_passes: false,
        flush_subnormals: true,
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
        let best = (0..5)
            .map(|_| {
                let start = Instant::now();
                let _ = std::hint::black_box(compare(&got, &reference, &tolerance, &numerics));
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min);
        let megabytes = got.data().len() as f64 / 1e6;
        println!(
            "{tolerance:?}: {:.0} ms, {:.0} MB/s of f32 results",
            best * 1e3,
            megabytes / best
        );
    }
}
