//! Dimensions of tensors with their symbols, for checks with readable messages.

use menagerie_spec::kind::Dim;

/// A dimension of known size.
pub(crate) fn of(text: &'static str, size: usize) -> Dim {
    Dim { text, size: Some(size as u64) }
}

/// A dimension whose size the tensor determines.
pub(crate) fn free(text: &'static str) -> Dim {
    Dim { text, size: None }
}

/// Whether `found` (fastest first) has these dimensions; leading and trailing ones are ignored.
pub(crate) fn fits(expected: &[Dim], found: &[u64]) -> bool {
    let leading = expected.iter().take_while(|dim| dim.size == Some(1)).count();
    fits_in_order(expected, found) || (leading > 0 && fits_in_order(&expected[leading..], found))
}

fn fits_in_order(expected: &[Dim], found: &[u64]) -> bool {
    let size = |at: usize| found.get(at).copied().unwrap_or(1);
    let inside = expected.iter().enumerate().all(|(at, dim)| match dim.size {
        Some(expected) => size(at) == expected,
        None => size(at) > 0,
    });
    inside && found.iter().skip(expected.len()).all(|size| *size == 1)
}

/// `[D=2048, F=768, E]`.
pub(crate) fn written(expected: &[Dim]) -> String {
    let dim = |dim: &Dim| match dim.size {
        Some(size) if dim.text == size.to_string() => size.to_string(),
        Some(size) => format!("{}={size}", dim.text),
        None => dim.text.to_owned(),
    };
    format!("[{}]", expected.iter().map(dim).collect::<Vec<_>>().join(", "))
}

/// The size of the free symbol in a dimension (`F`, `2*F`) with which the dimension has `size`, if there is one.
pub(crate) fn solve(text: &'static str, size: u64) -> Option<(&'static str, u64)> {
    match text.split_once('*') {
        None => Some((text, size)),
        Some((factor, symbol)) => {
            let factor: u64 = factor.parse().ok()?;
            (factor > 0 && size.is_multiple_of(factor)).then(|| (symbol, size / factor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_dimensions_take_any_size_and_trailing_ones_do_not_count() {
        let expected = [of("D", 64), free("F")];
        assert!(fits(&expected, &[64, 7]) && fits(&expected, &[64, 7, 1]) && fits(&expected, &[64]));
        assert!(!fits(&expected, &[63, 7]) && !fits(&expected, &[64, 7, 2]) && !fits(&expected, &[64, 0]));
        assert_eq!(written(&expected), "[D=64, F]");
        let column = [of("1", 1), of("heads", 8)];
        assert!(fits(&column, &[1, 8]) && fits(&column, &[8]) && !fits(&column, &[8, 8]));
    }

    #[test]
    fn a_multiple_of_a_free_size_gives_the_size() {
        assert_eq!(solve("F", 7), Some(("F", 7)));
        assert_eq!(solve("2*F", 14), Some(("F", 7)));
        assert_eq!(solve("2*F", 15), None);
    }
}
