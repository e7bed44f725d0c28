//! `tpu-parity reference verify --oracle` as a user meets it: the stored references against the evaluator in `oracle/`.

use std::path::Path;

use assert_cmd::Command;
use predicates::str::contains;

fn tpu_parity() -> Command {
    let mut command = Command::cargo_bin("tpu-parity").unwrap();
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("TPU_PARITY_ROOT");
    command
}

/// One case or a few of every kind of arithmetic and movement that the evaluator has a module for.
const SAMPLE: [&str; 24] = [
    "stablehlo/add/{f32,i8,c64}/vector",
    "stablehlo/multiply/f64/special",
    "stablehlo/power/f32/special",
    "stablehlo/chlo.{erf_inv,zeta,bessel_i1e}/f32/vector",
    "stablehlo/logistic/f64/vector",
    "stablehlo/popcnt/{i4,i8,u32}/vector",
    "stablehlo/convert/f32/i32/*",
    "stablehlo/reduce_precision/bf16/e5m10/vector",
    "stablehlo/constant/{bf16,c64,f8e4m3fn}/*",
    "stablehlo/bitcast_convert/f32/*/*",
    "stablehlo/pad/f32/*",
    "stablehlo/gather/f32/windows-outside",
    "stablehlo/scatter/add/{f32,bf16}/windows-outside",
    "stablehlo/sort/by-key-stable/f32/*",
    "stablehlo/reduce/argmax/bf16/*",
    "stablehlo/reduce_window/add/bf16/vector",
    "stablehlo/select_and_scatter/f32/pool-nhwc",
    "stablehlo/dot_general/f32/matmul/*",
    "stablehlo/convolution/f32/same-2d",
    "stablehlo/cholesky/c64/lower",
    "stablehlo/fft/rfft/f32/*",
    "stablehlo/while/nested/*",
    "stablehlo/rng_bit_generator/*/u32/bits",
    "collectives/mlp/tensor/shardy",
];

#[test]
fn the_oracle_agrees_with_a_sample_of_the_references() {
    let said = tpu_parity()
        .args(["reference", "verify", "--oracle", "--jobs", "2"])
        .args(SAMPLE)
        .assert()
        .success();
    let said = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    assert!(
        said.contains(" 0 disagree, of which 0 explained; 0 without an oracle\n"),
        "{said}"
    );
}

#[test]
fn without_the_oracle_s_packages_the_remedy_is_named() {
    tpu_parity()
        .args([
            "reference",
            "verify",
            "--oracle",
            "stablehlo/add/f32/scalar",
        ])
        .env("TPU_PARITY_ORACLE", Path::new("no/python"))
        .assert()
        .code(3)
        .stderr(contains(
            "no/python is missing; run ci/clients/setup oracle",
        ));
}

/// A process that starts and says nothing sensible is named with its last words.
#[test]
fn a_python_without_the_packages_is_named_with_its_last_words() {
    tpu_parity()
        .args([
            "reference",
            "verify",
            "--oracle",
            "stablehlo/add/f32/scalar",
        ])
        .env("TPU_PARITY_ORACLE", "/bin/false")
        .assert()
        .code(3)
        .stderr(contains("does not start; run ci/clients/setup oracle"));
}
