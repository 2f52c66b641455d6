//! The nearest name: what somebody who wrote an unknown name probably meant.

/// Longest name a neighbour is looked for.
const LONGEST: usize = 128;

/// The candidate nearest to `name` by edit distance, if it is near enough to be a likely slip.
///
/// Distance is optimal string alignment: insertions, deletions, replacements, and swaps of neighbours. Near enough is a
/// distance of at most a third of the longer name, at least 1. Ties go to the first candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other = candidate.chars().count();
        let limit = (length.max(other) / 3).max(1);
        if other > LONGEST || length.abs_diff(other) > limit {
            continue;
        }
        let distance = strsim::osa_distance(name, candidate);
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
        assert_eq!(nearest(&"x".repeat(1000), [&*"x".repeat(1000)]), None, "too long to be worth the time");
    }
}
