//! Everything that a CPU client does, on each XLA CPU plug-in.

use prost::Message;
use tpu_parity::pjrt::*;
use tpu_parity::tensor::ElementType::{F6E2M3FN, F6E3M2FN};
use tpu_parity::tensor::{ElementType, Tensor};

use crate::common::{client, load};
use crate::f32::{as_f32s, f32s};

/// One module of tests a plug-in.
macro_rules! on_each_plugin {
    ($($test:ident),* $(,)?) => {
        on_each_plugin!(@module xla_cpu "xla-cpu" $($test)*);
        on_each_plugin!(@module xla_cpu_0_106 "xla-cpu-0.106" $($test)*);
        on_each_plugin!(@module xla_cpu_0_81 "xla-cpu-0.81" $($test)*);
    };
    (@module $module:ident $name:literal $($test:ident)*) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test($name);
            })*
        }
    };
}

on_each_plugin! {
    it_says_what_it_is,
    every_element_type_goes_in_and_out_and_through_a_program,
    sub_byte_elements_mean_what_their_bits_say,
    scalars_and_empty_tensors_go_in_and_out,
    results_are_row_major_whatever_their_layout,
    a_donated_argument_is_deleted_and_a_non_donatable_one_is_not,
    each_replica_has_its_own_arguments_and_results,
    partitions_split_a_program_by_its_shardings,
    a_program_compiled_for_another_device_runs_there,
    an_executable_can_be_inspected,
    a_serialized_executable_runs_again,
    errors_carry_pjrts_own_code,
    arguments_that_do_not_fit_are_errors,
    handles_of_another_client_are_refused,
    a_buffer_can_be_copied_waited_for_and_deleted,
    the_crates_api_runs_over_the_negotiated_table,
}

fn it_says_what_it_is(name: &str) {
    let plugin = load(name);
    let (version, stablehlo) = match name {
        "xla-cpu" => ((0, 115), [1, 20, 0]),
        "xla-cpu-0.106" => ((0, 106), [1, 16, 1]),
        _ => ((0, 81), [1, 13, 3]),
    };
    assert_eq!(plugin.api_version(), version);
    assert_eq!(plugin.stablehlo_version(), Some(stablehlo));
    assert!(plugin.attributes().unwrap().contains_key("xla_version"));
    assert_eq!(
        plugin.missing_entries().contains(&"PJRT_Client_Load"),
        version.1 < 98
    );

    let default = plugin.create_client(&[]).unwrap();
    assert_eq!(default.platform_name().unwrap(), "cpu");
    assert!(!default.platform_version().unwrap().is_empty());
    assert_eq!(default.devices().unwrap().len(), 4);
    let client = client(name);
    let devices = client.addressable_devices().unwrap();
    assert_eq!(devices.len(), 2);
    for (index, device) in devices.iter().enumerate() {
        assert_eq!(device.id().unwrap(), index as i64);
        assert_eq!(device.kind().unwrap(), "cpu");
        assert!(!device.debug_string().unwrap().is_empty());
        assert!(device.attributes().is_ok());
        let error = device.memory_stats().unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unimplemented));
    }
}

/// 16 elements of a type, of different bits wherever it has as many, in the form that a tensor keeps.
fn some_of(element_type: ElementType) -> Vec<u8> {
    let bits = element_type.bits();
    let signed = element_type.is_signed_integer();
    match bits {
        _ if element_type == ElementType::Pred => (0..16).map(|i| i % 2).collect(),
        2 | 4 | 6 => (0..16u8)
            .map(|i| {
                let (element, mask) = (i & ((1 << bits) - 1), (1u8 << bits) - 1);
                match signed && element >> (bits - 1) == 1 {
                    true => element | !mask,
                    false => element,
                }
            })
            .collect(),
        _ => (0..16 * element_type.bytes())
            .map(|i| (i * 7 + 1) as u8)
            .collect(),
    }
}

fn every_element_type_goes_in_and_out_and_through_a_program(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    for element_type in ElementType::all() {
        let tensor = Tensor::new(element_type, vec![2, 8], some_of(element_type)).unwrap();
        let buffer = match client.buffer_from_host(&tensor, device) {
            Err(Error::NoBufferType(F6E2M3FN | F6E3M2FN)) if name != "xla-cpu" => continue,
            buffer => buffer.unwrap(),
        };
        assert_eq!(buffer.element_type().unwrap(), element_type);
        assert_eq!(buffer.dimensions().unwrap(), [2, 8]);
        assert_eq!(buffer.to_host().unwrap(), tensor, "{element_type}");
        // On the device elements of 2 and 4 bits are packed.
        let size = match element_type {
            ElementType::Pred | F6E2M3FN | F6E3M2FN => 16,
            _ => 2 * element_type.bits(),
        };
        assert_eq!(buffer.on_device_size().unwrap(), size, "{element_type}");

        if matches!(element_type, F6E2M3FN | F6E3M2FN) {
            // XLA CPU 0.115 takes f6 buffers, and dies compiling programs of them.
            continue;
        }
        let t = element_type.mlir();
        let program = Program::mlir(&format!(
            "func.func @main(%a: tensor<2x8x{t}>) -> tensor<8x2x{t}> {{
               %b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x8x{t}>) -> tensor<8x2x{t}>
               return %b : tensor<8x2x{t}> }}"
        ));
        let executable = client.compile(&program, &CompileOptions::new()).unwrap();
        let inspect = executable.executable().unwrap();
        assert_eq!(inspect.output_element_types().unwrap(), [element_type]);
        let results = executable
            .execute(&[vec![&buffer]], &ExecuteOptions::default())
            .unwrap();
        let result = results[0][0].to_host().unwrap();
        assert_eq!(result.shape(), [8, 2]);
        let width = element_type.bytes();
        for (i, element) in result.data().chunks(width).enumerate() {
            let from = (i % 2) * 8 + i / 2;
            assert_eq!(
                element,
                &tensor.data()[from * width..][..width],
                "{element_type}"
            );
        }
    }
}

fn sub_byte_elements_mean_what_their_bits_say(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    // The values of f4e2m1fn are those of the OCP MX specification.
    let f4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let f4: Vec<f32> = f4.iter().copied().chain(f4.map(|v: f32| -v)).collect();
    let counted = |from: i32, to: i32| (from..to).map(|v| v as f32);
    for (element_type, values) in [
        (ElementType::F4E2M1FN, f4),
        (ElementType::U4, counted(0, 16).collect()),
        (
            ElementType::I4,
            counted(0, 8).chain(counted(-8, 0)).collect(),
        ),
        (ElementType::U2, (0..16).map(|i| (i % 4) as f32).collect()),
        (ElementType::I2, [0.0, 1.0, -2.0, -1.0].repeat(4)),
    ] {
        let tensor = Tensor::new(element_type, vec![16], some_of(element_type)).unwrap();
        let buffer = client.buffer_from_host(&tensor, device).unwrap();
        let t = element_type.mlir();
        let program = Program::mlir(&format!(
            "func.func @main(%a: tensor<16x{t}>) -> tensor<16xf32> {{
               %b = stablehlo.convert %a : (tensor<16x{t}>) -> tensor<16xf32>
               return %b : tensor<16xf32> }}"
        ));
        let executable = client.compile(&program, &CompileOptions::new()).unwrap();
        let results = executable
            .execute(&[vec![&buffer]], &ExecuteOptions::default())
            .unwrap();
        assert_eq!(as_f32s(&results[0][0].to_host().unwrap()), values, "{t}");
    }
}

fn scalars_and_empty_tensors_go_in_and_out(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    for tensor in [
        f32s(&[], &[7.0]),
        f32s(&[0], &[]),
        f32s(&[3, 0, 2], &[]),
        Tensor::new(ElementType::I4, vec![], vec![0xff]).unwrap(),
        Tensor::new(ElementType::I4, vec![3], vec![0xff, 1, 0xf8]).unwrap(),
    ] {
        let buffer = client.buffer_from_host(&tensor, device).unwrap();
        assert_eq!(buffer.to_host().unwrap(), tensor);
    }
}

fn results_are_row_major_whatever_their_layout(name: &str) {
    let client = client(name);
    let program = Program::mlir(
        r#"module {
          func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {
            return %a : tensor<2x3xf32> } }"#,
    );
    let executable = client.compile(&program, &CompileOptions::new()).unwrap();
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let buffer = client
        .buffer_from_host(&a, &client.devices().unwrap()[0])
        .unwrap();
    let results = executable
        .execute(&[vec![&buffer]], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(results[0][0].to_host().unwrap(), a);
}

fn a_donated_argument_is_deleted_and_a_non_donatable_one_is_not(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    let tensor = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    for attribute in ["tf.aliasing_output = 0 : i32", "jax.buffer_donor = true"] {
        let program = Program::mlir(&format!(
            "func.func @main(%a: tensor<4xf32> {{{attribute}}}, %b: tensor<4xf32>) -> tensor<4xf32> {{
               %c = stablehlo.add %a, %b : tensor<4xf32>
               return %c : tensor<4xf32> }}"
        ));
        let executable = client.compile(&program, &CompileOptions::new()).unwrap();
        for (non_donatable, deleted) in [(vec![], true), (vec![0], false)] {
            let a = client.buffer_from_host(&tensor, device).unwrap();
            let b = client.buffer_from_host(&tensor, device).unwrap();
            let options = ExecuteOptions {
                non_donatable,
                ..ExecuteOptions::default()
            };
            let results = executable.execute(&[vec![&a, &b]], &options).unwrap();
            let sum = results[0][0].to_host().unwrap();
            assert_eq!(as_f32s(&sum), [2.0, 4.0, 6.0, 8.0]);
            assert_eq!(a.is_deleted().unwrap(), deleted, "{attribute}");
            assert!(!b.is_deleted().unwrap());
            match a.to_host() {
                Ok(value) => assert!(!deleted && value == tensor),
                Err(error) => {
                    assert!(deleted);
                    assert_eq!(error.code(), Some(ErrorCode::InvalidArgument));
                }
            }
        }
    }
}

fn each_replica_has_its_own_arguments_and_results(name: &str) {
    let client = client(name);
    let devices = client.devices().unwrap();
    let program = Program::mlir(
        "func.func @main(%a: tensor<2xf32>) -> (tensor<ui32>, tensor<2xf32>) {
           %r = stablehlo.replica_id : tensor<ui32>
           %c = stablehlo.add %a, %a : tensor<2xf32>
           return %r, %c : tensor<ui32>, tensor<2xf32> }",
    );
    // Replica 0 on device 1, replica 1 on device 0.
    let options = CompileOptions::new()
        .replicas(2)
        .devices(&[vec![1], vec![0]]);
    let executable = client.compile(&program, &options).unwrap();
    let order: Vec<i64> = executable
        .devices()
        .iter()
        .map(|device| device.id().unwrap())
        .collect();
    assert_eq!(order, [1, 0]);
    let buffers: Vec<Buffer> = order
        .iter()
        .map(|id| {
            let value = 10.0 * (*id as f32);
            client
                .buffer_from_host(&f32s(&[2], &[value, value + 1.0]), &devices[*id as usize])
                .unwrap()
        })
        .collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|buffer| vec![buffer]).collect();
    let results = executable
        .execute(&arguments, &ExecuteOptions::default())
        .unwrap();
    assert_eq!(results.len(), 2);
    for (replica, (id, sum)) in [(1, [20.0, 22.0]), (0, [0.0, 2.0])].into_iter().enumerate() {
        let [index, value] = results[replica].as_slice() else {
            panic!("two results a replica");
        };
        assert_eq!(value.device().unwrap().id().unwrap(), id);
        assert_eq!(index.to_host().unwrap().data()[0], replica as u8);
        assert_eq!(as_f32s(&value.to_host().unwrap()), sum);
    }
}

fn partitions_split_a_program_by_its_shardings(name: &str) {
    let client = client(name);
    let program = Program::mlir(
        r#"func.func @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
             -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}, tensor<f32>) {
             %z = stablehlo.constant dense<0.0> : tensor<f32>
             %c = stablehlo.add %a, %a : tensor<4xf32>
             %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
               : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
             return %c, %s : tensor<4xf32>, tensor<f32> }"#,
    );
    let executable = client
        .compile(&program, &CompileOptions::new().partitions(2))
        .unwrap();
    assert_eq!(
        executable.executable().unwrap().num_partitions().unwrap(),
        2
    );
    let halves = [f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 4.0])];
    let buffers: Vec<Buffer> = executable
        .devices()
        .iter()
        .zip(&halves)
        .map(|(device, half)| client.buffer_from_host(half, device).unwrap())
        .collect();
    let arguments: Vec<Vec<&Buffer>> = buffers.iter().map(|buffer| vec![buffer]).collect();
    let results = executable
        .execute(&arguments, &ExecuteOptions::default())
        .unwrap();
    for (partition, doubled) in [[2.0, 4.0], [6.0, 8.0]].into_iter().enumerate() {
        let [half, sum] = results[partition].as_slice() else {
            panic!("two results a partition");
        };
        assert_eq!(as_f32s(&half.to_host().unwrap()), doubled);
        assert_eq!(as_f32s(&sum.to_host().unwrap()), [10.0]);
    }
}

const ADD: &str = "module @adder { func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<f32>, tensor<2x2xf32>) {
      %c = stablehlo.add %a, %b : tensor<4xf32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %m = stablehlo.reshape %c : (tensor<4xf32>) -> tensor<2x2xf32>
      return %c, %s, %m : tensor<4xf32>, tensor<f32>, tensor<2x2xf32> } }";

fn a_program_compiled_for_another_device_runs_there(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[1];
    let options = CompileOptions::new().devices(&[vec![1]]);
    let executable = client.compile(&Program::mlir(ADD), &options).unwrap();
    let a = client
        .buffer_from_host(&f32s(&[4], &[1.0; 4]), device)
        .unwrap();
    let results = executable
        .execute(&[vec![&a, &a]], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(results[0][1].device().unwrap().id().unwrap(), 1);
    assert_eq!(as_f32s(&results[0][1].to_host().unwrap()), [8.0]);
}

fn an_executable_can_be_inspected(name: &str) {
    let client = client(name);
    let compile = || {
        client
            .compile(&Program::mlir(ADD), &CompileOptions::new())
            .unwrap()
            .executable()
            .unwrap()
    };
    let executable = compile();
    assert_eq!(executable.name().unwrap(), "adder");
    assert_eq!(executable.num_outputs().unwrap(), 3);
    assert_eq!(executable.num_replicas().unwrap(), 1);
    assert_eq!(executable.num_partitions().unwrap(), 1);
    assert_eq!(
        executable.output_dimensions().unwrap(),
        [vec![4], vec![], vec![2, 2]]
    );
    assert_eq!(
        executable.output_element_types().unwrap(),
        [ElementType::F32; 3]
    );
    executable.code_size().unwrap();

    let memory = executable.memory_stats().unwrap();
    assert_eq!(memory["argument"], 32);
    assert!(memory["output"] >= 36, "{memory:?}");
    assert_eq!(memory.contains_key("total"), name != "xla-cpu-0.81");

    // Newer XLA CPU does not estimate costs.
    match executable.cost_analysis() {
        Ok(cost) => assert!(cost["flops"].as_f64().unwrap() >= 4.0),
        Err(error) => assert_eq!(error.code(), Some(ErrorCode::Unimplemented)),
    }

    let optimized = executable.optimized_program().unwrap();
    assert_eq!(optimized.format, "hlo_with_config");
    let module =
        pjrt_sys::protos::xla::HloModuleProtoWithConfig::decode(optimized.code.as_slice()).unwrap();
    assert_eq!(module.hlo_module.unwrap().name, "adder");

    assert!(!executable.fingerprint().unwrap().is_empty());
    assert_eq!(
        executable.fingerprint().unwrap(),
        compile().fingerprint().unwrap()
    );
}

fn a_serialized_executable_runs_again(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    let executable = client
        .compile(&Program::mlir(ADD), &CompileOptions::new())
        .unwrap();
    let serialized = executable.executable().unwrap().serialize().unwrap();
    drop(executable);
    let again = client.deserialize(&serialized).unwrap();
    let a = client
        .buffer_from_host(&f32s(&[4], &[1.0, 2.0, 3.0, 4.0]), device)
        .unwrap();
    let results = again
        .execute(&[vec![&a, &a]], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(as_f32s(&results[0][1].to_host().unwrap()), [20.0]);
    let error = client.deserialize(b"no executable").unwrap_err();
    assert!(error.code().is_some(), "{error}");
}

fn errors_carry_pjrts_own_code(name: &str) {
    let client = client(name);
    let plugin = client.plugin();
    let error = client
        .compile(&Program::mlir("nonsense"), &CompileOptions::new())
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), Some(ErrorCode::Unknown));
    assert!(text.starts_with("PJRT_Client_Compile: UNKNOWN: "), "{text}");
    assert!(!text.contains('\n'));

    let error = plugin.create_topology("cpu", &[]).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Unimplemented));

    // The two older plug-ins ignore options that they do not know.
    let strange = plugin.create_client(&[NamedValue::new("nonsense", 1i64)]);
    match (name, strange) {
        ("xla-cpu", Err(error)) => assert_eq!(error.code(), Some(ErrorCode::InvalidArgument)),
        ("xla-cpu", Ok(_)) => panic!("an unknown option was taken"),
        (_, strange) => assert!(strange.is_ok()),
    }
}

fn arguments_that_do_not_fit_are_errors(name: &str) {
    let client = client(name);
    let device = &client.devices().unwrap()[0];
    let executable = client
        .compile(&Program::mlir(ADD), &CompileOptions::new())
        .unwrap();
    let a = client
        .buffer_from_host(&f32s(&[4], &[1.0; 4]), device)
        .unwrap();
    let short = client
        .buffer_from_host(&f32s(&[2], &[1.0; 2]), device)
        .unwrap();
    for arguments in [vec![], vec![&a], vec![&a; 3], vec![&a, &short]] {
        let error = executable
            .execute(&[arguments], &ExecuteOptions::default())
            .unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidArgument), "{error}");
    }
    for arguments in [vec![], vec![vec![&a, &a], vec![&a, &a]]] {
        let error = executable
            .execute(&arguments, &ExecuteOptions::default())
            .unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error}");
    }
}

fn handles_of_another_client_are_refused(name: &str) {
    let (ours, theirs) = (client(name), client(name));
    let tensor = f32s(&[4], &[1.0; 4]);
    let their_device = &theirs.devices().unwrap()[0];
    let error = ours.buffer_from_host(&tensor, their_device).unwrap_err();
    assert_eq!(error.to_string(), "the device belongs to another client");
    let buffer = theirs.buffer_from_host(&tensor, their_device).unwrap();
    let executable = ours
        .compile(&Program::mlir(ADD), &CompileOptions::new())
        .unwrap();
    let error = executable
        .execute(&[vec![&buffer, &buffer]], &ExecuteOptions::default())
        .unwrap_err();
    assert_eq!(error.to_string(), "an argument belongs to another client");
}

fn a_buffer_can_be_copied_waited_for_and_deleted(name: &str) {
    let client = client(name);
    let devices = client.devices().unwrap();
    let tensor = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let buffer = client.buffer_from_host(&tensor, &devices[0]).unwrap();
    let copy = buffer.copy_to_device(&devices[1]).unwrap();
    copy.ready().unwrap();
    assert_eq!(copy.device().unwrap().id().unwrap(), 1);
    buffer.delete().unwrap();
    assert!(buffer.is_deleted().unwrap());
    assert_eq!(
        buffer.to_host().unwrap_err().code(),
        Some(ErrorCode::InvalidArgument)
    );
    assert_eq!(copy.to_host().unwrap(), tensor);
}

fn the_crates_api_runs_over_the_negotiated_table(name: &str) {
    let plugin = load(name);
    let api = plugin.api();
    assert_eq!(api.version().minor_version, plugin.api_version().1);
    let client = pjrt::Client::builder(api).build().unwrap();
    let program = pjrt::Program::new(pjrt::ProgramFormat::MLIR, ADD);
    let executable = pjrt::LoadedExecutable::builder(&client, &program)
        .build()
        .unwrap();
    let stats = executable.executable().compiled_memory_stats();
    assert_eq!(stats.argument_size_in_bytes, 32);
    let input = || {
        pjrt::HostBuffer::builder()
            .data(vec![1.0f32, 2.0, 3.0, 4.0])
            .dims(vec![4])
            .build()
            .copy_to_sync(&client)
            .unwrap()
    };
    let results = executable.execution([input(), input()]).run_sync().unwrap();
    let sum = results[0][1].copy_to_host_sync().unwrap();
    assert!(format!("{sum:?}").contains("20.0"), "{sum:?}");
}

#[test]
fn several_plugins_live_in_one_process() {
    let names = ["xla-cpu", "xla-cpu-0.106", "xla-cpu-0.81"];
    let clients = names.map(client);
    let versions = clients
        .each_ref()
        .map(|client| client.plugin().api_version().1);
    assert_eq!(versions, [115, 106, 81]);
    for (client, name) in clients.iter().zip(names) {
        an_executable_can_be_inspected(name);
        assert_eq!(client.platform_name().unwrap(), "cpu");
    }
}

#[test]
fn a_plugin_that_is_loaded_again_is_the_same() {
    let plugins: Vec<Plugin> = (0..20).map(|_| load("xla-cpu")).collect();
    assert_eq!(plugins.len(), 20);
}
