//! The commands as a user meets them: what they print, how they fail, with which exit code.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod adapters;
mod bad_input;
mod bad_specs;
mod batch_echo;
mod batch_retries;
mod batch_vectors;
mod batches;
mod captures;
mod chat;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_commands;
mod completions;
mod constrained;
mod control_vectors;
mod defaults;
mod disk_cache;
mod drafts;
mod embed;
mod fingerprints;
mod guide;
mod half_prompts;
mod hooks;
mod hostile;
#[cfg(feature = "hub")]
mod hub;
mod inspects;
#[cfg(feature = "hub")]
mod json_page;
mod leftovers;
mod lens;
mod listings;
mod manual;
mod messages;
mod metrics;
mod mixtures;
#[cfg(feature = "hub")]
mod model_tables;
mod models;
mod one_text;
mod outputs;
mod plugins;
mod prompts;
mod quality;
#[cfg(target_os = "linux")]
mod raw_paths;
mod recipe_files;
mod recipes;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod serve_models;
mod short_help;
mod signals;
mod spec_commands;
mod specs;
mod stage_agreement;
mod stage_faults;
mod stage_hooks;
mod stage_restarts;
mod stages;
mod stages_watched;
mod states;
mod templates;
#[cfg(target_os = "linux")]
mod terminals;
mod tool_calls;
mod unknown_names;
mod written_folders;

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, OwnedValue};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// [`menagerie`] with something on standard input.
fn fed(home: &Path, arguments: &[&str], input: &[u8]) -> Call {
    let file = home.join("standard-input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_HUB_OFFLINE", "1").env("PATH", "");
    call_with(command, std::fs::File::open(file).unwrap().into())
}

fn call(command: Command) -> Call {
    call_with(command, Stdio::null())
}

fn call_with(mut command: Command, input: Stdio) -> Call {
    let Output { status, stdout, stderr } = command.stdin(input).output().unwrap();
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

    /// Wrong arguments (exit code 2), said with all of these words.
    fn refused_with(self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in:\n{}", self.err);
        }
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
        let file = GgufFile::open(fixture(name), &OpenOptions::default().with_mmap(false)).unwrap();
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

/// A chat template that shows roles; `think` and `tools` change its prompt.
const TEMPLATE: &str = "{% if tools %}[tools]{% endif %}{% if think %}[think]{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

/// A tiny model with a chat template, as a file in this folder.
fn chat_model(folder: &Path) -> String {
    Changed::of("base/llama/model-f32.gguf").set("tokenizer.chat_template", TEMPLATE).write(folder)
}
