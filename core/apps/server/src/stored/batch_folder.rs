//! [`BatchFolder`]: the folder of files and batches.

use super::record_store::{RecordStore, disk_fault, file_fault};
use crate::fault::ApiFault;
use menagerie::files::{AtomicFile, FileLock};
use menagerie_openai::split_results;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::sync::Notify;

/// The end of the names of files with the content of a file of a client, and with results.
const LINES: &str = "jsonl";

/// Files and batches. One process uses the folder.
pub(crate) struct BatchFolder {
    pub(crate) files: RecordStore,
    pub(crate) batches: RecordStore,
    /// Tells that a batch was made or cancelled.
    pub(crate) changed: Notify,
    _lock: FileLock,
}

impl BatchFolder {
    /// Opens a folder, which is made if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self, String> {
        let about = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(about)?;
        let lock = FileLock::try_at(folder.join("lock")).map_err(about)?;
        let Some(lock) = lock else {
            return Err(format!("{}: another process uses it", folder.display()));
        };
        let files = RecordStore::open(&folder.join("files"))?;
        let batches = RecordStore::open(&folder.join("batches"))?;
        Ok(Self { files, batches, changed: Notify::new(), _lock: lock })
    }

    /// The path of the content of a file. `id` is one of [`Self::files`].
    pub(crate) fn content(&self, id: &str) -> PathBuf {
        self.files.path(id, LINES)
    }

    /// The path of the results of a batch that is not complete. `id` is one of [`Self::batches`].
    pub(crate) fn results(&self, id: &str) -> PathBuf {
        self.batches.path(id, LINES)
    }

    /// Begins the content of a file with this id.
    pub(crate) fn begin_file(&self, id: &str) -> Result<AtomicFile, ApiFault> {
        AtomicFile::create(self.content(id)).map_err(|error| file_fault(&error))
    }

    /// Adds a file whose content is complete.
    pub(crate) fn add_file(&self, owner: &str, content: AtomicFile, body: Value) -> Result<(), ApiFault> {
        content.commit().map_err(|error| file_fault(&error))?;
        self.files.add(owner, body)
    }

    /// Removes a file. If the process is killed in between, its content stays without a name.
    pub(crate) fn remove_file(&self, id: &str) -> Result<(), ApiFault> {
        let content = self.content(id);
        self.files.remove(id)?;
        std::fs::remove_file(content).map_err(|error| disk_fault(&error))
    }

    /// Makes files of the results of a batch: of answers and of failures. Returns their ids, if there are any. The ids are
    /// those of the batch, so that the same files are made again after a kill.
    pub(crate) fn finish(
        &self,
        owner: &str,
        batch: &str,
        created: u64,
        counts: [usize; 2],
    ) -> Result<[Option<String>; 2], ApiFault> {
        let own = batch.strip_prefix("batch_").unwrap_or(batch);
        let ids = ["output", "error"].map(|kind| format!("file-{own}-{kind}"));
        let [answers, failures] = &ids;
        let (mut answered, mut failed) = (self.begin_file(answers)?, self.begin_file(failures)?);
        let results = self.results(batch);
        split_results(&results, [&mut answered, &mut failed])
            .map_err(|fault| ApiFault::new(500, fault.reason))?;
        let mut made = [None, None];
        let parts = ids.into_iter().zip([answered, failed]).zip(counts).zip(&mut made);
        for (((id, content), count), made) in parts {
            if count == 0 {
                continue;
            }
            content.commit().map_err(|error| file_fault(&error))?;
            let bytes = std::fs::metadata(self.content(&id)).map_err(|error| disk_fault(&error))?.len();
            let kind = if id.ends_with("output") { "output" } else { "error" };
            let body = file_object(&id, (bytes, created), &format!("{batch}_{kind}.jsonl"), "batch_output");
            self.files.add(owner, body)?;
            *made = Some(id);
        }
        Ok(made)
    }

    /// Removes the results of a batch, which are files now.
    pub(crate) fn remove_results(&self, batch: &str) {
        let results = self.results(batch);
        let mut beside = results.clone().into_os_string();
        beside.push(".batch");
        // What stays after a kill is never read again.
        let _ = std::fs::remove_file(results);
        let _ = std::fs::remove_file(beside);
    }
}

/// A file in OpenAI's format.
pub(crate) fn file_object(id: &str, (bytes, created): (u64, u64), name: &str, purpose: &str) -> Value {
    json!({
        "id": id, "object": "file", "bytes": bytes, "created_at": created, "filename": name, "purpose": purpose,
        "status": "processed", "expires_at": null, "status_details": null,
    })
}
