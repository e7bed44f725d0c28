//! What clients see of a slice. The expected values are those of the public TPU documentation: device kinds, chips and cores
//! by generation, HBM a chip.

use std::path::Path;

use tpu_parity::pjrt::*;

use crate::common::{affine, client, in_child, library, plugin, refusal, run};
use crate::f32::{as_f32s, f32s};

#[test]
fn it_is_a_tpu_and_says_that_it_is_virtual() {
    let client = client(&[]);
    assert_eq!(client.platform_name().unwrap(), "tpu");
    let version = client.platform_version().unwrap();
    assert!(version.contains("virtual TPU (v6e:1x1)"), "{version}");
    // JAX takes the time of libtpu's build from the last line.
    let last = version.lines().last().unwrap();
    assert!(last.starts_with("Built on "), "{version}");
    // XLA CPU never reads StableHLO here; libtpu 0.0.52 understands a newer one than XLA CPU 0.115.
    assert_eq!(plugin().stablehlo_version(), Some([1, 24, 0]));
    assert_eq!(plugin().api_version(), (0, 115));
}

#[test]
fn each_generation_has_its_kind_its_cores_and_its_memory() {
    const GIB: i64 = 1 << 30;
    for (generation, kind, devices, memory) in [
        ("v4", "TPU v4", 2, 32 * GIB),
        ("v5e", "TPU v5 lite", 1, 16 * GIB),
        ("v5p", "TPU v5", 1, 96 * GIB),
        ("v6e", "TPU v6 lite", 1, 32 * GIB),
        // Two devices a chip share 192 GB.
        ("7x", "TPU7x", 2, 96 * GIB),
    ] {
        let client = client(&[("generation", generation)]);
        let all = client.devices().unwrap();
        assert_eq!(all.len(), devices, "{generation}");
        assert_eq!(all[0].kind().unwrap(), kind);
        let limit = all[0].memory_stats().unwrap()["bytes_limit"];
        assert!(
            (memory * 9 / 10..=memory).contains(&limit),
            "{generation}: {limit}"
        );
        let attributes = all[0].attributes().unwrap();
        assert_eq!(attributes["coords"], Value::I64List(vec![0, 0, 0]));
        assert_eq!(attributes["core_on_chip"], Value::I64(0));
        assert_eq!(attributes["device_memory_bytes_limit"], Value::I64(limit));
    }
}

#[test]
fn a_slices_chips_have_coordinates_and_are_one_process_s() {
    let client = client(&[("generation", "v6e:2x4")]);
    let devices = client.addressable_devices().unwrap();
    assert_eq!(devices.len(), 8);
    for (index, device) in devices.iter().enumerate() {
        let description = device.description().unwrap();
        assert_eq!(description.process_index().unwrap(), 0);
        assert_eq!(description.id().unwrap(), index as i64);
        let (x, y) = (index as i64 % 2, index as i64 / 2);
        let attributes = description.attributes().unwrap();
        assert_eq!(attributes["coords"], Value::I64List(vec![x, y, 0]));
        assert_eq!(
            description.text().unwrap(),
            format!("TpuDevice(id={index}, process_index=0, coords=({x},{y},0), core_on_chip=0)")
        );
    }
}

#[test]
fn options_of_other_plugins_are_ignored_and_bad_values_of_ours_are_not() {
    let options = [
        NamedValue::new("premapped_buffer_size", 0i64),
        NamedValue::new("ml_framework_name", "JAX"),
    ];
    assert_eq!(
        plugin()
            .create_client(&options)
            .unwrap()
            .devices()
            .unwrap()
            .len(),
        1
    );
    for (name, value, word) in [
        ("generation", "v9", "v5p"),
        ("numerics", "f64", "exact"),
        ("compile_timeout", "soon", "seconds"),
        (
            "compile_log",
            "/no/such/folder/log",
            "TPU_PARITY_COMPILE_LOG",
        ),
    ] {
        let refused = plugin().create_client(&[NamedValue::new(name, value)]);
        let (code, message) = refusal(refused);
        assert_eq!(code, ErrorCode::InvalidArgument, "{message}");
        assert!(message.contains(word), "{message}");
    }
    // One that is well formed, and that libtpu has no topology for: its own words.
    let refused = plugin().create_client(&[NamedValue::new("generation", "v6e:3x5")]);
    let (code, message) = refusal(refused);
    assert_eq!(code, ErrorCode::InvalidArgument, "{message}");
}

#[test]
fn buffers_are_counted_while_they_live() {
    let client = client(&[]);
    let device = &client.addressable_devices().unwrap()[0];
    let stats = |name: &str| device.memory_stats().unwrap()[name];
    assert_eq!((stats("bytes_in_use"), stats("num_allocs")), (0, 0));
    let tensor = f32s(&[1024], &[1.0; 1024]);
    let buffer = client.buffer_from_host(&tensor, device).unwrap();
    assert_eq!(stats("bytes_in_use"), 4096);
    let executable = client
        .compile(&affine(1024), &CompileOptions::new())
        .unwrap();
    let results = executable
        .execute(&[vec![&buffer]], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(stats("bytes_in_use"), 8192);
    buffer.delete().unwrap();
    assert_eq!(stats("bytes_in_use"), 4096);
    drop((results, buffer));
    assert_eq!(stats("bytes_in_use"), 0);
    assert!(stats("peak_bytes_in_use") >= 8192);
    assert_eq!(stats("largest_alloc_size"), 4096);
}

#[test]
fn a_topology_has_a_name_and_programs_compile_for_it_without_a_client() {
    let plugin = plugin();
    let topology = plugin.create_topology("v5e:2x2", &[]).unwrap();
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    let devices = topology.devices().unwrap();
    assert_eq!(devices.len(), 4);
    assert_eq!(devices[3].kind().unwrap(), "TPU v5 lite");
    assert!(
        topology
            .attributes()
            .unwrap()
            .contains_key("device_memory_bytes_limit")
    );
    let executable = plugin
        .compile(&topology, &affine(8), &CompileOptions::new())
        .unwrap();
    assert!(executable.code_size().unwrap() > 0);
    let serialized = executable.serialize().unwrap();
    drop((executable, topology));
    let client = client(&[("generation", "v5e")]);
    let loaded = client.deserialize(&serialized).unwrap();
    let [result] = &run(&client, &loaded, &[f32s(&[8], &[3.0; 8])])[..] else {
        panic!("one result")
    };
    assert_eq!(as_f32s(result), [7.0; 8]);
    let (_, message) = refusal(plugin.create_topology("v1:2x2", &[]));
    assert!(message.contains("'v1:2x2'"), "{message}");
}

#[test]
fn a_missing_part_is_named_with_its_remedy() {
    let nowhere = Path::new("/no/such/file");
    let name = "devices::a_missing_part_is_named_with_its_remedy";
    in_child(name, &[("TPU_PARITY_PROGRAM", nowhere)], || {
        let (_, message) = refusal(plugin().create_client(&[]));
        assert!(message.contains("TPU_PARITY_PROGRAM"), "{message}");
    });
}

/// A table is there all the same.
#[test]
fn without_a_cpu_plugin_the_client_hears_why() {
    let nowhere = Path::new("/no/such/file");
    let name = "devices::without_a_cpu_plugin_the_client_hears_why";
    in_child(name, &[("TPU_PARITY_CPU_PLUGIN", nowhere)], || {
        let (_, message) = refusal(Plugin::load(&library()));
        assert!(message.contains("/no/such/file"), "{message}");
    });
}
