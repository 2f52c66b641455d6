//! `A-B`: a range of layers or positions as the value of an option.

use std::ops::RangeInclusive;

/// Parses `A-B` (inclusive) or one layer, counted from 0.
pub(crate) fn layer_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    range_of(text, "layer")
}

/// Parses `A-B` (inclusive) or one position, counted from 0.
pub(crate) fn position_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    range_of(text, "position")
}

fn range_of(text: &str, noun: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |text: &str| {
        let wrong = |_| format!("`{text}` is not a {noun}; expected A-B or A, counted from 0");
        text.trim().parse::<usize>().map_err(wrong)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("{first}-{last}: the last {noun} comes before the first"));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_two_numbers_or_one() {
        assert_eq!(layer_range("3-5"), Ok(3..=5));
        assert_eq!(layer_range("7"), Ok(7..=7));
        assert!(layer_range("5-3").unwrap_err().contains("before the first"));
        assert!(layer_range("-3").unwrap_err().contains("is not a layer"));
        assert!(position_range("x").unwrap_err().contains("`x` is not a position"));
        assert!(layer_range("a-b").unwrap_err().contains("`a` is not a layer"));
    }
}
