//! [`Truncation`]: what happens to texts with more tokens than the context.

/// What happens to a text with more tokens than the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// It is an error.
    #[default]
    Refuse,
    /// Its last tokens are cut; the special tokens around it stay.
    End,
}

/// A text, or a query with a document, as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTokens {
    /// The tokens, with the special tokens around the text.
    pub tokens: Vec<u32>,
    /// Where the second text starts, in a pair of texts for a reranker.
    pub second: Option<usize>,
    /// The number of tokens that were cut.
    pub cut: usize,
}

/// A reranker's result for a document.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentScores {
    /// Its scores `[labels]`.
    pub scores: Vec<f32>,
    /// The number of tokens of query and document that were cut.
    pub cut: usize,
}
