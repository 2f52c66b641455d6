//! [`identity`]: what the stages of a model must have in common.

use crate::load_error::LoadError;
use crate::options::LoadOptions;
use crate::resolve::ResolvedFile;
use menagerie_spec::AdapterKind;
use menagerie_stages::Identity;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes at the beginning of a file, where its directory is, that are looked at.
const BEGINNING: u64 = 1 << 16;

/// Places after that, spread over the file, and bytes that are looked at there.
const SAMPLES: u64 = 32;
const SAMPLE: u64 = 4096;

/// FNV-1a, 64 bits (Fowler, Noll, Vo): what tells files apart, not what proves them.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// What the stages of a model must have in common.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn identity(resolved: &ResolvedFile, options: &LoadOptions) -> Result<Identity, LoadError> {
    let unreadable = |path: &Path| {
        let file = path.display().to_string();
        move |error: std::io::Error| LoadError::Stages { file, reason: error.to_string() }
    };
    let mut spec = Digest::new();
    spec.add(serde_json::to_string(resolved.config()).unwrap_or_default().as_bytes());
    let mut weights = Vec::new();
    for path in resolved.file.paths() {
        weights.push(digest(path).map_err(unreadable(path))?);
    }
    let mut adapters = Vec::new();
    for given in options.adapters.iter().filter(|given| given.kind == AdapterKind::Lora) {
        let name = given.path.file_name().unwrap_or_default().to_string_lossy();
        let files = if given.path.is_dir() { folder(&given.path) } else { vec![given.path.clone()] };
        let digests = files.iter().map(|path| digest(path).map_err(unreadable(path)));
        let digests = digests.collect::<Result<Vec<_>, _>>()?.join(" ");
        adapters.push(format!("{name} x {}: {digests}", given.weight));
    }
    Ok(Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        spec: format!("{} {:016x}", resolved.config().architecture, spec.0),
        weights: weights.join(", "),
        arithmetic: format!("{:?}, F16 prompts in {:?}", options.arithmetic, options.half_prompts),
        adapters: adapters.join(", "),
    })
}

/// The files of a folder, by name.
fn folder(path: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Size of a file, and a digest of its beginning and of samples.
fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut digest = Digest::new();
    let mut bytes = Vec::new();
    let mut add = |file: &mut File, at: u64, count: u64| -> std::io::Result<()> {
        bytes.clear();
        file.seek(SeekFrom::Start(at))?;
        file.take(count).read_to_end(&mut bytes)?;
        digest.add(&bytes);
        Ok(())
    };
    add(&mut file, 0, BEGINNING)?;
    for sample in 0..SAMPLES {
        add(&mut file, size / SAMPLES * sample, SAMPLE)?;
    }
    add(&mut file, size.saturating_sub(SAMPLE), SAMPLE)?;
    Ok(format!("{size} bytes, {:016x}", digest.0))
}
