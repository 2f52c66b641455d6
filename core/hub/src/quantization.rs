//! Selects the GGUF files of a reference in a repository.

use std::collections::BTreeMap;

/// The quantization of a reference without one, if the repository has it.
pub(crate) const DEFAULT: &str = "Q4_K_M";

/// The result of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChoice {
    /// No file matches.
    Nothing,
    /// One model: its file, or all parts of a split model, in order.
    Files(Vec<String>),
    /// Several match: the first file of each.
    Ambiguous(Vec<String>),
}

/// Selects a model.
///
/// Without a quantization, the default one, or the only model. Projectors (`mmproj`) and importance matrices are never
/// selected.
pub(crate) fn choose(files: &[String], wanted: Option<&str>) -> FileChoice {
    let models = models(files);
    let labeled = |label: &str| -> Vec<&Vec<String>> {
        models.values().filter(|parts| has_label(&parts[0], label)).collect()
    };
    let fitting = match wanted {
        Some(wanted) => labeled(wanted),
        None => Some(labeled(DEFAULT)).filter(|fit| !fit.is_empty()).unwrap_or(models.values().collect()),
    };
    match fitting.as_slice() {
        [] => FileChoice::Nothing,
        [parts] => FileChoice::Files((*parts).clone()),
        several => FileChoice::Ambiguous(several.iter().map(|parts| parts[0].clone()).collect()),
    }
}

/// Every model of a list: its parts in order, by the name without part numbers.
pub(crate) fn models(files: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut models: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_model(file)) {
        let key = split(file).map_or_else(|| file.clone(), |split| split.key());
        models.entry(key).or_default().push(file.clone());
    }
    models.values_mut().for_each(|parts| parts.sort());
    models
}

/// The parts that a split model must have, given the name of any part; only the file if it is not split.
pub(crate) fn parts(file: &str) -> Vec<String> {
    match split(file) {
        Some(split) => (1..=split.total).map(|part| split.part(part)).collect(),
        None => vec![file.to_owned()],
    }
}

/// Whether the file is a GGUF file with the weights of a model.
pub(crate) fn is_model(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    lower.ends_with(".gguf") && !lower.contains("mmproj") && !lower.contains("imatrix")
}

/// Whether a file name contains a quantization label between separators, in any case.
fn has_label(file: &str, label: &str) -> bool {
    let (file, label) = (file.to_ascii_lowercase(), label.to_ascii_lowercase());
    let boundary = |c: Option<char>| c.is_none_or(|c| matches!(c, '-' | '.' | '/' | '_'));
    file.match_indices(&label).any(|(at, found)| {
        let before = file[..at].chars().next_back();
        let after = file[at + found.len()..].chars().next();
        boundary(before) && boundary(after) && after != Some('_')
    })
}

/// `dir/name-00001-of-00003.gguf`.
struct Split<'a> {
    stem: &'a str,
    total: u32,
}

impl Split<'_> {
    fn key(&self) -> String {
        format!("{} of {}", self.stem, self.total)
    }

    fn part(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.total)
    }
}

fn split(file: &str) -> Option<Split<'_>> {
    let (rest, total) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let number = |text: &str| -> Option<u32> { if text.len() == 5 { text.parse().ok() } else { None } };
    let (part, total) = (number(part)?, number(total)?);
    (1..=total).contains(&part).then_some(Split { stem, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn label_is_matched_whole() {
        let all =
            files(&["m-Q4_K_S.gguf", "m-Q4_K_M.gguf", "m-Q4_K.gguf", "m.q8_0.gguf", "mmproj-m-Q8_0.gguf"]);
        let one = |name: &str| FileChoice::Files(files(&[name]));
        assert_eq!(choose(&all, Some("q4_k")), one("m-Q4_K.gguf"));
        assert_eq!(choose(&all, Some("Q8_0")), one("m.q8_0.gguf"));
        assert_eq!(choose(&all, None), one("m-Q4_K_M.gguf"));
        assert_eq!(choose(&all, Some("Q5_0")), FileChoice::Nothing);
        assert_eq!(choose(&files(&["README.md"]), None), FileChoice::Nothing);
        assert_eq!(choose(&files(&["m-F16.gguf"]), None), one("m-F16.gguf"));
    }

    /// A36: what fits several is asked about, not guessed.
    #[test]
    fn several_that_fit_are_unclear() {
        let all = files(&["a-Q8_0.gguf", "b-Q8_0.gguf", "a-F16.gguf"]);
        assert_eq!(choose(&all, Some("Q8_0")), FileChoice::Ambiguous(files(&["a-Q8_0.gguf", "b-Q8_0.gguf"])));
        assert_eq!(
            choose(&all, None),
            FileChoice::Ambiguous(files(&["a-F16.gguf", "a-Q8_0.gguf", "b-Q8_0.gguf"]))
        );
    }

    #[test]
    fn all_parts_of_a_split_model_are_taken() {
        let all =
            files(&["Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "m-F16.gguf"]);
        let both = files(&["Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"]);
        assert_eq!(choose(&all, Some("Q8_0")), FileChoice::Files(both.clone()));
        assert_eq!(parts("Q8_0/m-Q8_0-00002-of-00002.gguf"), both);
        assert_eq!(parts("m-F16.gguf"), ["m-F16.gguf"]);
        assert_eq!(parts("m-00003-of-00002.gguf"), ["m-00003-of-00002.gguf"]);
    }
}
