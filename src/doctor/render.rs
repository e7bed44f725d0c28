//! A diagnosis as text for a terminal of 80 columns.

use std::fmt::Write as _;
use std::path::Path;

use super::{Diagnosis, PluginReport, VirtualReport};
use crate::pjrt::{Probe, TopologyProbe};
use crate::report::escape;

/// Paths under `root` are shown relative to it.
pub fn render(diagnosis: &Diagnosis, root: &Path) -> String {
    let mut out = String::new();
    for plugin in &diagnosis.plugins {
        render_plugin(&mut out, plugin, root);
        out.push('\n');
    }
    for tool in &diagnosis.tools {
        let found = match &tool.path {
            Some(path) => path.display().to_string(),
            None => format!(
                "missing (for {}); {}",
                tool.purpose,
                tool.remedy.unwrap_or("")
            ),
        };
        row(&mut out, "", tool.name, &found);
    }
    render_virtual(&mut out, &diagnosis.virtual_tpu, root);
    let tpu = match diagnosis.tpu {
        true => "found; the target 'tpu' runs on it",
        false => {
            "none here; the targets aot-<gen> compile, and vtpu-<gen> execute on CPU, without one"
        }
    };
    row(&mut out, "", "TPU", tpu);
    out
}

fn render_virtual(out: &mut String, report: &VirtualReport, root: &Path) {
    let state = match &report.problem {
        None => format!(
            "works: {} compiled a product and executed it",
            report.target
        ),
        Some(problem) => format!("does not work ({}): {problem}", report.target),
    };
    row(out, "", "virtual TPU", &state);
    let library = match (&report.library, report.library_remedy) {
        (Some(path), _) => {
            let path = path.strip_prefix(root).unwrap_or(path).display();
            format!("for JAX and TorchTPU: TPU_LIBRARY_PATH={path}")
        }
        (None, remedy) => format!(
            "its plug-in for JAX and TorchTPU is not built; {}",
            remedy.unwrap_or_default()
        ),
    };
    row(out, "", "", &library);
}

fn render_plugin(out: &mut String, plugin: &PluginReport, root: &Path) {
    let state = match (plugin.is_usable(), &plugin.problem) {
        (true, _) => "usable",
        (false, Some(problem)) => problem,
        (false, None) => "not usable",
    };
    let _ = writeln!(out, "{}", plugin.name);
    row(out, "  ", "state", state);
    if let Some(remedy) = &plugin.remedy {
        row(out, "  ", "remedy", remedy);
    }
    let path = plugin.path.strip_prefix(root).unwrap_or(&plugin.path);
    row(out, "  ", "path", &path.display().to_string());
    if let Some(sha256) = &plugin.sha256 {
        row(out, "  ", "sha256", sha256);
        let pin = match plugin.pinned {
            true => "as pinned in ci/plugins.toml",
            false => "not pinned",
        };
        row(out, "  ", "pin", pin);
    }
    if let Some(probe) = &plugin.probe {
        render_probe(out, probe);
    }
}

fn render_probe(out: &mut String, probe: &Probe) {
    let (major, minor) = probe.api_version;
    row(out, "  ", "PJRT API", &format!("{major}.{minor}"));
    let stablehlo = match probe.stablehlo_version {
        Some([major, minor, patch]) => format!("up to {major}.{minor}.{patch}"),
        None => "it does not say".to_owned(),
    };
    row(out, "  ", "StableHLO", &stablehlo);
    if let Some(name) = &probe.platform_name {
        let version = probe.platform_version.as_deref().unwrap_or_default();
        // libtpu's first line names one generation's runtime: the build is what tells versions apart.
        let version = match version.lines().find(|line| line.starts_with("Built on")) {
            Some(built) => built.replacen("Built", "built", 1),
            None => version.lines().next().unwrap_or_default().to_owned(),
        };
        let platform = match version == *name {
            true => name.clone(),
            false => format!("{name}, {version}"),
        };
        row(out, "  ", "platform", &platform);
    }
    if !probe.devices.is_empty() {
        let devices: Vec<String> = probe
            .devices
            .iter()
            .map(|(kind, count)| format!("{count} × {kind}"))
            .collect();
        row(out, "  ", "devices", &devices.join(", "));
    }
    let mut refused = Vec::new();
    let mut label = "compiles";
    for (generation, topology) in &probe.topologies {
        match topology {
            TopologyProbe::Supported {
                name,
                device_kind,
                devices,
            } => {
                let text = format!("aot-{generation:<4} {name:<13} {devices} × {device_kind}");
                row(out, "  ", label, &text);
                label = "";
            }
            TopologyProbe::Refused(_) => refused.push(format!("aot-{generation}")),
        }
    }
    if !refused.is_empty() {
        row(out, "  ", "too old for", &refused.join(", "));
    }
    let newer = probe.newer_missing_entries.len();
    let missing = match (probe.missing_entries.as_slice(), newer) {
        ([], 0) => "nothing".to_owned(),
        ([], newer) => format!("nothing that is needed (of newer entries, {newer})"),
        (names, _) => format!(
            "{}; cases that need them are unsupported on it",
            names.join(", ")
        ),
    };
    row(out, "  ", "missing", &missing);
}

/// A label and its text, wrapped between words to 80 columns.
fn row(out: &mut String, indent: &str, label: &str, text: &str) {
    const LABEL: usize = 12;
    let room = 80 - indent.len() - LABEL;
    let text = &escape::line(text);
    let mut label = label;
    let mut line = String::new();
    // Two spaces in a row are a column's edge, not a place to break.
    for word in text.split_inclusive(' ') {
        if !line.is_empty() && (line.chars().count() + word.trim_end().chars().count()) > room {
            let _ = writeln!(out, "{indent}{label:<LABEL$}{}", line.trim_end());
            (label, line) = ("", String::new());
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{indent}{label:<LABEL$}{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::ToolReport;
    use crate::project::{CPU_PLUGIN, LIBTPU};
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn probe() -> Probe {
        Probe {
            api_version: (0, 78),
            stablehlo_version: Some([1, 13, 1]),
            platform_name: Some("tpu".to_owned()),
            platform_version: Some("TFRT TPU v6 lite\nBuilt on Oct 1 2025 (1759358331)".to_owned()),
            devices: BTreeMap::new(),
            client_error: None,
            topologies: BTreeMap::from([
                (
                    "v6e".to_owned(),
                    TopologyProbe::Supported {
                        name: "v6e:2x2".to_owned(),
                        device_kind: "TPU v6 lite".to_owned(),
                        devices: 4,
                    },
                ),
                ("7x".to_owned(), TopologyProbe::Refused("no".to_owned())),
            ]),
            missing_entries: Vec::new(),
            newer_missing_entries: vec!["PJRT_Event_Create".to_owned()],
        }
    }

    fn diagnosis() -> Diagnosis {
        let mut good = PluginReport::new(LIBTPU, PathBuf::from("/p/plugins/libtpu/libtpu.so"));
        good.sha256 = Some("ab".repeat(32));
        good.pinned = true;
        good.probe = Some(probe());
        let mut absent = PluginReport::new(CPU_PLUGIN, PathBuf::from("/p/plugins/xla-cpu/x.so"));
        absent.problem = Some("not installed".to_owned());
        absent.remedy = Some("run ci/setup xla-cpu".to_owned());
        let mut dead = PluginReport::new("/x.so", PathBuf::from("/x.so"));
        dead.problem = Some(format!(
            "it killed its process: {}",
            "many words ".repeat(20)
        ));
        Diagnosis {
            schema: "tpu-parity/doctor/1",
            plugins: vec![absent, good, dead],
            tools: vec![ToolReport {
                name: "protoc",
                purpose: "build",
                path: None,
                remedy: Some("run ci/setup"),
            }],
            virtual_tpu: VirtualReport {
                target: "vtpu-v6e".to_owned(),
                works: false,
                problem: Some("the plug-in 'xla-cpu' is not installed".to_owned()),
                library: Some(PathBuf::from("/p/target/release/libtpu_parity.so")),
                library_remedy: None,
            },
            tpu: false,
        }
    }

    #[test]
    fn the_table_fits_80_columns() {
        let text = render(&diagnosis(), Path::new("/p"));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_is_absent_is_unusable() {
        assert_eq!(diagnosis().unusable(), [CPU_PLUGIN]);
    }
}
