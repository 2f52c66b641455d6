//! Safetensors files as [`FileContents`].

use crate::failure::Failure;
use crate::inspect::contents::{FileContents, FileSize, KeySummary, TensorSummary};
use menagerie::loaders::SafetensorsFile;
use std::path::Path;

/// Reads the header of one file.
pub(crate) fn open(path: &Path) -> Result<FileContents, Failure> {
    let mut inspected = FileContents { format: "safetensors".to_owned(), ..FileContents::default() };
    add_safetensors(path, &mut inspected)?;
    Ok(inspected)
}

/// Adds the keys and tensors of a safetensors file; only its header is read.
pub(crate) fn add_safetensors(path: &Path, into: &mut FileContents) -> Result<(), Failure> {
    let file = SafetensorsFile::open(path, true)?;
    let told = file.metadata().iter();
    into.keys.extend(told.map(|(name, value)| KeySummary {
        name: name.clone(),
        kind: "string".to_owned(),
        value: value.as_str().into(),
    }));
    into.tensors.extend(file.tensors().iter().map(|tensor| TensorSummary {
        name: tensor.name().to_owned(),
        dims: tensor.shape().to_vec(),
        kind: tensor.dtype().to_string(),
        bytes: tensor.bytes(),
    }));
    into.files.push(FileSize { path: path.to_owned(), bytes: file.file_bytes() });
    Ok(())
}
