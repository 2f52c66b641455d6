//! An open GGUF model: one file, or all parts of a split one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory;
use crate::error::{GgufError, GgufErrorKind, quoted};
use crate::metadata::Metadata;
use crate::split::{self, SplitKeys, SplitName};
use crate::storage::{FilePart, Storage};
use crate::tensor::{TensorBytes, TensorInfo};
use menagerie_files::path_text;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Map the file (the default) or read it into memory: slower to open, but later changes of the file have no effect.
    pub mmap: bool,
}

impl OpenOptions {
    /// The same with this [`Self::mmap`].
    #[must_use]
    pub fn with_mmap(self, mmap: bool) -> Self {
        Self { mmap, ..self }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { mmap: true }
    }
}

/// An open GGUF model. `Send` and `Sync`; share it in an `Arc`.
#[derive(Debug)]
pub struct GgufFile {
    paths: Vec<PathBuf>,
    parts: Vec<Arc<Storage>>,
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: Vec<u32>,
}

fn of(path: &Path) -> impl Fn(GgufErrorKind) -> GgufError {
    move |kind| GgufError::new(path_text(path), kind)
}

impl GgufFile {
    /// Opens the model at `path`; for a part of a split model, all parts.
    ///
    /// # Errors
    /// Anything that is not a complete, consistent GGUF file of version 2 or 3, little-endian, with every tensor
    /// inside it. An unknown tensor type is an error only in [`Self::data`].
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, GgufError> {
        let path = path.as_ref();
        let given = FilePart::open(path, options.mmap).map_err(of(path))?;
        let metadata = Metadata::build(given.header.clone(), &given.shape).map_err(of(path))?;
        let Some(keys) = SplitKeys::read(&metadata).map_err(of(path))? else {
            return Self::assemble(vec![path.into()], vec![given], metadata, None);
        };
        let paths = split::part_paths(path, keys).map_err(of(path))?;
        let mut given = Some((given, metadata));
        let mut parts = Vec::new();
        let mut first = None;
        for (number, path) in (0_u64..).zip(&paths) {
            let taken = if number == keys.number { given.take() } else { None };
            let (part, metadata) = match taken {
                Some(taken) => taken,
                None => open_sibling(path, options.mmap, SplitKeys { number, ..keys })?,
            };
            parts.push(part);
            // The first part has the model's metadata; the others contain only their number.
            first.get_or_insert(metadata);
        }
        let none = || GgufError::new(path_text(path), split::wrong("it has no parts".into()));
        Self::assemble(paths, parts, first.ok_or_else(none)?, keys.tensors)
    }

    /// Opens a whole model in memory; `name` is used as its path in errors.
    ///
    /// # Errors
    /// The errors of [`Self::open`], and a part of a split model.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, GgufError> {
        let path = Path::new(name);
        let part = FilePart::in_memory(Storage::Given(bytes)).map_err(of(path))?;
        let metadata = Metadata::build(part.header.clone(), &part.shape).map_err(of(path))?;
        if let Some(keys) = SplitKeys::read(&metadata).map_err(of(path))? {
            let problem =
                format!("this is part {} of {}; open it from its folder", keys.number + 1, keys.count);
            return Err(of(path)(split::wrong(problem)));
        }
        Self::assemble(vec![path.into()], vec![part], metadata, None)
    }

    fn assemble(
        paths: Vec<PathBuf>,
        parts: Vec<FilePart>,
        metadata: Metadata,
        expected: Option<u64>,
    ) -> Result<Self, GgufError> {
        // Capacity for all tensors at once: growing the list part by part would take twice the memory.
        let mut tensors = Vec::with_capacity(parts.iter().map(|part| part.shape.tensors).sum());
        for (number, (part, path)) in (0_u16..).zip(parts.iter().zip(&paths)) {
            let len = part.storage.bytes().len() as u64;
            directory::read(part.header.bytes(), &part.shape, number, len, &mut tensors).map_err(of(path))?;
        }
        let whole = paths.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
        if let Some(expected) = expected.filter(|expected| *expected != tensors.len() as u64) {
            let problem = format!(
                "the parts have {} tensors together, but {} says {expected}: they are not parts of one model",
                tensors.len(),
                split::TENSORS_KEY
            );
            return Err(of(whole)(split::wrong(problem)));
        }
        let by_name = directory::index(&tensors).map_err(of(whole))?;
        let version = parts.first().map_or(0, |part| part.shape.version);
        let parts = parts.into_iter().map(|part| part.storage).collect();
        Ok(Self { paths, parts, version, metadata, tensors, by_name })
    }

    /// The files of the model at `path`, derived from its name: all parts in order, or the one file. They may not exist.
    pub fn part_paths(path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        SplitName::parse(path).map_or_else(|| vec![path.into()], |name| name.siblings(path))
    }

    /// The opened files in order: one, or all parts.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The GGUF version of the (first) file: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The metadata, of the first part where there are several.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors: part by part, in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let of = |index: &u32| self.tensors.get(*index as usize).map(TensorInfo::name);
        let at = self.by_name.binary_search_by(|index| of(index).cmp(&Some(name))).ok()?;
        self.tensors.get(*self.by_name.get(at)? as usize)
    }

    /// The bytes of a tensor of this model, blocks as in the file.
    ///
    /// # Errors
    /// A type of unknown size (named), a tensor of another file, a poisoned file.
    pub fn data(&self, tensor: &TensorInfo) -> Result<TensorBytes, GgufError> {
        let path = self.paths.get(tensor.part()).map_or(Path::new(""), PathBuf::as_path);
        if !tensor.kind().is_known() {
            let (name, kind) = (quoted(tensor.name().as_bytes()), tensor.kind());
            return Err(of(path)(GgufErrorKind::TensorType { tensor: name, kind }));
        }
        let part = self.parts.get(tensor.part());
        let bytes = part.and_then(|part| TensorBytes::new(part, tensor.offset(), tensor.bytes()));
        let foreign = || of(path)(GgufErrorKind::tensor(tensor.name(), "the tensor belongs to another file"));
        let bytes = bytes.ok_or_else(foreign)?;
        if bytes.poisoned() {
            self.check_alive()?;
        }
        Ok(bytes)
    }

    /// The size of all parts together, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes().len() as u64).sum()
    }

    /// Whether a page vanished under a mapping, so that zeros were read and results since then are wrong. Cheap.
    pub fn poisoned(&self) -> bool {
        self.parts.iter().any(|part| part.poisoned())
    }

    /// Checks that the files are unchanged since they were opened, with one system call per part. Files that were
    /// read into memory, replaced by a rename or deleted pass.
    ///
    /// # Errors
    /// A mapped file is poisoned, became shorter, or was written to since it was opened.
    pub fn check_alive(&self) -> Result<(), GgufError> {
        for (part, path) in self.parts.iter().zip(&self.paths) {
            part.check_alive().map_err(of(path))?;
        }
        Ok(())
    }
}

/// Opens another part of a split model and compares its split keys with the expected ones.
fn open_sibling(path: &Path, mmap: bool, expected: SplitKeys) -> Result<(FilePart, Metadata), GgufError> {
    let part = FilePart::open(path, mmap).map_err(of(path))?;
    let metadata = Metadata::build(part.header.clone(), &part.shape).map_err(of(path))?;
    let found = SplitKeys::read(&metadata).map_err(of(path))?;
    let agrees = found.is_some_and(|found| {
        let tensors =
            found.tensors.is_none() || expected.tensors.is_none() || found.tensors == expected.tensors;
        found.number == expected.number && found.count == expected.count && tensors
    });
    if agrees {
        return Ok((part, metadata));
    }
    let says = found.map_or("that it is a whole model".into(), |found| {
        let tensors =
            found.tensors.map(|tensors| format!(" with {tensors} tensors in all")).unwrap_or_default();
        format!("part {} of {}{tensors}", found.number + 1, found.count)
    });
    let problem = format!(
        "part {} of {}{} is expected here, but the file says {says}; it is part of another model or was renamed",
        expected.number + 1,
        expected.count,
        expected.tensors.map(|tensors| format!(" with {tensors} tensors in all")).unwrap_or_default(),
    );
    Err(of(path)(split::wrong(problem)))
}
