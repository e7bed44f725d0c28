//! Compiling for TPUs without one.

use prost::Message;
use tpu_parity::pjrt::*;
use tpu_parity::target::Generation;
use tpu_parity::tensor::ElementType;

use crate::common::{in_child, load};

const MATMUL: &str = "func.func @main(%a: tensor<128x128xbf16> {tf.aliasing_output = 0 : i32}, %b: tensor<128x128xbf16>)
    -> tensor<128x128xbf16> {
      %c = stablehlo.dot %a, %b : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>
      return %c : tensor<128x128xbf16> }";

#[test]
fn libtpu_compiles_for_every_generation() {
    in_child("libtpu::libtpu_compiles_for_every_generation", || {
        let plugin = load("libtpu");
        assert_eq!(plugin.api_version(), (0, 117));
        assert_eq!(plugin.stablehlo_version(), Some([1, 24, 0]));
        assert_eq!(plugin.missing_entries(), [""; 0]);
        // The vendor's device kinds, as JAX and TorchTPU show them.
        let kinds = ["TPU v4", "TPU v5 lite", "TPU v5", "TPU v6 lite", "TPU7x"];
        for (generation, kind) in Generation::ALL.into_iter().zip(kinds) {
            compile_for(&plugin, &generation.topology(None), kind);
        }
        errors(&plugin);
        several_devices(&plugin);
    });
}

#[test]
fn an_older_libtpu_compiles_and_refuses_what_it_does_not_know() {
    in_child(
        "libtpu::an_older_libtpu_compiles_and_refuses_what_it_does_not_know",
        || {
            let plugin = load("libtpu-0.0.24");
            assert_eq!(plugin.api_version(), (0, 78));
            assert!(plugin.missing_entries().contains(&"PJRT_Client_Load"));
            compile_for(&plugin, "v6e:2x2", "TPU v6 lite");
            errors(&plugin);
            several_devices(&plugin);
            let error = plugin.create_topology("tpu7x:2x2x1", &[]).unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::InvalidArgument));
        },
    );
}

#[test]
fn all_five_plugins_live_in_one_process() {
    in_child("libtpu::all_five_plugins_live_in_one_process", || {
        let names = [
            "libtpu",
            "xla-cpu",
            "libtpu-0.0.24",
            "xla-cpu-0.106",
            "xla-cpu-0.81",
        ];
        let plugins = names.map(load);
        let versions = plugins.each_ref().map(|plugin| plugin.api_version().1);
        assert_eq!(versions, [117, 115, 78, 106, 81]);
        for plugin in &plugins {
            let probe = Probe::of(plugin).unwrap();
            assert!(probe.is_usable());
            assert_eq!(
                probe.compiles(),
                probe.platform_name.as_deref() == Some("tpu")
            );
        }
    });
}

fn compile_for(plugin: &Plugin, topology: &str, kind: &str) {
    let topology = plugin.create_topology(topology, &[]).unwrap();
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    assert!(topology.platform_version().unwrap().contains("TPU"));
    assert!(topology.attributes().unwrap().contains_key("wrap"));
    let devices = topology.devices().unwrap();
    assert!(devices.len() >= 4);
    for device in &devices {
        assert_eq!(device.kind().unwrap(), kind);
        let attributes = device.attributes().unwrap();
        assert!(matches!(&attributes["coords"], Value::I64List(coords) if coords.len() == 3));
    }

    let executable = plugin
        .compile(&topology, &Program::mlir(MATMUL), &CompileOptions::new())
        .unwrap();
    assert_eq!(executable.num_outputs().unwrap(), 1);
    assert_eq!(executable.output_dimensions().unwrap(), [[128, 128]]);
    assert_eq!(
        executable.output_element_types().unwrap(),
        [ElementType::BF16]
    );
    assert!(executable.code_size().unwrap() > 0);
    let memory = executable.memory_stats().unwrap();
    assert_eq!(memory["argument"], 2 * 128 * 128 * 2);
    assert_eq!(memory["alias"], 128 * 128 * 2);
    let cost = executable.cost_analysis().unwrap();
    assert!(cost["flops"].as_f64().unwrap() >= 2.0 * 128.0 * 128.0 * 127.0);
    assert!(cost["optimal_seconds"].as_f64().unwrap() > 0.0);
    let optimized = executable.optimized_program().unwrap();
    assert_eq!(optimized.format, "hlo_with_config");
    let module =
        pjrt_sys::protos::xla::HloModuleProtoWithConfig::decode(optimized.code.as_slice()).unwrap();
    assert!(!module.hlo_module.unwrap().computations.is_empty());
    assert!(!executable.fingerprint().unwrap().is_empty());
    assert!(!executable.serialize().unwrap().is_empty());
}

fn several_devices(plugin: &Plugin) {
    let topology = plugin.create_topology("v6e:2x2", &[]).unwrap();
    let program = Program::mlir(
        r#"func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
             -> (tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) {
             %c = stablehlo.add %a, %a : tensor<8xf32>
             return %c : tensor<8xf32> }"#,
    );
    let partitioned = plugin
        .compile(&topology, &program, &CompileOptions::new().partitions(4))
        .unwrap();
    assert_eq!(partitioned.num_partitions().unwrap(), 4);
    assert_eq!(partitioned.output_dimensions().unwrap(), [[2]]);
    let replicated = plugin
        .compile(&topology, &program, &CompileOptions::new().replicas(4))
        .unwrap();
    assert_eq!(replicated.num_replicas().unwrap(), 4);
}

fn errors(plugin: &Plugin) {
    let error = plugin.create_topology("v99:2x2", &[]).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidArgument), "{error}");
    let topology = plugin.create_topology("v6e:2x2", &[]).unwrap();
    let s64_dot = Program::mlir(&MATMUL.replace("bf16", "i64"));
    let error = plugin
        .compile(&topology, &s64_dot, &CompileOptions::new())
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Unimplemented), "{error}");
    assert!(!error.to_string().contains('\n'));
    if !tpu_present() {
        let error = plugin.create_client(&[]).unwrap_err();
        assert!(error.code().is_some(), "{error}");
    }
}
