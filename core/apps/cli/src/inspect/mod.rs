//! The contents of a model's file or folder, read without knowing its architecture.

pub(crate) mod contents;
mod folder;
mod gguf;
mod safetensors;

use crate::failure::Failure;
use contents::FileContents;
use std::io::Read;
use std::path::Path;

/// Reads a file or folder.
pub(crate) fn open(path: &Path) -> Result<FileContents, Failure> {
    if path.is_dir() {
        return folder::open(path);
    }
    let mut start = [0; 4];
    let about = |error: std::io::Error| Failure::about(path.display(), error);
    let read = std::fs::File::open(path).map_err(about)?.read(&mut start).map_err(about)?;
    if &start == b"GGUF" {
        return gguf::open(path);
    }
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        return safetensors::open(path);
    }
    let reason =
        if read == 0 { "the file is empty" } else { "it is neither a GGUF file nor a .safetensors file" };
    Err(Failure::about(path.display(), reason)
        .with_help("give a .gguf or .safetensors file, or a folder with config.json"))
}
