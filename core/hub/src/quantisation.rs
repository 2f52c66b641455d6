//! Which GGUF files of a repository a reference means.

/// Quantisation taken when the reference names none and the repository has it.
pub const DEFAULT: &str = "Q4_K_M";

/// The files to fetch: one, or every part of a split model. `None` if nothing fits.
///
/// Without a wanted quantisation: the default one, else the first GGUF by name. Projectors (`mmproj`) and importance
/// matrices are never taken.
pub fn choose(files: &[String], wanted: Option<&str>) -> Option<Vec<String>> {
    let mut models: Vec<&String> = files.iter().filter(|file| is_model(file)).collect();
    models.sort();
    let first = match wanted {
        Some(wanted) => models.iter().find(|file| has_label(file, wanted))?,
        None => models.iter().find(|file| has_label(file, DEFAULT)).or(models.first())?,
    };
    Some(match split_stem(first) {
        Some(stem) => {
            models.iter().filter(|file| split_stem(file) == Some(stem)).map(ToString::to_string).collect()
        }
        None => vec![first.to_string()],
    })
}

/// Whether the file is a GGUF with weights of a model.
pub fn is_model(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    lower.ends_with(".gguf") && !lower.contains("mmproj") && !lower.contains("imatrix")
}

/// Whether a file name carries a quantisation label between separators, whatever the case.
fn has_label(file: &str, label: &str) -> bool {
    let (file, label) = (file.to_ascii_lowercase(), label.to_ascii_lowercase());
    let boundary = |c: Option<char>| c.is_none_or(|c| matches!(c, '-' | '.' | '/' | '_'));
    file.match_indices(&label).any(|(at, found)| {
        let before = file[..at].chars().next_back();
        let after = file[at + found.len()..].chars().next();
        boundary(before) && boundary(after) && after != Some('_')
    })
}

/// `dir/name` of `dir/name-00001-of-00003.gguf`.
fn split_stem(file: &str) -> Option<&str> {
    let stem = file.strip_suffix(".gguf")?;
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (name, part) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(total) && digits(part)).then_some(name)
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
        assert_eq!(choose(&all, Some("q4_k")), Some(files(&["m-Q4_K.gguf"])));
        assert_eq!(choose(&all, Some("Q8_0")), Some(files(&["m.q8_0.gguf"])));
        assert_eq!(choose(&all, None), Some(files(&["m-Q4_K_M.gguf"])));
        assert_eq!(choose(&all, Some("Q5_0")), None);
        assert_eq!(choose(&files(&["README.md"]), None), None);
    }

    #[test]
    fn all_parts_of_a_split_model_are_taken() {
        let all =
            files(&["Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf", "m-F16.gguf"]);
        assert_eq!(
            choose(&all, Some("Q8_0")),
            Some(files(&["Q8_0/m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf"]))
        );
    }
}
