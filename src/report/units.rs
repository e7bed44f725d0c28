//! Figures as people read them: bytes in binary units, times in the unit that fits.

/// `512 B`, `1.1 MiB`
pub fn bytes(n: i64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ => format!("{} {}", three_digits(value), UNITS[unit]),
    }
}

/// `1.9 ns`, `232 µs`, `1.2 s`
pub fn seconds(value: f64) -> String {
    let (scale, unit) = match value.abs() {
        v if v >= 1.0 => (1.0, "s"),
        v if v >= 1e-3 => (1e3, "ms"),
        v if v >= 1e-6 => (1e6, "µs"),
        0.0 => (1.0, "s"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", three_digits(value * scale))
}

/// `12.3 ms`
pub fn milliseconds(value: f64) -> String {
    seconds(value / 1e3)
}

/// `1.2e9` and the like read badly: `1.2 G`.
pub fn count(value: f64) -> String {
    let (scale, unit) = match value.abs() {
        v if v >= 1e12 => (1e12, " T"),
        v if v >= 1e9 => (1e9, " G"),
        v if v >= 1e6 => (1e6, " M"),
        v if v >= 1e4 => (1e3, " k"),
        _ => return format!("{value:.0}"),
    };
    format!("{}{unit}", three_digits(value / scale))
}

/// What is not known.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Three significant digits, of a number below 1,000 or so.
fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_the_unit_that_fits() {
        let sizes = [0, 1023, 1024, 102_325_760, 33_546_041_344, -2048];
        let texts = [
            "0 B",
            "1023 B",
            "1.00 KiB",
            "97.6 MiB",
            "31.2 GiB",
            "-2.00 KiB",
        ];
        assert_eq!(sizes.map(bytes), texts);
        let times = [0.0, 1.9e-9, 2.32e-4, 0.999, 61.5];
        assert_eq!(
            times.map(seconds),
            ["0.00 s", "1.90 ns", "232 µs", "999 ms", "61.5 s"]
        );
        assert_eq!(milliseconds(25.04), "25.0 ms");
        let counts = [0.0, 9999.0, 10_000.0, 1.374725e11];
        assert_eq!(counts.map(count), ["0", "9999", "10.0 k", "137 G"]);
    }
}
