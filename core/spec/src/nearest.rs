//! The nearest name: what somebody who wrote an unknown name probably meant.

/// The candidate nearest to `name` by edit distance, if it is near enough to be a likely slip.
///
/// Near enough is a distance of at most a third of the longer name, at least 1. Ties go to the first candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other = candidate.chars().count();
        let limit = (length.max(other) / 3).max(1);
        if length.abs_diff(other) > limit {
            continue;
        }
        let distance = distance(name, candidate);
        if distance <= limit && best.is_none_or(|(old, _)| distance < old) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `"; the nearest is x"`, or nothing.
pub(crate) fn nearest_help<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|found| format!("; the nearest is `{found}`")).unwrap_or_default()
}

/// Optimal string alignment distance: insertions, deletions, replacements, and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
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
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
