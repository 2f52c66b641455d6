//! The files of a model on disk: where they are, how large, and whether they have changed.

use crate::failure::Failure;
use menagerie::files::path_text;
use menagerie_server::LoadMeter;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const BLOCK: usize = 4 << 20;

/// The files of a model: a file with the other parts of a split model, or the files of a folder.
pub(super) fn files_of(model: &Path) -> Vec<PathBuf> {
    if let Ok(folder) = std::fs::read_dir(model) {
        let mut files: Vec<PathBuf> =
            folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        return files;
    }
    let parts = part(model).map(|(start, total)| {
        let part = |number: usize| model.with_file_name(format!("{start}-{number:05}-of-{total:05}.gguf"));
        (1..=total).map(part).collect()
    });
    parts.unwrap_or_else(|| vec![model.to_owned()])
}

/// The name of a split model and the number of its parts, of the first part's file; `None` for other files.
fn part(file: &Path) -> Option<(String, usize)> {
    let (start, number, total) = split(file)?;
    (number == 1).then_some((start, total))
}

fn split(file: &Path) -> Option<(String, usize, usize)> {
    let (start, total) = file.file_stem()?.to_str()?.rsplit_once("-of-")?;
    let (start, number) = start.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(number) || !is_number(total) {
        return None;
    }
    // No model has more parts.
    let (number, total) = (number.parse().ok()?, total.parse().ok().filter(|total| *total <= 1000)?);
    Some((start.to_owned(), number, total))
}

/// The name of a model file without the ending; of a split model without the number. `None` for other files, and for parts
/// after the first.
pub(super) fn name_of(file: &Path) -> Option<String> {
    if !file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) {
        return None;
    }
    match split(file) {
        Some((start, 1, _)) => Some(start),
        Some(_) => None,
        None => file.file_stem()?.to_str().map(str::to_owned),
    }
}

/// The size of files in bytes.
pub(super) fn bytes_of(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum()
}

/// Identifies the state of files. `None` if one is missing.
pub(super) fn stamp_of(files: &[PathBuf]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        let data = std::fs::metadata(file).ok()?;
        (file, data.len(), data.modified().ok()).hash(&mut hasher);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            (data.dev(), data.ino(), data.ctime(), data.ctime_nsec()).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}

/// Refuses files that are outside of a folder, through links.
pub(super) fn check_inside(folder: &Path, model: &Path) -> Result<(), Failure> {
    for path in std::iter::once(model.to_owned()).chain(files_of(model)) {
        let real = path.canonicalize().map_err(|error| Failure::about(path_text(&path), error))?;
        if !real.starts_with(folder) {
            let reason = "the link leads out of the folder of --models-dir; models outside of it are named on the command line";
            return Err(Failure::about(path_text(&path), reason));
        }
    }
    Ok(())
}

/// Reads files once, so that no answer waits for the disk.
pub(super) fn read_through(files: &[PathBuf], meter: &LoadMeter) -> Result<(), Failure> {
    let (all, mut done, mut block) = (bytes_of(files), 0_u64, vec![0; BLOCK]);
    for path in files {
        let failed = |error: std::io::Error| Failure::about(path_text(path), error);
        let mut file = std::fs::File::open(path).map_err(failed)?;
        loop {
            if meter.is_cancelled() {
                return Err(Failure::Failed("the server is shutting down".to_owned()));
            }
            let read = file.read(&mut block).map_err(failed)?;
            if read == 0 {
                break;
            }
            done += read as u64;
            meter.report(done, all);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_model_has_one_name() {
        let name = |file: &str| name_of(Path::new(file));
        assert_eq!(name("a/b.gguf").as_deref(), Some("b"));
        assert_eq!(name("m-00001-of-00002.GGUF").as_deref(), Some("m"));
        assert_eq!((name("m-00002-of-00002.gguf"), name("notes.txt"), name("gguf")), (None, None, None));
        let parts = files_of(Path::new("d/m-00001-of-00002.gguf"));
        let wanted = ["d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"].map(PathBuf::from);
        assert_eq!(parts, wanted);
    }
}
