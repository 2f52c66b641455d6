//! `A-B`: layers as an option names them.

use std::ops::RangeInclusive;

/// Layers `A-B`, both of them meant, or one, counted from 0.
pub(crate) fn layer_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |text: &str| {
        text.trim().parse::<usize>().map_err(|_| format!("`{text}` is no layer; A-B or A is wanted, from 0"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("{first}-{last}: the last layer comes before the first"));
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
        assert!(layer_range("-3").unwrap_err().contains("is no layer"));
        assert!(layer_range("a-b").unwrap_err().contains("`a` is no layer"));
    }
}
