//! Collectives through the TPU compiler, the passes and XLA CPU, on two replicas of four partitions: in each mode of grouping
//! every device gets what arithmetic says. Device `d` holds 2^d, so that a sum names its members.

#[path = "pjrt/common.rs"]
#[expect(dead_code, reason = "shared with the tests of plug-ins")]
mod common;
#[path = "helpers/f32.rs"]
mod f32;

use tpu_parity::hlo::MxuNumerics;
use tpu_parity::pjrt::{Buffer, Client, CompileOptions, ExecuteOptions, NamedValue, Program};
use tpu_parity::target::Generation;
use tpu_parity::virtual_tpu::Compiler;

const REPLICAS: usize = 2;
const PARTITIONS: usize = 4;

/// A program whose every device has one f32 and gets `results` of them.
fn manual(body: &str, results: usize) -> String {
    let whole = PARTITIONS * results;
    format!(
        r#"sdy.mesh @mesh = <["x"={PARTITIONS}]>
func.func @main(%whole: tensor<{PARTITIONS}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
    -> (tensor<{whole}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) {{
  %y = sdy.manual_computation(%whole) in_shardings=[<@mesh, [{{"x"}}]>] out_shardings=[<@mesh, [{{"x"}}]>]
      manual_axes={{"x"}} (%x: tensor<1xf32>) {{
    {body}
    sdy.return %r : tensor<{results}xf32>
  }} : (tensor<{PARTITIONS}xf32>) -> tensor<{whole}xf32>
  return %y : tensor<{whole}xf32>
}}"#
    )
}

fn all_reduce(attributes: &str) -> String {
    manual(
        &format!(
            r#"%r = "stablehlo.all_reduce"(%x) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) {{{attributes}}} : (tensor<1xf32>) -> tensor<1xf32>"#
        ),
        1,
    )
}

const CHANNEL: &str = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

struct VirtualSlice {
    compiler: Compiler,
    client: Client,
}

impl VirtualSlice {
    fn open() -> Self {
        let libtpu = common::load("libtpu");
        let devices = (REPLICAS * PARTITIONS) as i64;
        Self {
            compiler: Compiler::open(&libtpu, Generation::V6e, Some("2x4"), MxuNumerics::Mxu)
                .unwrap(),
            client: common::load("xla-cpu")
                .create_client(&[NamedValue::new("cpu_device_count", devices)])
                .unwrap(),
        }
    }

    /// What each device gets when device `d` holds 2^d.
    fn run(&self, program: &str) -> Vec<Vec<f32>> {
        let mut options = CompileOptions::new()
            .replicas(REPLICAS)
            .partitions(PARTITIONS);
        if let Some(build) = &mut options.proto_mut().executable_build_options {
            build.use_shardy_partitioner = true;
        }
        let compiled = self
            .compiler
            .compile(&Program::mlir(program), &options)
            .unwrap();
        let cpu = compiled.cpu.unwrap();
        let executable = self.client.compile(&cpu.program, &cpu.options).unwrap();
        let devices = executable.devices();
        assert_eq!(devices.len(), REPLICAS * PARTITIONS);
        let inputs: Vec<Buffer> = devices
            .iter()
            .enumerate()
            .map(|(d, device)| {
                let value = f32::f32s(&[1], &[(1u32 << d) as f32]);
                self.client.buffer_from_host(&value, device).unwrap()
            })
            .collect();
        let arguments: Vec<Vec<&Buffer>> = inputs.iter().map(|input| vec![input]).collect();
        executable
            .execute(&arguments, &ExecuteOptions::default())
            .unwrap()
            .iter()
            .map(|results| f32::as_f32s(&results[0].to_host().unwrap()))
            .collect()
    }
}

#[test]
fn every_mode_of_grouping_reaches_the_devices_that_it_names() {
    common::in_child(
        "every_mode_of_grouping_reaches_the_devices_that_it_names",
        || {
            let slice = VirtualSlice::open();
            let sums =
                |attributes: &str| -> Vec<f32> { slice.run(&all_reduce(attributes)).concat() };
            // Replicas 0 and 1 of each partition: devices p and 4 + p.
            assert_eq!(
                sums("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"),
                [17., 34., 68., 136., 17., 34., 68., 136.]
            );
            // Each replica with all of its partitions.
            assert_eq!(
                sums(&format!(
                    "replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, {CHANNEL}"
                )),
                [15., 15., 15., 15., 240., 240., 240., 240.]
            );
            // Devices by their own ids: 0 with 5, 1 with 4, 2 with 7, 3 with 6.
            assert_eq!(
                sums(&format!(
                    "replica_groups = dense<[[0, 5], [1, 4], [2, 7], [3, 6]]> : tensor<4x2xi64>, {CHANNEL}, \
                     use_global_device_ids"
                )),
                [33., 18., 132., 72., 18., 33., 72., 132.]
            );
        },
    );
}

#[test]
fn partitions_exchange_within_their_replica_and_replicas_within_their_partition() {
    common::in_child(
        "partitions_exchange_within_their_replica_and_replicas_within_their_partition",
        || {
            let slice = VirtualSlice::open();
            let permute = |pairs: &str, count: usize, channel: &str| {
                let body = format!(
                    r#"%r = "stablehlo.collective_permute"(%x) {{source_target_pairs = dense<{pairs}> : tensor<{count}x2xi64>{channel}}}
                      : (tensor<1xf32>) -> tensor<1xf32>"#
                );
                slice.run(&manual(&body, 1)).concat()
            };
            // Partition 0 to 1, 1 to 2, 2 to 3; no one sends to 0.
            assert_eq!(
                permute("[[0, 1], [1, 2], [2, 3]]", 3, &format!(", {CHANNEL}")),
                [0., 1., 2., 4., 0., 16., 32., 64.]
            );
            assert_eq!(
                permute("[[0, 1], [1, 0]]", 2, ""),
                [16., 32., 64., 128., 1., 2., 4., 8.]
            );
            // Gathered in the order of the group's members.
            let gather = manual(
                &format!(
                    r#"%r = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>,
                      {CHANNEL}}} : (tensor<1xf32>) -> tensor<8xf32>"#
                ),
                8,
            );
            let everywhere = vec![vec![16., 32., 64., 128., 1., 2., 4., 8.]; 8];
            assert_eq!(slice.run(&gather), everywhere);
        },
    );
}

#[test]
fn a_device_knows_its_replica_and_its_partition() {
    common::in_child("a_device_knows_its_replica_and_its_partition", || {
        let slice = VirtualSlice::open();
        let body = r#"%i = stablehlo.partition_id : tensor<ui32>
    %j = stablehlo.replica_id : tensor<ui32>
    %p = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
    %q = stablehlo.convert %j : (tensor<ui32>) -> tensor<f32>
    %a = stablehlo.reshape %q : (tensor<f32>) -> tensor<1xf32>
    %b = stablehlo.reshape %p : (tensor<f32>) -> tensor<1xf32>
    %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>"#;
        let expected: Vec<Vec<f32>> = (0..2)
            .flat_map(|r| (0..4).map(move |p| vec![r as f32, p as f32]))
            .collect();
        assert_eq!(slice.run(&manual(body, 2)), expected);
    });
}
