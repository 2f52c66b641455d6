//! Fingerprints: what tells the files and the resolved model that something was computed with from others.

use crate::init::{LoadError, ResolvedFile};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Files up to this many bytes are read whole.
const WHOLE: u64 = 4 << 20;

/// Samples of a larger file, evenly spread, and their bytes.
const SAMPLES: u64 = 512;
const SAMPLE: u64 = 4096;

/// Endings of what is looked at in a folder.
const ENDINGS: [&str; 4] = ["gguf", "json", "safetensors", "toml"];

/// Folders in folders that are looked at.
const DEPTH: usize = 4;

/// What tells the model of a file, with what it was opened with beside the file, from others: hashes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ModelFingerprint {
    /// Id of the spec.
    pub architecture: String,
    /// Of the resolved model: spec, keys of the file, `--set`, and the types of the tensors.
    pub config: String,
    /// Of the model's files, samples of large ones.
    pub weights: String,
    /// Of the files beside them that change the model: X-LoRA, experts and gate of a mixture, an importance matrix.
    pub beside: Option<String>,
}

/// The fingerprint of a model.
///
/// # Errors
/// A file that cannot be read, with its name.
pub(crate) fn of(resolved: &ResolvedFile) -> Result<ModelFingerprint, (PathBuf, io::Error)> {
    let beside = &resolved.beside.files;
    let config =
        of_model(resolved).map_err(|error| (resolved.file_name().into(), io::Error::other(error)))?;
    Ok(ModelFingerprint {
        architecture: resolved.spec.id().to_owned(),
        config,
        weights: of_files(resolved.file.paths())?,
        beside: (!beside.is_empty()).then(|| of_files(beside)).transpose()?,
    })
}

impl ResolvedFile {
    /// What tells the model from others, the same in every process.
    ///
    /// # Errors
    /// [`LoadError::Fingerprint`]: a file that cannot be read any more.
    pub fn fingerprint(&self) -> Result<ModelFingerprint, LoadError> {
        of(self).map_err(|(file, source)| LoadError::Fingerprint { file: file.display().to_string(), source })
    }
}

/// A hash of the sizes of these files and of samples of their bytes: of a folder, of the models, adapters and settings in it.
///
/// Files of up to 4 MiB are read whole. Of larger ones 512 samples of 4 KiB are, their beginning and end among them: a model
/// that was trained further, or quantised otherwise, differs in nearly all of them; a few bytes changed by hand may be missed.
///
/// # Errors
/// A file that cannot be read, with its name.
pub(crate) fn of_files<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<String, (PathBuf, io::Error)> {
    let mut hash = Sha256::new();
    for path in paths {
        add(&mut hash, path, 0).map_err(|error| (path.clone(), error))?;
    }
    Ok(in_hex(hash))
}

/// A hash of the resolved model and the types of its tensors, which `--quant` changes.
///
/// # Errors
/// A number that JSON cannot hold.
pub(crate) fn of_model(resolved: &ResolvedFile) -> Result<String, serde_json::Error> {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(resolved.config())?);
    for tensor in resolved.tensors.entries() {
        let dims = serde_json::to_string(&tensor.dims)?;
        hash.update(format!("{} {dims} {}\n", tensor.name, tensor.kind));
    }
    Ok(in_hex(hash))
}

fn in_hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add(hash: &mut Sha256, path: &Path, depth: usize) -> io::Result<()> {
    if !path.is_dir() {
        return add_file(hash, path);
    }
    let mut inside: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    inside.sort();
    for path in inside {
        let wanted = path.extension().is_some_and(|found| ENDINGS.iter().any(|ending| found == *ending));
        if wanted && path.is_file() || path.is_dir() && depth < DEPTH {
            hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
            add(hash, &path, depth + 1)?;
        }
    }
    Ok(())
}

fn add_file(hash: &mut Sha256, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    hash.update(size.to_le_bytes());
    if size <= WHOLE {
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(WHOLE).read_to_end(&mut bytes)?;
        hash.update(bytes);
        return Ok(());
    }
    let mut bytes = [0; SAMPLE as usize];
    for sample in 0..SAMPLES {
        // In 128 bits: a size times a number must not overflow.
        let at = u128::from(size - SAMPLE) * u128::from(sample) / u128::from(SAMPLES - 1);
        file.seek(SeekFrom::Start(at as u64))?;
        file.read_exact(&mut bytes)?;
        hash.update(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &Path) -> String {
        of_files([&path.to_owned()]).unwrap()
    }

    #[test]
    fn small_files_are_told_apart_by_every_byte_and_large_ones_by_size_and_samples() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.gguf");
        let mut bytes = vec![7u8; 1000];
        std::fs::write(&file, &bytes).unwrap();
        let first = of(&file);
        assert_eq!(of(&file), first);
        bytes[500] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_ne!(of(&file), first);
        let mut large = vec![7u8; 6 << 20];
        std::fs::write(&file, &large).unwrap();
        let first = of(&file);
        for at in [0, large.len() - 1] {
            large[at] ^= 1;
            std::fs::write(&file, &large).unwrap();
            assert_ne!(of(&file), first, "byte {at}");
            large[at] ^= 1;
        }
        large.push(7);
        std::fs::write(&file, &large).unwrap();
        assert_ne!(of(&file), first);
    }

    #[test]
    fn of_a_folder_the_models_and_settings_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("adapter_config.json"), "{}").unwrap();
        std::fs::create_dir(folder.path().join("part")).unwrap();
        std::fs::write(folder.path().join("part/a.safetensors"), "weights").unwrap();
        let first = of(folder.path());
        std::fs::write(folder.path().join("README.md"), "words").unwrap();
        assert_eq!(of(folder.path()), first);
        std::fs::write(folder.path().join("part/a.safetensors"), "Weights").unwrap();
        assert_ne!(of(folder.path()), first);
        let absent = folder.path().join("absent.gguf");
        assert_eq!(of_files([&absent]).unwrap_err().0, absent);
    }
}
