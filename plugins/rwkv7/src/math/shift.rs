//! [`Shift`]: every token mixed with the one before it.

/// A sequence's rows in a step.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Its first row.
    pub first: usize,
    /// How many.
    pub rows: usize,
    /// The row before the first one, `[D]`; zeros where the sequence begins.
    pub before: &'a [f32],
}

/// Rows `[T, D]` and the sequences they are of, in order.
#[derive(Clone, Copy, Debug)]
pub struct Shift<'a> {
    /// The rows.
    pub x: &'a [f32],
    /// Elements of a row.
    pub width: usize,
    /// The sequences, which cover all rows.
    pub spans: &'a [Span<'a>],
}

impl<'a> Shift<'a> {
    /// The row before a row.
    fn before(&self, row: usize) -> &'a [f32] {
        let next = self.spans.partition_point(|span| span.first <= row);
        match self.spans.get(next.wrapping_sub(1)) {
            Some(span) if span.first == row => span.before,
            _ => &self.x[(row - 1) * self.width..row * self.width],
        }
    }

    /// `x + (before - x) * share` for the rows from `first` on, as many as `out` has; `share` is `[D]`.
    pub fn mix(&self, share: &[f32], first: usize, out: &mut [f32]) {
        for (row, out) in (first..).zip(out.chunks_exact_mut(self.width)) {
            let x = &self.x[row * self.width..(row + 1) * self.width];
            let before = self.before(row);
            for (((out, x), before), share) in out.iter_mut().zip(x).zip(before).zip(share) {
                *out = x + (before - x) * share;
            }
        }
    }

    /// The last row of a sequence: what comes before its next one. None if it has no row.
    pub fn last(&self, span: &Span<'_>) -> Option<&'a [f32]> {
        let end = (span.first + span.rows) * self.width;
        (span.rows > 0).then(|| &self.x[end - self.width..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_mixed_with_those_before_them_in_their_sequence() {
        let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let (a, b) = ([100.0, 200.0, 300.0], [-1.0, -2.0, -3.0]);
        let spans = [Span { first: 0, rows: 3, before: &a }, Span { first: 3, rows: 1, before: &b }];
        let shift = Shift { x: &x, width: 3, spans: &spans };
        let mut out = vec![0.0; 12];
        shift.mix(&[0.0, 0.5, 1.0], 0, &mut out);
        assert_eq!(out, [0.0, 100.5, 300.0, 3.0, 2.5, 2.0, 6.0, 5.5, 5.0, 9.0, 4.0, -3.0]);
        let mut part = vec![0.0; 6];
        shift.mix(&[0.0, 0.5, 1.0], 2, &mut part);
        assert_eq!(part, out[6..]);
        assert_eq!(shift.last(&spans[0]), Some(&[6.0, 7.0, 8.0][..]));
    }
}
