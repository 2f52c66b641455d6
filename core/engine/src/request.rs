//! [`Request`]: the options of a generation; its [`Event`]s and its [`Outcome`].

use crate::adapter_choice::AdapterChoice;
use crate::constraint::Constraint;
use crate::draft::DraftSource;
use crate::lens::LogitLens;
use crate::sampling::SamplingOptions;
use crate::setters::setters;
use crate::stats::Statistics;
use crate::stopping::StopReason;
use menagerie_answers::ToolCall;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a user asks of a generation, apart from the prompt: sampling, stopping, log probabilities, adapters, priority.
/// The prompt is a separate argument ([`crate::Session::generate`], [`crate::Queue::submit`]), because one request
/// serves many prompts, and a chat renders a new prompt in every turn.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request {
    /// How tokens are sampled.
    pub sampling: SamplingOptions,
    /// The most tokens to generate; `None` = until the context is full.
    pub max_tokens: Option<usize>,
    /// Strings that end the generation and are not part of its text.
    pub stop: Vec<String>,
    /// Tokens that end the generation and are not part of it, beside those of the model. They also end it with
    /// [`Self::ignore_eos`].
    pub stop_tokens: Vec<u32>,
    /// The tokens that an answer has at least: before, tokens that end it are forbidden, and its text is not searched for
    /// stop strings. It excludes [`Self::constraint`], which decides where an answer ends.
    pub min_tokens: usize,
    /// Ends the answer at the first line, after its first one, that begins with fewer spaces and tabs; these are its last
    /// text. 0 = no limit.
    pub min_indent: usize,
    /// Forbids the tokens that end an answer.
    pub ignore_eos: bool,
    /// What the answer must fit, from its first token, or from the end of the model's reasoning. It needs end tokens, so
    /// it excludes [`Self::ignore_eos`].
    pub constraint: Option<Arc<dyn Constraint>>,
    /// The most tokens of the model's reasoning, with the opening tag if the model writes it; then the closing tag follows,
    /// whatever the model would write. `None` = no limit.
    pub reasoning_budget: Option<usize>,
    /// Reports log probabilities of every token, with this many alternatives (0 = only the token's own).
    pub logprobs: Option<usize>,
    /// Reports the tokens of the prompt from this position on ([`Event::PromptToken`]) with their log probabilities and
    /// as many alternatives as [`Self::logprobs`]. The prompt is computed from the token before this position on, even
    /// if more of its state exists. A position past the prompt reports nothing.
    pub prompt_logprobs: Option<usize>,
    /// The adapters that act. A session whose sequence had other adapters computes it again.
    pub adapters: AdapterChoice,
    /// Guesses its next tokens, so that a step computes several of them. The answer is the same as without it, token by
    /// token. Models with recurrent states, X-LoRA, mixtures that choose for whole prompts, and hooks between layers are
    /// refused.
    pub draft: Option<Arc<dyn DraftSource>>,
    /// A logit lens that reads the rows of this request, and of no other that shares its steps. The prompt is computed from
    /// its first position on, even if more of its state exists, in small steps. A request has one of its own. It excludes
    /// [`Self::draft`], and models in stages have none.
    pub lens: Option<Arc<LogitLens>>,
    /// Its priority among the requests of a [`crate::Queue`]; higher starts first and gives up its memory last.
    pub priority: i32,
    /// The number of the user or client whose request it is: the tenants of a [`crate::Queue`] take turns.
    pub tenant: u64,
    /// Separates the state of one user from that of others: a request starts only with state, in memory or on disk, of
    /// requests with the same salt. So nobody can measure whether a text of somebody else was computed before. `None` =
    /// shared with all requests without a salt.
    pub cache_salt: Option<Arc<str>>,
    /// Cancels the generation when it is set, for example by another thread; checked between steps, and between layers
    /// (in a [`crate::Queue`] if all requests of the step are cancelled). The callback of events can stop a generation
    /// without it: see [`crate::Session::generate`].
    pub cancel: Option<Arc<AtomicBool>>,
}

setters! { Request:
    with_sampling(sampling: SamplingOptions),
    with_max_tokens(max_tokens: impl Into<Option<usize>>),
    with_stop(stop: Vec<String>),
    with_stop_tokens(stop_tokens: Vec<u32>),
    with_min_tokens(min_tokens: usize),
    with_min_indent(min_indent: usize),
    with_ignore_eos(ignore_eos: bool),
    with_constraint(constraint: impl Into<Option<Arc<dyn Constraint>>>),
    with_reasoning_budget(reasoning_budget: impl Into<Option<usize>>),
    with_logprobs(logprobs: impl Into<Option<usize>>),
    with_prompt_logprobs(prompt_logprobs: impl Into<Option<usize>>),
    with_adapters(adapters: AdapterChoice),
    with_draft(draft: impl Into<Option<Arc<dyn DraftSource>>>),
    with_lens(lens: impl Into<Option<Arc<LogitLens>>>),
    with_priority(priority: i32),
    with_tenant(tenant: u64),
    with_cache_salt(cache_salt: impl Into<Option<Arc<str>>>),
    with_cancel(cancel: impl Into<Option<Arc<AtomicBool>>>),
}

impl Request {
    /// Greedy sampling, at most `max_tokens` tokens.
    pub fn greedy(max_tokens: usize) -> Self {
        Self { sampling: SamplingOptions::greedy(), max_tokens: Some(max_tokens), ..Self::default() }
    }
}

/// A token that could have been sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// Token id.
    pub id: u32,
    /// Its text; parts of characters become replacement characters. Empty without a tokenizer.
    pub piece: String,
    /// The bytes that it adds to a text, which may be a part of a character; empty for control tokens and without a
    /// tokenizer.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability, before the sampling chain.
    pub logprob: f32,
}

/// What happens during a generation, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A chunk of the prompt is computed.
    Prefill {
        /// Tokens of the prompt that are computed now.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
        /// Those of them that were computed before the request.
        cached: usize,
    },
    /// A token of the prompt, if [`Request::prompt_logprobs`] asks for it.
    PromptToken {
        /// Its position in the prompt.
        position: usize,
        /// Its id.
        id: u32,
        /// Its text by itself.
        piece: String,
        /// The bytes that it adds to the text, as in [`TokenLogprob::bytes`].
        bytes: Vec<u8>,
        /// Its log probability after the tokens before it; `None` for the first token of the prompt.
        logprob: Option<f32>,
        /// The most likely tokens in its place, best first.
        top: Vec<TokenLogprob>,
    },
    /// A token was sampled.
    Token {
        /// Its id.
        id: u32,
        /// Its text by itself; to show the answer, use [`Event::Text`].
        piece: String,
        /// The bytes that it adds to the text, as in [`TokenLogprob::bytes`].
        bytes: Vec<u8>,
        /// Its log probability, if requested.
        logprob: Option<f32>,
        /// The most likely tokens, if requested, best first.
        top: Vec<TokenLogprob>,
    },
    /// The token with which the model ended the answer, if log probabilities are requested. It is no part of the answer,
    /// and comes after all of its text.
    EndToken {
        /// Its id.
        id: u32,
        /// Its name.
        piece: String,
        /// Its log probability.
        logprob: f32,
        /// The most likely tokens in its place, best first.
        top: Vec<TokenLogprob>,
    },
    /// Text of the answer: whole characters that do not belong to a stop string.
    Text(String),
    /// Text of the model's reasoning.
    Reasoning(String),
    /// The model begins a call of a tool.
    CallBegin {
        /// The number of the call in the answer, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More text of the arguments of that call. All texts together are a JSON object, once the call is complete.
    CallArguments {
        /// The number of the call.
        index: usize,
        /// The text.
        text: String,
    },
    /// The call is complete. A call without this event is not, and not part of the outcome.
    CallEnd {
        /// The number of the call.
        index: usize,
    },
    /// A note for the user.
    Notice(String),
    /// The end.
    Done {
        /// Why.
        reason: StopReason,
    },
}

/// The return value of a callback of events: nothing, or a [`ControlFlow`] whose `Break` stops the generation.
pub trait EventResponse {
    /// Whether the generation continues.
    fn flow(self) -> ControlFlow<()>;
}

impl EventResponse for () {
    fn flow(self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl EventResponse for ControlFlow<()> {
    fn flow(self) -> ControlFlow<()> {
        self
    }
}

/// The result of a generation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Why it ended.
    pub reason: StopReason,
    /// The generated tokens, without the one that ended the generation.
    pub tokens: Vec<u32>,
    /// The answer.
    pub text: String,
    /// The reasoning before it.
    pub reasoning: String,
    /// The complete calls of tools.
    pub tool_calls: Vec<ToolCall>,
    /// The seed of the random draws, to repeat the generation.
    pub seed: u64,
    /// Counts and times.
    pub statistics: Statistics,
}

impl Outcome {
    /// An outcome without tokens, to be filled in by tests of code that shows outcomes.
    pub fn new(reason: StopReason) -> Self {
        Self {
            reason,
            tokens: Vec::new(),
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            seed: 0,
            statistics: Statistics::default(),
        }
    }
}
