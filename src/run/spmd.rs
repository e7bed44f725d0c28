//! A case on several devices: how it is compiled, its pieces placed and gathered, and what slice it asks for.
//!
//! Results come back whole, so that they are compared like any other case's.

use super::device::{Stop, execute};
use crate::case::Case;
use crate::distribution::{Distribution, DistributionError, Partitioner, Spec};
use crate::outcome::{OutcomeKind, Stage};
use crate::pjrt::{
    Client, CompileOptions, Device as PjrtDevice, Error, ExecuteOptions, LoadedExecutable,
    NamedValue,
};
use crate::target::Generation;
use crate::tensor::Tensor;

/// How many devices the `cpu` target shows: as many as any case asks for.
pub(super) const CPU_DEVICES: i64 = 8;

/// For the case's replicas and partitions, with the run's own compiler flags.
pub(super) fn compile_options(case: &Case, flags: &[NamedValue]) -> CompileOptions {
    let mut options = flags.iter().fold(CompileOptions::new(), |options, flag| {
        options.flag(&flag.name, flag.value.clone())
    });
    if let Some(distribution) = &case.distribution {
        options = options
            .replicas(distribution.replicas)
            .partitions(distribution.partitions());
        let shardy = distribution.partitioner == Partitioner::Shardy;
        if let Some(build) = &mut options.proto_mut().executable_build_options {
            build.use_shardy_partitioner = shardy;
        }
    }
    options
}

/// The smallest usual slice with at least so many devices.
pub(super) fn slice_with(generation: Generation, devices: usize) -> Option<&'static str> {
    let slices: &[(usize, &str)] = match generation {
        Generation::V4 | Generation::V5p => &[(4, "2x2x1"), (8, "2x2x2"), (16, "2x2x4")],
        Generation::V5e | Generation::V6e => &[(4, "2x2"), (8, "2x4"), (16, "4x4")],
        // Two devices a chip.
        Generation::V7x => &[(8, "2x2x1"), (16, "2x2x2")],
    };
    let found = slices.iter().find(|(has, _)| *has >= devices);
    found.map(|(_, slice)| *slice)
}

/// Why a case cannot run where there are fewer devices than it asks for.
pub(super) fn too_few(case: &Case, devices: usize) -> Stop {
    let message = format!(
        "it runs on {} devices, and the target has {devices}",
        case.devices()
    );
    Stop::new(OutcomeKind::Skipped, Stage::Load, message)
}

/// From the case's inputs to its results, whole; `device` is for a case that needs but one.
pub(super) fn execute_case(
    client: &Client,
    device: &PjrtDevice,
    case: &Case,
    executable: &LoadedExecutable,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Stop> {
    let failed = |error: Error| Stop::plugin(Stage::Run, &error);
    match &case.distribution {
        None => execute(client, device, executable, inputs).map_err(failed),
        Some(distribution) => {
            let pieces = pieces(case, distribution, inputs)?;
            let results = execute_everywhere(client, executable, &pieces).map_err(failed)?;
            gather(distribution, &results)
        }
    }
}

/// For each device its operands.
fn pieces(
    case: &Case,
    distribution: &Distribution,
    inputs: &[Tensor],
) -> Result<Vec<Vec<Tensor>>, Stop> {
    let mut pieces = vec![Vec::with_capacity(inputs.len()); distribution.devices()];
    for (input, spec) in inputs.iter().zip(&distribution.inputs) {
        let split = distribution.split(spec, input).map_err(|error| {
            let message = format!("{}: {error}", case.origin);
            Stop::new(OutcomeKind::Error, Stage::Load, message)
        })?;
        for (list, piece) in pieces.iter_mut().zip(split) {
            list.push(piece);
        }
    }
    Ok(pieces)
}

fn execute_everywhere(
    client: &Client,
    executable: &LoadedExecutable,
    pieces: &[Vec<Tensor>],
) -> Result<Vec<Vec<Tensor>>, Error> {
    let devices = executable.devices();
    if devices.len() != pieces.len() {
        return Err(Error::Malformed {
            call: "PJRT_LoadedExecutable_AddressableDevices",
            what: format!("{} devices, not {}", devices.len(), pieces.len()),
        });
    }
    let buffers = devices
        .iter()
        .zip(pieces)
        .map(|(device, pieces)| {
            let place = |piece: &Tensor| client.buffer_from_host(piece, device);
            pieces.iter().map(place).collect::<Result<Vec<_>, _>>()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let arguments: Vec<Vec<_>> = buffers.iter().map(|list| list.iter().collect()).collect();
    let results = executable.execute(&arguments, &ExecuteOptions::default())?;
    let to_host = |list: &Vec<crate::pjrt::Buffer>| list.iter().map(|b| b.to_host()).collect();
    results.iter().map(to_host).collect()
}

/// The whole results from what each device holds.
fn gather(distribution: &Distribution, results: &[Vec<Tensor>]) -> Result<Vec<Tensor>, Stop> {
    let wrong = |message: String| Stop::new(OutcomeKind::Fail, Stage::Compare, message);
    let expected = distribution.outputs.len();
    if let Some(list) = results.iter().find(|list| list.len() != expected) {
        return Err(wrong(format!(
            "{} results, where the case has {expected}",
            list.len()
        )));
    }
    let join = |(index, spec): (usize, &Spec)| {
        let pieces: Vec<Tensor> = results.iter().map(|list| list[index].clone()).collect();
        distribution
            .join(spec, &pieces)
            .map_err(|error: DistributionError| wrong(format!("result {index}: {error}")))
    };
    distribution.outputs.iter().enumerate().map(join).collect()
}
