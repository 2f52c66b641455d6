//! [`RecordStore`]: JSON objects of clients, each in a file of its own.

use crate::fault::ApiFault;
use menagerie::files::{AtomicFile, FileError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end of the names of files with records.
const ENDING: &str = "json";

/// Objects with an `id` and an owner. Whatever happens, a file holds an object as it was before or after a change.
pub(crate) struct RecordStore {
    folder: PathBuf,
    /// By number: in the order in which they were made.
    records: Mutex<BTreeMap<u64, StoredRecord>>,
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredRecord {
    /// What identifies the client: only the client sees it.
    pub(crate) owner: String,
    pub(crate) body: Value,
}

impl StoredRecord {
    pub(crate) fn id(&self) -> &str {
        self.body["id"].as_str().unwrap_or_default()
    }
}

impl RecordStore {
    /// The records of a folder, which is made if it does not exist. What a kill left incomplete is removed.
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let about = |error: io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(about)?;
        let mut records = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(about)? {
            let path = entry.map_err(about)?.path();
            if path.extension().is_some_and(|ending| ending == "part") {
                std::fs::remove_file(&path).map_err(about)?;
            } else if path.extension().is_some_and(|ending| ending == ENDING) {
                let text = std::fs::read_to_string(&path).map_err(about)?;
                let (number, record) = record_of(&text, &path)
                    .ok_or_else(|| format!("{} is not a record of this server", path.display()))?;
                records.insert(number, record);
            }
        }
        Ok(Self { folder: folder.to_owned(), records: Mutex::new(records) })
    }

    /// Adds an object, which replaces one with its id.
    pub(crate) fn add(&self, owner: &str, body: Value) -> Result<(), ApiFault> {
        let record = StoredRecord { owner: owner.to_owned(), body };
        let mut records = self.records();
        let known = number_of(&records, record.id());
        let number = known.unwrap_or_else(|| records.last_key_value().map_or(1, |(last, _)| last + 1));
        self.write(number, &record)?;
        records.insert(number, record);
        Ok(())
    }

    /// Changes an object in memory and on disk; returns it. `None` if it was removed.
    pub(crate) fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Option<Value>, ApiFault> {
        let mut records = self.records();
        let Some(number) = number_of(&records, id) else { return Ok(None) };
        let Some(record) = records.get_mut(&number) else { return Ok(None) };
        let mut changed = record.clone();
        change(&mut changed.body);
        self.write(number, &changed)?;
        *record = changed;
        Ok(Some(record.body.clone()))
    }

    /// Changes an object in memory only.
    pub(crate) fn note(&self, id: &str, change: impl FnOnce(&mut Value)) {
        let mut records = self.records();
        if let Some(record) = number_of(&records, id).and_then(|number| records.get_mut(&number)) {
            change(&mut record.body);
        }
    }

    /// The object with this id, if it belongs to this owner.
    pub(crate) fn get(&self, owner: &str, id: &str) -> Option<Value> {
        let records = self.records();
        let record = records.get(&number_of(&records, id)?)?;
        (record.owner == owner).then(|| record.body.clone())
    }

    /// All objects of an owner, the newest first.
    pub(crate) fn of(&self, owner: &str) -> Vec<Value> {
        let records = self.records();
        let own = records.values().rev().filter(|record| record.owner == owner);
        own.map(|record| record.body.clone()).collect()
    }

    /// The objects of all owners of which something is true, the oldest first.
    pub(crate) fn those(&self, is_one: impl Fn(&Value) -> bool) -> Vec<StoredRecord> {
        self.records().values().filter(|record| is_one(&record.body)).cloned().collect()
    }

    /// Removes an object.
    pub(crate) fn remove(&self, id: &str) -> Result<(), ApiFault> {
        let mut records = self.records();
        if let Some(number) = number_of(&records, id) {
            std::fs::remove_file(self.path(id, ENDING)).map_err(|error| disk_fault(&error))?;
            records.remove(&number);
        }
        Ok(())
    }

    /// The path of a file that belongs to an object. `id` is one that this server made.
    pub(crate) fn path(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{id}.{ending}"))
    }

    fn write(&self, number: u64, record: &StoredRecord) -> Result<(), ApiFault> {
        let StoredRecord { owner, body } = record;
        let text = json!({ "number": number, "owner": owner, "body": body }).to_string();
        let mut file =
            AtomicFile::create(self.path(record.id(), ENDING)).map_err(|error| file_fault(&error))?;
        file.write_all(text.as_bytes()).map_err(|error| disk_fault(&error))?;
        file.commit().map_err(|error| file_fault(&error))
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<u64, StoredRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number_of(records: &BTreeMap<u64, StoredRecord>, id: &str) -> Option<u64> {
    records.iter().find(|(_, record)| record.id() == id).map(|(number, _)| *number)
}

/// The record in a file, whose name is its id.
fn record_of(text: &str, path: &Path) -> Option<(u64, StoredRecord)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let owner = value["owner"].as_str()?.to_owned();
    let record = StoredRecord { owner, body: value["body"].clone() };
    (path.file_stem()? == record.id()).then_some((value["number"].as_u64()?, record))
}

/// The fault of a file. Its path is for the log of the system, not for clients.
pub(super) fn file_fault(error: &FileError) -> ApiFault {
    disk_fault(&error.reason)
}

pub(super) fn disk_fault(error: &io::Error) -> ApiFault {
    ApiFault::new(500, format!("the folder of batches (--batch-dir) cannot be written or read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_again_and_only_by_their_owner() {
        let folder = std::env::temp_dir().join(format!("menagerie-records-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let store = RecordStore::open(&folder).unwrap();
        for (owner, id) in [("a", "one"), ("b", "two"), ("a", "three")] {
            store.add(owner, json!({ "id": id })).unwrap();
        }
        store.change("three", |body| body["n"] = json!(1)).unwrap().unwrap();
        store.note("one", |body| body["n"] = json!(2));
        std::fs::write(folder.join(".one.part"), "torn").unwrap();
        drop(store);
        let store = RecordStore::open(&folder).unwrap();
        assert!(!folder.join(".one.part").exists());
        assert_eq!(store.of("a"), [json!({ "id": "three", "n": 1 }), json!({ "id": "one" })]);
        assert_eq!((store.get("a", "two"), store.get("b", "../a/one")), (None, None));
        store.remove("two").unwrap();
        assert_eq!((store.of("b").len(), store.those(|_| true).len()), (0, 2));
        assert_eq!(store.change("two", |_| {}), Ok(None));
        std::fs::write(folder.join("four.json"), "{}").unwrap();
        assert!(RecordStore::open(&folder).map(drop).unwrap_err().contains("four.json"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
