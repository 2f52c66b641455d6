//! Sampling: from a row of logits to one token, in a chain of small steps.
//!
//! A [`Chain`] is a list of [`LogitsStep`]s and a final [`Pick`]. Steps change or drop [`Candidates`]. They may keep
//! state (XTC has a random generator), they see all earlier tokens of the sequence, and each token that is taken is
//! passed to them. The constraint of an answer ([`ConstraintStep`]) comes before all other steps. [`SamplingOptions`] has
//! llama.cpp's options, and [`Chain::from_options`] puts the steps in the order of llama.cpp's default chain: logit
//! bias, penalties, DRY, registered samplers ([`Sampler`]), top-k, typical, top-p, min-p, XTC, temperature, pick; a
//! request may choose the order of the stages ([`ChainStage`]).

mod bias;
mod candidates;
mod chain;
mod constraint;
mod dry;
mod infill;
mod led_state;
mod logprob;
mod min_tokens;
mod options;
mod penalties;
mod pick;
mod random;
mod sampler;
mod stage;
mod stage_steps;
mod temperature;
mod truncation;
mod xtc;

pub use chain::Chain;
pub(crate) use dry::Breakers;
pub(crate) use logprob::{TokenProbability, likeliest, log_probabilities};
pub use options::{SamplingError, SamplingOptions};
pub use random::Generator;
pub use sampler::{Sampler, SamplerKind, SamplerStep};
pub use stage::ChainStage;

pub(crate) use bias::LogitBias;
pub(crate) use candidates::{CandidateToken, Candidates};
pub(crate) use constraint::{AnswerOpening, ConstraintPhase, ConstraintStep};
pub(crate) use dry::Dry;
pub(crate) use infill::{Infill, InfillVocabulary};
pub(crate) use min_tokens::MinTokens;
pub(crate) use penalties::Penalties;
pub(crate) use pick::{Greedy, Random};
pub(crate) use sampler::{Draws, RegisteredStep};
pub(crate) use stage_steps::StageTexts;
pub(crate) use temperature::TemperatureStep;
pub(crate) use truncation::{MinP, TopK, TopP, Typical};
pub(crate) use xtc::Xtc;

/// One step of a chain: changes or drops candidates.
pub(crate) trait LogitsStep: Send {
    /// Its name in listings and errors, for example `top-k`.
    fn name(&self) -> &'static str;

    /// Changes `candidates` (never to an empty set). `history` has all tokens of the sequence so far, including the
    /// prompt.
    ///
    /// # Errors
    /// An error of a registered sampler or of a constraint, or a logit that overflows.
    fn apply(&mut self, candidates: &mut Candidates, history: &[u32]) -> Result<(), SamplingError>;

    /// Sets the number of prompt tokens in the history, before the first call.
    fn begin(&mut self, _prompt: usize) {}

    /// Takes a token that was sampled and is part of the result, once, before the next call of [`Self::apply`].
    ///
    /// # Errors
    /// The error of a constraint.
    fn accept(&mut self, _token: u32) -> Result<(), SamplingError> {
        Ok(())
    }
}

/// The end of a chain: picks one of the remaining candidates.
pub(crate) trait Pick: Send {
    /// Whether it always picks the best candidate (lower id if equal); a chain without steps then needs no candidates.
    fn takes_best(&self) -> bool {
        false
    }

    /// The token; `None` only if there is no candidate.
    fn pick(&mut self, candidates: &mut Candidates) -> Option<u32>;
}
