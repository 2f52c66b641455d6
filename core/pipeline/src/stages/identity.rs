//! [`identity`]: what the stages of a model must have in common.

use crate::fingerprint;
use crate::load_error::LoadError;
use crate::options::LoadOptions;
use crate::resolve::ResolvedFile;
use menagerie_spec::AdapterKind;
use menagerie_stages::Identity;
use std::path::PathBuf;

/// What the stages of a model must have in common.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn identity(resolved: &ResolvedFile, options: &LoadOptions) -> Result<Identity, LoadError> {
    let failed = |file: String, reason: String| LoadError::Stages { file, reason };
    let files = |paths: &[PathBuf]| {
        fingerprint::of_files(paths)
            .map_err(|(path, error)| failed(path.display().to_string(), error.to_string()))
    };
    let spec = fingerprint::of_model(resolved).map_err(|error| {
        failed(resolved.file_name(), format!("its config cannot be told from others: {error}"))
    })?;
    let mut adapters = Vec::new();
    for given in options.adapters.iter().filter(|given| given.kind == AdapterKind::Lora) {
        let name = given.path.file_name().unwrap_or_default().to_string_lossy();
        let files = files(std::slice::from_ref(&given.path))?;
        adapters.push(format!("{name} x {}: {files}", given.weight));
    }
    Ok(Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        spec: format!("{} {spec}", resolved.config().architecture),
        weights: format!("{} bytes, {}", resolved.file.bytes(), files(resolved.file.paths())?),
        arithmetic: format!("{:?}, F16 prompts in {:?}", options.arithmetic, options.half_prompts),
        adapters: adapters.join(", "),
    })
}
