//! Suggestions for names that are not known.

/// The known names nearest to `name` by edit distance, best first, at most three; none that differ in most letters.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let limit = (name.chars().count() / 2).max(2);
    let mut found: Vec<(usize, &str)> = known
        .filter_map(|candidate| {
            let begins = !name.is_empty() && candidate.starts_with(name);
            let distance = if begins { 1 } else { strsim::levenshtein(name, candidate) };
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    found.sort_unstable();
    found.truncate(3);
    found.into_iter().map(|(_, candidate)| candidate.to_owned()).collect()
}

/// `; the nearest are "a", "b"`, or nothing.
pub(crate) fn nearest_clause(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("; the nearest known one is {one}"),
        _ => format!("; the nearest known ones are {}", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_near_and_strangers_are_not() {
        let known = ["qwen2", "qwen35", "llama-bpe", "falcon"];
        assert_eq!(nearest("qwen", known.into_iter()), ["qwen2", "qwen35"]);
        assert!(nearest("zzzzzz", known.into_iter()).is_empty());
    }
}
