//! Small vocabularies as GGUF metadata, and the fixtures' own.

use std::path::PathBuf;

use gguf_file::{GgufFile, GgufWriter, OpenOptions, OwnedArray, OwnedValue};

use crate::tokenizer::{Tokenizer, TokenizerError, TokenizerOptions};

/// A folder of the repository's fixtures.
pub(super) fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")).join(path)
}

/// The tokenizer of a fixture model.
pub(super) fn fixture_tokenizer(model: &str) -> Tokenizer {
    let file = GgufFile::open(fixture(&format!("{model}/model-f32.gguf")), &OpenOptions::default()).unwrap();
    Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()).unwrap()
}

/// Metadata under construction.
#[derive(Clone, Default)]
pub(crate) struct Keys(pub(super) Vec<(String, OwnedValue)>);

impl Keys {
    pub(crate) fn with(mut self, key: &str, value: OwnedValue) -> Self {
        self.0.retain(|(known, _)| known != key);
        self.0.push((key.to_owned(), value));
        self
    }

    pub(crate) fn text(self, key: &str, value: &str) -> Self {
        self.with(key, OwnedValue::String(value.to_owned()))
    }

    pub(crate) fn strings<S: ToString>(self, key: &str, values: &[S]) -> Self {
        self.with(key, OwnedValue::Array(OwnedArray::strings(values.iter().map(ToString::to_string))))
    }

    pub(crate) fn types(self, values: &[i32]) -> Self {
        self.with("tokenizer.ggml.token_type", OwnedValue::Array(OwnedArray::I32(values.to_vec())))
    }

    pub(super) fn scores(self, values: &[f32]) -> Self {
        self.with("tokenizer.ggml.scores", OwnedValue::Array(OwnedArray::F32(values.to_vec())))
    }

    /// A file with these keys.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut writer = GgufWriter::new();
        for (key, value) in &self.0 {
            writer.metadata(key, value.clone()).unwrap();
        }
        writer.to_bytes().unwrap()
    }

    pub(crate) fn build(&self, spec_pre: Option<&str>) -> Result<Tokenizer, TokenizerError> {
        self.with_options(&TokenizerOptions { pre: spec_pre, tables: None })
    }

    pub(crate) fn with_options(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, TokenizerError> {
        let file = GgufFile::from_bytes("test", self.bytes()).unwrap();
        Tokenizer::from_gguf(file.metadata(), options)
    }
}
