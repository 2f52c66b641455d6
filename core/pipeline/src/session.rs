//! [`Session`]: a sequence that generates text; several share one model.

use crate::capability::Tokenizing;
use crate::chat::RenderedPrompt;
use crate::error::GenerateError;
use crate::generation::Generation;
use crate::reasoning::ReasoningSplitter;
use crate::request::{Event, Outcome, Request};
use crate::sampling::Breakers;
use crate::sequence::Sequence;
use std::sync::Arc;

/// A sequence that generates text.
pub struct Session {
    sequence: Sequence,
    tokenizer: Option<Arc<dyn Tokenizing>>,
    breakers: Option<(Vec<String>, Arc<Breakers>)>,
}

impl Session {
    /// A session over `sequence`; without a tokenizer it deals in token ids only.
    pub fn new(sequence: Sequence, tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self { sequence, tokenizer, breakers: None }
    }

    /// Its sequence.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Its sequence, to run single steps.
    pub fn sequence_mut(&mut self) -> &mut Sequence {
        &mut self.sequence
    }

    /// Its tokenizer, if the model has one.
    pub fn tokenizer(&self) -> Option<&Arc<dyn Tokenizing>> {
        self.tokenizer.as_ref()
    }

    /// Continues `prompt`, keeping the part of it that is cached from earlier calls.
    ///
    /// # Errors
    /// A prompt or options that cannot be used, or what the model returns. Cancellation is an outcome, not an error.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        request: &Request,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        self.run(prompt, request, ReasoningSplitter::off(), sink)
    }

    /// Continues a rendered conversation; reasoning is told apart from the answer.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn generate_chat(
        &mut self,
        prompt: &RenderedPrompt,
        request: &Request,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        let splitter = ReasoningSplitter::new(&prompt.reasoning_tags, prompt.reasoning_open.as_ref());
        self.run(&prompt.tokens, request, splitter, sink)
    }

    fn run(
        &mut self,
        prompt: &[u32],
        request: &Request,
        splitter: ReasoningSplitter,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        let tokenizer = self.tokenizer.clone();
        let breakers = self.breakers(request);
        let generation =
            Generation::new(&mut self.sequence, tokenizer.as_deref(), request, breakers, splitter)?;
        generation.run(prompt, sink)
    }

    /// DRY's breakers in the vocabulary, looked up once for the same strings.
    fn breakers(&mut self, request: &Request) -> Arc<Breakers> {
        let strings = &request.sampling.dry_breakers;
        let Some(tokenizer) = self.tokenizer.as_ref().filter(|_| request.sampling.dry_multiplier > 0.0)
        else {
            return Arc::default();
        };
        if let Some((_, breakers)) = self.breakers.as_ref().filter(|(known, _)| known == strings) {
            return Arc::clone(breakers);
        }
        let pieces: Vec<String> = (0..tokenizer.vocabulary() as u32).map(|id| tokenizer.piece(id)).collect();
        let encode = |text: &str| tokenizer.encode(text).unwrap_or_default();
        let breakers = Arc::new(Breakers::find(strings, &pieces, &encode));
        self.breakers = Some((strings.clone(), Arc::clone(&breakers)));
        breakers
    }
}
