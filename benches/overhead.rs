//! What the harness costs: the wall time of `tpu-parity run SELECT --target cpu --jobs 1` against a bare loop of the same
//! PJRT compile and execute calls, in one process, with inputs made beforehand and nothing compared.
//!
//! `cargo bench --bench overhead -- [ROUNDS [SELECT]]`, or `benches/overhead.sh`. Both sides run alternately; the medians
//! are compared. The run's time is all of it: starting the processes, loading suites and references, the plug-in's start,
//! the journal, sealing. The loop's time is the loop alone.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tpu_parity::case::Case;
use tpu_parity::outcome::OutcomeKind;
use tpu_parity::pjrt::{CompileOptions, ExecuteOptions, Plugin, Program};
use tpu_parity::project::Project;
use tpu_parity::suite;
use tpu_parity::target::Target;
use tpu_parity::tensor::Tensor;
use tpu_parity::track::Expectations;

const BARE: &str = "--bare-loop";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if args.first().is_some_and(|arg| arg == BARE) {
        println!("{}", bare_loop(&args[1])?);
        return Ok(());
    }
    let rounds: usize = args.first().map_or(Ok(5), |text| text.parse())?;
    if rounds == 0 {
        return Err("at least one round".into());
    }
    let select = args.get(1).map_or("stablehlo/**", String::as_str);
    let (mut runs, mut loops) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        loops.push(time_bare_loop(select)?);
        runs.push(time_run(select)?);
        println!(
            "round {round}: bare loop {:.2} s, run {:.2} s",
            loops[round - 1],
            runs[round - 1]
        );
    }
    let (run, bare) = (median(&mut runs), median(&mut loops));
    let cases = select_cases(&project()?, select)?.len();
    println!(
        "{cases} cases, medians of {rounds}: bare loop {bare:.2} s, run {run:.2} s, {:+.2} ms a case",
        (run - bare) * 1e3 / cases as f64
    );
    println!("ratio {:.3}", run / bare);
    Ok(())
}

fn project() -> Result<Project> {
    Ok(Project::discover(Path::new(env!("CARGO_MANIFEST_DIR")))?)
}

/// The cases selected, less those that are known to kill the plug-in: a loop without workers would end there.
fn select_cases(project: &Project, select: &str) -> Result<Vec<Case>> {
    let cases = suite::load(&project.suites())?;
    let cases = suite::select(cases, &[select.to_owned()], &[])?;
    let deadly = deadly(project)?;
    Ok(suite::select(cases, &[], &deadly)?)
}

/// Globs of the cases that crash on `cpu`, by the known failures.
fn deadly(project: &Project) -> Result<Vec<String>> {
    let expectations = Expectations::load(&project.expectations())?;
    Ok(expectations
        .entries()
        .iter()
        .filter(|entry| entry.matches_target("cpu") && entry.expects(OutcomeKind::Crash))
        .map(|entry| entry.cases.clone())
        .collect())
}

/// Seconds, as the loop in a fresh process measured them.
fn time_bare_loop(select: &str) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args([BARE, select])
        .stderr(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(format!("the bare loop ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn time_run(select: &str) -> Result<f64> {
    let store = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_tpu-parity"));
    command.arg("run");
    for glob in deadly(&project()?)? {
        command.args(["--exclude", &glob]);
    }
    let start = Instant::now();
    let status = command
        .args([select, "--target", "cpu", "--jobs", "1", "--store"])
        .arg(store.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let elapsed = start.elapsed().as_secs_f64();
    match status.code() {
        Some(0 | 1) => Ok(elapsed),
        _ => Err(format!("the run ended with {status}").into()),
    }
}

/// Compiles and executes each case as a worker does. What a plug-in refuses costs the time of its refusal on both sides.
fn bare_loop(select: &str) -> Result<f64> {
    let project = project()?;
    let cases = select_cases(&project, select)?;
    let plugin = Plugin::load(&project.resolve(&Target::Cpu)?.path)?;
    let client = plugin.create_client(&[])?;
    let device = client
        .addressable_devices()?
        .into_iter()
        .next()
        .ok_or("no device")?;
    let inputs: Vec<Vec<Tensor>> = cases
        .iter()
        .map(|case| {
            let generate =
                |(i, spec): (usize, &tpu_parity::tensor::InputSpec)| spec.generate(case.seed, i);
            case.inputs.iter().enumerate().map(generate).collect()
        })
        .collect::<std::result::Result<_, _>>()?;
    let start = Instant::now();
    for (case, inputs) in cases.iter().zip(&inputs) {
        let run = || -> std::result::Result<Vec<Tensor>, tpu_parity::pjrt::Error> {
            let executable =
                client.compile(&Program::mlir(&case.program), &CompileOptions::default())?;
            let buffers = inputs
                .iter()
                .map(|input| client.buffer_from_host(input, &device))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            let arguments = [buffers.iter().collect()];
            let results = executable.execute(&arguments, &ExecuteOptions::default())?;
            results[0].iter().map(|buffer| buffer.to_host()).collect()
        };
        let _ = std::hint::black_box(run());
    }
    Ok(start.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        (values[middle - 1] + values[middle]) / 2.0
    } else {
        values[middle]
    }
}
