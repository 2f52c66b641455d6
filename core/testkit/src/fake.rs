//! [`FakeModel`]: a model whose next token is a function of the tokens in its state, for tests of the code around a model.

use crate::fake_backend::{FakeBackend, FakeStates};
use crate::fake_step::{FakeFlights, FakeStep, lock};
use menagerie_model::{
    Arithmetic, BegunStep, Compute, Executor, Hooks, InferenceStep, ModelError, ModelShape, Result,
    RopeRegime, Rows, SequenceFailure, SequenceRows, StateId, StatePool, StateSpec, StepInput,
    TransformContext,
};
use std::sync::{Arc, Mutex, PoisonError};

/// The next token after the visible tokens.
pub type Script = Box<dyn Fn(&[u32]) -> u32 + Send + Sync>;

/// An action in the middle of a part of a step.
pub type During = Box<dyn Fn() -> Result<()> + Send>;

/// The logits of the scripted token, if no other is set, and of the next id; all others are 0.
const HIGHEST: f32 = 5.0;
const SECOND: f32 = 1.0;

const TOKENS: StateId = StateId(0);
const COUNT: StateId = StateId(1);

/// A part of a step, as the model received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The purpose of the step.
    pub step: InferenceStep,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The rope regime.
    pub regime: RopeRegime,
    /// Rows with logits.
    pub logits: usize,
    /// The number of sequences in the same step.
    pub together: usize,
}

/// Writes the tokens of a step into its state and answers from the state, so that a wrong cache gives a wrong answer.
pub struct FakeModel {
    vocabulary: usize,
    shape: ModelShape,
    script: Script,
    states: Vec<StateSpec>,
    window: Option<usize>,
    is_bidirectional: bool,
    takes_whole_prompts: bool,
    highest: f32,
    broken: Option<(u32, f32)>,
    failing: Option<u32>,
    seen: Mutex<Vec<Seen>>,
    during: Mutex<Option<During>>,
    /// The most steps in flight.
    overlap: usize,
    flights: Arc<Mutex<FakeFlights>>,
}

impl FakeModel {
    /// A model with this vocabulary size that answers by `script`.
    pub fn new(vocabulary: usize, script: impl Fn(&[u32]) -> u32 + Send + Sync + 'static) -> Self {
        let shape = ModelShape {
            n_layers: 1,
            max_seq_len: None,
            embedding_length: vocabulary,
            rope_regime_limit: None,
        };
        Self {
            vocabulary,
            shape,
            script: Box::new(script),
            states: vec![tokens(None)],
            window: None,
            is_bidirectional: false,
            takes_whole_prompts: false,
            highest: HIGHEST,
            broken: None,
            failing: None,
            seen: Mutex::default(),
            during: Mutex::default(),
            overlap: 1,
            flights: Arc::default(),
        }
    }

    /// Answers with these tokens, one after the other, from the position `start` on.
    pub fn saying(vocabulary: usize, start: usize, answer: &[u32]) -> Self {
        let answer = answer.to_vec();
        Self::new(vocabulary, move |history| {
            let said = history.len().checked_sub(start);
            said.and_then(|said| answer.get(said)).copied().unwrap_or(0)
        })
    }

    /// The same with a limit at which the rope regime changes, in tokens.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.shape.rope_regime_limit = Some(limit);
        self
    }

    /// The same with an additional state that cannot be truncated: each step must begin at its position.
    pub fn recurrent(mut self) -> Self {
        self.states.push(StateSpec::PerSequence { name: "fake.count".to_owned(), shape: vec![1] });
        self
    }

    /// The same with a window of the last `window` tokens.
    pub fn windowed(mut self, window: usize) -> Self {
        self.states[0] = tokens(Some(window));
        self.window = Some(window);
        self
    }

    /// The same with a layer that attends to later tokens.
    pub fn looking_ahead(self) -> Self {
        Self { is_bidirectional: true, ..self }
    }

    /// The same that computes each prompt in one step, as mixtures do that choose for a whole prompt.
    pub fn taking_whole_prompts(self) -> Self {
        Self { takes_whole_prompts: true, ..self }
    }

    /// The same with this logit of the scripted token: how sure it is.
    pub fn with_highest(self, highest: f32) -> Self {
        Self { highest, ..self }
    }

    /// The same with `value` instead of the highest logit after the token `id`.
    pub fn broken_after(self, id: u32, value: f32) -> Self {
        Self { broken: Some((id, value)), ..self }
    }

    /// The same; the rows of a sequence cannot be used in a step that has this token of it.
    pub fn failing_on(self, id: u32) -> Self {
        Self { failing: Some(id), ..self }
    }

    /// The same with up to `steps` steps in flight; each sequence may be in one of them. Steps without logits are complete when
    /// they have begun.
    pub fn overlapping(self, steps: usize) -> Self {
        Self { overlap: steps, ..self }
    }

    /// The most steps that were in flight at once.
    pub fn most_in_flight(&self) -> usize {
        lock(&self.flights).most
    }

    /// The compute settings of fake models.
    pub fn compute() -> Compute {
        Compute::new(Arc::new(FakeBackend), Arithmetic::Exact)
    }

    /// The parts of steps since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `act` in the middle of each part of a step from now on; absent = nothing.
    pub fn during(&self, act: Option<During>) {
        *self.during.lock().unwrap_or_else(PoisonError::into_inner) = act;
    }

    /// Logits `[V]` after these tokens.
    pub fn row(&self, history: &[u32]) -> Vec<f32> {
        let next = (self.script)(history) as usize;
        let mut row = vec![0.0; self.vocabulary];
        row[(next + 1) % self.vocabulary] = SECOND;
        row[next] = match (self.broken, history.last()) {
            (Some((id, value)), Some(last)) if id == *last => value,
            _ => self.highest,
        };
        row
    }

    fn part(&self, part: &SequenceRows, tokens: &[u32], context: &mut TransformContext) -> Result<Vec<f32>> {
        let values: Vec<f32> = tokens.iter().map(|&id| id as f32).collect();
        let (tables, states) = context.states.parts_mut::<FakeStates>()?;
        states.write(TOKENS, tables.pages(TOKENS, part.sequence)?, part.first_position, &values)?;
        if self.states.len() > 1 {
            count(context.states, part)?;
        }
        if let Some(during) = &*self.during.lock().unwrap_or_else(PoisonError::into_inner) {
            during()?;
        }
        context.check_cancelled()?;
        let (tables, states) = context.states.parts::<FakeStates>()?;
        let mut rows = Vec::new();
        for wanted in part.logits.clone() {
            let end = part.first_position + wanted + 1;
            let from = self.window.map_or(0, |window| end.saturating_sub(window));
            let seen = states.read(TOKENS, tables.pages(TOKENS, part.sequence)?, from..end)?;
            rows.extend(self.row(&seen.iter().map(|id| *id as u32).collect::<Vec<_>>()));
        }
        Ok(rows)
    }
}

fn tokens(window: Option<usize>) -> StateSpec {
    StateSpec::PerToken { name: "fake.tokens".to_owned(), dtype: None, heads: 1, head_dim: 1, window }
}

/// The recurrent state counts tokens, and a step must begin at this count.
fn count(states: &mut StatePool, part: &SequenceRows) -> Result<()> {
    let (tables, states) = states.parts_mut::<FakeStates>()?;
    let count = states.block_mut(COUNT, tables.block(COUNT, part.sequence)?);
    if count[0] != part.first_position as f32 {
        return Err(ModelError::State(format!("count {} at {}", count[0], part.first_position)));
    }
    count[0] += part.rows.len() as f32;
    Ok(())
}

impl Executor for FakeModel {
    fn shape(&self) -> &ModelShape {
        &self.shape
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn logits_width(&self) -> usize {
        self.vocabulary
    }

    fn is_bidirectional(&self) -> bool {
        self.is_bidirectional
    }

    fn takes_whole_prompts(&self) -> bool {
        self.takes_whole_prompts
    }

    fn overlap(&self, _hooks: &Hooks) -> usize {
        self.overlap
    }

    fn begin(&self, context: &mut TransformContext) -> Result<BegunStep> {
        if self.overlap == 1 || context.layout.logit_rows().is_empty() {
            return self.execute(context).map(BegunStep::Complete);
        }
        let step = FakeStep::begin(&self.flights, context, |pass| self.execute(pass));
        Ok(BegunStep::InFlight(Box::new(step)))
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows> {
        context.check_cancelled()?;
        let StepInput::Tokens(tokens) = context.input else {
            return Err(ModelError::Unsupported("a fake model takes tokens".to_owned()));
        };
        let layout = context.layout;
        context.states.prepare(layout)?;
        let mut rows = Vec::new();
        for (index, part) in layout.sequences().iter().enumerate() {
            let own = &tokens[part.rows.clone()];
            if let Some(row) = own.iter().position(|id| Some(*id) == self.failing) {
                let error = ModelError::Unsupported("a fake failure".to_owned());
                context.fail(SequenceFailure { index, position: part.first_position + row, error })?;
            }
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(Seen {
                step: part.step,
                tokens: own.to_vec(),
                regime: part.regime,
                logits: part.logits.len(),
                together: layout.sequences().len(),
            });
            rows.extend(self.part(part, own, context)?);
        }
        context.compute.backend.upload(rows, self.vocabulary)
    }
}
