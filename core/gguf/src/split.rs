//! Split models: `name-00001-of-00003.gguf`, and the keys with the number of a part.

use std::path::{Path, PathBuf};

use crate::error::GgufErrorKind;
use crate::metadata::Metadata;

/// The number of a part, from 0 (llama.cpp's gguf-split).
pub(crate) const NUMBER_KEY: &str = "split.no";
/// The number of parts.
pub(crate) const COUNT_KEY: &str = "split.count";
/// The number of tensors in all parts together.
pub(crate) const TENSORS_KEY: &str = "split.tensors.count";

/// The name of a part: `<stem>-<number>-of-<count>.gguf`, both with five digits, the number counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitName {
    /// Everything before the numbers, without the folder.
    pub(crate) stem: String,
    /// The number of the part, from 1.
    pub(crate) number: u32,
    /// The number of parts.
    pub(crate) count: u32,
}

impl SplitName {
    /// Parses the name of a file; `None` if it is not the name of a part.
    pub(crate) fn parse(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let name = path.file_name()?.to_str()?;
        let (rest, extension) = name.rsplit_once('.')?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let five = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let digits = |text: &str| five(text).then(|| text.parse::<u32>().ok()).flatten();
        let (number, count) = (digits(number)?, digits(count)?);
        let whole = extension.eq_ignore_ascii_case("gguf") && (1..=count).contains(&number);
        whole.then(|| Self { stem: stem.to_string(), number, count })
    }

    /// The name of part `number` (from 1), without the folder.
    pub(crate) fn file_name(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count)
    }

    /// The paths of all parts in the folder of `path`, in order, whether they exist or not; `path` itself is among
    /// them unchanged.
    pub(crate) fn siblings(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let path = path.as_ref();
        let other = |number| path.with_file_name(self.file_name(number));
        (1..=self.count)
            .map(|number| if number == self.number { path.into() } else { other(number) })
            .collect()
    }
}

/// The split keys of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitKeys {
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) tensors: Option<u64>,
}

impl SplitKeys {
    /// `None` for a whole file: no count, or a count of one.
    pub(crate) fn read(metadata: &Metadata) -> Result<Option<Self>, GgufErrorKind> {
        let Some(count) = number(metadata, COUNT_KEY)? else { return Ok(None) };
        let part = number(metadata, NUMBER_KEY)?.unwrap_or(0);
        let tensors = number(metadata, TENSORS_KEY)?;
        if count > u64::from(u16::MAX) {
            return Err(wrong(format!("{COUNT_KEY} is {count}, more than {}", u16::MAX)));
        }
        if part >= count.max(1) {
            return Err(wrong(format!(
                "{NUMBER_KEY} is {part}, but {COUNT_KEY} is {count} (numbers count from 0)"
            )));
        }
        Ok((count > 1).then_some(Self { number: part, count, tensors }))
    }
}

pub(crate) fn wrong(problem: String) -> GgufErrorKind {
    GgufErrorKind::Split { problem }
}

fn number(metadata: &Metadata, key: &str) -> Result<Option<u64>, GgufErrorKind> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    let number = value.as_u64();
    number.map(Some).ok_or_else(|| {
        wrong(format!("{key} is not a count (its type is {}); the file is damaged", value.value_type()))
    })
}

/// The paths of all parts, from one of them and its keys; an error if its name and its keys disagree.
pub(crate) fn part_paths(path: &Path, keys: SplitKeys) -> Result<Vec<PathBuf>, GgufErrorKind> {
    let expected = format!("<name>-{:05}-of-{:05}.gguf", keys.number + 1, keys.count);
    let Some(name) = SplitName::parse(path) else {
        return Err(wrong(format!(
            "this is part {} of {}, but its name does not say so, so the other parts cannot be found; name the parts {expected}",
            keys.number + 1,
            keys.count
        )));
    };
    if u64::from(name.count) != keys.count || u64::from(name.number) != keys.number + 1 {
        return Err(wrong(format!(
            "the name says part {} of {}, the file says part {} of {}; give the parts their names back ({expected})",
            name.number,
            name.count,
            keys.number + 1,
            keys.count
        )));
    }
    let paths = name.siblings(path);
    let missing: Vec<PathBuf> = paths.iter().filter(|path| !path.exists()).cloned().collect();
    if !missing.is_empty() {
        return Err(GgufErrorKind::MissingParts { missing, count: name.count });
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let path = Path::new("/models/big-Q4_K-00002-of-00011.gguf");
        let name = SplitName::parse(path).unwrap();
        assert_eq!((name.stem.as_str(), name.number, name.count), ("big-Q4_K", 2, 11));
        assert_eq!(name.file_name(11), "big-Q4_K-00011-of-00011.gguf");
        let siblings = name.siblings(path);
        assert_eq!(siblings.len(), 11);
        assert_eq!(siblings[1], path);
        assert_eq!(siblings[0], Path::new("/models/big-Q4_K-00001-of-00011.gguf"));
    }

    #[test]
    fn other_names_are_not_parts() {
        for name in [
            "model.gguf",
            "model-1-of-2.gguf",
            "model-00000-of-00002.gguf",
            "model-00003-of-00002.gguf",
            "model-00001-of-00002.safetensors",
            "model-+0001-of-00002.gguf",
            "00001-of-00002.gguf",
            "",
        ] {
            assert_eq!(SplitName::parse(Path::new(name)), None, "{name}");
        }
    }
}
