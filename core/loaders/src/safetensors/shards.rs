//! [`Shards`]: the weights of a folder, in one file or in several with an index.

use super::error::{Kind, shortened};
use super::{SafetensorsError, SafetensorsFile, SafetensorsTensor};
use gguf_file::TensorBytes;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// File name of unsharded weights.
const WHOLE: &str = "model.safetensors";

/// File name of the index, which maps each tensor to its shard.
pub const INDEX: &str = "model.safetensors.index.json";

/// Maximum size of an index in bytes.
const MOST_INDEX: u64 = 64_000_000;

/// Maximum number of shards: the number of mappings is limited.
const MOST_SHARDS: usize = 2048;

/// The weights of a folder: every tensor of every file, by name.
#[derive(Debug)]
pub struct Shards {
    files: Vec<SafetensorsFile>,
    paths: Vec<PathBuf>,
    /// File and index within it of each tensor, file by file.
    tensors: Vec<(u32, u32)>,
    by_name: HashMap<Box<str>, u32>,
}

impl Shards {
    /// Opens the weights of a folder: `model.safetensors`, or the shards of its index, or its only safetensors file.
    ///
    /// # Errors
    /// The folder has no weights in this format, a file is invalid or missing, the index does not match the files, or
    /// a tensor is in two files.
    pub fn open(folder: impl AsRef<Path>, mmap: bool) -> Result<Self, SafetensorsError> {
        let folder = folder.as_ref();
        let whole = folder.join(WHOLE);
        let index = folder.join(INDEX);
        if whole.is_file() {
            return Self::of_files(folder, vec![SafetensorsFile::open(&whole, mmap)?]);
        }
        if index.is_file() {
            let map = read_index(&index).map_err(|kind| SafetensorsError::new(&index, kind))?;
            return Self::of_index(folder, &index, &map, mmap);
        }
        let only = only_file(folder).map_err(|kind| SafetensorsError::new(folder, kind))?;
        Self::of_files(folder, vec![SafetensorsFile::open(&only, mmap)?])
    }

    fn of_index(
        folder: &Path,
        index: &Path,
        map: &BTreeMap<String, String>,
        mmap: bool,
    ) -> Result<Self, SafetensorsError> {
        let of = |problem: String| SafetensorsError::new(index, Kind::index(problem));
        let mut names: Vec<&str> = map.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > MOST_SHARDS {
            return Err(of(format!("it names {} files; at most {MOST_SHARDS} are supported", names.len())));
        }
        if let Some(name) = names.iter().find(|name| !is_plain(name)) {
            let name = shortened(name);
            return Err(of(format!(
                "'{name}' is not the name of a file in this folder; the index is damaged or hostile"
            )));
        }
        let missing: Vec<&str> = names.iter().copied().filter(|name| !folder.join(name).is_file()).collect();
        if let Some(first) = missing.first() {
            let (count, all, first) = (missing.len(), names.len(), shortened(first));
            return Err(of(format!(
                "{count} of the {all} files it names are not in the folder, the first is '{first}'; download them too"
            )));
        }
        let files: Result<Vec<_>, _> =
            names.iter().map(|name| SafetensorsFile::open(folder.join(name), mmap)).collect();
        let shards = Self::of_files(folder, files?)?;
        for (tensor, name) in map {
            let file = names.binary_search(&name.as_str()).ok();
            let found = shards.by_name.get(tensor.as_str()).and_then(|at| shards.tensors.get(*at as usize));
            let at = found.and_then(|(at, _)| names.get(*at as usize));
            if found.map(|(at, _)| *at as usize) != file {
                let elsewhere = at.map_or("in none of the files".to_owned(), |at| format!("in '{at}'"));
                let tensor = shortened(tensor);
                return Err(of(format!(
                    "according to the index, tensor '{tensor}' is in '{name}', but it is {elsewhere}; download the index and the files again"
                )));
            }
        }
        Ok(shards)
    }

    /// All tensors of these files.
    fn of_files(folder: &Path, files: Vec<SafetensorsFile>) -> Result<Self, SafetensorsError> {
        let count = files.iter().map(|file| file.tensors().len()).sum();
        let (mut tensors, mut by_name) = (Vec::with_capacity(count), HashMap::with_capacity(count));
        for (at, file) in (0_u32..).zip(&files) {
            for (index, tensor) in (0_u32..).zip(file.tensors()) {
                if by_name.insert(tensor.name().into(), tensors.len() as u32).is_some() {
                    let problem = format!(
                        "it is in two files of the folder; the second one is {}",
                        file.path().display()
                    );
                    return Err(SafetensorsError::new(folder, Kind::tensor(tensor.name(), problem)));
                }
                tensors.push((at, index));
            }
        }
        let paths = files.iter().map(|file| file.path().to_owned()).collect();
        Ok(Self { files, paths, tensors, by_name })
    }

    /// The files, in the order of their names.
    pub fn files(&self) -> &[SafetensorsFile] {
        &self.files
    }

    /// Their paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Every tensor, file by file, ordered by offset.
    pub fn tensors(&self) -> impl Iterator<Item = &SafetensorsTensor> {
        self.files.iter().flat_map(SafetensorsFile::tensors)
    }

    /// Index of the tensor of this name in [`Self::tensors`].
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|at| *at as usize)
    }

    /// A tensor by its index.
    pub fn tensor(&self, index: usize) -> Option<&SafetensorsTensor> {
        let (file, at) = self.tensors.get(index)?;
        self.files.get(*file as usize)?.tensors().get(*at as usize)
    }

    /// The bytes of a tensor by its index; `None` past the last one.
    ///
    /// # Errors
    /// The file changed under its mapping.
    pub fn data(&self, index: usize) -> Option<Result<TensorBytes, SafetensorsError>> {
        let (file, at) = self.tensors.get(index)?;
        let file = self.files.get(*file as usize)?;
        Some(file.data(file.tensors().get(*at as usize)?))
    }

    /// Size of all files together, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(SafetensorsFile::file_bytes).sum()
    }

    /// Total size of a folder's weight files in bytes, without reading them.
    pub fn bytes_on_disk(folder: impl AsRef<Path>) -> u64 {
        let folder = folder.as_ref();
        let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |about| about.len());
        match size(folder.join(WHOLE)) {
            0 => safetensors_files(folder).into_iter().map(size).sum(),
            whole => whole,
        }
    }

    /// Whether a page of a mapping vanished. Cheap.
    pub fn poisoned(&self) -> bool {
        self.files.iter().any(SafetensorsFile::poisoned)
    }

    /// Checks that the files are unchanged since they were opened; one system call per file.
    ///
    /// # Errors
    /// A file became shorter, or was written to.
    pub fn check_alive(&self) -> Result<(), SafetensorsError> {
        self.files.iter().try_for_each(SafetensorsFile::check_alive)
    }
}

/// Whether this is the name of a file in the same folder, without any path.
fn is_plain(name: &str) -> bool {
    let strange = |c: char| c == '/' || c == '\\' || c == ':' || c.is_control();
    !name.is_empty() && !name.starts_with('.') && !name.contains(strange)
}

/// Tensor to file.
fn read_index(path: &Path) -> Result<BTreeMap<String, String>, Kind> {
    let failed = |source| Kind::Io { action: "read the index of shards", source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > MOST_INDEX {
        return Err(Kind::index(format!("it has {bytes} bytes; at most {MOST_INDEX} are supported")));
    }
    let text = std::fs::read(path).map_err(failed)?;
    let whole: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| Kind::index(format!("not valid JSON: {error}; download it again")))?;
    let Some(map) = whole.get("weight_map").and_then(serde_json::Value::as_object) else {
        return Err(Kind::index("the table `weight_map` is missing; download it again"));
    };
    if map.is_empty() {
        return Err(Kind::index("the table `weight_map` is empty; download it again"));
    }
    let entry = |(tensor, file): (&String, &serde_json::Value)| match file.as_str() {
        Some(file) => Ok((tensor.clone(), file.to_owned())),
        None => Err(Kind::index(format!("expected a file name for tensor '{}'", shortened(tensor)))),
    };
    map.iter().map(entry).collect()
}

/// The safetensors files of a folder, sorted.
fn safetensors_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    found.sort();
    found
}

/// The only file of weights in a folder without an index.
fn only_file(folder: &Path) -> Result<PathBuf, Kind> {
    let found = safetensors_files(folder);
    if let [only] = &found[..] {
        return Ok(only.clone());
    }
    let has = |name: &str| folder.join(name).exists();
    let problem = match found.len() {
        0 if has("pytorch_model.bin") || has("pytorch_model.bin.index.json") => {
            "the folder has PyTorch's pickled weights (pytorch_model.bin), which can run code and are not read; get the \
             model's .safetensors files, or save it again with transformers"
                .to_owned()
        }
        0 => format!("the folder has no .safetensors file; the usual name is {WHOLE}"),
        count => format!(
            "the folder has {count} .safetensors files and neither {WHOLE} nor {INDEX}, which tells how they belong together; \
             download the index too"
        ),
    };
    Err(Kind::NoWeights { problem })
}
