//! [`DraftStates`]: the states of a draft model for several answers, in one pool.

use super::asked_draft::AskedDraft;
use super::round::RunningDraft;
use super::times::{DraftTimes, USUAL_TOKENS};
use crate::draft::{DraftCost, DraftToken};
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::output::StepOutput;
use crate::request::Request;
use crate::scheduler::{PrefixSource, Scheduler, SchedulerOptions};
use crate::sequence::{LogitRows, Sequence};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The most rows of a text that are computed between two steps of the answers.
const MOST_ROWS: usize = 256;

/// Rows of the steps that measure the model, before the first draft. The first step may read weights from the disk, and
/// does not count.
const MEASURED_ROWS: [usize; 3] = [1, 1, 32];

/// The state of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DraftKey(u64);

/// The states of all answers.
pub(super) struct DraftStates {
    pub(super) scheduler: Scheduler,
    pub(super) sequences: BTreeMap<DraftKey, Sequence>,
    next: u64,
    times: DraftTimes,
    /// Drafts that other answers will ask for before the next step.
    announced: BTreeMap<DraftKey, AskedDraft>,
    /// Guesses that were computed together with those of another answer, and the length of the text before them.
    waiting: BTreeMap<DraftKey, (usize, DraftResult)>,
    /// The tokens that both models have.
    common: usize,
    /// Tokens that end an answer: nothing is computed after them.
    ends: Vec<u32>,
}

/// Guesses, or why there are none.
pub(super) type DraftResult = Result<Vec<DraftToken>, GenerateError>;

impl DraftStates {
    /// Empty states of these sizes.
    ///
    /// # Errors
    /// They cannot be allocated.
    pub(super) fn new(engine: Arc<Engine>, options: SchedulerOptions) -> Result<Self, GenerateError> {
        // Guesses of models that cannot return to an earlier token are computed in a copy.
        let places = if engine.rewinds_anywhere() { 1 } else { 2 };
        let options = options
            .with_sequences(options.sequences.max(1).saturating_mul(places))
            .with_step_tokens(options.step_tokens.min(MOST_ROWS))
            .with_swap_bytes(0)
            .with_step_time(None);
        let common = engine.vocabulary();
        let scheduler = Scheduler::new(engine, PipelineHooks::default(), options)?;
        let (sequences, times) = (BTreeMap::new(), DraftTimes::default());
        let (announced, waiting) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { scheduler, sequences, next: 0, times, announced, waiting, common, ends: Vec::new() })
    }

    /// The same for guesses below `common`, and without those that end an answer.
    pub(super) fn with_tokens(self, common: usize, ends: &[u32]) -> Self {
        Self { common: self.common.min(common), ends: ends.to_vec(), ..self }
    }

    /// Whether a token may be guessed.
    pub(super) fn may_guess(&self, id: u32) -> bool {
        (id as usize) < self.common && !self.ends.contains(&id)
    }

    /// Checks that the model has all tokens of a text. Another model may have more than it.
    ///
    /// # Errors
    /// The first token that it does not have.
    pub(super) fn check(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocabulary = self.scheduler.engine().model.vocabulary();
        match tokens.iter().find(|id| **id as usize >= vocabulary) {
            None => Ok(()),
            Some(id) => Err(GenerateError::Options(format!(
                "the text has token {id}, and the vocabulary of the draft model {vocabulary} tokens"
            ))),
        }
    }

    /// A state for an answer after `tokens`: that of the longest known text that they begin with.
    ///
    /// # Errors
    /// There is no place for another.
    pub(super) fn begin(
        &mut self,
        tokens: &[u32],
        salt: Option<&Arc<str>>,
    ) -> Result<DraftKey, GenerateError> {
        let source = self.source(tokens, salt)?;
        let mut sequence = self.scheduler.create_from(source, self.sequences.values())?;
        self.scheduler.set_salt(&mut sequence, salt)?;
        let key = DraftKey(self.next);
        self.next += 1;
        self.sequences.insert(key, sequence);
        Ok(key)
    }

    /// Ends the state of an answer; `is_useful` if later answers may start with it.
    pub(super) fn end(&mut self, key: DraftKey, is_useful: bool) {
        self.announced.remove(&key);
        self.waiting.remove(&key);
        let Some(sequence) = self.sequences.remove(&key) else { return };
        let ended = match is_useful {
            true => self.scheduler.retire(sequence),
            false => self.scheduler.free(sequence),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "a state of the draft model could not be ended");
        }
    }

    /// What guesses after `tokens` are expected to take.
    pub(super) fn cost(&self, key: Option<DraftKey>, tokens: &[u32], salt: Option<&Arc<str>>) -> DraftCost {
        let held = match key.and_then(|key| self.sequences.get(&key)) {
            Some(sequence) => sequence.computed_prefix_len(tokens),
            None => self.source(tokens, salt).map_or(0, PrefixSource::tokens),
        };
        self.times.cost(tokens.len() - held.min(tokens.len()))
    }

    /// The known text that `tokens` begin with.
    fn source(&self, tokens: &[u32], salt: Option<&Arc<str>>) -> Result<PrefixSource, GenerateError> {
        let request = Request::default().with_cache_salt(salt.cloned());
        let query = self.scheduler.prefix_query(tokens, &request);
        self.scheduler.prefix_source(&query, self.sequences.values())
    }

    /// Announces a draft that will be asked for before the next step.
    pub(super) fn announce(&mut self, asked: AskedDraft) {
        self.announced.insert(asked.key, asked);
    }

    /// The guesses of a draft, which are computed together with all that are announced.
    ///
    /// # Errors
    /// An error of the model, or the answer is cancelled.
    pub(super) fn draft(&mut self, asked: AskedDraft) -> DraftResult {
        let (key, length) = (asked.key, asked.tokens.len());
        if let Some((_, known)) = self.waiting.remove(&key).filter(|(known, _)| *known == length) {
            return known;
        }
        self.announced.insert(key, asked);
        let all: Vec<AskedDraft> = std::mem::take(&mut self.announced).into_values().collect();
        let results = self.drafts(&all);
        for (asked, result) in all.into_iter().zip(results) {
            self.waiting.insert(asked.key, (asked.tokens.len(), result));
        }
        self.waiting.remove(&key).map_or(Ok(Vec::new()), |(_, result)| result)
    }

    /// The most likely tokens after each of these texts, one after the other, while they are likely; those of all texts are
    /// computed together. None after a text of which more is new than one step may have, and while the model is measured.
    fn drafts(&mut self, asked: &[AskedDraft]) -> Vec<DraftResult> {
        let mut drafts: Vec<RunningDraft> = asked.iter().map(|asked| self.started(asked)).collect();
        if !self.times.are_known() {
            if let Some(draft) = drafts.iter_mut().find(|draft| draft.is_running()) {
                let measured = self.measure(draft);
                draft.end(measured);
            }
            return self.ended(drafts);
        }
        let mut start = Instant::now();
        if drafts.iter().any(RunningDraft::reads) {
            let rows = self.round(&mut drafts, true);
            if rows > 0 {
                self.times.measured_text(rows, start.elapsed());
            }
            drafts.iter_mut().filter(|draft| draft.reads()).for_each(|draft| draft.end(Ok(())));
            start = Instant::now();
        }
        // Each round guesses a token of each draft that goes on.
        let most = drafts.iter().map(|draft| draft.most).max().unwrap_or(0);
        if drafts.iter().any(RunningDraft::is_running) {
            for _ in 0..most {
                if drafts.iter().any(RunningDraft::is_running) {
                    self.round(&mut drafts, false);
                }
            }
            let guesses = drafts.iter().map(|draft| draft.guesses.len()).sum();
            self.times.measured_draft(guesses, start.elapsed());
        }
        self.ended(drafts)
    }

    /// A draft whose text is to be computed.
    fn started<'a>(&mut self, asked: &'a AskedDraft) -> RunningDraft<'a> {
        let context = self.scheduler.engine().context;
        let most = asked.most.min((context + 1).saturating_sub(asked.tokens.len()));
        let mut draft = RunningDraft::new(asked, most);
        let Some(sequence) = self.sequences.get_mut(&asked.key).filter(|_| most > 0) else {
            draft.end(Ok(()));
            return draft;
        };
        // What the state has already is not computed again.
        match self.scheduler.begin(sequence, &asked.tokens, LogitRows::Last) {
            Ok(()) => draft.unseen = sequence.pending(),
            Err(error) => draft.end(Err(error)),
        }
        draft
    }

    /// Measures steps of a few rows of a text.
    fn measure(&mut self, draft: &RunningDraft) -> Result<(), GenerateError> {
        let Some(sequence) = self.sequences.get_mut(&draft.asked.key) else { return Ok(()) };
        let mut at = sequence.computed;
        for (index, rows) in MEASURED_ROWS.into_iter().enumerate() {
            at += rows;
            sequence.add_chunk_boundary(at);
            let (pending, start) = (sequence.pending(), Instant::now());
            if pending == 0 {
                break;
            }
            let step = self.scheduler.step(&mut [&mut *sequence], draft.asked.cancel());
            step.only(|_: StepOutput| Ok(()))?;
            let (rows, time) = (pending - sequence.pending(), start.elapsed());
            match index {
                0 | 1 => self.times = DraftTimes::of_draft(time),
                _ => self.times.measured_text(rows, time),
            }
        }
        Ok(())
    }

    /// Frees the copies of states, and returns what the drafts have.
    fn ended(&mut self, drafts: Vec<RunningDraft>) -> Vec<DraftResult> {
        let end = |draft: RunningDraft| {
            let freed = draft.copy.map_or(Ok(()), |copy| self.scheduler.free(copy));
            draft.outcome.unwrap_or(Ok(())).and(freed).map(|()| draft.guesses)
        };
        drafts.into_iter().map(end).collect()
    }
}

impl RunningDraft<'_> {
    /// Whether it computes a text that is longer than what an answer adds from draft to draft.
    pub(super) fn reads(&self) -> bool {
        self.is_running() && self.unseen > USUAL_TOKENS
    }
}
