//! [`Truncation`]: what becomes of texts with more tokens than a model takes.

/// What becomes of a text that has more tokens than the context holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// It is refused.
    #[default]
    Refuse,
    /// Its last tokens are left out; the marks around it stay.
    End,
}

/// A text as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTokens {
    /// The tokens, with what the file puts around a text.
    pub tokens: Vec<u32>,
    /// How many tokens of the text were left out.
    pub cut: usize,
}

/// What a reranker says of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentScores {
    /// Its scores `[labels]`.
    pub scores: Vec<f32>,
    /// How many tokens of query and document were left out.
    pub cut: usize,
}
