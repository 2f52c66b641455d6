//! [`FileFormat`]: a format of model files, registered by a crate. [`open_model`] opens a model of any format.

pub(crate) mod gguf_model;
pub(crate) mod gguf_source;
mod hf_model;
mod hf_source;
mod hf_storage;
mod model_file;

pub use gguf_model::GgufModel;
pub use hf_model::HfModel;
pub use model_file::{ModelFile, ModelTensors};

use menagerie_files::path_text;
use menagerie_loaders::LoadError;
use menagerie_registry::{Entries, Entry};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The format for paths that no format recognizes. Its reader reports what is wrong with them.
const DEFAULT: &str = "gguf";

type OpenModelFile = fn(&Path, bool) -> Result<Arc<dyn ModelFile>, LoadError>;

/// A format of model files.
#[derive(Clone, Copy)]
pub struct FileFormat {
    /// Its name.
    pub name: &'static str,
    /// The crate that registers it.
    pub registered_by: &'static str,
    /// Whether a path is a model of this format.
    pub recognizes: fn(&Path) -> bool,
    /// Opens a model; the flag says whether its files are mapped or read into memory.
    pub open: OpenModelFile,
    /// Bytes of the files of a model, which need not be readable.
    pub bytes: fn(&Path) -> u64,
}

impl Entry for FileFormat {
    const FAMILY: &'static str = "file format";

    fn name(&self) -> &str {
        self.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}

impl fmt::Debug for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file format {} of {}", self.name, self.registered_by)
    }
}

impl FileFormat {
    /// The format of a path among these entries.
    ///
    /// # Errors
    /// Two formats recognize the path, or none does and GGUF is not registered.
    fn of<'e>(path: &Path, entries: &'e Entries) -> Result<&'e Self, LoadError> {
        let formats = entries.all::<Self>();
        let recognized: Vec<&Self> = formats.iter().filter(|format| (format.recognizes)(path)).collect();
        let names = |formats: &mut dyn Iterator<Item = &Self>| {
            formats.map(|format| format!("{} (of {})", format.name, format.registered_by)).collect::<Vec<_>>()
        };
        match recognized.as_slice() {
            [only] => Ok(only),
            [] => entries.get(DEFAULT).ok_or_else(|| LoadError::NotAModel {
                path: path_text(path),
                problem: format!(
                    "no file format recognizes it; expected one of: {}",
                    names(&mut formats.iter()).join(", ")
                ),
            }),
            several => Err(LoadError::NotAModel {
                path: path_text(path),
                problem: format!(
                    "several file formats recognize it: {}; link only one of them",
                    names(&mut several.iter().copied()).join(" and ")
                ),
            }),
        }
    }
}

/// Opens a model with its format among these entries. With `mmap`, its files are mapped; otherwise they are read into
/// memory.
///
/// # Errors
/// The files cannot be read, or have no known format.
pub fn open_model(
    path: impl AsRef<Path>,
    entries: &Entries,
    mmap: bool,
) -> Result<Arc<dyn ModelFile>, LoadError> {
    let path = path.as_ref();
    (FileFormat::of(path, entries)?.open)(path, mmap)
}

/// Bytes of the files of a model, which need not be readable; 0 if it has no format.
pub fn bytes_on_disk(path: impl AsRef<Path>, entries: &Entries) -> u64 {
    let path = path.as_ref();
    FileFormat::of(path, entries).map_or(0, |format| (format.bytes)(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &'static str, ending: fn(&Path) -> bool) -> FileFormat {
        FileFormat {
            name,
            registered_by: "these tests",
            recognizes: ending,
            open: |path, _| {
                Err(LoadError::NotAModel {
                    path: path_text(path),
                    problem: "is not opened by these tests".to_owned(),
                })
            },
            bytes: |_| 7,
        }
    }

    #[test]
    fn the_format_that_recognizes_a_path_opens_it() {
        let mut entries = Entries::linked().unwrap();
        entries.add(format("box", |path| path.extension().is_some_and(|end| end == "box"))).unwrap();
        let opened = open_model("some.box", &entries, true).unwrap_err().to_string();
        assert!(opened.contains("is not opened by these tests"), "{opened}");
        assert_eq!(bytes_on_disk("some.box", &entries), 7);
        assert_eq!(FileFormat::of(Path::new("other"), &entries).unwrap().name, "gguf");
        entries.add(format("crate", |_| true)).unwrap();
        let error = open_model("some.box", &entries, true).unwrap_err().to_string();
        assert!(error.contains("box (of these tests) and crate (of these tests)"), "{error}");
        let error = FileFormat::of(Path::new("x"), &Entries::default()).unwrap_err().to_string();
        assert!(error.contains("no file format recognizes it"), "{error}");
    }
}
