//! The figures of a mutation run as Markdown and for a terminal. What counts as caught, `tally` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::class::Class;
use super::rival::Rule;
use super::tally::{Row, Survivor, Tally, Why};
use crate::outcome::Evidence;
use crate::tensor::ElementType;
use crate::track::thousands;

/// The share of faults that is to be caught, of each class.
pub const WANTED: f64 = 0.999;
/// Names in one cell of a table.
const NAMES: usize = 8;

/// What was measured on one target.
pub struct Figures {
    pub target: String,
    pub evidence: Evidence,
    /// Names and versions of the plug-ins behind it.
    pub plugins: String,
    pub cases: usize,
    pub passing: usize,
    pub failing: usize,
    pub without_result: usize,
    pub tally: Tally,
}

impl Figures {
    /// Classes of which less than the wanted share is caught.
    pub fn weak(&self) -> impl Iterator<Item = Class> + '_ {
        let weak = |row: &Row| row.share_caught().is_some_and(|share| share < WANTED);
        self.tally
            .rows
            .iter()
            .filter(move |(_, row)| weak(row))
            .map(|(class, _)| *class)
    }
}

/// Rounded down, so that 100% is all of them.
fn percent(part: usize, whole: usize) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => {
            let hundredths = part as u128 * 10_000 / whole as u128;
            format!("{}.{:02}%", hundredths / 100, hundredths % 100)
        }
    }
}

/// Rounded up: what is missed is not rounded away.
fn missed(part: usize, whole: usize) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => {
            let hundredths = (part as u128 * 10_000).div_ceil(whole as u128);
            let (whole, rest) = (hundredths / 100, hundredths % 100);
            format!("{} ({whole}.{rest:02}%)", thousands(part))
        }
    }
}

/// `–` of classes that have no kind of their own.
fn told(row: &Row, count: usize) -> String {
    if row.nameable == 0 {
        "–".to_owned()
    } else {
        percent(count, row.nameable)
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    let mut text = all
        .iter()
        .take(NAMES)
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if all.len() > NAMES {
        write!(text, " and {} more", all.len() - NAMES).ok();
    }
    text
}

macro_rules! line {
    ($text:expr, $($arg:tt)*) => { { writeln!($text, $($arg)*).ok(); } };
}

/// The committed report. `command` is what made it.
pub fn markdown(command: &str, figures: &[Figures]) -> String {
    let mut text = String::new();
    line!(text, "# Power: are faults caught?\n");
    line!(
        text,
        "Made by `{command}`. Faults are injected into results that are right, the results of the cases that pass on a target, and \
         compared again. A fault that leaves the bits of a result as they were, or has no place in it (no NaN, one axis), counts \
         nowhere.\n"
    );
    line!(text, "| fault | what is done |\n|---|---|");
    for class in Class::ALL {
        line!(text, "| {} | {} |", class.name(), class.meaning());
    }
    for figures in figures {
        section(&mut text, figures);
    }
    line!(text, "\n## The other rules\n");
    for rule in Rule::ALL {
        line!(text, "- **{}**: {}", rule.name(), rule.source());
    }
    text
}

fn section(text: &mut String, figures: &Figures) {
    let Figures {
        target,
        evidence,
        plugins,
        tally,
        ..
    } = figures;
    line!(text, "\n## {target} — evidence: {evidence}\n");
    line!(
        text,
        "{plugins}. {} of {} cases pass, with {} results; {} fail and {} have no result or no reference here.\n",
        thousands(figures.passing),
        thousands(figures.cases),
        thousands(tally.results),
        thousands(figures.failing),
        thousands(figures.without_result)
    );
    line!(
        text,
        "*Indistinct* faults are those that a right result may show as well: each changed element was looked at again by itself, \
         and the reasons are below. *Caught* is the share of all others. *Named* is the share of the caught that the explanation \
         of the failure calls by their own kind first, *otherwise* by another, which may be as true: a shift of two elements reverses \
         them; the rest are too few elements for a claim. A single element that is off has no kind.\n"
    );
    line!(
        text,
        "| fault | injected | caught | missed | caught, % | indistinct | named | otherwise |"
    );
    line!(text, "|---|--:|--:|--:|--:|--:|--:|--:|");
    let total = tally.total();
    let rows = tally.rows.iter().map(|(class, row)| (class.name(), row));
    for (name, row) in rows.chain([("**all**", &total)]) {
        let indistinct = row.injected - row.caught - row.missed();
        line!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            thousands(row.injected),
            thousands(row.caught),
            thousands(row.missed()),
            percent(row.caught, row.caught + row.missed()),
            missed(indistinct, row.injected),
            told(row, row.named),
            told(row, row.misnamed)
        );
    }
    for missed in &tally.unexplained {
        line!(text, "\nMissed: {missed}");
    }
    indistinct(text, tally);
    side_by_side(text, tally, &total);
}

/// Indistinct faults of one class, reason and tolerance, over the element types.
fn indistinct(text: &mut String, tally: &Tally) {
    if tally.survivors.is_empty() {
        return;
    }
    line!(text, "\n### Faults that a right result may show as well\n");
    line!(
        text,
        "The error of the changed element that lies farthest out, over its bound, is at most 1 where the reason is the bound.\n"
    );
    line!(
        text,
        "| fault | why | tolerance | faults | error / bound | element types | operators |"
    );
    line!(text, "|---|---|---|--:|--:|---|---|");
    let mut groups: BTreeMap<(Class, Why, &str), (Survivor, BTreeSet<ElementType>)> =
        BTreeMap::new();
    for ((class, why, tolerance, element_type), survivor) in &tally.survivors {
        let (all, types) = groups.entry((*class, *why, tolerance)).or_insert_with(|| {
            let none = Survivor {
                count: 0,
                worst: 0.0,
                subjects: BTreeSet::new(),
            };
            (none, BTreeSet::new())
        });
        all.count += survivor.count;
        all.worst = all.worst.max(survivor.worst);
        all.subjects.extend(survivor.subjects.iter().cloned());
        types.insert(*element_type);
    }
    for ((class, why, tolerance), (survivor, types)) in groups {
        line!(
            text,
            "| {} | {} | {tolerance} | {} | {:.3} | {} | {} |",
            class.name(),
            why.words(),
            thousands(survivor.count),
            survivor.worst,
            names(types.iter().map(|t| t.name())),
            names(survivor.subjects.iter().map(String::as_str))
        );
    }
}

fn side_by_side(text: &mut String, tally: &Tally, total: &Row) {
    line!(text, "\n### Side by side: faults missed\n");
    line!(
        text,
        "Of the same faults in the same results, against the reference rounded to the element type. A rule is asked \
         about the results whose element type it has and that it accepts while they are right; the first figure of each is over all \
         faults in those, the second over those of them that we catch.\n"
    );
    let rules: String = Rule::ALL
        .iter()
        .map(|rule| format!(" {} |", rule.name()))
        .collect();
    line!(text, "| fault | injected | tpu-parity |{rules}");
    line!(text, "|---|--:|--:|{}", "--:|".repeat(Rule::ALL.len()));
    let rows = tally.rows.iter().map(|(class, row)| (class.name(), row));
    for (name, row) in rows.chain([("**all**", total)]) {
        let rivals: String = Rule::ALL
            .iter()
            .map(|rule| {
                let figure = |counts: &BTreeMap<Rule, (usize, usize)>| {
                    let (asked, wrong) = counts.get(rule).copied().unwrap_or_default();
                    missed(wrong, asked)
                };
                format!(
                    " {}; {} |",
                    figure(&row.rivals),
                    figure(&row.rivals_of_caught)
                )
            })
            .collect();
        line!(
            text,
            "| {name} | {} | {} |{rivals}",
            thousands(row.injected),
            missed(row.injected - row.caught, row.injected)
        );
    }
    line!(text, "\n### Side by side: right results refused\n");
    line!(text, "| rule | results | refused |\n|---|--:|--:|");
    line!(
        text,
        "| tpu-parity | {} | 0, by choice of the results |",
        thousands(tally.results)
    );
    for (rule, (asked, refused)) in &tally.refused {
        line!(
            text,
            "| {} | {} | {} |",
            rule.name(),
            thousands(*asked),
            missed(*refused, *asked)
        );
    }
}

/// A few lines for a terminal.
pub fn terminal(figures: &[Figures]) -> String {
    let mut text = String::new();
    for figures in figures {
        let tally = &figures.tally;
        line!(
            text,
            "{} — evidence: {}: {} results of {} passing cases",
            figures.target,
            figures.evidence,
            thousands(tally.results),
            thousands(figures.passing)
        );
        let total = tally.total();
        let rows = tally.rows.iter().map(|(class, row)| (class.name(), row));
        for (name, row) in rows.chain([("all", &total)]) {
            line!(
                text,
                "  {name:<32} {:>8} injected {:>8} caught {:>5} missed  {:>8} caught of those beyond the bound",
                thousands(row.injected),
                thousands(row.caught),
                thousands(row.missed()),
                percent(row.caught, row.caught + row.missed())
            );
        }
        for missed in &tally.unexplained {
            line!(text, "  missed: {missed}");
        }
        for (rule, (asked, wrong)) in &total.rivals {
            let (results, refused) = tally.refused.get(rule).copied().unwrap_or_default();
            line!(
                text,
                "  {}: misses {} faults, refuses {} right results",
                rule.name(),
                missed(*wrong, *asked),
                missed(refused, results)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_against_us() {
        assert_eq!(percent(999_999, 1_000_000), "99.99%");
        assert_eq!(percent(5, 5), "100.00%");
        assert_eq!(missed(1, 1_000_000), "1 (0.01%)");
        assert_eq!(missed(0, 0), "–");
    }

    #[test]
    fn a_class_below_the_wanted_share_is_weak() {
        let row = |caught, missed| Row {
            injected: caught + missed,
            caught,
            survived: [(Why::Unexplained, missed)].into(),
            ..Row::default()
        };
        let figures = Figures {
            target: "cpu".to_owned(),
            evidence: Evidence::Hardware,
            plugins: "xla-cpu 1".to_owned(),
            cases: 2,
            passing: 1,
            failing: 1,
            without_result: 0,
            tally: Tally {
                rows: [(Class::SignFlip, row(998, 2)), (Class::Bias, row(999, 1))].into(),
                unexplained: vec!["s/add/f32, result 0: one sign flipped".to_owned()],
                ..Tally::default()
            },
        };
        assert_eq!(figures.weak().collect::<Vec<_>>(), [Class::SignFlip]);
        let text = markdown("tpu-parity power", &[figures]);
        for wanted in [
            "## cpu — evidence: hardware\n",
            "| one sign flipped | 1,000 | 998 | 2 | 99.80% | 0 (0.00%) |",
            "| **all** | 2,000 | 1,997 | 3 | 99.85% |",
            "Missed: s/add/f32, result 0: one sign flipped\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }
}
