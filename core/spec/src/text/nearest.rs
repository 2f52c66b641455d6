//! The nearest name: what somebody who wrote an unknown name probably meant.

/// Longest name a neighbor is looked for.
const LONGEST: usize = 128;

/// Most candidates that are looked at: a broken file can have millions of keys.
const CANDIDATES: usize = 5000;

/// Share of the words of two names that must agree where the names as wholes are too far apart.
const WORDS_AGREE: f64 = 0.75;

/// The candidate nearest to `name`, if it is near enough to be meant.
///
/// By edit distance (optimal string alignment: insertions, deletions, replacements, and swaps of neighbors), near enough
/// is a distance of at most a third of the longer name, at least 1. Names of several words are also compared word by word
/// in any order, abbreviations counted (`attn_post_norm` is near `post_attention_norm`). Ties go to the first candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().count() > LONGEST {
        return None;
    }
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates.into_iter().take(CANDIDATES) {
        let score = by_letters(name, candidate).max(by_words(name, candidate));
        if score > best.map_or(0.0, |(old, _)| old) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// 1 for equal names, 0 for names that are too far apart.
fn by_letters(name: &str, candidate: &str) -> f64 {
    let (length, other) = (name.chars().count(), candidate.chars().count());
    let longer = length.max(other);
    let limit = (longer / 3).max(1);
    if other > LONGEST || length.abs_diff(other) > limit {
        return 0.0;
    }
    let distance = strsim::osa_distance(name, candidate);
    // A distance as large as the name leaves no letter in common.
    if distance > limit { 0.0 } else { (1.0 - distance as f64 / (longer + 1) as f64).max(0.01) }
}

/// Whether one edit (a letter more, less or another, or two neighbors swapped) makes one name the other.
pub(crate) fn is_one_edit_apart(name: &str, other: &str) -> bool {
    name.len().abs_diff(other.len()) <= 4 && strsim::osa_distance(name, other) == 1
}

/// Share of the words of two names that agree; 0 for names of one word, and where too few agree.
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

/// 1 for equal words, less for a slip or an abbreviation, else 0.
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

/// `"; the nearest is x"`, or nothing.
pub(crate) fn nearest_help<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|found| format!("; the nearest is `{found}`")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_far() {
        let names = ["attention.sliding_window", "attention.scale", "rope.freq_base"];
        assert_eq!(nearest("attention.slidng_window", names), Some("attention.sliding_window"));
        assert_eq!(nearest("rope.freq_bsae", names), Some("rope.freq_base"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(nearest("ab", ["ba"]), Some("ba"));
        assert_eq!(
            nearest("attn_post_norm", ["attn_k_norm", "post_attention_norm"]),
            Some("post_attention_norm")
        );
        assert_eq!(nearest("sliding_window.attention", names), Some("attention.sliding_window"));
        assert_eq!(nearest("attn_foo", ["ffn_bar", "output"]), None);
        assert_eq!(nearest(&"x".repeat(1000), [&*"x".repeat(1000)]), None, "too long to be worth the time");
    }
}
