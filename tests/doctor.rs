//! `tpu-parity doctor` as a user runs it.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::str::contains;

fn doctor() -> Command {
    let mut command = Command::cargo_bin("tpu-parity").unwrap();
    command
        .arg("doctor")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("TPU_PARITY_ROOT");
    command
}

/// Needs the plug-ins that `ci/setup` installs, and says so.
#[test]
fn every_pinned_plugin_is_usable_and_bad_ones_beside_them_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    fs::write(&text, "not a library").unwrap();
    let libm = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("a libm on this machine");
    let output = doctor()
        .args(["--format", "json", "--plugin", libm, "--plugin"])
        .arg(&text)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "tpu-parity/doctor/1");
    let plugins = json["plugins"].as_array().unwrap();
    let versions = [115, 106, 81, 117, 78];
    for (plugin, minor) in plugins.iter().zip(versions) {
        assert_eq!(plugin["pinned"], true, "run ci/setup: {plugin:#}");
        assert_eq!(plugin["probe"]["api_version"][1], minor, "{plugin:#}");
        assert!(plugin["problem"].is_null(), "{plugin:#}");
    }
    let problem = |index: usize| plugins[index]["problem"].as_str().unwrap();
    assert!(problem(5).contains("no GetPjrtApi"), "{}", problem(5));
    assert!(problem(6).contains("no ELF header"), "{}", problem(6));
    assert!(plugins[6]["remedy"].is_string());
    assert_eq!(json["virtual_tpu"]["works"], true, "{json:#}");
    // Those two were asked for; what the project needs is there.
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn without_plugins_it_names_ci_setup_and_fails() {
    let empty = tempfile::tempdir().unwrap();
    let assert = doctor()
        .env("TPU_PARITY_PLUGINS", empty.path())
        .assert()
        .code(3)
        .stdout(contains("run ci/setup xla-cpu\n"))
        .stdout(contains("run ci/setup libtpu\n"))
        .stderr("error: not usable: xla-cpu, libtpu; see the remedies above\n");
    let out = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    for line in out.lines().filter(|line| !line.contains('/')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_wrong_file_in_place_of_a_pinned_one_is_not_loaded() {
    let plugins = tempfile::tempdir().unwrap();
    fs::create_dir(plugins.path().join("libtpu")).unwrap();
    fs::write(plugins.path().join("libtpu/libtpu.so"), "wrong").unwrap();
    doctor()
        .env("TPU_PARITY_PLUGINS", plugins.path())
        .assert()
        .code(3)
        .stdout(contains("not the file that ci/plugins.toml pins"))
        .stdout(contains("run ci/setup libtpu, which installs it anew"));
}

#[test]
fn outside_a_project_it_is_wrong_use() {
    doctor()
        .current_dir("/")
        .assert()
        .code(2)
        .stderr(contains("error: no tpu-parity project at /"));
}
