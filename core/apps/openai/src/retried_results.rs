//! [`RetriedResults`]: new results of failed lines, kept in a separate file until they replace the failures.

use crate::batch_fault::BatchFault;
use crate::result_lines::{beside, each_result};
use menagerie::files::AtomicFile;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// New results of failed lines. They are written to a file named as OUT with the suffix `.retry`, and replace the
/// failures all at once: whenever the process is killed, OUT has each line once, and the next run uses the results in the
/// file. The lock of OUT protects this file too.
pub(crate) struct RetriedResults {
    /// OUT.
    out: PathBuf,
    /// Opened at the first result.
    file: Option<File>,
}

impl RetriedResults {
    /// None yet.
    pub(crate) fn new(out: &Path) -> Self {
        Self { out: out.to_owned(), file: None }
    }

    /// Writes a result: one line in one write.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&mut self, line: &str) -> Result<(), BatchFault> {
        let path = path(&self.out);
        let about = |error: std::io::Error| {
            BatchFault::io(path.display(), &error)
                .with_help("free some space and run the same command again: it continues where it stopped")
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::options().create(true).append(true).open(&path).map_err(about)?),
        };
        file.write_all(line.as_bytes()).map_err(about)
    }

    /// Replaces the failures in OUT with the results.
    ///
    /// # Errors
    /// A file cannot be written. The results then stay in the separate file, and the next run uses them.
    pub(crate) fn finish(self) -> Result<(), BatchFault> {
        Self::merge(&self.out).map(drop)
    }

    /// Replaces the failures in OUT with the results of the separate file; OUT is replaced as a whole. Returns whether it
    /// was replaced.
    ///
    /// # Errors
    /// A file cannot be read or written, or is not a result file.
    pub(crate) fn merge(out: &Path) -> Result<bool, BatchFault> {
        let path = path(out);
        let retried = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|error| BatchFault::io(path.display(), &error))?,
        };
        let mut lines: HashMap<String, Vec<u8>> = HashMap::new();
        each_result(BufReader::new(retried), &path.display().to_string(), &mut |line, id, _| {
            lines.insert(id, line.to_owned());
            Ok(())
        })?;
        if lines.is_empty() {
            return Self::remove(out).map(|()| false);
        }
        replace(out, &lines)?;
        // OUT has them now. If the process is killed before this line, the next run replaces them again, with no effect.
        Self::remove(out)?;
        Ok(true)
    }

    /// Removes the separate file.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(out: &Path) -> Result<(), BatchFault> {
        let path = path(out);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(BatchFault::io(path.display(), &error)),
            _ => Ok(()),
        }
    }
}

/// The path of the separate file.
fn path(out: &Path) -> PathBuf {
    beside(out, ".retry")
}

/// Replaces the lines of some ids in OUT.
fn replace(out: &Path, lines: &HashMap<String, Vec<u8>>) -> Result<(), BatchFault> {
    let about = |error: std::io::Error| BatchFault::io(out.display(), &error);
    // A link stays a link.
    let target = out.canonicalize().map_err(about)?;
    let old = File::open(&target).map_err(about)?;
    let permissions = old.metadata().map_err(about)?.permissions();
    let mut file = AtomicFile::create(&target)?;
    each_result(BufReader::new(old), &out.display().to_string(), &mut |line, id, _| {
        file.write_all(lines.get(&id).map_or(line, Vec::as_slice)).map_err(about)
    })?;
    file.commit()?;
    std::fs::set_permissions(&target, permissions).map_err(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result_file::{EarlierResults, ResultFile};
    use serde_json::{Map, Value, json};

    fn result(id: &str, status: u64, text: &str) -> Value {
        json!({ "custom_id": id, "response": { "status_code": status, "request_id": "r", "body": text } })
    }

    fn open(path: &Path, earlier: EarlierResults) -> ResultFile {
        ResultFile::open(path, &Map::new(), earlier).unwrap()
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// Wherever a kill cuts the separate file, its complete lines are used once, and the rest of OUT stays the same, byte
    /// for byte.
    #[test]
    fn retried_results_survive_a_kill_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let mut file = open(&out, EarlierResults::Keep);
        let first =
            [result("a", 200, "1"), result("b", 400, "2"), result("c", 200, "3"), result("d", 500, "4")];
        first.iter().for_each(|one| file.write(one).unwrap());
        assert_eq!(file.counts(), [2, 2]);
        file.finish().unwrap();
        let before = text(&out);
        let mut file = open(&out, EarlierResults::RetryFailed);
        file.write(&result("d", 200, "new d")).unwrap();
        file.write(&result("b", 400, "new b")).unwrap();
        file.write(&result("e", 200, "of a new line")).unwrap();
        // As a kill leaves it: without an end.
        drop(file);
        let (torn, apart) = (text(&out), text(&path(&out)));
        assert_eq!(torn, before.clone() + &format!("{}\n", result("e", 200, "of a new line")));
        for cut in 0..=apart.len() {
            std::fs::write(&out, &torn).unwrap();
            std::fs::write(path(&out), &apart[..cut]).unwrap();
            let file = open(&out, EarlierResults::Keep);
            let whole = apart[..cut].matches('\n').count();
            assert_eq!(file.counts(), [3 + whole.min(1), 2 - whole.min(1)], "cut at {cut}");
            drop(file);
            assert!(!path(&out).exists());
            let retried: Vec<&str> = apart.lines().take(whole).collect();
            let expected: String = torn
                .lines()
                .map(|line| {
                    let id = &line[..line.find(",").unwrap()];
                    retried.iter().find(|one| one.starts_with(id)).map_or(line, |one| one).to_owned() + "\n"
                })
                .collect();
            assert_eq!(text(&out), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_file_that_was_replaced_is_still_locked() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let mut file = open(&out, EarlierResults::Keep);
        file.write(&result("a", 400, "1")).unwrap();
        file.finish().unwrap();
        std::fs::write(path(&out), format!("{}\n", result("a", 200, "2"))).unwrap();
        let file = open(&out, EarlierResults::RetryFailed);
        assert_eq!(file.counts(), [1, 0]);
        let again = ResultFile::open(&out, &Map::new(), EarlierResults::Keep).map(drop);
        assert!(format!("{:?}", again.unwrap_err()).contains("another process is writing it"));
    }
}
