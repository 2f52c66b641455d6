//! Suggestions for names that are not known.

/// The known names nearest to `name` by edit distance, best first, at most three; none that differ in most letters.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let limit = (name.chars().count() / 2).max(2);
    let mut found: Vec<(usize, &str)> = known
        .filter_map(|candidate| {
            let distance =
                if !name.is_empty() && candidate.starts_with(name) { 1 } else { distance(name, candidate) };
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

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            *cell = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            diagonal = above;
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshtein() {
        for (a, b, expected) in [("", "", 0), ("kitten", "sitting", 3), ("", "abc", 3), ("qwen2", "qwen3", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_prefix_is_near_and_strangers_are_not() {
        let known = ["qwen2", "qwen35", "llama-bpe", "falcon"];
        assert_eq!(nearest("qwen", known.into_iter()), ["qwen2", "qwen35"]);
        assert!(nearest("zzzzzz", known.into_iter()).is_empty());
    }
}
