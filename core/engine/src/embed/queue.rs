//! [`VectorQueue`]: texts that share steps.

use super::engine::{EmbeddingEngine, EmbeddingInput, EmbeddingOptions};
use super::truncation::TextTokens;
use crate::error::GenerateError;
use crate::hooks::{RequestArrival, RequestId, RequestKind};
use crate::step_budget::{StepBudget, StepLoad};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The id of a text, and its vector (or its scores).
pub type VectorCompletion = (RequestId, Result<Vec<f32>, GenerateError>);

/// Computes vectors and scores of texts that come one by one, several in a step. Tenants take turns, text by text.
///
/// A caller that also has a [`crate::Queue`] alternates the steps of both, so that neither delays the other by more
/// than one step.
pub struct VectorQueue {
    engine: EmbeddingEngine,
    /// Only tenants with waiting texts.
    tenants: BTreeMap<u64, VecDeque<WaitingText>>,
    /// The tenant of the newest text that was computed.
    newest: Option<u64>,
    waiting: usize,
    /// Texts that ended without a step.
    completed: Vec<VectorCompletion>,
    budget: StepBudget,
}

/// A text that has not been computed.
struct WaitingText {
    arrival: RequestArrival,
    text: TextTokens,
    options: EmbeddingOptions,
}

impl VectorQueue {
    /// An empty queue.
    pub(crate) fn new(engine: EmbeddingEngine) -> Self {
        Self {
            engine,
            tenants: BTreeMap::new(),
            newest: None,
            waiting: 0,
            completed: Vec::new(),
            budget: StepBudget::default(),
        }
    }

    /// Adds a text, or a pair of texts for a reranker, of a tenant ([`crate::Request::tenant`]). One of the next steps
    /// returns its vector, scores or error.
    pub fn submit(&mut self, text: TextTokens, options: &EmbeddingOptions, tenant: u64) -> RequestId {
        let kind = if text.second.is_some() { RequestKind::Reranking } else { RequestKind::Embedding };
        let arrival = RequestArrival::new(&self.engine.lifecycles, kind);
        let id = arrival.id();
        self.tenants.entry(tenant).or_default().push_back(WaitingText { arrival, text, options: *options });
        self.waiting += 1;
        id
    }

    /// Cancels a text that has not been computed; the next step returns its error.
    pub fn cancel(&mut self, id: RequestId) {
        let place = self.tenants.iter().find_map(|(tenant, texts)| {
            Some((*tenant, texts.iter().position(|text| text.arrival.id() == id)?))
        });
        let Some((tenant, at)) = place else { return };
        let Some(text) = self.tenants.get_mut(&tenant).and_then(|texts| texts.remove(at)) else { return };
        self.removed(tenant);
        let error = GenerateError::Cancelled;
        text.arrival.refused(&error);
        self.completed.push((id, Err(error)));
    }

    /// The number of texts that have not been computed.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether every text has ended and its result has been returned.
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.completed.is_empty()
    }

    /// Computes the next texts with the same options: as many as fit into a step, at least one. If a time is given, they
    /// have at most as many rows as the last steps computed in this time, at least 32 or one text. Returns the texts
    /// that ended.
    pub fn step(&mut self, time: Option<Duration>) -> Vec<VectorCompletion> {
        let mut completed = std::mem::take(&mut self.completed);
        let most = self.engine.step_tokens.min(self.budget.rows(time));
        let taken = self.next_texts(most);
        let Some(first) = taken.first() else { return completed };
        let options = first.options;
        let ids = taken.iter().map(|one| one.arrival.id()).collect::<Vec<_>>();
        let (arrivals, texts): (Vec<_>, Vec<_>) =
            taken.into_iter().map(|one| (one.arrival, one.text)).unzip();
        let inputs: Vec<EmbeddingInput> = texts
            .iter()
            .map(|TextTokens { tokens, second, .. }| EmbeddingInput { tokens, second: *second })
            .collect();
        let start = Instant::now();
        let results = self.engine.embed_arrived(&inputs, arrivals, &options);
        if results.iter().all(Result::is_ok) {
            let prompt = texts.iter().map(|text| text.tokens.len()).sum();
            self.budget.measured(StepLoad { decoded: 0, prompt, has_rows: true }, start.elapsed());
        }
        completed.extend(ids.into_iter().zip(results));
        completed
    }

    /// Removes the next texts with the same options: at most `most` rows, at least one text.
    fn next_texts(&mut self, most: usize) -> Vec<WaitingText> {
        let (mut taken, mut rows): (Vec<WaitingText>, usize) = (Vec::new(), 0);
        while let Some(tenant) = self.turn() {
            let Some(texts) = self.tenants.get_mut(&tenant) else { break };
            let fits = |next: &mut WaitingText| {
                rows = rows.saturating_add(next.text.tokens.len());
                taken.first().is_none_or(|first| rows <= most && first.options == next.options)
            };
            let Some(next) = texts.pop_front_if(fits) else { break };
            taken.push(next);
            self.newest = Some(tenant);
            self.removed(tenant);
        }
        taken
    }

    /// The tenant after the one whose text was computed last.
    fn turn(&self) -> Option<u64> {
        let after = self.newest.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.tenants.range((after, Bound::Unbounded)).next();
        later.or_else(|| self.tenants.first_key_value()).map(|(tenant, _)| *tenant)
    }

    /// Notes that a text of a tenant was removed.
    fn removed(&mut self, tenant: u64) {
        self.waiting -= 1;
        if self.tenants.get(&tenant).is_some_and(VecDeque::is_empty) {
            self.tenants.remove(&tenant);
        }
    }
}
