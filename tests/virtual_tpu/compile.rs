//! Compiling and running on one device, and what goes wrong there.

use std::thread;
use std::time::Instant;

use tpu_parity::pjrt::*;

use crate::common::{affine, client, refusal, run};
use crate::f32::{as_f32s, f32s};

/// What XLA's compilers and the passes between them are known to die of: a scan that is not declared associative aborts
/// libtpu 0.0.52 (see the expectations of `aot-*`).
const KILLS_LIBTPU: &str = "
    func.func public @main(%x: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>) {
      %init = stablehlo.constant dense<0.0> : tensor<4xf32>
      %0:2 = chlo.scan(%x) inits(%init) dimension = 0 attributes {is_reverse = false, is_associative = false} {
      ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
        %r = stablehlo.add %a, %c : tensor<4xf32>
        stablehlo.return %r, %r : tensor<4xf32>, tensor<4xf32>
      } : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
      return %0#0, %0#1 : tensor<6x4xf32>, tensor<4xf32>
    }";

#[test]
fn a_program_compiles_and_runs() {
    let client = client(&[]);
    let executable = client.compile(&affine(3), &CompileOptions::new()).unwrap();
    let results = run(&client, &executable, &[f32s(&[3], &[0.0, -1.0, 2.5])]);
    assert_eq!(as_f32s(&results[0]), [1.0, -1.0, 6.0]);
}

#[test]
fn the_executable_is_the_tpus_to_look_at() {
    let client = client(&[]);
    let executable = client
        .compile(&affine(1024), &CompileOptions::new())
        .unwrap()
        .executable()
        .unwrap();
    assert_eq!(executable.name().unwrap(), "f");
    assert_eq!(
        (
            executable.num_replicas().unwrap(),
            executable.num_partitions().unwrap()
        ),
        (1, 1)
    );
    assert_eq!(executable.num_outputs().unwrap(), 1);
    assert_eq!(executable.output_dimensions().unwrap(), [[1024]]);
    assert!(executable.code_size().unwrap() > 0);
    assert!(!executable.fingerprint().unwrap().is_empty());
    assert_eq!(executable.memory_stats().unwrap()["argument"], 4096);
    // Two additions an element.
    assert_eq!(
        executable.cost_analysis().unwrap()["flops"].as_f64(),
        Some(2048.0)
    );
    let optimized = executable.optimized_program().unwrap();
    assert_eq!(optimized.format, "hlo_with_config");
    // Only the TPU's compiler knows of tiles.
    assert!(!optimized.code.is_empty());
}

#[test]
fn a_donated_argument_is_gone_and_no_longer_counted() {
    let client = client(&[]);
    let program = Program::mlir(
        "func.func public @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
           %0 = stablehlo.add %x, %x : tensor<1024xf32>
           return %0 : tensor<1024xf32>
         }",
    );
    let executable = client.compile(&program, &CompileOptions::new()).unwrap();
    let device = &client.addressable_devices().unwrap()[0];
    let buffer = client
        .buffer_from_host(&f32s(&[1024], &[2.0; 1024]), device)
        .unwrap();
    let results = executable
        .execute(&[vec![&buffer]], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(as_f32s(&results[0][0].to_host().unwrap()), [4.0; 1024]);
    assert!(buffer.is_deleted().unwrap());
    assert_eq!(device.memory_stats().unwrap()["bytes_in_use"], 4096);
}

#[test]
fn a_serialized_executable_runs_on_another_client_and_only_on_its_kind() {
    let executable = client(&[])
        .compile(&affine(4), &CompileOptions::new())
        .unwrap();
    let serialized = executable.executable().unwrap().serialize().unwrap();
    drop(executable);
    let other = client(&[]);
    let loaded = other.deserialize(&serialized).unwrap();
    let results = run(&other, &loaded, &[f32s(&[4], &[1.0; 4])]);
    assert_eq!(as_f32s(&results[0]), [3.0; 4]);
    let again = loaded.executable().unwrap().serialize().unwrap();
    assert_eq!(again, serialized);

    let (code, message) = refusal(other.deserialize(b"not an executable"));
    assert_eq!(code, ErrorCode::InvalidArgument, "{message}");
    let (code, message) = refusal(other.deserialize(&serialized[..serialized.len() - 1]));
    assert_eq!(code, ErrorCode::InvalidArgument, "{message}");
    let (code, message) = refusal(client(&[("generation", "v5e")]).deserialize(&serialized));
    assert_eq!(code, ErrorCode::FailedPrecondition);
    assert!(
        message.contains("v6e:1x1") && message.contains("v5e:1x1"),
        "{message}"
    );
}

#[test]
fn threads_compile_and_run_at_once() {
    let client = client(&[]);
    thread::scope(|scope| {
        for worker in 1..=4usize {
            let client = &client;
            scope.spawn(move || {
                for round in 1..=3 {
                    let elements = worker * 10 + round;
                    let program = affine(elements);
                    let executable = client.compile(&program, &CompileOptions::new()).unwrap();
                    let input = vec![worker as f32; elements];
                    let results = run(client, &executable, &[f32s(&[elements], &input)]);
                    assert_eq!(
                        as_f32s(&results[0]),
                        vec![2.0 * worker as f32 + 1.0; elements]
                    );
                }
            });
        }
    });
}

#[test]
fn a_compiler_that_dies_is_an_error_with_its_last_words_and_the_client_goes_on() {
    let client = client(&[]);
    let refused = client.compile(&Program::mlir(KILLS_LIBTPU), &CompileOptions::new());
    let (code, message) = refusal(refused);
    assert_eq!(code, ErrorCode::Internal);
    assert!(
        message.contains("the TPU compiler died") && message.contains("SIGABRT"),
        "{message}"
    );
    // The check that failed, with its file: see the expectations.
    assert!(message.contains(".cc:"), "{message}");
    let executable = client.compile(&affine(2), &CompileOptions::new()).unwrap();
    let results = run(&client, &executable, &[f32s(&[2], &[1.0; 2])]);
    assert_eq!(as_f32s(&results[0]), [3.0; 2]);
}

#[test]
fn a_compiler_that_hangs_is_given_up() {
    let client = client(&[("compile_timeout", "0.001")]);
    let start = Instant::now();
    let (code, message) = refusal(client.compile(&affine(7), &CompileOptions::new()));
    assert_eq!(code, ErrorCode::DeadlineExceeded);
    assert!(message.contains("TPU_PARITY_COMPILE_TIMEOUT"), "{message}");
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn the_compilers_own_errors_pass_through() {
    let client = client(&[]);
    let refused = client.compile(&Program::mlir("not a module"), &CompileOptions::new());
    let (_, message) = refusal(refused);
    // In the words of MLIR's parser.
    assert!(message.contains("custom op 'not' is unknown"), "{message}");
    // 64 GiB on a chip of 32.
    let large = Program::mlir(
        "func.func public @main(%x: tensor<131072x131072xf32>) -> tensor<131072x131072xf32> {
           %0 = stablehlo.add %x, %x : tensor<131072x131072xf32>
           return %0 : tensor<131072x131072xf32>
         }",
    );
    let (code, message) = refusal(client.compile(&large, &CompileOptions::new()));
    assert_eq!(code, ErrorCode::ResourceExhausted, "{message}");
}

#[test]
fn a_kernel_without_a_meaning_on_a_cpu_is_unimplemented_by_name() {
    let client = client(&[]);
    let (code, message) = refusal(client.compile(&kernel(), &CompileOptions::new()));
    assert_eq!(code, ErrorCode::Unimplemented, "{message}");
    assert!(message.contains("Mosaic kernel"), "{message}");
}

/// A Pallas kernel that doubles an array, as JAX 0.10.2 lowers it.
pub fn kernel() -> Program {
    Program::mlir(include_str!("kernel.mlir"))
}
