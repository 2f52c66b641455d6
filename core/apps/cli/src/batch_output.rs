//! [`BatchOutput`]: the file of results, which grows line by line and is gone on with after a kill.

use crate::failure::Failure;
use crate::{output, output_file};
use menagerie::gguf::{AtomicFile, FileLock};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file of results.
pub(crate) struct BatchOutput {
    sink: Sink,
    /// `request_id` by id of the lines that are answered.
    done: HashMap<String, String>,
}

enum Sink {
    /// Standard output.
    Standard,
    /// A file, and its name.
    File(File, String),
    /// A device or a pipe, and its name: what it took is not there any more.
    Device(File, String),
}

impl BatchOutput {
    /// Opens a file of results, `-` for standard output. Results that are there are kept, if they were made as `made` says;
    /// half a line at the end is dropped. How they were made is kept beside the file, in a file of its name and `.batch`.
    ///
    /// # Errors
    /// The file is no file of results, was made otherwise, is being written, or cannot be written; `force` begins it anew.
    pub(crate) fn open(path: &Path, made: &Map<String, Value>, force: bool) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self { sink: Sink::Standard, done: HashMap::new() });
        }
        let name = path.display().to_string();
        let about = |error: std::io::Error| Failure::about(&name, error);
        if output_file::is_device(path) {
            let device = File::options().write(true).open(path).map_err(about)?;
            return Ok(Self { sink: Sink::Device(device, name), done: HashMap::new() });
        }
        let mut file =
            File::options().read(true).append(true).create(true).truncate(false).open(path).map_err(about)?;
        if !FileLock::of(&file).map_err(about)? {
            return Err(Failure::about(&name, "another process is writing it")
                .with_help("wait for it, or name another file"));
        }
        let beside = beside(path);
        if force {
            file.set_len(0).map_err(about)?;
        }
        let length = file.metadata().map_err(about)?.len();
        if length > 0 {
            check_made(&name, &beside, made)?;
        } else {
            write_made(&beside, made)?;
        }
        let done = read_done(&mut file, &name)?;
        Ok(Self { sink: Sink::File(file, name), done })
    }

    /// `request_id` by id of the lines that are answered.
    pub(crate) fn done(&self) -> &HashMap<String, String> {
        &self.done
    }

    /// Adds a result: one line in one write.
    ///
    /// # Errors
    /// The file cannot be written: half a line may be there, which the next run drops.
    pub(crate) fn write(&mut self, result: &Value) -> Result<(), Failure> {
        let line = format!("{result}\n");
        match &mut self.sink {
            Sink::Standard => output::write(&line),
            Sink::File(file, name) => file.write_all(line.as_bytes()).map_err(|error| {
                Failure::about(&*name, error)
                    .with_help("make room and run the same command again: it goes on where it was")
            }),
            Sink::Device(device, name) => device.write_all(line.as_bytes()).map_err(|error| {
                if error.kind() == ErrorKind::BrokenPipe {
                    return Failure::OutputClosed;
                }
                Failure::about(&*name, error)
            }),
        }
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.sink {
            Sink::File(file, name) => file.sync_all().map_err(|error| Failure::about(name, error)),
            Sink::Standard | Sink::Device(..) => Ok(()),
        }
    }
}

/// The file that says how results were made.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".batch");
    name.into()
}

fn write_made(beside: &Path, made: &Map<String, Value>) -> Result<(), Failure> {
    let mut file = AtomicFile::create(beside)?;
    let text = serde_json::to_string_pretty(made)?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::about(beside.display(), error))?;
    Ok(file.commit()?)
}

/// Refuses to go on with results that were made otherwise.
fn check_made(name: &str, beside: &Path, made: &Map<String, Value>) -> Result<(), Failure> {
    let help = "name another file; --force begins this one anew";
    let said = match std::fs::read_to_string(beside) {
        Ok(said) => said,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let reason = format!("exists, and no {} says how it was made", beside.display());
            return Err(Failure::about(name, reason).with_help(help));
        }
        Err(error) => return Err(Failure::about(beside.display(), error)),
    };
    let earlier: Map<String, Value> = serde_json::from_str(&said)
        .map_err(|error| Failure::about(beside.display(), error).with_help(help))?;
    let keys = made.keys().chain(earlier.keys().filter(|key| !made.contains_key(*key)));
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let others: Vec<String> = keys
        .filter(|key| made.get(*key) != earlier.get(*key))
        .map(|key| format!("{key} was {} and is {} now", shown(earlier.get(key)), shown(made.get(key))))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let reason = format!("its results were made otherwise: {}", others.join(", "));
    Err(Failure::about(name, reason).with_help(&format!("give the same model and options, {help}")))
}

/// The ids of the results in a file, without half a line at its end, which is cut off.
fn read_done(file: &mut File, name: &str) -> Result<HashMap<String, String>, Failure> {
    let about = |error: std::io::Error| Failure::about(name, error);
    let (mut done, mut whole, mut number) = (HashMap::new(), 0u64, 0);
    let mut reader = BufReader::new(&mut *file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(about)? > 0 {
        if line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = value.as_ref().and_then(|value| text(&value["custom_id"]));
        let request = value.as_ref().and_then(|value| text(&value["response"]["request_id"]));
        let (Some(id), Some(request)) = (id, request) else {
            return Err(Failure::about(name, format!("line {number} is no result of a batch"))
                .with_help("name another file; --force begins this one anew"));
        };
        done.insert(id, request);
        whole += line.len() as u64;
        line.clear();
    }
    drop(reader);
    file.set_len(whole).map_err(about)?;
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

    /// Wherever a kill cuts the file, whole lines stay and the rest is dropped.
    #[test]
    fn a_torn_line_is_dropped_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut out = BatchOutput::open(&path, &made(1.0), false).unwrap();
        ["a", "b", "\u{e9}"].iter().for_each(|id| out.write(&result(id)).unwrap());
        out.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut out = BatchOutput::open(&path, &made(1.0), false).unwrap();
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
    fn results_made_otherwise_are_not_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let mut out = BatchOutput::open(&path, &made(1.0), false).unwrap();
        out.write(&result("a")).unwrap();
        let said = format!("{:?}", BatchOutput::open(&path, &made(1.0), false).map(drop).unwrap_err());
        assert!(said.contains("another process is writing it"), "{said}");
        drop(out);
        let said = format!("{:?}", BatchOutput::open(&path, &made(0.5), false).map(drop).unwrap_err());
        assert!(said.contains("temp was 1.0 and is 0.5 now") && said.contains("--force"), "{said}");
        std::fs::remove_file(beside(&path)).unwrap();
        let said = format!("{:?}", BatchOutput::open(&path, &made(1.0), false).map(drop).unwrap_err());
        assert!(said.contains("says how it was made"), "{said}");
        assert!(BatchOutput::open(&path, &made(0.5), true).unwrap().done().is_empty());
        std::fs::write(&path, "something else\n").unwrap();
        let said = format!("{:?}", BatchOutput::open(&path, &made(0.5), false).map(drop).unwrap_err());
        assert!(said.contains("line 1 is no result of a batch"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
    }
}
