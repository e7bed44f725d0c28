//! Programs of several devices on a slice of eight.

use tpu_parity::pjrt::*;

use crate::common::client;
use crate::f32::{as_f32s, f32s};

/// `inputs[d]` on device d; the first result of each.
fn run(
    client: &Client,
    executable: &LoadedExecutable,
    inputs: &[Vec<f32>],
    shape: &[usize],
) -> Vec<Vec<f32>> {
    let devices = executable.devices();
    assert_eq!(devices.len(), inputs.len());
    let buffers: Vec<Buffer> = devices
        .iter()
        .zip(inputs)
        .map(|(device, input)| {
            client
                .buffer_from_host(&f32s(shape, input), device)
                .unwrap()
        })
        .collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|buffer| vec![buffer]).collect();
    let results = executable
        .execute(&arguments, &ExecuteOptions::default())
        .unwrap();
    results
        .iter()
        .map(|list| as_f32s(&list[0].to_host().unwrap()))
        .collect()
}

fn eight() -> Client {
    client(&[("generation", "v6e:2x4")])
}

/// Over eight replicas.
fn sum() -> Program {
    Program::mlir(
        "module @sum attributes {mhlo.num_replicas = 8 : i32} {
           func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
             %0 = \"stablehlo.all_reduce\"(%x) ({
             ^bb0(%a: tensor<f32>, %b: tensor<f32>):
               %s = stablehlo.add %a, %b : tensor<f32>
               stablehlo.return %s : tensor<f32>
             }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4xf32>) -> tensor<4xf32>
             return %0 : tensor<4xf32>
           } }",
    )
}

#[test]
fn eight_replicas_reduce_to_one_sum() {
    let client = eight();
    let executable = client
        .compile(&sum(), &CompileOptions::new().replicas(8))
        .unwrap();
    let facts = executable.executable().unwrap();
    assert_eq!(
        (
            facts.num_replicas().unwrap(),
            facts.num_partitions().unwrap()
        ),
        (8, 1)
    );
    let inputs: Vec<Vec<f32>> = (0..8).map(|device| vec![device as f32; 4]).collect();
    assert_eq!(
        run(&client, &executable, &inputs, &[4]),
        vec![vec![28.0; 4]; 8]
    );
}

/// More programs at once than XLA CPU has threads for: see the plug-in's `gang`.
#[test]
fn sixteen_threads_run_programs_of_eight_devices_at_once() {
    // The mean over the devices of x·x, which is x for a matrix of 1/256 everywhere.
    let program = Program::mlir(
        "module @mean attributes {mhlo.num_replicas = 8 : i32} {
           func.func public @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
             %eighth = stablehlo.constant dense<0.125> : tensor<256x256xf32>
             %product = stablehlo.dot %x, %x : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
             %sum = \"stablehlo.all_reduce\"(%product) ({
             ^bb0(%a: tensor<f32>, %b: tensor<f32>):
               %s = stablehlo.add %a, %b : tensor<f32>
               stablehlo.return %s : tensor<f32>
             }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<256x256xf32>) -> tensor<256x256xf32>
             %mean = stablehlo.multiply %sum, %eighth : tensor<256x256xf32>
             return %mean : tensor<256x256xf32>
           } }",
    );
    let client = eight();
    let executable = client
        .compile(&program, &CompileOptions::new().replicas(8))
        .unwrap();
    let given = vec![1.0 / 256.0; 256 * 256];
    let tensor = f32s(&[256, 256], &given);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let start = |device| vec![client.buffer_from_host(&tensor, device).unwrap()];
                let mut last: Vec<Vec<Buffer>> = executable.devices().iter().map(start).collect();
                for _ in 0..8 {
                    let arguments: Vec<Vec<&Buffer>> =
                        last.iter().map(|list| list.iter().collect()).collect();
                    last = executable
                        .execute(&arguments, &ExecuteOptions::default())
                        .unwrap();
                }
                for list in last {
                    assert_eq!(as_f32s(&list[0].to_host().unwrap()), given);
                }
            });
        }
    });
}

/// Two replicas of four partitions, each of which has two of the eight elements.
#[test]
fn replicas_and_partitions_are_seen_as_the_client_gave_them() {
    let program = Program::mlir(
        "module @split attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 4 : i32} {
           func.func public @main(%x: tensor<8xf32> {mhlo.sharding = \"{devices=[4]<=[4]}\"}) -> (tensor<f32> {mhlo.sharding = \"{replicated}\"}) {
             %zero = stablehlo.constant dense<0.0> : tensor<f32>
             %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
               : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
             return %0 : tensor<f32>
           } }",
    );
    let client = eight();
    let options = CompileOptions::new().replicas(2).partitions(4);
    let executable = client.compile(&program, &options).unwrap();
    let facts = executable.executable().unwrap();
    assert_eq!(
        (
            facts.num_replicas().unwrap(),
            facts.num_partitions().unwrap()
        ),
        (2, 4)
    );
    let inputs: Vec<Vec<f32>> = (0..8).map(|device| vec![device as f32, 0.5]).collect();
    // Partitions of a replica add up: 0 + 1 + 2 + 3 + 4 × 0.5, and 4 + 5 + 6 + 7 + 4 × 0.5.
    let sums = [8.0, 8.0, 8.0, 8.0, 24.0, 24.0, 24.0, 24.0].map(|sum| vec![sum]);
    assert_eq!(run(&client, &executable, &inputs, &[2]), sums);
    let serialized = facts.serialize().unwrap();
    let again = client.deserialize(&serialized).unwrap();
    assert_eq!(run(&client, &again, &inputs, &[2]), sums);
}

#[test]
fn a_program_runs_on_the_device_that_it_was_compiled_for() {
    let client = eight();
    let options = CompileOptions::new().devices(&[vec![5]]);
    let executable = client.compile(&crate::common::affine(2), &options).unwrap();
    let ids: Vec<i64> = executable
        .devices()
        .iter()
        .map(|device| device.id().unwrap())
        .collect();
    assert_eq!(ids, [5]);
    assert_eq!(run(&client, &executable, &[vec![1.0; 2]], &[2]), [[3.0; 2]]);
}

#[test]
fn an_executable_of_eight_devices_is_refused_by_a_client_of_one() {
    let options = CompileOptions::new().replicas(8);
    let serialized = eight()
        .compile(&crate::common::affine(2), &options)
        .unwrap()
        .executable()
        .unwrap()
        .serialize()
        .unwrap();
    let (code, message) = crate::common::refusal(client(&[]).deserialize(&serialized));
    assert_eq!(code, ErrorCode::FailedPrecondition);
    assert!(message.contains("8 devices"), "{message}");
}
