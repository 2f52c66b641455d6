//! [`HiddenTail`]: the newest rows that heads for further tokens read in a sequence.

/// Rows at consecutive positions of a sequence: of the model, and behind them those of each head but the last. They decide
/// what the heads guess, and never what the answer is.
#[derive(Clone, Debug, Default)]
pub(crate) struct HiddenTail {
    /// The position of the first row.
    first: usize,
    width: usize,
    values: Vec<f32>,
}

impl HiddenTail {
    /// Rows of this width, from position `first` on.
    pub(crate) fn new(first: usize, width: usize, values: Vec<f32>) -> Self {
        Self { first, width, values }
    }

    /// The row at the position before this one, if it is known.
    pub(crate) fn before(&self, position: usize) -> Option<&[f32]> {
        let start = position.checked_sub(1)?.checked_sub(self.first)?.checked_mul(self.width)?;
        self.values.get(start..start.checked_add(self.width)?).filter(|row| !row.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_before_a_position_is_found_where_it_is_known() {
        let tail = HiddenTail::new(4, 2, vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!([tail.before(5), tail.before(6)], [Some(&[1.0, 2.0][..]), Some(&[3.0, 4.0])]);
        assert_eq!([0, 4, 7].map(|position| tail.before(position)), [None; 3]);
        assert_eq!(HiddenTail::default().before(1), None);
    }
}
