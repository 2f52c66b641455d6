//! [`Framing`]: the special tokens around a text.

/// Tokens around one text, and around two that are scored together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Framing {
    pub(crate) opening: Vec<u32>,
    pub(crate) closing: Vec<u32>,
    /// Between two texts, after `closing`.
    pub(crate) between: Vec<u32>,
    /// After the second of two texts.
    pub(crate) ending: Vec<u32>,
}

impl Framing {
    /// A text with its special tokens, unless they are present.
    pub(crate) fn around(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if !ids.starts_with(&self.opening) {
            ids.splice(0..0, self.opening.iter().copied());
        }
        if !ids.ends_with(&self.closing) {
            ids.extend(&self.closing);
        }
        ids
    }

    /// Two texts, and the position where the second begins.
    pub(crate) fn pair(&self, first: Vec<u32>, second: &[u32]) -> (Vec<u32>, usize) {
        let mut ids = self.around(first);
        ids.extend(&self.between);
        let second_begins = ids.len();
        ids.extend_from_slice(second);
        ids.extend(&self.ending);
        (ids, second_begins)
    }

    /// All of its tokens.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &u32> {
        [&self.opening, &self.closing, &self.between, &self.ending].into_iter().flatten()
    }
}
