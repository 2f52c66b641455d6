//! [`Dim`]: a dimension with its symbol, for checks whose messages can be read.

/// A dimension a tensor must have; without a size it is taken from the tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    symbol: &'static str,
    size: Option<usize>,
}

impl Dim {
    /// A dimension of known size.
    pub(crate) fn of(symbol: &'static str, size: usize) -> Self {
        Self { symbol, size: Some(size) }
    }

    /// A dimension that the tensor decides.
    pub(crate) fn free(symbol: &'static str) -> Self {
        Self { symbol, size: None }
    }
}

/// Whether `found` (fastest first) has these dimensions; trailing ones do not count.
pub(crate) fn fits(expected: &[Dim], found: &[u64]) -> bool {
    let size = |at: usize| found.get(at).copied().unwrap_or(1);
    let inside = expected.iter().enumerate().all(|(at, dim)| match dim.size {
        Some(wanted) => size(at) == wanted as u64,
        None => size(at) > 0,
    });
    inside && found.iter().skip(expected.len()).all(|size| *size == 1)
}

/// `[D=2048, F=768, E]`.
pub(crate) fn written(expected: &[Dim]) -> String {
    let dims: Vec<String> = expected
        .iter()
        .map(|dim| dim.size.map_or_else(|| dim.symbol.to_owned(), |size| format!("{}={size}", dim.symbol)))
        .collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_dimensions_take_any_size_and_trailing_ones_do_not_count() {
        let expected = [Dim::of("D", 64), Dim::free("F")];
        assert!(fits(&expected, &[64, 7]) && fits(&expected, &[64, 7, 1]) && fits(&expected, &[64]));
        assert!(!fits(&expected, &[63, 7]) && !fits(&expected, &[64, 7, 2]) && !fits(&expected, &[64, 0]));
        assert_eq!(written(&expected), "[D=64, F]");
    }
}
