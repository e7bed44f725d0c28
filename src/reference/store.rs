//! Looks references up, and tells a sound one from one that is missing, damaged or stale.
//!
//! A line that cannot be read costs the reference of its case and no other: it is kept, so that whoever asks for that
//! reference hears where it is damaged, and goes when the case is computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::format::{Input, Provenance, Record, SCHEMA};
use crate::case::{Case, CaseId, ReferenceProgram};
use crate::compare::{ReferenceTensor, Tolerance};

#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot write {path}: {source}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{id}: cannot draw its inputs: {reason}")]
    Inputs { id: CaseId, reason: String },
}

/// What the store holds for a case.
#[derive(Debug)]
pub enum Lookup {
    Found(Vec<ReferenceTensor>),
    Missing,
    /// Computed for another program, seed or inputs: never compared against. Says what changed.
    Stale(String),
    /// Unreadable: never compared against. Says where and why.
    Damaged(String),
}

impl Lookup {
    /// The reference, or one line that says why there is none.
    pub fn usable(self, id: &CaseId) -> Result<Vec<ReferenceTensor>, String> {
        match self {
            Self::Found(reference) => Ok(reference),
            Self::Missing => Err(format!(
                "no reference; run `tpu-parity reference generate '{id}'`"
            )),
            Self::Stale(why) => Err(format!(
                "stale reference: {why}; run `tpu-parity reference generate '{id}'`"
            )),
            Self::Damaged(why) => Err(format!(
                "damaged reference: {why}; run `tpu-parity reference generate '{id}'`"
            )),
        }
    }
}

/// A line of a reference file, 1-based; the path starts at the folder of all references.
#[derive(Debug, Clone)]
struct Place {
    path: PathBuf,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

/// A line that is no reference, kept as it is until its case is computed again.
#[derive(Debug)]
struct DamagedLine {
    file: PathBuf,
    place: Place,
    reason: String,
    text: String,
    /// Where it can still be read.
    id: Option<CaseId>,
}

/// All references under a folder, read once.
#[derive(Debug, Default)]
pub struct ReferenceStore {
    root: PathBuf,
    records: BTreeMap<CaseId, Record>,
    /// Where the records were read.
    places: BTreeMap<CaseId, Place>,
    damaged: Vec<DamagedLine>,
}

impl ReferenceStore {
    /// Reads `<root>/<suite>/<subject>.jsonl`. A folder that is not there is an empty store; a damaged line is no error
    /// here but what [`Self::lookup`] answers for its case.
    pub fn open(root: &Path) -> Result<Self, ReferenceError> {
        let mut store = Self {
            root: root.to_owned(),
            ..Self::default()
        };
        for suite in entries(root)? {
            if suite.is_dir() {
                for file in entries(&suite)? {
                    if file.extension().is_some_and(|e| e == "jsonl") {
                        store.read(&file)?;
                    }
                }
            }
        }
        Ok(store)
    }

    fn read(&mut self, path: &Path) -> Result<(), ReferenceError> {
        let bytes = fs::read(path).map_err(|source| ReferenceError::Read {
            path: path.to_owned(),
            source,
        })?;
        let base = self.root.parent().unwrap_or(&self.root);
        let shown = path.strip_prefix(base).unwrap_or(path).to_owned();
        for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let place = Place {
                path: shown.clone(),
                line: index + 1,
            };
            match parse(line) {
                Ok(record) if !self.records.contains_key(&record.id) => {
                    self.places.insert(record.id.clone(), place);
                    self.records.insert(record.id.clone(), record);
                }
                other => {
                    let reason = match other {
                        Ok(record) => format!("{} is there twice", record.id),
                        Err(reason) => reason,
                    };
                    self.damaged.push(DamagedLine {
                        file: path.to_owned(),
                        place,
                        reason,
                        text: line.to_owned(),
                        id: id_of(line),
                    });
                }
            }
        }
        Ok(())
    }

    /// The file that a case's reference is kept in.
    fn file(&self, id: &CaseId) -> PathBuf {
        self.root
            .join(id.suite())
            .join(format!("{}.jsonl", id.subject()))
    }

    /// Whether the damaged line is this case's, or may be: then it stands for every case of its file.
    fn concerns(&self, line: &DamagedLine, id: &CaseId) -> bool {
        match &line.id {
            Some(own) => own == id,
            None => line.file == self.file(id),
        }
    }

    /// Whether there is anything for a case, sound or not.
    pub fn holds(&self, id: &CaseId) -> bool {
        self.records.contains_key(id) || self.is_damaged(id)
    }

    /// Whether a damaged line stands for the case.
    pub fn is_damaged(&self, id: &CaseId) -> bool {
        self.damaged.iter().any(|line| self.concerns(line, id))
    }

    fn forget_damage(&mut self, id: &CaseId) {
        let damaged = std::mem::take(&mut self.damaged);
        self.damaged = damaged
            .into_iter()
            .filter(|line| !self.concerns(line, id))
            .collect();
    }

    pub fn ids(&self) -> impl Iterator<Item = &CaseId> {
        self.records.keys()
    }

    pub fn record(&self, id: &CaseId) -> Option<&Record> {
        self.records.get(id)
    }

    /// The reference of a case, if it was computed for this very case.
    pub fn lookup(&self, case: &Case) -> Result<Lookup, ReferenceError> {
        if let Some(line) = self.damaged.iter().find(|l| self.concerns(l, &case.id)) {
            return Ok(Lookup::Damaged(format!("{}: {}", line.place, line.reason)));
        }
        let Some(record) = self.records.get(&case.id) else {
            return Ok(Lookup::Missing);
        };
        if let Some(change) = change(&record.provenance, case)? {
            return Ok(Lookup::Stale(change));
        }
        if record.outputs.len() != case.tolerances.len() {
            return Ok(Lookup::Stale(format!(
                "it has {} results, the case declares {}",
                record.outputs.len(),
                case.tolerances.len()
            )));
        }
        let mut outputs = Vec::with_capacity(record.outputs.len());
        for (output, tolerance) in record.outputs.iter().zip(&case.tolerances) {
            let decode = |stored: &super::format::StoredTensor| stored.decode();
            let decoded = decode(&output.values).and_then(|values| {
                let scale = output.scale.as_ref().map(decode).transpose()?;
                Ok((
                    values,
                    scale,
                    output.flushed.as_ref().map(decode).transpose()?,
                ))
            });
            let (values, scale, flushed) = match decoded {
                Ok(decoded) => decoded,
                Err(reason) => {
                    let place = self.places.get(&case.id);
                    let place = place.map_or_else(String::new, |place| format!("{place}: "));
                    return Ok(Lookup::Damaged(format!("{place}{reason}")));
                }
            };
            if scale.is_none() && matches!(tolerance, Tolerance::Accumulate { .. }) {
                return Ok(Lookup::Stale(
                    "its tolerance needs a scale and it has none".to_owned(),
                ));
            }
            if output.yardstick.is_none() && matches!(tolerance, Tolerance::Yardstick { .. }) {
                return Ok(Lookup::Stale(
                    "its tolerance needs a yardstick and it has none".to_owned(),
                ));
            }
            outputs.push(ReferenceTensor {
                values,
                element_type: output.element_type,
                scale,
                flushed,
                yardstick: output.yardstick,
            });
        }
        Ok(Lookup::Found(outputs))
    }

    /// Whether the reference of a case was computed by the plug-in of this SHA-256 from the very program of the case, in the
    /// very same types: the case is one of integers, of f64 or of a native reference. Then a pass on that plug-in shows only
    /// that it still does what it did.
    pub fn is_self_reference(&self, id: &CaseId, plugin_sha256: &str) -> bool {
        self.records.get(id).is_some_and(|record| {
            let provenance = &record.provenance;
            provenance.program == provenance.reference_program
                && provenance.plugin.sha256 == plugin_sha256
        })
    }

    /// As [`Self::lookup`], in the form that a run takes: why there is no usable reference is the reason to skip the case. What
    /// a case says of its own reference goes before what is stored.
    pub fn reference(&self, case: &Case) -> Result<Vec<ReferenceTensor>, String> {
        match &case.reference_program {
            ReferenceProgram::Given(tensors) => {
                return Ok(tensors.iter().cloned().map(ReferenceTensor::from).collect());
            }
            ReferenceProgram::Absent(reason) => return Err(reason.clone()),
            // What must be refused has no results.
            ReferenceProgram::Refused(_) => return Ok(Vec::new()),
            ReferenceProgram::Widened(_) | ReferenceProgram::Native => {}
        }
        self.lookup(case)
            .map_err(|error| error.to_string())?
            .usable(&case.id)
    }

    /// Puts records in, keeping an old one whose content is the same but for its date.
    pub fn insert(&mut self, mut record: Record) {
        self.forget_damage(&record.id);
        if let Some(old) = self.records.get(&record.id) {
            let date = std::mem::replace(&mut record.provenance.date, old.provenance.date.clone());
            if *old == record {
                return;
            }
            record.provenance.date = date;
        }
        self.records.insert(record.id.clone(), record);
    }

    pub fn remove(&mut self, id: &CaseId) {
        self.forget_damage(id);
        self.records.remove(id);
    }

    /// Removes what belongs to none of `cases`, which are all there are; says of how many cases.
    pub fn remove_gone(&mut self, cases: &[Case]) -> usize {
        let ids: BTreeSet<&CaseId> = cases.iter().map(|case| &case.id).collect();
        let before = self.records.len() + self.damaged.len();
        self.records.retain(|id, _| ids.contains(id));
        let damaged = std::mem::take(&mut self.damaged);
        self.damaged = damaged
            .into_iter()
            .filter(|line| match &line.id {
                Some(id) => ids.contains(id),
                None => ids.iter().any(|id| self.concerns(line, id)),
            })
            .collect();
        before - self.records.len() - self.damaged.len()
    }

    /// Writes every file that changed, each by rename, and removes those left without a line.
    pub fn save(&self) -> Result<(), ReferenceError> {
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        for (id, record) in &self.records {
            let path = self.file(id);
            let line = serde_json::to_string(record).map_err(|error| ReferenceError::Write {
                path: path.clone(),
                source: error.into(),
            })?;
            let text = files.entry(path).or_default();
            text.push_str(&line);
            text.push('\n');
        }
        for line in &self.damaged {
            let text = files.entry(line.file.clone()).or_default();
            text.push_str(&line.text);
            text.push('\n');
        }
        for suite in entries(&self.root)? {
            if suite.is_dir() {
                for file in entries(&suite)? {
                    if file.extension().is_some_and(|e| e == "jsonl") && !files.contains_key(&file)
                    {
                        fs::remove_file(&file).map_err(|source| ReferenceError::Write {
                            path: file.clone(),
                            source,
                        })?;
                    }
                }
            }
        }
        for (path, text) in files {
            write(&path, &text).map_err(|source| ReferenceError::Write { path, source })?;
        }
        Ok(())
    }
}

fn parse(line: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if record.schema != SCHEMA {
        return Err(format!("its schema is '{}', not '{SCHEMA}'", record.schema));
    }
    Ok(record)
}

/// The id that a line names, even where the rest of it is cut off: it stands first.
fn id_of(line: &str) -> Option<CaseId> {
    let (id, _) = line
        .trim_start()
        .strip_prefix("{\"id\":\"")?
        .split_once('"')?;
    id.parse().ok()
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    // A temporary file is its owner's alone; references are for everyone who has the checkout.
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ReferenceError> {
    let read = |source| ReferenceError::Read {
        path: folder.to_owned(),
        source,
    };
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|e| Ok(e?.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(read)?;
    paths.sort();
    Ok(paths)
}

/// The hash of the program that is executed for a case's reference.
pub fn reference_program_hash(case: &Case) -> String {
    match (&case.reference_program, &case.scale_program) {
        (ReferenceProgram::Widened(program), None) => {
            blake3::hash(program.as_bytes()).to_hex().to_string()
        }
        (ReferenceProgram::Widened(program), Some(scale)) => {
            let mut hasher = blake3::Hasher::new();
            hasher.update(program.as_bytes()).update(scale.as_bytes());
            hasher.finalize().to_hex().to_string()
        }
        (
            ReferenceProgram::Native
            | ReferenceProgram::Given(_)
            | ReferenceProgram::Absent(_)
            | ReferenceProgram::Refused(_),
            _,
        ) => case.program_hash(),
    }
}

/// The operands of a case as provenance records them.
pub fn inputs(case: &Case) -> Result<Vec<Input>, ReferenceError> {
    case.inputs
        .iter()
        .enumerate()
        .map(|(operand, spec)| {
            let tensor =
                spec.generate(case.seed, operand)
                    .map_err(|error| ReferenceError::Inputs {
                        id: case.id.clone(),
                        reason: error.to_string(),
                    })?;
            Ok(Input {
                element_type: spec.element_type,
                shape: spec.shape.clone(),
                hash: tensor.hash(),
            })
        })
        .collect()
}

/// What of a case is no longer as it was when its reference was computed.
fn change(provenance: &Provenance, case: &Case) -> Result<Option<String>, ReferenceError> {
    if provenance.program != case.program_hash() {
        return Ok(Some("the program has changed".to_owned()));
    }
    if provenance.reference_program != reference_program_hash(case) {
        return Ok(Some("the reference program has changed".to_owned()));
    }
    if provenance.seed != case.seed {
        return Ok(Some("the seed has changed".to_owned()));
    }
    if provenance.inputs != inputs(case)? {
        return Ok(Some("the inputs have changed".to_owned()));
    }
    Ok(None)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

#[cfg(test)]
mod self_reference_tests {
    use super::*;

    #[test]
    fn a_plugin_refers_to_itself_where_it_computed_the_same_program() {
        let root = tempfile::tempdir().unwrap();
        let line = |id: &str, reference_program: &str| {
            format!(
                "{{\"id\":\"{id}\",\"schema\":\"{SCHEMA}\",\"provenance\":{{\"plugin\":{{\"name\":\"p\",\"version\":\"1\",\
                 \"sha256\":\"aa\"}},\"program\":\"11\",\"reference_program\":\"{reference_program}\",\"seed\":1,\"inputs\":[],\
                 \"date\":\"2026-11-30\"}},\"outputs\":[]}}\n"
            )
        };
        let text = line("s/add/i32", "11") + &line("s/add/bf16", "22");
        fs::create_dir(root.path().join("s")).unwrap();
        fs::write(root.path().join("s/add.jsonl"), text).unwrap();
        let store = ReferenceStore::open(root.path()).unwrap();
        let is_self = |id: &str, sha256| store.is_self_reference(&id.parse().unwrap(), sha256);
        assert!(is_self("s/add/i32", "aa"));
        assert!(!is_self("s/add/i32", "bb"), "another plug-in");
        assert!(!is_self("s/add/bf16", "aa"), "a widened program");
        assert!(!is_self("s/none/i32", "aa"), "no reference");
    }
}
