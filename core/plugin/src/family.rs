//! The families: what a component computes.

use crate::call::{Call, Raw};
use crate::component::Component;
use crate::error::Result;
use crate::host::Host;
use crate::rows::{Rows, RowsMut};

/// Whether the tokens that a mixer mixes see later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Causality {
    /// A token sees itself and earlier ones: a sequence may be computed in parts.
    Causal,
    /// A token sees later ones too: a sequence is computed in one step.
    Bidirectional,
}

/// Mixes the tokens of a sequence. May be called from several threads at once.
pub trait Mixer: Component {
    /// Whether tokens see later ones.
    const CAUSALITY: Causality = Causality::Causal;

    /// Rows `call.x [T, D]` (normed by the host) to `call.output [T, D]`, which the host adds to the stream.
    ///
    /// # Errors
    /// What the host says.
    fn forward(&self, call: Call) -> Result<()>;
}

/// Transforms each token; it may have states, for what it takes from earlier ones. May be called from several threads at
/// once.
pub trait FeedForward: Component {
    /// Rows `call.x [T, D]` (normed by the host) to `call.output [T, D]`, which the host adds to the stream.
    ///
    /// # Errors
    /// What the host says.
    fn forward(&self, call: Call, raw: Raw) -> Result<()>;
}

/// Norms each row. May be called from several threads at once.
pub trait Norm: Component {
    /// `x [T, width]` to `output [T, width]`.
    ///
    /// # Errors
    /// What the host says.
    fn forward(&self, x: Rows, output: RowsMut, host: &Host) -> Result<()>;
}

/// A function of each element. May be called from several threads at once.
pub trait Activation: Component {
    /// `x [T, F]` to `output [T, F]`.
    ///
    /// # Errors
    /// What the host says.
    fn forward(&self, x: Rows, output: RowsMut, host: &Host) -> Result<()>;
}

/// The frequencies by which a rope rotates.
pub trait Rope: Component {
    /// Writes the frequencies of a head.
    ///
    /// # Errors
    /// Sizes that it has no frequencies for.
    fn frequencies(&self, call: FrequencyCall) -> Result<()>;
}

/// What a rope is asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct FrequencyCall<'a> {
    /// Base of the rope.
    pub base: f64,
    /// Elements of a head that rotate.
    pub rotated: usize,
    /// Tokens that the sequence will have, if the regime depends on that; else the model's context.
    pub context_length: usize,
    /// Radians per position of each pair, `[rotated / 2]`, to be written.
    pub frequencies: &'a mut [f32],
    /// Multiplies cosines and sines; 1 before the call.
    pub magnitude: &'a mut f32,
}

/// A step of the sampler chain; one instance per request, asked token after token.
pub trait Sampler: Component {
    /// Changes the logits in place.
    ///
    /// # Errors
    /// What cannot be sampled from.
    fn sample(&self, call: SampleCall) -> Result<()>;
}

/// What a sampler is asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct SampleCall<'a> {
    /// Logits `[V]`, changed in place; minus infinity takes a token out.
    pub logits: &'a mut [f32],
    /// Tokens so far, the prompt's included.
    pub tokens: &'a [u32],
    /// Of them, how many are the prompt's.
    pub prompt: usize,
    /// A number that is the same for the same seed and position, whatever else is generated.
    pub random: u64,
}

/// Texts to tokens and back. May be called from several threads at once.
pub trait Tokenizer: Component {
    /// Adds the ids of a text, which has no special tokens in it.
    ///
    /// # Errors
    /// A text that has no tokens.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()>;

    /// Adds the bytes of a token.
    ///
    /// # Errors
    /// An id that there is not.
    fn decode(&self, id: u32, bytes: &mut Vec<u8>) -> Result<()>;
}
