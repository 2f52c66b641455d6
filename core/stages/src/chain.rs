//! [`StageChain`]: stages as one executor.

mod head;

use crate::adapters::SharedAdapters;
use crate::fault::{FaultKind, StageFault, StageName};
use crate::identity::Identity;
use crate::session::{Session, StagedStates};
use crate::step::{SetMembers, StepMessage};
use crate::times::StageTime;
use crate::transport::PipelineTransport;
use head::{Head, Sending};
use menagerie_model::{
    AdapterSet, Compute, Executor, ModelError, ModelShape, PoolOptions, Rows, Stage, StatePool, StateSpec,
    TransformContext,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a pipeline asks of a model, whichever stages compute it.
#[derive(Clone, Debug)]
pub struct ChainFacts {
    /// Numbers of the whole model.
    pub shape: ModelShape,
    /// The states of all layers, in order.
    pub states: Vec<StateSpec>,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Columns of the logits.
    pub logits_width: usize,
    /// Whether a sequence must be computed in one step.
    pub looks_ahead: bool,
    /// Whether a prompt must be computed in one step.
    pub takes_whole_prompts: bool,
}

impl ChainFacts {
    /// Of stages that are all here; none where they lack an embedding or a head.
    pub fn of(stages: &[Stage]) -> Option<Self> {
        let stacks = || stages.iter().map(|stage| &stage.body().stack);
        Some(Self {
            shape: stages.first()?.body().shape.clone(),
            states: stacks().flat_map(|stack| stack.states().to_vec()).collect(),
            vocabulary: stages.first()?.embedding()?.vocabulary(),
            logits_width: stages.last()?.head()?.vocabulary(),
            looks_ahead: stacks().any(|stack| stack.looks_ahead()),
            takes_whole_prompts: stacks().any(|stack| stack.takes_whole_prompts()),
        })
    }

    /// Of a model that is here as a whole.
    pub fn of_whole(model: &dyn Executor) -> Self {
        Self {
            shape: model.shape().clone(),
            states: model.states().to_vec(),
            vocabulary: model.vocabulary(),
            logits_width: model.logits_width(),
            looks_ahead: model.looks_ahead(),
            takes_whole_prompts: model.takes_whole_prompts(),
        }
    }
}

/// How a chain waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainOptions {
    /// Longest time that a step may take.
    pub deadline: Duration,
    /// Frames that may be on a link: with two and more, a stage computes a chunk while the next one computes that before it.
    pub credits: usize,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(300), credits: 3 }
    }
}

/// Stages that run steps like one model. A step that wants no logits is not waited for: what goes wrong with it is said by
/// the next one, and the states of its request are then lost as a whole.
pub struct StageChain {
    facts: ChainFacts,
    adapters: Arc<SharedAdapters>,
    head: Mutex<Head>,
    requests: AtomicU64,
    /// Requests that ended and were not told to the stages.
    ended: Arc<Mutex<Vec<u64>>>,
    /// What the stages run in; dropped after the links.
    keeps: Option<Box<dyn Send + Sync>>,
}

impl StageChain {
    /// The chain over its own end of the links, once all stages have agreed on `identity`; `adapters` is where stages of this
    /// process find those that sequences use.
    ///
    /// # Errors
    /// A stage that has something else, or does not answer.
    pub fn connect(
        facts: ChainFacts,
        transport: Box<dyn PipelineTransport>,
        names: Vec<StageName>,
        identity: &Identity,
        adapters: Arc<SharedAdapters>,
        options: ChainOptions,
    ) -> Result<Self, StageFault> {
        let ended: Arc<Mutex<Vec<u64>>> = Arc::default();
        let mut head = Head::new(transport, names, options);
        let states = head.greet(identity)?;
        if states != facts.states.len() {
            let detail = format!("the stages have {states} states, and the model {}", facts.states.len());
            return Err(head.fault(FaultKind::Refused, 0, &detail));
        }
        Ok(Self { facts, adapters, head: Mutex::new(head), requests: AtomicU64::new(1), ended, keeps: None })
    }

    /// Keeps what the stages run in as long as the chain is there.
    pub fn keeping(mut self, keeps: Box<dyn Send + Sync>) -> Self {
        self.keeps = Some(keeps);
        self
    }

    /// When stages computed which steps, the newest last; some thousands are kept.
    pub fn times(&self) -> Vec<StageTime> {
        self.head().times()
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers and weights of a set's adapters; new ones are announced.
    fn members(&self, head: &mut Head, set: &AdapterSet) -> Result<SetMembers, StageFault> {
        let mut members = Vec::new();
        for (adapter, weight) in set.adapters() {
            let number = self.adapters.number(adapter);
            head.announce(number, adapter.name())?;
            members.push((number, weight));
        }
        Ok(members)
    }
}

/// What a split model cannot do, by name.
fn refuse(context: &TransformContext) -> Result<(), ModelError> {
    let what = if !context.hooks.is_empty() {
        "hooks around layers are called where the layers are, and these are in stages"
    } else if context.scalings.is_some() {
        "X-LoRA weights adapters with what the whole model computes, and this one is split into stages"
    } else {
        return Ok(());
    };
    Err(ModelError::Unsupported(format!("{what}; run the model in one piece (without --stages)")))
}

impl Executor for StageChain {
    fn shape(&self) -> &ModelShape {
        &self.facts.shape
    }

    fn states(&self) -> &[StateSpec] {
        &self.facts.states
    }

    fn vocabulary(&self) -> usize {
        self.facts.vocabulary
    }

    fn logits_width(&self) -> usize {
        self.facts.logits_width
    }

    fn looks_ahead(&self) -> bool {
        self.facts.looks_ahead
    }

    fn takes_whole_prompts(&self) -> bool {
        self.facts.takes_whole_prompts
    }

    fn pool(&self, _compute: &Compute, options: PoolOptions) -> Result<StatePool, ModelError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session::new(number, options, Arc::clone(&self.ended)));
        StatePool::with_backing(self.facts.states.clone(), options, |_| {
            Ok(Box::new(StagedStates(Arc::clone(&session))))
        })
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows, ModelError> {
        refuse(context)?;
        context.check_cancelled()?;
        context.states.prepare(context.layout)?;
        let session = Arc::clone(&context.states.parts::<StagedStates>()?.1.0);
        let mut head = self.head();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        head.close(&ended)?;
        head.open(&session, context.states.windows())?;
        let sets = context.adapters.iter().map(|set| self.members(&mut head, set));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let message = StepMessage::of(context, session.changes(), sets)?;
        let wanted = context.layout.logit_rows().len();
        let sending = Sending { session: &session, message: &message, wanted, cancelled: context.cancelled };
        let values = head.step(sending)?;
        drop(head);
        context.compute.backend.upload(values, self.facts.logits_width)
    }
}
