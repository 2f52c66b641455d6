//! Fingerprints: hashes that identify the files and the resolved model of a computation.

mod file_digest;

use crate::error::LoadError;
use crate::resolved::ResolvedFile;
use file_digest::FileDigest;
use menagerie_engine::{IdentityError, ModelFingerprint};
use menagerie_model::{Arithmetic, Compute};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// The version of the choice of hashed bytes. Every hash of files begins with it, so hashes of different versions differ.
const SCHEME: &str = "v3";

/// Extensions of the files that are hashed in a folder.
const ENDINGS: [&str; 4] = ["gguf", "json", "safetensors", "toml"];

/// The deepest level of folders in a folder that are hashed.
const DEPTH: usize = 4;

/// The fingerprint of a model.
///
/// # Errors
/// A file that cannot be read, with its name.
pub(crate) fn of(resolved: &ResolvedFile) -> Result<ModelFingerprint, (PathBuf, io::Error)> {
    let beside = &resolved.beside;
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
    /// The fingerprint of the model, which is the same in every process.
    ///
    /// # Errors
    /// [`LoadError::Fingerprint`]: a file that cannot be read any more.
    pub fn fingerprint(&self) -> Result<ModelFingerprint, LoadError> {
        of(self).map_err(|(file, source)| LoadError::Fingerprint { file: file.display().to_string(), source })
    }
}

/// A hash of these files. A folder counts with its models, adapters and settings.
///
/// A GGUF or safetensors file of more than 4 MiB is hashed by its size, its header and samples of every tensor: see
/// [`FileDigest`]. All other files are hashed whole.
///
/// # Errors
/// A file that cannot be read, with its name.
pub(crate) fn of_files<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<String, (PathBuf, io::Error)> {
    let mut digest = FileDigest::default();
    for path in paths {
        add(&mut digest, path, 0).map_err(|error| (path.clone(), error))?;
    }
    Ok(format!("{SCHEME}:{}", in_hex(digest.finish())))
}

/// A hash of the resolved model and the types of its tensors, which `--quant` changes.
///
/// # Errors
/// A number that JSON cannot represent.
pub(crate) fn of_model(resolved: &ResolvedFile) -> Result<String, serde_json::Error> {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(resolved.config())?);
    for tensor in resolved.tensors.entries() {
        let dims = serde_json::to_string(&tensor.dims)?;
        hash.update(format!("{} {dims} {}\n", tensor.name, tensor.kind));
    }
    Ok(in_hex(hash))
}

/// The arithmetic, with the options of the device that change results.
pub(crate) fn arithmetic_name(compute: &Compute) -> String {
    let mut name = match compute.arithmetic {
        Arithmetic::Exact => "exact",
        Arithmetic::Fast => "fast",
    }
    .to_owned();
    for (option, value) in compute.backend.settings() {
        name += &format!(" with {option}={value}");
    }
    name
}

/// A file that cannot be read.
pub(crate) fn unreadable((path, source): (PathBuf, io::Error)) -> IdentityError {
    IdentityError::Unreadable { file: path.display().to_string(), source }
}

pub(crate) fn in_hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add(digest: &mut FileDigest, path: &Path, depth: usize) -> io::Result<()> {
    if !path.is_dir() {
        return digest.file(path);
    }
    let mut inside: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    inside.sort();
    for path in inside {
        let is_hashed = path.extension().is_some_and(|found| ENDINGS.iter().any(|ending| found == *ending));
        if is_hashed && path.is_file() || path.is_dir() && depth < DEPTH {
            digest.name(path.file_name().unwrap_or_default().as_encoded_bytes());
            add(digest, &path, depth + 1)?;
        }
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
    fn of_a_folder_the_models_and_settings_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("adapter_config.json"), "{}").unwrap();
        std::fs::create_dir(folder.path().join("part")).unwrap();
        std::fs::write(folder.path().join("part/a.safetensors"), "weights").unwrap();
        let first = of(folder.path());
        assert!(first.starts_with("v3:"), "{first}");
        std::fs::write(folder.path().join("README.md"), "words").unwrap();
        assert_eq!(of(folder.path()), first);
        std::fs::write(folder.path().join("part/a.safetensors"), "Weights").unwrap();
        assert_ne!(of(folder.path()), first);
        let absent = folder.path().join("absent.gguf");
        assert_eq!(of_files([&absent]).unwrap_err().0, absent);
    }
}
