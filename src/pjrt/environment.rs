//! Whether this machine has a TPU, and what libtpu needs to know where there is none.

use std::fs;
use std::path::Path;

/// Google's PCI vendor number.
const VENDOR: &str = "0x1ae0";

/// What every Compute Engine machine may have from the same vendor: NVMe disks and the gVNIC network card.
const OTHERS: [&str; 2] = ["0x001f", "0x0042"];

/// Whether this machine has a TPU: a device of its driver, or one of Google's on the PCI bus.
/// `TPU_PARITY_ASSUME_TPU=1` says so whatever is found.
pub fn tpu_present() -> bool {
    std::env::var("TPU_PARITY_ASSUME_TPU").is_ok_and(|value| value == "1")
        || has_entry("/dev", |name| {
            // Google's driver makes /dev/accel0; /dev/accel/ is the kernel's own class, for any vendor.
            name.strip_prefix("accel")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        || has_entry("/dev/vfio", |name| name != "vfio")
        || on_pci_bus()
}

fn has_entry(directory: &str, matches: impl Fn(&str) -> bool) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_str().is_some_and(&matches))
    })
}

fn on_pci_bus() -> bool {
    let is_tpu = |device: &Path| {
        let read = |file| fs::read_to_string(device.join(file)).unwrap_or_default();
        read("vendor").trim() == VENDOR && !OTHERS.contains(&read("device").trim())
    };
    fs::read_dir("/sys/bus/pci/devices")
        .is_ok_and(|devices| devices.flatten().any(|device| is_tpu(&device.path())))
}

/// Sets what libtpu needs on a machine without a TPU, where the environment does not say otherwise: no metadata server
/// to ask, and more than one process may load it. Does nothing where there is a TPU.
///
/// # Safety
/// Changes the process's environment: call it at the start of `main`, before any other thread runs.
pub unsafe fn prepare_environment() {
    if tpu_present() {
        return;
    }
    for name in ["TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"] {
        if std::env::var_os(name).is_none() {
            // SAFETY: by the contract no other thread runs.
            unsafe { std::env::set_var(name, "1") };
        }
    }
}
