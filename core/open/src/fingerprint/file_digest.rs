//! The bytes of a file that a fingerprint depends on.
//!
//! Files of up to 4 MiB are hashed whole. Of a larger GGUF or safetensors file these bytes are hashed:
//!
//! - the whole header, which has names, types, shapes and offsets of all tensors, and metadata;
//! - all of every tensor of up to 256 KiB, as norms, biases and gates are;
//! - of a larger tensor the first, the middle and the last 4 KiB.
//!
//! A larger file in another format is hashed whole.

use gguf_file::{GgufFile, OpenOptions};
use menagerie_loaders::SafetensorsFile;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Files up to this many bytes are hashed whole.
const WHOLE: u64 = 4 << 20;

/// Tensors up to this many bytes are hashed whole.
const WHOLE_TENSOR: u64 = 256 << 10;

/// Bytes of one sample.
const SAMPLE: u64 = 4096;

/// Bytes that are read at once, because samples of small tensors are close together.
const BUFFER: usize = 32 << 10;

/// A hash of files, one after the other.
#[derive(Default)]
pub(super) struct FileDigest {
    hash: Sha256,
    /// The model that was opened last; the next file may be another part of it.
    split: Option<GgufFile>,
}

impl FileDigest {
    /// Adds a name.
    pub(super) fn name(&mut self, name: &[u8]) {
        self.hash.update(name);
    }

    /// Adds the size of a file and its bytes, or samples of them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn file(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        self.hash.update(size.to_le_bytes());
        let layout = if size > WHOLE { self.layout(path, size)? } else { None };
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let Some(FileLayout { header, tensors }) = layout else {
            return self.range(&mut reader, 0..size);
        };
        self.range(&mut reader, 0..header)?;
        tensors.into_iter().flat_map(samples).try_for_each(|range| self.range(&mut reader, range))
    }

    /// The hash of everything that was added.
    pub(super) fn finish(self) -> Sha256 {
        self.hash
    }

    /// The layout of a file of `size` bytes; `None` for a format without tensors, or an incomplete file.
    fn layout(&mut self, path: &Path, size: u64) -> io::Result<Option<FileLayout>> {
        let mut magic = [0; 4];
        File::open(path)?.read_exact(&mut magic)?;
        if magic != *b"GGUF" {
            let file = SafetensorsFile::open(path, true).ok();
            return Ok(file.map(|file| FileLayout::of_safetensors(&file, size)));
        }
        if self.split.as_ref().is_none_or(|known| part(known, path).is_none()) {
            self.split = GgufFile::open(path, &OpenOptions::default()).ok();
        }
        Ok(self.split.as_ref().and_then(|file| Some(FileLayout::of_part(file, part(file, path)?, size))))
    }

    fn range(&mut self, reader: &mut BufReader<File>, range: Range<u64>) -> io::Result<()> {
        let ahead = i128::from(range.start) - i128::from(reader.stream_position()?);
        match i64::try_from(ahead) {
            // Within the buffer this does not read.
            Ok(ahead) => reader.seek_relative(ahead)?,
            Err(_) => drop(reader.seek(SeekFrom::Start(range.start))?),
        }
        let wanted = range.end - range.start;
        let copied = io::copy(&mut reader.take(wanted), self)?;
        if copied == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl io::Write for FileDigest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The part of a model that a file is.
fn part(of: &GgufFile, path: &Path) -> Option<usize> {
    of.paths().iter().position(|known: &PathBuf| known == path)
}

/// The places of the header and the tensors of a file, in bytes from its start.
struct FileLayout {
    /// Bytes before the first tensor.
    header: u64,
    /// The bytes of each tensor, in the order of the file.
    tensors: Vec<Range<u64>>,
}

impl FileLayout {
    fn of_safetensors(file: &SafetensorsFile, size: u64) -> Self {
        Self::of(file.tensors().iter().map(|tensor| (tensor.offset(), tensor.bytes())).collect(), size)
    }

    fn of_part(file: &GgufFile, part: usize, size: u64) -> Self {
        let tensors = file.tensors().iter().filter(|tensor| tensor.part() == part);
        Self::of(tensors.map(|tensor| (tensor.offset(), tensor.bytes())).collect(), size)
    }

    /// The ranges of tensors by offset and bytes. If the bytes are 0 (a type of unknown size), a range ends at the next
    /// tensor.
    fn of(mut tensors: Vec<(u64, u64)>, size: u64) -> Self {
        tensors.sort_unstable();
        let header = tensors.first().map_or(size, |(offset, _)| *offset);
        let nexts = tensors.iter().skip(1).map(|(offset, _)| *offset).chain([size]);
        let range = |(&(offset, bytes), next): (&(u64, u64), u64)| match bytes {
            0 => offset..next.max(offset),
            bytes => offset..offset.saturating_add(bytes),
        };
        let tensors = tensors.iter().zip(nexts).map(range).collect();
        Self { header, tensors }
    }
}

/// The first, the middle and the last bytes of a tensor, or all bytes of a small one.
fn samples(tensor: Range<u64>) -> Vec<Range<u64>> {
    let Range { start, end } = tensor;
    if end - start <= WHOLE_TENSOR {
        return std::iter::once(start..end).collect();
    }
    let middle = start + (end - start - SAMPLE) / 2;
    vec![start..start + SAMPLE, middle..middle + SAMPLE, end - SAMPLE..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_file::{GgmlType, GgufWriter};

    fn of(paths: &[PathBuf]) -> Vec<u8> {
        let mut digest = FileDigest::default();
        paths.iter().for_each(|path| digest.file(path).unwrap());
        digest.finish().finalize().to_vec()
    }

    /// Bytes of the tensors of the files below: some are hashed whole, some by samples.
    const SIZES: [usize; 6] = [1 << 20, 4, 12 << 10, 256 << 10, 1028, 5 << 20];

    /// A model in two files, with the same tensors in both.
    fn split(folder: &Path) -> Vec<PathBuf> {
        let part = |number: u16| {
            let path = folder.join(format!("a-{:05}-of-00002.gguf", number + 1));
            let mut writer = GgufWriter::new();
            writer.metadata("general.architecture", "llama").unwrap();
            writer.metadata("split.no", number).unwrap();
            writer.metadata("split.count", 2u16).unwrap();
            writer.metadata("split.tensors.count", 2 * SIZES.len() as i32).unwrap();
            for (at, size) in SIZES.into_iter().enumerate() {
                let (name, data) = (format!("t{number}.{at}"), vec![at as u8; size]);
                writer.tensor(&name, &[size as u64 / 4], GgmlType::F32, data).unwrap();
            }
            writer.write(&path).unwrap();
            path
        };
        vec![part(0), part(1)]
    }

    fn safetensors(folder: &Path) -> Vec<PathBuf> {
        let path = folder.join("a.safetensors");
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        for (at, size) in SIZES.into_iter().enumerate() {
            let (from, to) = (data.len(), data.len() + size);
            entries.push(format!(
                r#""t{at}":{{"dtype":"F32","shape":[{}],"data_offsets":[{from},{to}]}}"#,
                size / 4
            ));
            data.resize(to, at as u8);
        }
        let header = format!("{{{}}}", entries.join(","));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        std::fs::write(&path, bytes).unwrap();
        vec![path]
    }

    /// A changed byte at the beginning, middle or end of any tensor, or in the header, changes the hash.
    #[test]
    fn every_tensor_counts_and_the_whole_header() {
        let folder = tempfile::tempdir().unwrap();
        for paths in [split(folder.path()), safetensors(folder.path())] {
            let first = of(&paths);
            assert_eq!(of(&paths), first);
            for path in &paths {
                let good = std::fs::read(path).unwrap();
                let layout = FileDigest::default().layout(path, good.len() as u64).unwrap();
                let FileLayout { header, tensors } = layout.unwrap();
                let sizes: Vec<usize> = tensors.iter().map(|one| (one.end - one.start) as usize).collect();
                assert_eq!(sizes, SIZES);
                let with = |place: u64| {
                    let mut bytes = good.clone();
                    bytes[place as usize] ^= 1;
                    std::fs::write(path, bytes).unwrap();
                    of(&paths)
                };
                let ends = tensors.iter().flat_map(|one| [one.start, (one.start + one.end) / 2, one.end - 1]);
                let whole = tensors.iter().find(|one| one.end - one.start == 256 << 10).unwrap();
                let seen = (20..header).step_by(97).chain(ends).chain([whole.start + 4500, whole.end - 5000]);
                for place in seen {
                    assert_ne!(with(place), first, "byte {place} of {}", path.display());
                }
                // As documented, bytes between the samples of a large tensor do not count.
                assert_eq!(with(tensors[0].start + 10_000), first);
                std::fs::write(path, good).unwrap();
            }
        }
    }

    #[test]
    fn small_files_and_large_ones_of_no_known_format_count_byte_by_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = [folder.path().join("a.json")];
        for size in [1000, 5 << 20] {
            let mut bytes = vec![b'7'; size];
            std::fs::write(&path[0], &bytes).unwrap();
            let first = of(&path);
            for at in [0, size / 3, size - 1] {
                bytes[at] ^= 1;
                std::fs::write(&path[0], &bytes).unwrap();
                assert_ne!(of(&path), first, "byte {at}");
                bytes[at] ^= 1;
            }
            bytes.push(b'7');
            std::fs::write(&path[0], &bytes).unwrap();
            assert_ne!(of(&path), first);
        }
    }

    #[test]
    fn a_type_of_unknown_size_reaches_to_the_next_tensor() {
        let FileLayout { tensors, header } = FileLayout::of(vec![(64, 0), (32, 16), (128, 0)], 200);
        assert_eq!((tensors, header), (vec![32..48, 64..128, 128..200], 32));
    }
}
