//! A merged model as a GGUF file.

use super::{Merge, MergeProgress, encoded};
use crate::error::LoadError;
use gguf_file::{GgufFile, GgufWriter, OpenOptions, OwnedValue, TensorInfo};
use menagerie_kernels::Cpu;
use std::path::Path;

impl Merge<'_> {
    /// Writes the keys and tensors of the base. Tensors that the adapters change keep their types.
    pub(super) fn write_gguf(&self, path: &Path, progress: &mut MergeProgress) -> Result<(), LoadError> {
        let source = self.resolved.file.paths().first().ok_or_else(|| self.error("it has no path"))?;
        let file = GgufFile::open(source, &OpenOptions::default()).map_err(|error| self.failed(error))?;
        let mut writer = GgufWriter::new();
        for (key, value) in file.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
            writer.metadata(key, OwnedValue::from(value)).map_err(|error| self.failed(error))?;
        }
        for info in file.tensors() {
            writer.declare(info.name(), info.dims(), info.kind()).map_err(|error| self.failed(error))?;
        }
        let cpu = Cpu::new(None).map_err(|error| self.failed(error))?;
        let mut stream = writer.begin(path).map_err(|error| self.failed(error))?;
        let total = file.tensors().len();
        for (done, info) in file.tensors().iter().enumerate() {
            if progress(done, total).is_break() {
                return Err(self.error("cancelled; nothing was written"));
            }
            let written = match self.bytes_of(info, &cpu)? {
                Some(bytes) => stream.tensor(info.name(), &bytes),
                None => {
                    let bytes = file.data(info).map_err(|error| self.failed(error))?;
                    stream.tensor(info.name(), &bytes)
                }
            };
            written.map_err(|error| self.failed(error))?;
        }
        file.check_alive().map_err(|error| self.failed(error))?;
        stream.commit().map_err(|error| self.failed(error))
    }

    /// The bytes of a tensor that the adapters change.
    fn bytes_of(&self, info: &TensorInfo, cpu: &Cpu) -> Result<Option<Vec<u8>>, LoadError> {
        let entries = self.resolved.tensors.entries();
        let index = entries.iter().position(|entry| entry.name == info.name());
        let Some(index) = index.filter(|index| self.changes(*index)) else { return Ok(None) };
        let cols = info.dims().first().map_or(1, |cols| *cols as usize);
        let count = info.dims().iter().skip(2).product::<u64>() as usize;
        let values = self.merged(index, 0..count).map_err(|error| self.failed(error))?;
        let bytes = encoded(&values, cols, info.kind(), cpu);
        bytes.map(Some).map_err(|reason| self.error(format!("tensor \"{}\": {reason}", info.name())))
    }
}
