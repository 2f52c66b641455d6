//! [`Feed`]: the rows of a sequence in a step.

/// The rows of a sequence in a step.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'a> {
    pub(super) sequence: usize,
    pub(super) rows: &'a [f32],
    pub(super) raw: Option<[&'a [f32]; 2]>,
}

impl<'a> Feed<'a> {
    /// Rows of a sequence, after those it has.
    pub fn new(sequence: usize, rows: &'a [f32]) -> Feed<'a> {
        Feed { sequence, rows, raw: None }
    }

    /// With what a feed-forward may read beside them: the stream before the norm and the input of the block. Else they are
    /// the rows, halved and negated.
    #[must_use]
    pub fn with_raw(mut self, stream: &'a [f32], block: &'a [f32]) -> Feed<'a> {
        self.raw = Some([stream, block]);
        self
    }
}
