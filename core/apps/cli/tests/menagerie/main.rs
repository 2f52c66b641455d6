//! The commands as a user meets them: what they print, how they fail, with which exit code.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod bad_specs;
mod listings;
mod models;

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, OwnedValue};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A fixture below `tests/fixtures`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures").join(name)
}

/// What a call left behind.
#[derive(Debug)]
struct Call {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `menagerie` in an empty home, offline, with one thread.
fn menagerie(home: &Path, arguments: &[&str]) -> Call {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_HUB_OFFLINE", "1").env("PATH", "");
    call(command)
}

fn call(mut command: Command) -> Call {
    let Output { status, stdout, stderr } = command.stdin(std::process::Stdio::null()).output().unwrap();
    Call {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

impl Call {
    /// A clean success.
    fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// A failure (exit code 1) that says all of these, without a panic.
    fn fails_with(self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.err.contains("error: ") && !self.err.contains("panicked"), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in:\n{}", self.err);
        }
    }
}

/// A tensor on its way into a changed file.
struct Tensor {
    name: String,
    dims: Vec<u64>,
    kind: GgmlType,
    data: Vec<u8>,
}

/// A copy of a fixture with changed metadata or tensors.
struct Changed {
    keys: Vec<(String, OwnedValue)>,
    tensors: Vec<Tensor>,
}

impl Changed {
    fn of(name: &str) -> Self {
        let file = GgufFile::open(&fixture(name), &OpenOptions { mmap: false }).unwrap();
        let keys = file.metadata().iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let tensor = |info: &gguf_file::TensorInfo| Tensor {
            name: info.name().to_owned(),
            dims: info.dims().to_vec(),
            kind: info.kind(),
            data: file.data(info).unwrap().to_vec(),
        };
        Self { keys, tensors: file.tensors().iter().map(tensor).collect() }
    }

    fn set(mut self, key: &str, value: impl Into<OwnedValue>) -> Self {
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    fn write(&self, folder: &Path) -> String {
        let mut writer = GgufWriter::new();
        for (key, value) in &self.keys {
            writer.metadata(key, value.clone()).unwrap();
        }
        for tensor in &self.tensors {
            writer.tensor(&tensor.name, &tensor.dims, tensor.kind, tensor.data.clone()).unwrap();
        }
        let path = folder.join("changed.gguf");
        writer.write(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
