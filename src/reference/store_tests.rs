//! What `lookup` answers for a case whose reference is missing, stale or damaged, and what `save` keeps of it.

use serde_json::json;

use super::*;
use crate::case::Origin;
use crate::reference::format::{Generator, Output, StoredTensor};
use crate::tensor::{Domain, ElementType, InputSpec, Tensor};

fn id(text: &str) -> CaseId {
    text.parse().unwrap()
}

fn case(name: &str) -> Case {
    Case {
        id: id(name),
        origin: Origin {
            file: "suites/s/f.toml".into(),
            line: 1,
        },
        program: "func.func @main() {}".to_owned(),
        reference_program: ReferenceProgram::Widened("func.func @main() { f64 }".to_owned()),
        inputs: vec![InputSpec {
            element_type: ElementType::F32,
            shape: vec![2],
            domain: Domain::Any,
        }],
        seed: 7,
        tolerances: vec![Tolerance::Exact],
        distribution: None,
        tolerance_source: None,
        scale_program: None,
        layers: Vec::new(),
        unloadable: None,
    }
}

fn record(case: &Case) -> Record {
    let values = Tensor::from_f64(ElementType::F64, vec![2], &[1.5, 2.5]).unwrap();
    Record {
        id: case.id.clone(),
        schema: SCHEMA.to_owned(),
        provenance: Provenance {
            plugin: Generator {
                name: "p".to_owned(),
                version: "1".to_owned(),
                sha256: "00".to_owned(),
            },
            program: case.program_hash(),
            reference_program: reference_program_hash(case),
            seed: case.seed,
            inputs: inputs(case).unwrap(),
            date: "2026-11-30".to_owned(),
        },
        outputs: vec![Output {
            element_type: ElementType::F32,
            values: StoredTensor::encode(&values),
            scale: None,
            flushed: None,
            yardstick: None,
        }],
    }
}

/// `reference-outputs/s/op.jsonl` with the references of `s/op/a` and `s/op/b`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let mut store = folder.open();
        for name in ["s/op/a", "s/op/b", "s/other/a"] {
            store.insert(record(&case(name)));
        }
        store.save().unwrap();
        folder
    }

    fn open(&self) -> ReferenceStore {
        ReferenceStore::open(&self.0.path().join("reference-outputs")).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("reference-outputs/s/op.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn edit(&self, edit: impl Fn(&str) -> String) -> ReferenceStore {
        let text = edit(&self.text());
        assert_ne!(text, self.text(), "the edit changes nothing");
        fs::write(self.file(), text).unwrap();
        self.open()
    }
}

fn refusal(store: &ReferenceStore, name: &str) -> String {
    let refusal = store.reference(&case(name)).unwrap_err();
    assert!(!refusal.contains('\n'), "{refusal}");
    refusal
}

fn is_sound(store: &ReferenceStore, name: &str) -> bool {
    store.reference(&case(name)).is_ok()
}

#[test]
fn a_reference_of_this_very_case_is_found() {
    let store = Folder::new().open();
    let found = store.reference(&case("s/op/a")).unwrap();
    assert_eq!(found[0].values.to_f64(), [1.5, 2.5]);
    assert_eq!(found[0].element_type, ElementType::F32);
}

#[test]
fn a_missing_reference_names_the_remedy() {
    let store = Folder::new().open();
    assert_eq!(
        refusal(&store, "s/op/c"),
        "no reference; run `tpu-parity reference generate 's/op/c'`"
    );
    let nowhere = ReferenceStore::open(Path::new("/nowhere/at/all")).unwrap();
    assert!(matches!(
        nowhere.lookup(&case("s/op/a")),
        Ok(Lookup::Missing)
    ));
}

#[test]
fn a_reference_of_another_case_is_stale() {
    let store = Folder::new().open();
    type Edit = fn(&mut Case);
    let edits: [(Edit, &str); 7] = [
        (|c| c.program.push(' '), "the program has changed"),
        (
            |c| c.reference_program = ReferenceProgram::Native,
            "the reference program has changed",
        ),
        (|c| c.seed += 1, "the seed has changed"),
        (
            |c| c.inputs[0].domain = Domain::Positive,
            "the inputs have changed",
        ),
        (
            |c| c.inputs[0].element_type = ElementType::F64,
            "the inputs have changed",
        ),
        (
            |c| c.tolerances.push(Tolerance::Exact),
            "it has 1 results, the case declares 2",
        ),
        (
            |c| {
                c.tolerances[0] = Tolerance::Accumulate {
                    terms: 2,
                    accumulator: ElementType::F32,
                    precision: None,
                }
            },
            "its tolerance needs a scale and it has none",
        ),
    ];
    for (edit, why) in edits {
        let mut case = case("s/op/a");
        edit(&mut case);
        let Ok(Lookup::Stale(found)) = store.lookup(&case) else {
            panic!("{why}: not stale");
        };
        assert_eq!(found, why);
        assert!(
            store
                .reference(&case)
                .unwrap_err()
                .starts_with("stale reference: ")
        );
    }
}

#[test]
fn a_changed_digit_damages_its_case_alone() {
    let folder = Folder::new();
    let store = folder.edit(|text| {
        let (first, second) = text.split_once('\n').unwrap();
        format!("{first}\n{}", second.replacen("2.5", "2.25", 1))
    });
    assert_eq!(
        refusal(&store, "s/op/b"),
        "damaged reference: reference-outputs/s/op.jsonl:2: its values do not match the hash written with them; \
         run `tpu-parity reference generate 's/op/b'`"
    );
    assert!(is_sound(&store, "s/op/a"));
}

#[test]
fn a_truncated_line_damages_its_case_alone() {
    let folder = Folder::new();
    let store = folder.edit(|text| text[..text.len() - 40].to_owned());
    let refusal = refusal(&store, "s/op/b");
    assert!(
        refusal.starts_with("damaged reference: reference-outputs/s/op.jsonl:2: EOF while parsing")
            && refusal.ends_with("; run `tpu-parity reference generate 's/op/b'`"),
        "{refusal}"
    );
    assert!(is_sound(&store, "s/op/a") && is_sound(&store, "s/other/a"));
}

#[test]
fn a_line_without_an_id_stands_for_every_case_of_its_file() {
    let folder = Folder::new();
    let cut = folder.text().lines().next().unwrap().len() + 9;
    let mut store = folder.edit(|text| text[..cut].to_owned());
    for name in ["s/op/a", "s/op/b"] {
        assert!(
            refusal(&store, name).contains("reference-outputs/s/op.jsonl:2: "),
            "{name}"
        );
    }
    assert!(is_sound(&store, "s/other/a"));
    store.insert(record(&case("s/op/b")));
    assert!(is_sound(&store, "s/op/a") && is_sound(&store, "s/op/b"));
}

#[test]
fn another_schema_and_a_second_line_are_damage() {
    let folder = Folder::new();
    let store = folder.edit(|text| text.replacen("reference/1", "reference/9", 1));
    assert!(
        refusal(&store, "s/op/a")
            .contains(":1: its schema is 'tpu-parity/reference/9', not 'tpu-parity/reference/1'; ")
    );
    assert!(is_sound(&store, "s/op/b"));

    let folder = Folder::new();
    let store = folder.edit(|text| format!("{text}{}\n", text.lines().next().unwrap()));
    assert!(refusal(&store, "s/op/a").contains(":3: s/op/a is there twice; "));
    assert!(is_sound(&store, "s/op/b"));
}

#[test]
fn bytes_that_are_no_text_and_keys_that_nobody_knows_are_damage() {
    let folder = Folder::new();
    let mut bytes = fs::read(folder.file()).unwrap();
    bytes[30] = 0xff;
    fs::write(folder.file(), bytes).unwrap();
    assert!(refusal(&folder.open(), "s/op/a").contains("reference-outputs/s/op.jsonl:1: "));

    let line = json!({"id": "s/op/a", "colour": "red"});
    fs::write(folder.file(), format!("{line}\n")).unwrap();
    assert!(refusal(&folder.open(), "s/op/a").contains("reference-outputs/s/op.jsonl:1: "));
}

#[test]
fn saving_keeps_a_damaged_line_until_its_case_is_computed_again() {
    let folder = Folder::new();
    let sound = folder.text();
    let mut store = folder.edit(|text| text[..text.len() - 40].to_owned());
    store.insert(record(&case("s/op/a")));
    store.save().unwrap();
    assert!(refusal(&folder.open(), "s/op/b").contains(":2: EOF"));

    store.insert(record(&case("s/op/b")));
    store.save().unwrap();
    assert_eq!(folder.text(), sound);
}

#[test]
fn a_new_date_alone_changes_nothing() {
    let folder = Folder::new();
    let sound = folder.text();
    let mut store = folder.open();
    let mut again = record(&case("s/op/a"));
    again.provenance.date = "2030-01-01".to_owned();
    store.insert(again.clone());
    store.save().unwrap();
    assert_eq!(folder.text(), sound);
    again.provenance.seed += 1;
    store.insert(again);
    store.save().unwrap();
    assert!(folder.text().contains("2030-01-01"));
}

#[test]
fn what_belongs_to_no_case_goes() {
    let folder = Folder::new();
    let mut store = folder.edit(|text| text[..text.len() - 40].to_owned());
    assert_eq!(store.remove_gone(&[case("s/other/a")]), 2);
    store.save().unwrap();
    assert!(!folder.file().exists());
    assert!(is_sound(&folder.open(), "s/other/a"));
}
