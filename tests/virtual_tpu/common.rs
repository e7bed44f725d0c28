use std::path::{Path, PathBuf};
use std::process::Command;

use tpu_parity::pjrt::*;
use tpu_parity::tensor::Tensor;

/// The shared library that Cargo built with this test: it leaves libraries beside tests, and copies them to the folder
/// above only when it is asked to build them. The program that compiles for it is in that folder.
pub fn library() -> PathBuf {
    std::env::current_exe()
        .unwrap()
        .with_file_name("libtpu_parity.so")
}

pub fn plugin() -> Plugin {
    Plugin::load(&library()).unwrap()
}

pub fn client(options: &[(&str, &str)]) -> Client {
    let options: Vec<NamedValue> = options
        .iter()
        .map(|(name, value)| NamedValue::new(*name, *value))
        .collect();
    plugin().create_client(&options).unwrap()
}

/// Doubles and adds one; named `f`, so that its log can be told apart.
pub fn affine(elements: usize) -> Program {
    Program::mlir(&format!(
        "module @f {{ func.func public @main(%x: tensor<{elements}xf32>) -> tensor<{elements}xf32> {{
           %one = stablehlo.constant dense<1.0> : tensor<{elements}xf32>
           %0 = stablehlo.add %x, %x : tensor<{elements}xf32>
           %1 = stablehlo.add %0, %one : tensor<{elements}xf32>
           return %1 : tensor<{elements}xf32>
         }} }}"
    ))
}

/// On the client's first device.
pub fn run(client: &Client, executable: &LoadedExecutable, inputs: &[Tensor]) -> Vec<Tensor> {
    let device = &client.addressable_devices().unwrap()[0];
    let inputs: Vec<Buffer> = inputs
        .iter()
        .map(|tensor| client.buffer_from_host(tensor, device).unwrap())
        .collect();
    let results = executable
        .execute(&[inputs.iter().collect()], &ExecuteOptions::default())
        .unwrap();
    results[0]
        .iter()
        .map(|buffer| buffer.to_host().unwrap())
        .collect()
}

/// The plug-in's own code and words.
pub fn refusal<T>(result: Result<T>) -> (ErrorCode, String) {
    match result {
        Err(Error::Plugin { code, message, .. }) => (code, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no error"),
    }
}

/// Runs `body` in a child with these variables set. `test` is the name of the calling test, as libtest prints it.
pub fn in_child(test: &str, variables: &[(&str, &Path)], body: fn()) {
    const CHILD: &str = "TPU_PARITY_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{}\n{stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
