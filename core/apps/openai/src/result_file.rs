//! [`ResultFile`]: the result file, which is written line by line and can be continued after a crash.

use crate::batch_fault::BatchFault;
use crate::result_lines::{LineResult, beside, each_result};
use crate::retried_results::RetriedResults;
use menagerie::files::{AtomicFile, FileLock};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::Path;

/// The handling of results that are in the file already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlierResults {
    /// All are kept.
    #[default]
    Keep,
    /// Failed lines are computed again.
    RetryFailed,
    /// All are removed.
    Drop,
}

/// The result file of a batch.
pub struct ResultFile {
    file: File,
    name: String,
    /// By id.
    done: HashMap<String, LineResult>,
    /// New results of lines that had failed, until [`Self::finish`] replaces the failures with them.
    retried: Option<RetriedResults>,
}

impl ResultFile {
    /// Opens a result file. Existing results are kept if they were made with the same model and options (`made`); an
    /// incomplete line at the end is removed. `made` is saved in a file of the same name with the suffix `.batch`.
    ///
    /// # Errors
    /// The file is not a result file, was made with another model or options, is being written by another process, or
    /// cannot be written. [`EarlierResults::Drop`] replaces the file.
    pub fn open(path: &Path, made: &Map<String, Value>, earlier: EarlierResults) -> Result<Self, BatchFault> {
        let name = path.display().to_string();
        let about = |error: std::io::Error| BatchFault::io(&name, &error);
        let mut file = open_locked(path)?;
        let beside = beside(path, ".batch");
        if earlier == EarlierResults::Drop {
            file.set_len(0).map_err(about)?;
            RetriedResults::remove(path)?;
        }
        let length = file.metadata().map_err(about)?.len();
        if length > 0 {
            check_made(&name, &beside, made)?;
        } else {
            write_made(&beside, made)?;
        }
        // A run that was killed may have left new results of failed lines.
        if RetriedResults::merge(path)? {
            let merged = open_locked(path)?;
            file = merged;
        }
        let done = read_done(&mut file, &name)?;
        let retried = match earlier {
            EarlierResults::RetryFailed => Some(RetriedResults::new(path)),
            EarlierResults::Keep | EarlierResults::Drop => None,
        };
        Ok(Self { file, name, done, retried })
    }

    /// The lines that have a result, by id.
    pub fn done(&self) -> &HashMap<String, LineResult> {
        &self.done
    }

    /// Whether failed lines are computed again.
    pub fn retries(&self) -> bool {
        self.retried.is_some()
    }

    /// The numbers of answered and failed lines in the file.
    pub fn counts(&self) -> [usize; 2] {
        let answered = self.done.values().filter(|line| line.answered).count();
        [answered, self.done.len() - answered]
    }

    /// Writes a result: one line in one write.
    ///
    /// # Errors
    /// The file cannot be written. It may then end with an incomplete line, which the next run removes.
    pub fn write(&mut self, result: &Value) -> Result<(), BatchFault> {
        let line = format!("{result}\n");
        let Some((id, done)) = LineResult::of(result) else {
            return Err(BatchFault::about("a result has no id (this is a bug, please report it)", line));
        };
        match &mut self.retried {
            Some(retried) if self.done.contains_key(&id) => retried.write(&line)?,
            _ => self.file.write_all(line.as_bytes()).map_err(|error| {
                BatchFault::io(&self.name, &error).with_help(
                    "free some space and run the same command again: it continues where it stopped",
                )
            })?,
        }
        self.done.insert(id, done);
        Ok(())
    }

    /// Syncs the file to disk, and replaces failures with the results that were computed again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), BatchFault> {
        let Self { file, name, retried, .. } = self;
        file.sync_all().map_err(|error| BatchFault::io(name, &error))?;
        // `file` still holds the lock.
        retried.map_or(Ok(()), RetriedResults::finish)
    }
}

/// Opens and locks a result file: no other process writes it until it is dropped.
fn open_locked(path: &Path) -> Result<File, BatchFault> {
    let about = |error: std::io::Error| BatchFault::io(path.display(), &error);
    loop {
        let file =
            File::options().read(true).append(true).create(true).truncate(false).open(path).map_err(about)?;
        if !FileLock::of(&file).map_err(about)? {
            return Err(BatchFault::about(path.display(), "another process is writing it")
                .with_help("wait for that process, or name another file"));
        }
        // Another process may have replaced it between our opening and our locking.
        if FileLock::is_at(&file, path) {
            return Ok(file);
        }
    }
}

fn write_made(beside: &Path, made: &Map<String, Value>) -> Result<(), BatchFault> {
    let mut file = AtomicFile::create(beside)?;
    let text =
        serde_json::to_string_pretty(made).map_err(|error| BatchFault::about(beside.display(), error))?;
    file.write_all(text.as_bytes()).map_err(|error| BatchFault::io(beside.display(), &error))?;
    Ok(file.commit()?)
}

/// Refuses to continue results that were made with another model or options.
fn check_made(name: &str, beside: &Path, made: &Map<String, Value>) -> Result<(), BatchFault> {
    let help = "name another file; --force replaces this one";
    let said = match std::fs::read_to_string(beside) {
        Ok(said) => said,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let reason = format!("exists, but {}, which says how it was made, does not", beside.display());
            return Err(BatchFault::about(name, reason).with_help(help));
        }
        Err(error) => return Err(BatchFault::io(beside.display(), &error)),
    };
    let earlier: Map<String, Value> = serde_json::from_str(&said)
        .map_err(|error| BatchFault::about(beside.display(), error).with_help(help))?;
    let keys = made.keys().chain(earlier.keys().filter(|key| !made.contains_key(*key)));
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let others: Vec<String> = keys
        .filter(|key| made.get(*key) != earlier.get(*key))
        .map(|key| format!("{key} was {} and is now {}", shown(earlier.get(key)), shown(made.get(key))))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let reason = format!("its results were made with another model or options: {}", others.join(", "));
    Err(BatchFault::about(name, reason)
        .with_help("give the same model and options, or name another file; --force replaces this one"))
}

/// The results in a file. An incomplete line at the end is removed from the file.
fn read_done(file: &mut File, name: &str) -> Result<HashMap<String, LineResult>, BatchFault> {
    let mut done = HashMap::new();
    let whole = each_result(BufReader::new(&mut *file), name, &mut |_, id, line| {
        done.insert(id, line);
        Ok(())
    })?;
    file.set_len(whole).map_err(|error| BatchFault::io(name, &error))?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(temp: f64) -> Map<String, Value> {
        json!({ "model": "m", "temp": temp }).as_object().unwrap().clone()
    }

    fn result(id: &str) -> Value {
        json!({ "custom_id": id, "response": { "request_id": "r" } })
    }

    /// Wherever a kill cuts the file, complete lines are kept and the rest is removed.
    #[test]
    fn a_torn_line_is_dropped_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut out = ResultFile::open(&path, &made(1.0), EarlierResults::Keep).unwrap();
        ["a", "b", "\u{e9}"].iter().for_each(|id| out.write(&result(id)).unwrap());
        out.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut out = ResultFile::open(&path, &made(1.0), EarlierResults::Keep).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(out.done().len(), lines, "cut at {cut}");
            out.write(&result("z")).unwrap();
            drop(out);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), lines + 1);
            assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
        }
    }

    #[test]
    fn results_of_other_options_are_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut out = ResultFile::open(&path, &made(1.0), EarlierResults::Keep).unwrap();
        out.write(&result("a")).unwrap();
        let said =
            format!("{:?}", ResultFile::open(&path, &made(1.0), EarlierResults::Keep).map(drop).unwrap_err());
        assert!(said.contains("another process is writing it"), "{said}");
        drop(out);
        let said =
            format!("{:?}", ResultFile::open(&path, &made(0.5), EarlierResults::Keep).map(drop).unwrap_err());
        assert!(said.contains("temp was 1.0 and is now 0.5") && said.contains("--force"), "{said}");
        std::fs::remove_file(beside(&path, ".batch")).unwrap();
        let said =
            format!("{:?}", ResultFile::open(&path, &made(1.0), EarlierResults::Keep).map(drop).unwrap_err());
        assert!(said.contains("says how it was made"), "{said}");
        assert!(ResultFile::open(&path, &made(0.5), EarlierResults::Drop).unwrap().done().is_empty());
        std::fs::write(&path, "something else\n").unwrap();
        let said =
            format!("{:?}", ResultFile::open(&path, &made(0.5), EarlierResults::Keep).map(drop).unwrap_err());
        assert!(said.contains("line 1 is not a result of a batch"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
    }
}
