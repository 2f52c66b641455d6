//! A merged model as a Hugging Face folder.

use super::{Merge, MergeProgress, encoded};
use crate::error::LoadError;
use gguf_file::GgmlType;
use menagerie_assembly::StoredNumbers;
use menagerie_files::AtomicFolder;
use menagerie_kernels::Cpu;
use menagerie_loaders::{SafetensorsFile, Shards};
use menagerie_model::ModelError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Extensions of files with weights, of any framework; the merged files replace them.
const WEIGHTS: [&str; 9] = ["safetensors", "bin", "pt", "pth", "gguf", "onnx", "h5", "msgpack", "ckpt"];

/// By tensor of the file: the entries of the model that it contains, and their matrices.
type Changes = BTreeMap<usize, Vec<TensorChange>>;

/// The numbers of a stored tensor that an entry changes.
struct TensorChange {
    entry: usize,
    /// The matrix of a stack whose matrices are stored one by one.
    member: Option<usize>,
    at: StoredNumbers,
}

impl Merge<'_> {
    /// Writes the files of the base, shard by shard, with the same headers, names, types and offsets, and with new values
    /// in the tensors that the adapters change. All other files of the folder are copied.
    pub(super) fn write_folder(&self, path: &Path, progress: &mut MergeProgress) -> Result<(), LoadError> {
        let folder = self.resolved.file.paths().first().and_then(|path| path.parent());
        let folder = folder.ok_or_else(|| self.error("it has no path"))?;
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        self.check_target(folder, path)?;
        let shards = Shards::open(folder, true).map_err(|error| self.failed(error))?;
        let changes = self.stored_changes().map_err(|error| self.failed(error))?;
        let cpu = Cpu::new(None).map_err(|error| self.failed(error))?;
        let whole = AtomicFolder::create(path).map_err(|error| self.failed(error))?;
        let (mut done, total) = (0, shards.len());
        for file in shards.files() {
            let name = file.path().file_name().ok_or_else(|| self.error("a shard without a name"))?;
            let mut out =
                Shard::create(file, &whole.path().join(name)).map_err(|error| self.failed(error))?;
            for tensor in file.tensors() {
                if progress(done, total).is_break() {
                    return Err(self.error("cancelled; nothing was written"));
                }
                let bytes = match changes.get(&done) {
                    Some(changed) => self.changed(done, tensor.name(), changed, &cpu)?,
                    None => file.data(tensor).map_err(|error| self.failed(error))?.to_vec(),
                };
                if bytes.len() as u64 != tensor.bytes() {
                    return Err(self.error(format!("tensor \"{}\": {} bytes", tensor.name(), bytes.len())));
                }
                out.write(&bytes).map_err(|error| self.failed(error))?;
                done += 1;
            }
            out.finish().map_err(|error| self.failed(error))?;
        }
        copy_others(folder, whole.path()).map_err(|error| self.failed(error))?;
        shards.check_alive().map_err(|error| self.failed(error))?;
        whole.commit().map_err(|error| self.failed(error))
    }

    /// Refuses to replace a folder that is not that of a model, or that contains the base.
    fn check_target(&self, base: &Path, target: &Path) -> Result<(), LoadError> {
        if target.symlink_metadata().is_err() {
            return Ok(());
        }
        let refused = |reason: &str| Err(self.error(format!("{}: {reason}", target.display())));
        let (base, found) = (base.canonicalize(), target.canonicalize());
        let (Ok(base), Ok(found)) = (base, found) else {
            return refused("cannot be looked at; name another folder");
        };
        if base.starts_with(&found) {
            return refused("is the base, or holds it; name another folder");
        }
        let mut entries = std::fs::read_dir(&found).into_iter().flatten();
        if !found.is_dir() || (entries.next().is_some() && !found.join("config.json").is_file()) {
            return refused(
                "is no folder of a model, and is not replaced; name another folder, or a .gguf file",
            );
        }
        Ok(())
    }

    /// The changes, by tensor of the file.
    fn stored_changes(&self) -> Result<Changes, ModelError> {
        let mut changes = Changes::new();
        let entries = self.resolved.tensors.entries().len();
        for entry in (0..entries).filter(|entry| self.changes(*entry)) {
            let places = self.resolved.tensors.stored_numbers(entry)?;
            let several = places.len() > 1;
            for (member, at) in places.into_iter().enumerate() {
                let change = TensorChange { entry, member: several.then_some(member), at };
                changes.entry(change.at.tensor).or_default().push(change);
            }
        }
        Ok(changes)
    }

    /// The bytes of a tensor of the file that the adapters change.
    fn changed(
        &self,
        tensor: usize,
        name: &str,
        changed: &[TensorChange],
        cpu: &Cpu,
    ) -> Result<Vec<u8>, LoadError> {
        let about = |reason: String| self.error(format!("tensor \"{name}\": {reason}"));
        let values = self.stored_values(tensor, changed).map_err(|error| about(error.to_string()))?;
        let kind =
            self.resolved.tensors.entries().get(tensor).and_then(|entry| GgmlType::from_name(&entry.kind));
        let kind = kind.ok_or_else(|| about("its type cannot be written".to_owned()))?;
        encoded(&values, values.len(), kind, cpu).map_err(about)
    }

    fn stored_values(&self, tensor: usize, changed: &[TensorChange]) -> Result<Vec<f32>, ModelError> {
        let stored = self.resolved.tensors.weight(tensor)?;
        let mut values = self.compute.backend.values(&stored)?;
        for TensorChange { entry, member, at } in changed {
            let matrices = match member {
                Some(member) => *member..member + 1,
                None => 0..self.resolved.tensors.weight(*entry)?.shape().count,
            };
            let merged = self.merged(*entry, matrices)?;
            let short = || ModelError::Weights(format!("{} values for places of others", merged.len()));
            match &at.numbers {
                None if merged.len() == values.len() => values.copy_from_slice(&merged),
                Some(numbers) if merged.len() == numbers.len() => {
                    for (number, value) in numbers.iter().zip(&merged) {
                        *values.get_mut(*number as usize).ok_or_else(short)? = *value;
                    }
                }
                _ => return Err(short()),
            }
        }
        Ok(values)
    }
}

/// A safetensors file with the header of another one: the same names, types and offsets.
struct Shard(BufWriter<File>);

impl Shard {
    fn create(like: &SafetensorsFile, path: &Path) -> io::Result<Self> {
        let start = like.tensors().iter().map(|tensor| tensor.offset()).min();
        let source = File::open(like.path())?;
        let header = start.unwrap_or(source.metadata()?.len());
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
        let copied = io::copy(&mut source.take(header), &mut out)?;
        if copied != header {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self(out))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self) -> io::Result<()> {
        self.0.into_inner().map_err(|error| error.into_error())?.sync_all()
    }
}

/// Copies the files of a folder that have no weights: config, tokenizer, templates, license.
fn copy_others(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let weights = path.extension().and_then(|extension| extension.to_str());
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        if weights.is_some_and(|extension| WEIGHTS.contains(&extension))
            || name.as_encoded_bytes().starts_with(b".")
        {
            continue;
        }
        // Not its permissions: in a cache it can be read-only.
        std::fs::write(to.join(name), std::fs::read(&path)?)?;
    }
    Ok(())
}
