//! Tests of folders.

mod damaged;
mod fixtures;
mod hostile;
mod ranked;
mod reference;
mod stages;
mod texts;

use std::path::{Path, PathBuf};

use crate::tables::TokenizerTables;
use crate::tokenizer::json::{self, Settings};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// A folder of the repository's fixtures.
fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")).join(path)
}

/// The tokenizer of a `tokenizer.json` alone.
fn built(text: &str) -> Result<Tokenizer, TokenizerError> {
    json::build(json::read(text)?, &Settings::default(), TokenizerTables::built_in().unwrap())
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> Folder {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("menagerie-hf-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Folder(std::env::temp_dir().join(name));
    for (file, text) in files {
        let path = folder.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// A folder that is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
