//! The file format `pointer`: a text file with the path of a GGUF file, which may be relative to it.

use menagerie_assembly::{FileFormat, GgufModel};
use menagerie_loaders::LoadError;
use menagerie_registry::register;
use std::path::{Path, PathBuf};
use std::sync::Arc;

register!(FileFormat {
    name: "pointer",
    registered_by: env!("CARGO_PKG_NAME"),
    recognizes: |path| path.extension().is_some_and(|extension| extension == "pointer"),
    open: |path, mmap| Ok(Arc::new(GgufModel::open(target(path)?, mmap)?)),
    bytes: |path| target(path).ok().and_then(|file| file.metadata().ok()).map_or(0, |found| found.len()),
});

fn target(path: &Path) -> Result<PathBuf, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|error| LoadError::NotAModel {
        path: path.display().to_string(),
        problem: error.to_string(),
    })?;
    Ok(path.with_file_name(text.trim()))
}
