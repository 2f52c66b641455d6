//! [`nearest`]: the known name that a misspelled one probably means, and the clause that error messages append.

use std::fmt::Display;

/// Longest name that is compared, in characters.
const LONGEST: usize = 128;

/// Maximum number of candidates that are compared: a damaged file can have millions of keys.
const CANDIDATES: usize = 5000;

/// Minimum share of matching words in two names that differ in too many letters.
const WORDS_AGREE: f64 = 0.75;

/// The candidate most similar to `name`, or `None` if no candidate is similar enough. Case is ignored.
///
/// The measure is the edit distance (optimal string alignment: insertions, deletions, replacements, and swaps of
/// adjacent letters). It may be at most a third of the longer name, and 1 is always enough. Names of several words are
/// also compared word by word, in any order and with abbreviations: `attn_post_norm` is near `post_attention_norm`. If
/// two candidates are equally similar, the first one is returned.
///
/// ```
/// use menagerie_entries::nearest;
///
/// assert_eq!(nearest("lama", ["falcon", "llama"]), Some("llama"));
/// assert_eq!(nearest("gpt2", ["falcon", "llama"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().count() > LONGEST {
        return None;
    }
    let lower = name.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates.into_iter().take(CANDIDATES) {
        let other = candidate.to_lowercase();
        let score = by_letters(&lower, &other).max(by_words(&lower, &other));
        if score > best.map_or(0.0, |(old, _)| old) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The clause of an error message that names the nearest name, ``; the nearest is `x` ``; empty if there is none.
///
/// ```
/// use menagerie_entries::{nearest, nearest_clause};
///
/// let known = ["falcon", "llama"];
/// let clause = |name: &str| nearest_clause(nearest(name, known));
/// assert_eq!(format!("unknown name `lama`{}", clause("lama")), "unknown name `lama`; the nearest is `llama`");
/// assert_eq!(clause("gpt2"), "");
/// ```
pub fn nearest_clause(nearest: Option<impl Display>) -> String {
    nearest.map_or_else(String::new, |name| format!("; the nearest is `{name}`"))
}

/// Whether one edit turns one name into the other: an inserted, deleted or replaced letter, or a swap of adjacent
/// letters.
///
/// Stricter than [`nearest`], for warnings about names that are valid and may be intended.
pub fn is_one_edit_apart(name: &str, other: &str) -> bool {
    name.len().abs_diff(other.len()) <= 4 && strsim::osa_distance(name, other) == 1
}

/// 1 for equal names, 0 for names that differ too much.
fn by_letters(name: &str, candidate: &str) -> f64 {
    let (length, other) = (name.chars().count(), candidate.chars().count());
    let longer = length.max(other);
    let limit = (longer / 3).max(1);
    if other > LONGEST || length.abs_diff(other) > limit {
        return 0.0;
    }
    let distance = strsim::osa_distance(name, candidate);
    // A distance as large as the name means that no letter is in common.
    if distance > limit { 0.0 } else { (1.0 - distance as f64 / (longer + 1) as f64).max(0.01) }
}

/// Share of matching words in two names; 0 if a name has one word only or if too few words match.
fn by_words(name: &str, candidate: &str) -> f64 {
    if candidate.len() > 4 * LONGEST {
        return 0.0;
    }
    let words = |text: &'_ str| text.split(['_', '.', '-']).map(str::to_owned).collect::<Vec<String>>();
    let (own, mut others) = (words(name), words(candidate));
    let count = own.len() + others.len();
    if own.len() < 2 || others.len() < 2 {
        return 0.0;
    }
    let mut agree = 0.0;
    for word in &own {
        let scored = others.iter().enumerate().map(|(at, other)| (alike(word, other), at));
        if let Some((score, at)) = scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
            agree += score;
            others.swap_remove(at);
        }
    }
    let share = 2.0 * agree / count as f64;
    if share < WORDS_AGREE { 0.0 } else { share }
}

/// 1 for equal words, less for misspellings and abbreviations, 0 otherwise.
fn alike(word: &str, other: &str) -> f64 {
    let (short, long) = if word.len() < other.len() { (word, other) } else { (other, word) };
    let abbreviates = || {
        let mut letters = long.chars();
        short.len() > 2
            && short.chars().next() == long.chars().next()
            && short.chars().all(|letter| letters.by_ref().any(|one| one == letter))
    };
    if word == other {
        1.0
    } else if abbreviates() {
        0.8
    } else {
        0.7 * by_letters(word, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_found_and_different_names_are_not() {
        let names = ["attention.sliding_window", "attention.scale", "rope.freq_base"];
        assert_eq!(nearest("attention.slidng_window", names), Some("attention.sliding_window"));
        assert_eq!(nearest("rope.freq_bsae", names), Some("rope.freq_base"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(nearest("ab", ["ba"]), Some("ba"));
        assert_eq!(nearest("LAMA", ["Llama"]), Some("Llama"));
        assert_eq!(
            nearest("attn_post_norm", ["attn_k_norm", "post_attention_norm"]),
            Some("post_attention_norm")
        );
        assert_eq!(nearest("sliding_window.attention", names), Some("attention.sliding_window"));
        assert_eq!(nearest("attn_foo", ["ffn_bar", "output"]), None);
        assert_eq!(nearest(&"x".repeat(1000), [&*"x".repeat(1000)]), None, "too long to compare");
    }
}
