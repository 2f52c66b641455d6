//! Sampling: from a row of logits to one token, as a chain of small parts.
//!
//! A [`Chain`] is a list of [`LogitsPart`]s and a final [`Pick`]. Parts change or drop [`Candidates`]; they may be
//! stateful (XTC holds a random generator) and see every earlier token of the sequence. [`SamplingOptions`] names
//! llama.cpp's options, and [`Chain::from_options`] puts the parts in the order of its default chain: logit bias,
//! penalties, DRY, samplers of others ([`Sampler`]), top-k, typical, top-p,
//! min-p, XTC, temperature, pick.

mod bias;
mod candidates;
mod chain;
mod dry;
mod logprob;
mod options;
mod penalties;
mod pick;
mod random;
mod sampler;
mod temperature;
mod truncation;
mod xtc;

pub use bias::LogitBias;
pub use candidates::{Candidate, Candidates};
pub use chain::Chain;
pub use dry::{Breakers, Dry};
pub use logprob::{TokenProbability, log_probabilities};
pub use options::{SamplingError, SamplingOptions};
pub use penalties::Penalties;
pub use pick::{Greedy, Random};
pub use random::Generator;
pub use sampler::{Draws, Sampler, SamplerKind, SamplerPart, SamplerStep, WithOptions};
pub use temperature::Temperature;
pub use truncation::{MinP, TopK, TopP, Typical};
pub use xtc::Xtc;

/// One step of a chain: changes or drops candidates.
pub trait LogitsPart: Send {
    /// How listings and errors name it, e.g. `top-k`.
    fn name(&self) -> &'static str;

    /// Changes `candidates` (never to an empty set); `history` holds every token of the sequence so far, the prompt
    /// included.
    ///
    /// # Errors
    /// What a registered sampler reports; the parts of this crate report none.
    fn apply(&mut self, candidates: &mut Candidates, history: &[u32]) -> Result<(), SamplingError>;

    /// Says how many tokens of the history are the prompt's, before the first call.
    fn begin(&mut self, _prompt: usize) {}
}

/// The end of a chain: takes one of the candidates that are left.
pub trait Pick: Send {
    /// How listings and errors name it, e.g. `greedy`.
    fn name(&self) -> &'static str;

    /// Whether it always takes the best candidate (lower id where equal): a chain without parts then needs none.
    fn takes_best(&self) -> bool {
        false
    }

    /// The token taken; `None` only if there is no candidate.
    fn pick(&mut self, candidates: &mut Candidates) -> Option<u32>;
}
