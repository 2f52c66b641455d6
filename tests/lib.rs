//! Conformance suites, a binary each (see the `[[test]]` entries of `Cargo.toml`), and their common code: fixtures, the
//! distance between logits, the [`suite`]s that every backend runs, and a [`runner`] of tests that may have to be
//! skipped.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod runner;
pub mod suite;

use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::gguf::{GgufFile, GgufWriter, OpenOptions, OwnedValue};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{Device, LoadOptions};
use menagerie_candle::CandleBackend;
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder above").to_owned()
}

/// The Rust files of a folder and of those below it, in order.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files_below(folder, &|path| path.extension().is_some_and(|e| e == "rs"))
}

/// The files of a folder and of those below it that `wanted` accepts, in order: files that the project wrote, without
/// fixtures.
pub fn files_below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // Links are skipped: the files that they point to are visited in their own folder.
        if path.is_dir() && !path.is_symlink() {
            if !["target", ".git", "fixtures"].iter().any(|name| path.ends_with(name)) {
                files.extend(files_below(&path, wanted));
            }
        } else if wanted(&path) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The path of a file or folder of the workspace below the workspace's folder, with `/` on every system.
pub fn path_inside(path: &Path) -> String {
    path.strip_prefix(root()).expect("a path in the workspace").to_string_lossy().replace('\\', "/")
}

/// Whether a path below the workspace ([`path_inside`]) belongs to tests, examples or measurements.
pub fn is_for_tests(inside: &str) -> bool {
    let parts = ["/tests/", "/tests.rs", "_tests.rs", "/examples/", "/benches/"];
    let folders = ["core/testkit/", "core/kernels/check/", "tests/"];
    parts.iter().any(|part| inside.contains(part)) || folders.iter().any(|folder| inside.starts_with(folder))
}

/// Whether code with these attributes is compiled for tests only.
pub fn is_test_code(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg") && (tokens == "test" || tokens.starts_with("all (test"))
    })
}

/// The fixtures' folder.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A `reference.safetensors`, made by HF transformers or llama.cpp (see `reference/README.md`).
pub struct Reference {
    bytes: Vec<u8>,
    path: PathBuf,
}

impl Reference {
    /// Reads the file.
    pub fn open(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { bytes, path: path.to_owned() }
    }

    fn data(&self, name: &str) -> Vec<u8> {
        let file = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.path.display()));
        tensor.data().to_vec()
    }

    /// Whether a tensor is there.
    pub fn has(&self, name: &str) -> bool {
        SafeTensors::deserialize(&self.bytes).expect("a safetensors file").tensor(name).is_ok()
    }

    /// An i64 tensor of token ids or positions.
    pub fn ids(&self, name: &str) -> Vec<u32> {
        let id = |bytes: &[u8]| {
            u32::try_from(i64::from_le_bytes(bytes.try_into().expect("8 bytes"))).expect("an id")
        };
        self.data(name).chunks_exact(8).map(id).collect()
    }

    /// An f32 tensor, flat.
    pub fn values(&self, name: &str) -> Vec<f32> {
        let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        self.data(name).chunks_exact(4).map(value).collect()
    }
}

/// Writes a copy of a GGUF without some of its tensors, and with more keys.
pub fn with_keys(from: &Path, to: &Path, left_out: &[&str], keys: &[(&str, OwnedValue)]) {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        writer.metadata(key, value).expect("a key of a file");
    }
    for (key, value) in keys {
        writer.metadata(key, value.clone()).expect("a new key");
    }
    let kept: Vec<_> = file.tensors().iter().filter(|tensor| !left_out.contains(&tensor.name())).collect();
    assert_eq!(file.tensors().len(), kept.len() + left_out.len(), "{left_out:?}");
    for tensor in kept {
        let data = file.data(tensor).expect("bytes of a tensor").to_vec();
        writer.tensor(tensor.name(), tensor.dims(), tensor.kind(), data).expect("a tensor of a file");
    }
    writer.write(to).unwrap_or_else(|e| panic!("{e}"));
}

/// The options with which every conformance test opens models: one thread, and no spec folder of the machine.
pub fn options(arithmetic: Arithmetic) -> LoadOptions {
    LoadOptions::default().with_arithmetic(arithmetic).with_threads(1)
}

/// The same on candle's CPU device, which has its own threads.
pub fn on_candle(options: LoadOptions) -> LoadOptions {
    let backend = CandleBackend::open("candle").unwrap_or_else(|e| panic!("{e}"));
    options.with_device(Device::Given(Arc::new(backend))).with_threads(None)
}

/// Logits of every position, row by row.
pub fn rows(pipeline: &TextPipeline, tokens: &[u32], options: &LogitsOptions) -> Vec<Vec<f32>> {
    let logits = logits(pipeline, tokens, options).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(logits.values.len(), tokens.len() * logits.vocabulary);
    logits.values.chunks_exact(logits.vocabulary).map(<[f32]>::to_vec).collect()
}

/// Writes the model at `from` to `to`, with the data of every tensor changed by `change(name, bytes)`.
pub fn rewrite(from: &Path, to: &Path, change: &dyn Fn(&str, &mut [u8])) {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        writer.metadata(key, value).unwrap();
    }
    for tensor in file.tensors() {
        let mut data = file.data(tensor).unwrap().to_vec();
        change(tensor.name(), &mut data);
        writer.tensor(tensor.name(), tensor.dims(), tensor.kind(), data).unwrap();
    }
    writer.write(to).unwrap();
}

/// Largest absolute difference between rows and a flat reference; NaN if any value is NaN.
pub fn distance(rows: &[Vec<f32>], reference: &[f32]) -> f32 {
    let flat: Vec<f32> = rows.concat();
    assert_eq!(flat.len(), reference.len(), "rows and reference differ in size");
    flat.iter()
        .zip(reference)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |worst: f32, d| if worst.is_nan() || d.is_nan() { f32::NAN } else { worst.max(d) })
}

/// Mean over rows of KL(reference || ours), in nats.
pub fn divergence(rows: &[Vec<f32>], reference: &[f32]) -> f64 {
    let width = rows[0].len();
    let pairs = rows.iter().zip(reference.chunks_exact(width));
    let total: f64 = pairs.map(|(ours, theirs)| row_divergence(ours, theirs)).sum();
    total / rows.len() as f64
}

fn row_divergence(ours: &[f32], theirs: &[f32]) -> f64 {
    let (ours, theirs) = (log_softmax(ours), log_softmax(theirs));
    theirs.iter().zip(&ours).map(|(p, q)| p.exp() * (p - q)).sum()
}

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|&x| f64::from(x - top).exp()).sum();
    row.iter().map(|&x| f64::from(x - top) - sum.ln()).collect()
}
