//! [`ChainStage`]: the stages of a chain whose order a request may choose.

/// A stage of a sampling chain. Its options enable it: a stage with its neutral values does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainStage {
    /// The penalties on tokens that occurred.
    Penalties,
    /// The penalty on repeated sequences.
    Dry,
    /// Keeps the most likely tokens.
    TopK,
    /// Keeps the locally typical tokens.
    Typical,
    /// Keeps the most likely tokens that reach a probability.
    TopP,
    /// Keeps tokens with a share of the best probability.
    MinP,
    /// Removes the most likely tokens at random.
    Xtc,
    /// Divides logits; at 0 keeps the best token.
    Temperature,
    /// For texts with a gap: prefers short tokens, and the end where no token is likely.
    Infill,
}

impl ChainStage {
    /// Every stage.
    pub const ALL: [Self; 9] = [
        Self::Penalties,
        Self::Dry,
        Self::TopK,
        Self::Typical,
        Self::TopP,
        Self::MinP,
        Self::Xtc,
        Self::Temperature,
        Self::Infill,
    ];

    /// Its name in requests to llama.cpp's server.
    pub fn name(self) -> &'static str {
        match self {
            Self::Penalties => "penalties",
            Self::Dry => "dry",
            Self::TopK => "top_k",
            Self::Typical => "typ_p",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::Xtc => "xtc",
            Self::Temperature => "temperature",
            Self::Infill => "infill",
        }
    }
}
