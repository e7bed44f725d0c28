use std::fs;
use std::io::Write;

use super::*;
use crate::outcome::{Evidence, Metrics, Outcome, OutcomeKind, Stage};

fn outcome(case: &str, target: &str, kind: OutcomeKind) -> Outcome {
    Outcome {
        case: case.parse().unwrap(),
        target: target.to_owned(),
        evidence: Evidence::Hardware,
        outcome: kind,
        stage: Stage::Compare,
        message: None,
        code: None,
        metrics: Metrics::default(),
        attempts: vec![kind],
    }
}

fn record(id: &str, label: Option<&str>) -> RunRecord {
    let mut record = RunRecord::new(
        Environment::here(),
        vec!["cpu".parse().unwrap(), "aot-v6e".parse().unwrap()],
        vec!["s/**".to_owned()],
    );
    record.id = id.to_owned();
    record.label = label.map(str::to_owned);
    record
}

fn ids(names: &[&str]) -> Vec<CaseId> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn a_run_is_readable_while_open_and_the_same_once_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("deep/store"));
    let writer = store
        .create(record("20261130-120301-3fa2", None), &ids(&["s/b", "s/a"]))
        .unwrap();
    for (case, target) in [
        ("s/b", "cpu"),
        ("s/a", "cpu"),
        ("s/a", "aot-v6e"),
        ("s/b", "aot-v6e"),
    ] {
        writer
            .journal()
            .append(&outcome(case, target, OutcomeKind::Pass))
            .unwrap();
    }
    let open = Run::load(writer.dir()).unwrap();
    assert!(!open.is_sealed() && open.missing().is_empty());
    let run_dir = writer.dir().clone();
    let sealed = writer.seal().unwrap();
    assert!(sealed.is_sealed());
    let read = Run::load(&run_dir).unwrap();
    assert_eq!(read.outcomes, open.outcomes);
    assert_eq!(read.record, sealed.record);
    let order: Vec<(&str, &str)> = read
        .outcomes
        .iter()
        .map(|o| (o.target.as_str(), o.case.as_str()))
        .collect();
    assert_eq!(
        order,
        [
            ("aot-v6e", "s/a"),
            ("aot-v6e", "s/b"),
            ("cpu", "s/a"),
            ("cpu", "s/b")
        ]
    );
    let mut files: Vec<String> = fs::read_dir(run_dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["outcomes.jsonl", "plan.jsonl", "run.json"]);
    assert!(matches!(
        RunWriter::resume(&run_dir),
        Err(StoreError::Finished { .. })
    ));
}

#[test]
fn a_truncated_last_line_is_forgiven_and_cut_off_on_resume() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let writer = store
        .create(record("r", None), &ids(&["s/a", "s/b"]))
        .unwrap();
    writer
        .journal()
        .append(&outcome("s/a", "cpu", OutcomeKind::Pass))
        .unwrap();
    let run_dir = writer.dir().clone();
    drop(writer);
    let journal = run_dir.path().join("journal.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"case\":\"s/b\",\"targ").unwrap();
    assert_eq!(Run::load(&run_dir).unwrap().outcomes.len(), 1);

    let writer = RunWriter::resume(&run_dir).unwrap();
    assert!(writer.is_done(&"s/a".parse().unwrap(), "cpu"));
    assert!(!writer.is_done(&"s/b".parse().unwrap(), "cpu"));
    writer
        .journal()
        .append(&outcome("s/b", "cpu", OutcomeKind::Fail))
        .unwrap();
    assert_eq!(Run::load(&run_dir).unwrap().outcomes.len(), 2);
    assert!(matches!(
        RunWriter::resume(&run_dir),
        Err(StoreError::InUse { .. })
    ));
    let error = writer.seal().unwrap_err().to_string();
    assert_eq!(
        error,
        "run 'r' cannot be sealed: 2 planned outcomes are missing"
    );
}

#[test]
fn a_corrupt_line_in_the_middle_is_an_error_with_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let writer = store.create(record("r", None), &ids(&["s/a"])).unwrap();
    let good = serde_json::to_string(&outcome("s/a", "cpu", OutcomeKind::Pass)).unwrap();
    let journal = writer.dir().path().join("journal.jsonl");
    fs::write(&journal, format!("{good}\n{{garbage}}\n{good}\n")).unwrap();
    let error = Run::load(writer.dir()).unwrap_err().to_string();
    assert!(error.contains("journal.jsonl:2: corrupt:"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn runs_are_found_by_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("runs"));
    for (id, label) in [
        ("20260101-000000-0000", Some("main")),
        ("20260102-000000-0000", Some("main")),
        ("20260103-000000-0000", None),
    ] {
        store.create(record(id, label), &ids(&["s/a"])).unwrap();
    }
    let path = store.path().join("20260101-000000-0000");
    for (name, id) in [
        ("latest", "20260103-000000-0000"),
        ("latest~0", "20260103-000000-0000"),
        ("latest~2", "20260101-000000-0000"),
        ("20260102-000000-0000", "20260102-000000-0000"),
        ("main", "20260102-000000-0000"),
        (path.to_str().unwrap(), "20260101-000000-0000"),
    ] {
        assert_eq!(store.resolve(name).unwrap().id(), id, "{name}");
    }
    for name in [
        "latest~3",
        "latest~18446744073709551615",
        "latest~x",
        "nightly",
        "..",
        "",
    ] {
        let error = store.resolve(name).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("there is no run '{name}'"))
                && error.contains("tpu-parity store ls"),
            "{error}"
        );
    }
    assert!(matches!(
        store.create(record("20260103-000000-0000", None), &[]),
        Err(StoreError::Unwritable { .. })
    ));
    assert!(matches!(
        store.create(record("x", Some("latest~1")), &[]),
        Err(StoreError::BadLabel { .. })
    ));
}

#[test]
fn an_unwritable_store_names_the_remedy() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = Store::open(file.path().join("runs"));
    let error = store
        .create(record("r", None), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("TPU_PARITY_STORE"), "{error}");
}

#[test]
fn a_record_of_another_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let writer = store.create(record("r", None), &ids(&["s/a"])).unwrap();
    fs::write(
        writer.dir().path().join("run.json"),
        r#"{"schema":"tpu-parity/run/2"}"#,
    )
    .unwrap();
    let error = Run::load(writer.dir()).unwrap_err().to_string();
    assert!(error.contains("'tpu-parity/run/2'"), "{error}");
    assert!(store.list().unwrap()[0].record.is_err());
}

#[test]
fn ids_sort_by_start() {
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(RunRecord::new(Environment::default(), Vec::new(), Vec::new()).id);
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(
        ids.iter()
            .all(|id| id.len() == "20261130-120301-3fa2".len())
    );
}
