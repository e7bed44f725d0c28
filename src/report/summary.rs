//! What every report shows, counted and ordered once: the worst first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use super::compiled::Compiled;
use super::escape;
use super::models::{self, ModelRow};
use super::recompiles::Recompiles;
use crate::case::CaseId;
use crate::hlo::MxuNumerics;
use crate::outcome::{Evidence, OutcomeKind, Stage};
use crate::store::{PluginRecord, Run, RunRecord};
use crate::target::Target;
use crate::track::impact::{IssueStatus, issue_status};
use crate::track::{
    Expectation, IssueLedger, IssueState, Judgement, Pattern, Totals, Verdict, VerdictKind,
    patterns, thousands, verdict,
};

/// Characters of a message in a summary; the run keeps all of it.
const MESSAGE_LIMIT: usize = 1000;

/// The verdicts that are neither failures nor plain passes, as reports title them.
pub(super) const NOTABLE: [(&str, VerdictKind); 3] = [
    ("Fixed: expected to fail, and pass", VerdictKind::Fixed),
    ("Flaky: passed only at a later attempt", VerdictKind::Flaky),
    (
        "Newly skipped: passed in the baseline",
        VerdictKind::NewlySkipped,
    ),
];

pub struct Summary<'a> {
    pub record: &'a RunRecord,
    pub judgement: &'a Judgement,
    pub ledger: &'a IssueLedger,
    pub sections: Vec<Section<'a>>,
    pub issues: IssueStatus,
    /// What loaded for each target.
    pub plugins: Vec<PluginLine>,
    pub compiled: Compiled<'a>,
    /// Results measured by what CPU is off.
    pub models: Vec<ModelRow<'a>>,
    /// What the wrong results of an operator have in common.
    pub patterns: Vec<Pattern<'a>>,
    /// Of a compile log that is to be shown with the run.
    pub recompiles: Option<&'a Recompiles>,
    labels: Labels,
}

/// One target and one evidence.
pub struct Section<'a> {
    /// The target's name without a machine's paths.
    pub label: String,
    pub evidence: Evidence,
    pub totals: Totals,
    pub verdicts: Vec<&'a Verdict>,
    /// How many verdicts there are of each kind.
    pub kinds: BTreeMap<VerdictKind, usize>,
    pub suites: Vec<Group>,
    /// The lowest pass rate first, then those with more failures.
    pub subjects: Vec<Group>,
    /// Regressed, new failures and missing, in this order, the largest group first.
    pub unexpected: Vec<FailureGroup<'a>>,
    /// The largest group first.
    pub known: Vec<KnownGroup<'a>>,
    /// The largest group first.
    pub skipped: Vec<SkipGroup<'a>>,
    /// Passes that compare the plug-in with itself.
    pub self_references: usize,
}

/// A suite, or a subject of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub suite: String,
    pub subject: Option<String>,
    pub totals: Totals,
}

/// Unexpected failures that look the same.
pub struct FailureGroup<'a> {
    pub kind: VerdictKind,
    pub outcome: Option<OutcomeKind>,
    pub stage: Option<Stage>,
    pub because: Option<&'a str>,
    /// One line without control characters and absolute paths.
    pub message: Option<String>,
    pub cases: Vec<&'a CaseId>,
}

/// Known failures of one expectation, or of none: those inherited from the baseline.
pub struct KnownGroup<'a> {
    pub expectation: Option<&'a Expectation>,
    /// State of the issue that the expectation names.
    pub issue_state: Option<IssueState>,
    pub outcomes: Vec<OutcomeKind>,
    pub overdue: bool,
    pub cases: Vec<&'a CaseId>,
}

/// Skipped cases of one reason.
pub struct SkipGroup<'a> {
    /// As a report may show it; the id of the case stands in it as `CASE`.
    pub reason: String,
    pub cases: Vec<&'a CaseId>,
}

/// The plug-in behind a target; free of a machine's paths.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PluginLine {
    pub target: String,
    /// The name of its pin, or of its file.
    pub plugin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub sha256: String,
    pub api_version: String,
    pub platform: String,
    pub platform_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stablehlo_version: Option<String>,
    pub devices: BTreeMap<String, usize>,
    /// Of its compiler, `NAME=VALUE`, set for every program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// What executes in its place, of a virtual TPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<ExecutorLine>,
}

/// The plug-in that executes what a virtual TPU's compiler returns; free of a machine's paths.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ExecutorLine {
    pub plugin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub sha256: String,
    pub api_version: String,
    pub platform: String,
    pub platform_version: String,
    /// How matrix products round their operands.
    pub numerics: MxuNumerics,
}

impl<'a> Summary<'a> {
    pub fn new(run: &'a Run, judgement: &'a Judgement, ledger: &'a IssueLedger) -> Self {
        let labels = Labels::new(&run.record);
        let sections = judgement
            .sections()
            .into_iter()
            .map(|section| Section::new(section, judgement, ledger, &labels))
            .collect();
        let mut issues = issue_status(
            Some((&run.record.id, judgement)),
            &judgement.expectations,
            ledger,
        );
        labels.apply(&mut issues);
        Self {
            record: &run.record,
            judgement,
            ledger,
            sections,
            issues,
            plugins: plugins(&run.record, &labels),
            compiled: Compiled::new(run, |target| labels.get(target).to_owned()),
            models: models::rows(run, |target| labels.get(target).to_owned()),
            patterns: patterns(&run.outcomes),
            recompiles: None,
            labels,
        }
    }

    /// A target's name without a machine's paths.
    pub fn label<'b>(&'b self, target: &'b str) -> &'b str {
        self.labels.get(target)
    }
}

impl<'a> Section<'a> {
    fn new(
        section: verdict::Section<'a>,
        judgement: &'a Judgement,
        ledger: &IssueLedger,
        labels: &Labels,
    ) -> Self {
        let verdicts = section.verdicts;
        let mut kinds = BTreeMap::new();
        for verdict in &verdicts {
            *kinds.entry(verdict.kind).or_insert(0) += 1;
        }
        Self {
            label: labels.get(section.target).to_owned(),
            evidence: section.evidence,
            totals: Totals::of(verdicts.iter().copied()),
            kinds,
            suites: groups(&verdicts, false),
            subjects: groups(&verdicts, true),
            unexpected: unexpected(&verdicts),
            known: known(&verdicts, judgement, ledger),
            skipped: skipped(&verdicts),
            self_references: verdicts
                .iter()
                .filter(|v| v.self_reference && v.outcome == Some(OutcomeKind::Pass))
                .count(),
            verdicts,
        }
    }

    /// `aot-v6e — evidence: compile`
    pub fn heading(&self) -> String {
        format!("{} — evidence: {}", self.label, self.evidence)
    }

    /// What the passes that compare the plug-in with itself are worth; `None` without any.
    pub fn self_reference_sentence(&self) -> Option<String> {
        (self.self_references > 0).then(|| {
            format!(
                "{} of the {} passes compare this plug-in with itself (no narrower float in the program), and show only that it \
                 still does what it did",
                thousands(self.self_references),
                thousands(self.totals.pass)
            )
        })
    }

    pub fn of(&self, kind: VerdictKind) -> impl Iterator<Item = &'a Verdict> {
        self.verdicts
            .iter()
            .copied()
            .filter(move |v| v.kind == kind)
    }
}

/// Which of [`Totals::others`] at least one of the groups has: the columns of a table.
pub fn columns(groups: &[&Group]) -> Vec<usize> {
    let used = |&i: &usize| groups.iter().any(|group| group.totals.others()[i].1 > 0);
    (0..Totals::default().others().len()).filter(used).collect()
}

impl Group {
    /// Whether all its cases pass, none of them skipped, and there are some.
    pub fn passes(&self) -> bool {
        self.totals.all_pass()
    }

    /// `stablehlo`, or for a subject `stablehlo/add`.
    pub fn name(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{}/{subject}", self.suite),
            None => self.suite.clone(),
        }
    }
}

impl KnownGroup<'_> {
    pub fn still_failing(&self) -> bool {
        self.issue_state == Some(IssueState::Fixed)
    }

    /// `crash, error`
    pub fn outcome_words(&self) -> String {
        let words: Vec<&str> = self.outcomes.iter().map(|o| o.as_str()).collect();
        words.join(", ")
    }
}

fn groups(verdicts: &[&Verdict], by_subject: bool) -> Vec<Group> {
    let mut totals: BTreeMap<(&str, Option<&str>), Totals> = BTreeMap::new();
    for verdict in verdicts {
        let subject = by_subject.then(|| verdict.case.subject());
        let key = (verdict.case.suite(), subject);
        totals.entry(key).or_default().add(verdict);
    }
    let mut groups: Vec<Group> = totals
        .into_iter()
        .map(|((suite, subject), totals)| Group {
            suite: suite.to_owned(),
            subject: subject.map(str::to_owned),
            totals,
        })
        .collect();
    groups.sort_by(|a, b| {
        let rate = |group: &Group| group.totals.pass_rate().unwrap_or(1.0);
        rate(a)
            .total_cmp(&rate(b))
            .then_with(|| b.totals.failing().cmp(&a.totals.failing()))
    });
    groups
}

/// A message as every report may show it.
pub fn clean(message: &str) -> String {
    escape::shorten(
        &escape::without_paths(&escape::line(message)),
        MESSAGE_LIMIT,
    )
}

fn unexpected<'a>(verdicts: &[&'a Verdict]) -> Vec<FailureGroup<'a>> {
    type Key<'a> = (
        VerdictKind,
        Option<OutcomeKind>,
        Option<Stage>,
        Option<&'a str>,
        Option<String>,
    );
    let mut groups: BTreeMap<Key<'a>, Vec<&'a CaseId>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|v| v.kind.is_unexpected(false)) {
        let key = (
            verdict.kind,
            verdict.outcome,
            verdict.stage,
            verdict.because.as_deref(),
            verdict.message.as_deref().map(clean),
        );
        groups.entry(key).or_default().push(&verdict.case);
    }
    let mut groups: Vec<FailureGroup<'a>> = groups
        .into_iter()
        .map(
            |((kind, outcome, stage, because, message), cases)| FailureGroup {
                kind,
                outcome,
                stage,
                because,
                message,
                cases,
            },
        )
        .collect();
    groups.sort_by_key(|group| (group.kind, Reverse(group.cases.len())));
    groups
}

fn known<'a>(
    verdicts: &[&'a Verdict],
    judgement: &'a Judgement,
    ledger: &IssueLedger,
) -> Vec<KnownGroup<'a>> {
    let mut groups: BTreeMap<Option<usize>, KnownGroup<'a>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|v| v.kind == VerdictKind::Known) {
        let group = groups.entry(verdict.expectation).or_insert_with(|| {
            let expectation = judgement.expectation(verdict);
            let issue = expectation.and_then(|entry| entry.issue.as_ref());
            KnownGroup {
                expectation,
                issue_state: issue.and_then(|id| ledger.get(id)).map(|issue| issue.state),
                outcomes: Vec::new(),
                overdue: false,
                cases: Vec::new(),
            }
        });
        group.overdue |= verdict.overdue;
        group.cases.push(&verdict.case);
        if let Some(outcome) = verdict.outcome
            && !group.outcomes.contains(&outcome)
        {
            group.outcomes.push(outcome);
            group.outcomes.sort();
        }
    }
    let mut groups: Vec<KnownGroup<'a>> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.cases.len()));
    groups
}

fn skipped<'a>(verdicts: &[&'a Verdict]) -> Vec<SkipGroup<'a>> {
    let mut groups: BTreeMap<String, Vec<&'a CaseId>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|v| v.is_skipped()) {
        let message = verdict.message.as_deref().unwrap_or("no reason given");
        let reason = clean(&message.replace(verdict.case.as_str(), "CASE"));
        groups.entry(reason).or_default().push(&verdict.case);
    }
    let mut groups: Vec<SkipGroup<'a>> = groups
        .into_iter()
        .map(|(reason, cases)| SkipGroup { reason, cases })
        .collect();
    groups.sort_by_key(|group| Reverse(group.cases.len()));
    groups
}

fn plugins(record: &RunRecord, labels: &Labels) -> Vec<PluginLine> {
    let environment = &record.environment;
    let called = |name: &Option<String>, path: &Path| {
        let own = || file_name(&path.to_string_lossy());
        name.clone().unwrap_or_else(own)
    };
    let version = |name: &Option<String>| {
        let package = environment.packages.get(name.as_ref()?);
        package.cloned()
    };
    let api = |(major, minor): (i32, i32)| format!("{major}.{minor}");
    let line = |plugin: &PluginRecord| PluginLine {
        target: labels.get(&plugin.target.to_string()).to_owned(),
        plugin: called(&plugin.name, &plugin.path),
        version: version(&plugin.name),
        sha256: plugin.sha256.clone(),
        api_version: api(plugin.api_version),
        platform: clean(&plugin.platform),
        platform_version: clean(&plugin.platform_version),
        stablehlo_version: plugin.stablehlo_version.as_deref().map(clean),
        devices: plugin
            .devices
            .iter()
            .map(|(kind, count)| (clean(kind), *count))
            .collect(),
        flags: plugin
            .flags
            .iter()
            .map(|flag| clean(&flag.to_string()))
            .collect(),
        executor: plugin.executor.as_ref().map(|executor| ExecutorLine {
            plugin: called(&executor.name, &executor.path),
            version: version(&executor.name),
            sha256: executor.sha256.clone(),
            api_version: api(executor.api_version),
            platform: clean(&executor.platform),
            platform_version: clean(&executor.platform_version),
            numerics: executor.numerics,
        }),
    };
    environment.plugins.iter().map(line).collect()
}

fn file_name(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next();
    escape::line(name.unwrap_or_default())
}

/// What each target is called in reports: `plugin:/opt/x.so` is `plugin:x.so`, and two of the same file name are told apart
/// by the start of their SHA-256.
struct Labels(BTreeMap<String, String>);

impl Labels {
    fn new(record: &RunRecord) -> Self {
        let short = |target: &Target| match target {
            Target::Plugin(plugin) => format!("plugin:{}", file_name(plugin)),
            other => other.to_string(),
        };
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for target in &record.targets {
            *uses.entry(short(target)).or_default() += 1;
        }
        let label = |(index, target): (usize, &Target)| {
            let mut label = short(target);
            if uses[&label] > 1 {
                let sha256 = record.environment.plugin(target).map(|p| &p.sha256);
                label = match sha256.and_then(|hash| hash.get(..8)) {
                    Some(hash) => format!("{label} ({hash})"),
                    None => format!("{label} (target {})", index + 1),
                };
            }
            (target.to_string(), label)
        };
        Self(record.targets.iter().enumerate().map(label).collect())
    }

    fn get<'b>(&'b self, target: &'b str) -> &'b str {
        self.0.get(target).map_or(target, String::as_str)
    }

    fn apply(&self, issues: &mut IssueStatus) {
        let blocks = issues.issues.iter_mut().flat_map(|i| &mut i.blocks);
        let untracked = issues.untracked.iter_mut().flat_map(|u| &mut u.blocks);
        let blocked = blocks.chain(untracked).map(|b| &mut b.target);
        for target in blocked.chain(issues.headlines.iter_mut().map(|h| &mut h.target)) {
            *target = self.get(target).to_owned();
        }
    }
}
