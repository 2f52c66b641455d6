//! The families of components: traits for what they compute.

use crate::call::{Call, Raw};
use crate::component::Component;
use crate::error::Result;
use crate::host::Host;
use crate::rows::{Rows, RowsMut};

/// Whether a mixer is causal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Causality {
    /// A token depends on itself and earlier tokens, so a sequence can be computed in parts.
    Causal,
    /// A token also depends on later tokens, so a sequence is computed in one step.
    Bidirectional,
}

/// Mixes the tokens of a sequence. May be called from several threads at once.
pub trait Mixer: Component {
    /// Whether it is causal.
    const CAUSALITY: Causality = Causality::Causal;

    /// Whether a row has the same bits whichever other rows are computed with it, and in however many calls. Products of the
    /// host have this property; sums over rows in another order have not. A model with a state per sequence of a component
    /// that does not declare it cannot be drafted (`--draft`). [`testing::check`](crate::testing::check) tests it.
    const EXACT_ROWS: bool = false;

    /// Computes `call.output [T, D]`, which the host adds to the residual stream, from `call.x [T, D]`, which the host has
    /// normalized.
    ///
    /// # Errors
    /// An error of the host.
    fn forward(&self, call: Call) -> Result<()>;
}

/// Transforms each token; states can carry data from earlier tokens. May be called from several threads at once.
pub trait FeedForward: Component {
    /// As [`Mixer::EXACT_ROWS`].
    const EXACT_ROWS: bool = false;

    /// Computes `call.output [T, D]`, which the host adds to the residual stream, from `call.x [T, D]`, which the host has
    /// normalized.
    ///
    /// # Errors
    /// An error of the host.
    fn forward(&self, call: Call, raw: Raw) -> Result<()>;
}

/// Normalizes each row. May be called from several threads at once.
pub trait Norm: Component {
    /// Computes `output [T, width]` from `x [T, width]`.
    ///
    /// # Errors
    /// An error of the host.
    fn forward(&self, x: Rows, output: RowsMut, host: &Host) -> Result<()>;
}

/// A function of each element. May be called from several threads at once.
pub trait Activation: Component {
    /// Computes `output [T, F]` from `x [T, F]`.
    ///
    /// # Errors
    /// An error of the host.
    fn forward(&self, x: Rows, output: RowsMut, host: &Host) -> Result<()>;
}

/// The frequencies of a rope.
pub trait Rope: Component {
    /// Writes the frequencies of a head.
    ///
    /// # Errors
    /// Unsupported sizes.
    fn frequencies(&self, call: FrequencyCall) -> Result<()>;
}

/// The arguments of [`Rope::frequencies`].
#[derive(Debug)]
#[non_exhaustive]
pub struct FrequencyCall<'a> {
    /// Base of the rope.
    pub base: f64,
    /// Number of rotated elements of a head.
    pub rotated: usize,
    /// Length of the sequence if the frequencies depend on it, otherwise the context of the model.
    pub context_length: usize,
    /// Radians per position of each pair, `[rotated / 2]`, to be written.
    pub frequencies: &'a mut [f32],
    /// Multiplies cosines and sines; 1 before the call.
    pub magnitude: &'a mut f32,
}

/// A step of the sampler chain; there is one instance per request, called for each token.
pub trait Sampler: Component {
    /// Changes the logits in place.
    ///
    /// # Errors
    /// Logits that cannot be sampled.
    fn sample(&self, call: SampleCall) -> Result<()>;
}

/// The arguments of [`Sampler::sample`].
#[derive(Debug)]
#[non_exhaustive]
pub struct SampleCall<'a> {
    /// Logits `[V]`, changed in place; minus infinity removes a token.
    pub logits: &'a mut [f32],
    /// The tokens so far, including the prompt.
    pub tokens: &'a [u32],
    /// Number of tokens of the prompt.
    pub prompt: usize,
    /// A random number that only depends on the seed and the position.
    pub random: u64,
}

/// Converts texts to tokens and back. May be called from several threads at once.
pub trait Tokenizer: Component {
    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()>;

    /// Appends the bytes of a token.
    ///
    /// # Errors
    /// An unknown id.
    fn decode(&self, id: u32, bytes: &mut Vec<u8>) -> Result<()>;
}
