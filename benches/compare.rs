//! How fast a result is compared, all figures included: `cargo bench --bench compare -- [PYTHON]`, or `benches/compare.sh`.
//!
//! Two ratios, each of medians of one run. The bytes that a comparison reads in a second on one core, over those that the plainest
//! loop reads there: 4 bytes of the f32 result, 8 of its f64 reference and, of sums, 8 of the scale are counted. And the time that
//! `numpy.testing.assert_allclose` takes for 64 MiB of f32, over that of the comparison. Rounds alternate, and processor time is
//! what counts on one core, so that a machine that others use as well shifts neither.

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use tpu_parity::compare::{Numerics, ReferenceTensor, Tolerance, compare};
use tpu_parity::tensor::{Domain, ElementType, InputSpec, Tensor};

/// 64 MiB of f32.
const ELEMENTS: usize = 1 << 24;
const ROUNDS: usize = 9;
/// In a row, timed together.
const CALLS: u32 = 8;
/// Of the single core's read bandwidth.
const WANTED_BANDWIDTH: f64 = 0.5;
/// Times as fast as numpy.
const WANTED_SPEED: f64 = 20.0;
/// Prints the wall and the processor time of its median call; the arrays are as ours.
const NUMPY: &str = "
import time
import numpy as np
rng = np.random.default_rng(1)
expected = rng.standard_normal(1 << 24)
got = expected.astype(np.float32)
expected = got.copy()
wall, cpu = [], []
for _ in range(9):
    start = time.perf_counter(), time.process_time()
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    wall.append(time.perf_counter() - start[0])
    cpu.append(time.process_time() - start[1])
print(sorted(wall)[4], sorted(cpu)[4], np.__version__)
";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Subject {
    name: &'static str,
    reference: ReferenceTensor,
    tolerance: Tolerance,
    /// Read for each element.
    bytes: usize,
    /// Of one core's processor time, and of the wall's with all.
    times: [Vec<f64>; 2],
}

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let python = std::env::args().skip(1).find(|arg| arg != "--bench");
    let spec = InputSpec {
        element_type: ElementType::F64,
        shape: vec![ELEMENTS],
        domain: Domain::Any,
    };
    let values = spec.generate(1, 0)?;
    let got = values.convert(ElementType::F32)?;
    let mut subjects = subjects(&values, &got);
    let numerics = Numerics {
        matmul_bf16_passes: false,
        flush_subnormals: true,
        f64_as_f32_pairs: false,
    };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let mut reads = Vec::new();
    for _ in 0..ROUNDS {
        reads.push(alone.install(|| processor_time(|| black_box(read(values.data())))));
        for subject in &mut subjects {
            let run = || {
                let compared = compare(&got, &subject.reference, &subject.tolerance, &numerics);
                assert!(compared.is_ok_and(|comparison| comparison.mismatches == 0));
            };
            let one = alone.install(|| processor_time(run));
            // Cores that slept take their time to wake.
            run();
            let start = Instant::now();
            (0..CALLS).for_each(|_| run());
            subject.times[1].push(start.elapsed().as_secs_f64() / f64::from(CALLS));
            subject.times[0].push(one);
        }
    }
    let bandwidth = values.data().len() as f64 / median(&mut reads) / 1e9;
    println!("one core reads {bandwidth:.1} GB/s");
    let mut worst: f64 = f64::INFINITY;
    for subject in &mut subjects {
        let rate = (subject.bytes * ELEMENTS) as f64 / median(&mut subject.times[0]) / 1e9;
        worst = worst.min(rate / bandwidth);
        println!(
            "{:<40} {rate:6.1} GB/s a core, {:.2} of what it reads; all cores {:.1} ms",
            subject.name,
            rate / bandwidth,
            median(&mut subject.times[1]) * 1e3
        );
    }
    println!("ratio to the read bandwidth, at worst: {worst:.2} (wanted: {WANTED_BANDWIDTH})");
    if let Some(python) = python {
        let output = Command::new(&python).args(["-c", NUMPY]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let mut words = text.split_whitespace();
        let mut number =
            || -> Result<f64> { Ok(words.next().ok_or("numpy did not run")?.parse()?) };
        let (wall, cpu) = (number()?, number()?);
        println!(
            "numpy {} assert_allclose: {:.0} ms",
            words.next().unwrap_or_default(),
            wall * 1e3
        );
        for subject in &mut subjects {
            println!(
                "{:<40} {:.0} times as fast on all cores, {:.0} times on one{}",
                subject.name,
                wall / median(&mut subject.times[1]),
                cpu / median(&mut subject.times[0]),
                if subject.bytes == 8 {
                    format!(" (wanted of these, numpy's own arrays: {WANTED_SPEED})")
                } else {
                    String::new()
                }
            );
        }
    }
    Ok(())
}

fn subjects(values: &Tensor, got: &Tensor) -> Vec<Subject> {
    let wide = || ReferenceTensor {
        scale: Some(values.clone()),
        values: values.clone(),
        element_type: ElementType::F32,
        flushed: None,
        yardstick: None,
    };
    let accumulate = Tolerance::Accumulate {
        terms: 512,
        accumulator: ElementType::F32,
        precision: None,
    };
    let subject = |name, reference, tolerance, bytes| Subject {
        name,
        reference,
        tolerance,
        bytes,
        times: [Vec::new(), Vec::new()],
    };
    vec![
        subject("f32 against f64, exact", wide(), Tolerance::Exact, 12),
        subject("f32 against f64, 4 ulp", wide(), Tolerance::Ulp(4.0), 12),
        subject("f32 against f64, sums with a scale", wide(), accumulate, 20),
        // Its first pass, for the largest reference, reads that once more.
        subject("f32 against f64, in norm", wide(), Tolerance::Norm(4.0), 20),
        subject(
            "f32 against f32, 4 ulp",
            got.clone().into(),
            Tolerance::Ulp(4.0),
            8,
        ),
    ]
}

/// The plainest loop: every word once, in eight lanes.
fn read(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 8];
    let (chunks, _) = bytes.as_chunks::<64>();
    for chunk in chunks {
        let (words, _) = chunk.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane ^= u64::from_ne_bytes(*word);
        }
    }
    lanes.iter().fold(0, |all, lane| all ^ lane)
}

/// Seconds that one call takes of this thread's processor, over a few: the kernel counts in ticks of some milliseconds. Of the
/// wall where it does not count.
fn processor_time<T>(mut work: impl FnMut() -> T) -> f64 {
    let (wall, before) = (Instant::now(), thread_time());
    for _ in 0..CALLS {
        black_box(work());
    }
    let spent = match (before, thread_time()) {
        (Some(before), Some(after)) => after - before,
        _ => wall.elapsed().as_secs_f64(),
    };
    spent / f64::from(CALLS)
}

/// Linux's count of this thread's nanoseconds.
fn thread_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds * 1e-9)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
