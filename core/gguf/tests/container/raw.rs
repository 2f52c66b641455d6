//! GGUF files put together by hand, right or wrong: independent of the writer.

use gguf_file::{GgufError, GgufFile};

/// A file being put together field by field.
#[derive(Clone, Default)]
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Raw {
    /// Magic, version, tensor count, metadata count.
    pub(crate) fn header(version: u32, tensors: u64, keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(keys)
    }

    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.blob(text.as_bytes())
    }

    pub(crate) fn blob(self, bytes: &[u8]) -> Self {
        let mut this = self.u64(bytes.len() as u64);
        this.0.extend_from_slice(bytes);
        this
    }

    pub(crate) fn key_u32(self, key: &str, value: u32) -> Self {
        self.text(key).u32(4).u32(value)
    }

    pub(crate) fn key_text(self, key: &str, value: &str) -> Self {
        self.text(key).u32(8).text(value)
    }

    pub(crate) fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let this = self.text(name).u32(dims.len() as u32);
        dims.iter().fold(this, |this, dim| this.u64(*dim)).u32(kind).u64(offset)
    }

    /// Pads to 32 bytes and adds `bytes` of data.
    pub(crate) fn data(self, bytes: usize) -> Self {
        self.data_at(32, bytes)
    }

    pub(crate) fn data_at(mut self, alignment: usize, bytes: usize) -> Self {
        let start = self.0.len().next_multiple_of(alignment);
        self.0.resize(start + bytes, 0);
        self
    }

    pub(crate) fn open(self) -> Result<GgufFile, GgufError> {
        GgufFile::from_bytes("m.gguf", self.0)
    }

    /// The error of opening, as a line.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        self.open().expect_err("this file must be refused").to_string()
    }
}

/// All of `parts` are in `text`.
#[track_caller]
pub(crate) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert!(!text.contains('\n') && text.len() < 1000, "not one short line: {text}");
}
