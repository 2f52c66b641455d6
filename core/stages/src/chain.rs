//! [`StageChain`]: stages as one executor.

mod head;
mod pending;
mod progress;
mod sending;
mod states;

use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::FrameKind;
use crate::gather::Asked;
use crate::hook_message::HookMessage;
use crate::identity::Identity;
use crate::library::{Shared, StageReach};
use crate::session::{SequenceFault, Session};
use crate::step::{SetMessage, SetWeights, StepMessage, StepParts};
use crate::times::StageTime;
use crate::trace_message::TraceParts;
use crate::transport::PipelineTransport;
use head::Head;
use menagerie_model::{
    AdapterSet, Compute, Executor, Hooks, LayerHook, ModelError, ModelShape, NormedExecutor, PoolOptions,
    Rows, SequenceFailure, SequenceId, SerializableHook, Stage, StageTrace, StatePool, StateSpec, StepGoal,
    Trace, TransformContext,
};
use sending::Sending;
pub(crate) use states::StagedStates;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
    pub is_bidirectional: bool,
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
            is_bidirectional: stacks().any(|stack| stack.is_bidirectional()),
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
            is_bidirectional: model.is_bidirectional(),
            takes_whole_prompts: model.takes_whole_prompts(),
        }
    }
}

/// How a chain waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainOptions {
    /// Longest time that a step may take.
    pub deadline: Duration,
    /// Frames that may be on a link: with two and more, a stage computes a chunk while the next one computes that before it.
    pub credits: usize,
    /// Longest time until all stages have the model open.
    pub opening: Duration,
}

impl ChainOptions {
    /// The same with this [`Self::deadline`].
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The same with this [`Self::credits`].
    #[must_use]
    pub fn with_credits(self, credits: usize) -> Self {
        Self { credits, ..self }
    }

    /// The same with this [`Self::opening`].
    #[must_use]
    pub fn with_opening(self, opening: Duration) -> Self {
        Self { opening, ..self }
    }
}

impl Default for ChainOptions {
    fn default() -> Self {
        let long = Duration::from_secs(300);
        Self { deadline: long, credits: 3, opening: long }
    }
}

/// Stages that run steps like one model. A step that wants no logits, a chunk of a prompt before the last, is not waited for:
/// what goes wrong with it is the error of one of the next steps of its request, which names the chunk by its positions, and the
/// states of the request are then lost as a whole. The last chunk wants logits, so that a prompt ends with all of it computed.
pub struct StageChain {
    facts: ChainFacts,
    shared: Arc<Shared>,
    head: Arc<Mutex<Head>>,
    requests: AtomicU64,
    /// Requests that ended and were not told to the stages.
    ended: Arc<Mutex<Vec<u64>>>,
    /// What the stages run in; dropped after the links.
    keeps: Option<Box<dyn Send + Sync>>,
}

impl StageChain {
    /// The chain over its own end of the links, once all stages have agreed on `identity`; `shared` is where stages of this
    /// process find the adapters and hooks of steps.
    ///
    /// # Errors
    /// A stage that has something else, or does not answer.
    pub fn connect(
        facts: ChainFacts,
        transport: Box<dyn PipelineTransport>,
        names: Vec<StageName>,
        identity: &Identity,
        shared: Arc<Shared>,
        options: ChainOptions,
    ) -> Result<Self, StageFault> {
        let ended: Arc<Mutex<Vec<u64>>> = Arc::default();
        let mut head = Head::new(transport, names, options);
        let states = head.greet(identity)?;
        if states != facts.states.len() {
            let detail = format!("the stages have {states} states, and the model {}", facts.states.len());
            return Err(head.fault(FaultKind::Refused, 0, &detail));
        }
        let head = Arc::new(Mutex::new(head));
        Ok(Self { facts, shared, head, requests: AtomicU64::new(1), ended, keeps: None })
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
    fn set(&self, head: &mut Head, set: &AdapterSet, session: &Session) -> Result<SetMessage, StageFault> {
        let weights = match set.scaling_layers() {
            None => SetWeights::AsGiven,
            Some(layers) => {
                self.shared.scale_by(layers);
                SetWeights::ByRow
            }
        };
        let mut members = Vec::new();
        for (adapter, weight) in set.adapters() {
            let number = self.shared.adapter_number(adapter);
            let name = || adapter.name().as_bytes().to_vec();
            head.announce((FrameKind::Adapter, number), Some(session), name)?;
            members.push((number, weight));
        }
        Ok(SetMessage { members, weights })
    }

    /// Tells the stages which requests ended.
    fn close_ended(&self, head: &mut Head, session: &Session) -> Result<(), StageFault> {
        // Taken out: a request may end while frames are sent.
        let mut ended = std::mem::take(&mut *self.ended());
        let closed = head.close(&mut ended, session);
        self.ended().append(&mut ended);
        closed
    }

    fn ended(&self) -> MutexGuard<'_, Vec<u64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a hook; a new one is announced.
    fn hook(
        &self,
        head: &mut Head,
        hook: &Arc<dyn LayerHook>,
        session: Option<&Session>,
    ) -> Result<u32, ModelError> {
        let travels = match self.shared.reach() {
            StageReach::SameProcess => None,
            StageReach::Elsewhere => Some(hook.serializable().ok_or_else(|| {
                ModelError::Unsupported(format!(
                    "hook \"{}\" acts in this process only, and the layers are in processes of their own; use stages on threads \
                     (--stages), or run the model in one piece",
                    hook.name()
                ))
            })?),
        };
        let number = self.shared.hook_number(hook);
        let payload = || {
            let recipe = travels.map(|hook| hook.recipe());
            HookMessage { gone: self.shared.hooks_gone(), recipe }.encode()
        };
        head.announce((FrameKind::Hook, number), session, payload)?;
        Ok(number)
    }

    /// A step, for logits or for normed rows.
    fn step(&self, goal: StepGoal, context: &mut TransformContext) -> Result<Rows, ModelError> {
        context.check_cancelled()?;
        context.states.prepare(context.layout)?;
        let session = Arc::clone(&context.states.parts::<StagedStates>()?.1.session);
        let mut head = self.head();
        let epoch = session.epoch();
        let values = self.send(&mut head, &session, goal, context);
        if session.epoch() == epoch
            && values.as_ref().is_err_and(|error| !matches!(error, ModelError::Cancelled))
        {
            // What happened to the states before the step may have been told to no stage.
            session.lose(None);
        }
        drop(head);
        let values = values?;
        tell_failures(&session, context)?;
        let width = match goal {
            StepGoal::Logits => self.facts.logits_width,
            StepGoal::Normed => self.facts.shape.embedding_length,
        };
        context.compute.backend.upload(values, width)
    }

    /// Sends a step of a request whose rows were prepared; what comes of it.
    fn send(
        &self,
        head: &mut Head,
        session: &Arc<Session>,
        goal: StepGoal,
        context: &TransformContext,
    ) -> Result<Vec<f32>, ModelError> {
        self.close_ended(head, session)?;
        head.open(session)?;
        let sets = context.adapters.iter().map(|set| self.set(head, set, session));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let hooks = context.hooks.of_layers().map(|hook| self.hook(head, hook, Some(session)));
        let hooks = hooks.collect::<Result<Vec<_>, _>>()?;
        let message = StepMessage::of(context, session.changes(), StepParts { goal, sets, hooks })?;
        let wanted = match goal {
            StepGoal::Logits => context.layout.logit_rows().len(),
            StepGoal::Normed => context.layout.rows(),
        };
        let sequences: Vec<SequenceId> =
            context.layout.sequences().iter().map(|part| part.sequence).collect();
        let cancelled = context.cancelled;
        let sending = Sending { session, message: &message, sequences: &sequences, wanted, cancelled };
        let first = message.sequences.first().map_or(0, |part| part.placement.tokens);
        let values = head.step(sending).map_err(|fault| fault.seen_from(session.number, first))?;
        self.take_kept(head, context.hooks, &|own| own.is_followed())?;
        Ok(values)
    }

    /// Takes what copies of some hooks kept in other processes.
    fn take_kept(
        &self,
        head: &mut Head,
        hooks: &Hooks,
        wanted: &dyn Fn(&dyn SerializableHook) -> bool,
    ) -> Result<(), ModelError> {
        if self.shared.reach() == StageReach::SameProcess {
            return Ok(());
        }
        for hook in hooks.of_layers() {
            if let Some(own) = hook.serializable().filter(|own| wanted(*own)) {
                let number = self.hook(head, hook, None)?;
                head.gather(Asked::Hook(number), &mut |_, piece| own.take(piece))?;
            }
        }
        Ok(())
    }
}

/// Says which sequences of a step fail, by what the stages found in it and in steps before that were not waited for.
fn tell_failures(session: &Session, context: &mut TransformContext) -> Result<(), ModelError> {
    let parts = context.layout.sequences();
    let sequences: Vec<SequenceId> = parts.iter().map(|part| part.sequence).collect();
    let lives = |sequence| context.states.len(sequence).is_ok();
    for (index, SequenceFault { position, fault, .. }) in session.take_faults(&sequences, lives) {
        let fault = fault.seen_from(session.number, parts[index].first_position);
        if context.failures.is_none() {
            session.lose(Some(&fault));
        }
        context.fail(SequenceFailure { index, position, error: fault.into() })?;
    }
    Ok(())
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

    fn is_bidirectional(&self) -> bool {
        self.facts.is_bidirectional
    }

    fn takes_whole_prompts(&self) -> bool {
        self.facts.takes_whole_prompts
    }

    fn pool(&self, _compute: &Compute, options: PoolOptions) -> Result<StatePool, ModelError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session::new(number, options, Arc::clone(&self.ended)));
        let sets = AtomicU32::new(0);
        let pool = StatePool::with_backing(self.facts.states.clone(), options, |_| {
            let (session, head) = (Arc::clone(&session), Arc::downgrade(&self.head));
            Ok(Box::new(StagedStates { session, head, set: sets.fetch_add(1, Ordering::Relaxed) }))
        })?;
        session.number_by(pool.windows());
        Ok(pool)
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows, ModelError> {
        self.step(StepGoal::Logits, context)
    }

    fn settle(&self, hooks: &Hooks) -> Result<(), ModelError> {
        let mut head = self.head();
        head.gather(Asked::Nothing, &mut |_, _| Ok(()))?;
        self.take_kept(&mut head, hooks, &|_| true)
    }

    fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>, ModelError> {
        let mut head = self.head();
        let names = head.stage_names();
        let mut parts: Vec<TraceParts> = names.iter().map(|_| TraceParts::default()).collect();
        head.gather(Asked::Trace(trace.number), &mut |stage, piece| {
            let taken = parts.get_mut(stage).map_or(Ok(()), |parts| parts.take(piece));
            taken.map_err(|detail| {
                let name = names.get(stage).map_or("a stage", String::as_str);
                ModelError::Stage(format!("{name}: its times cannot be read: {detail}").into())
            })
        })?;
        let made = parts.into_iter().zip(names).map(|(parts, name)| {
            let trace = parts.finish().unwrap_or_else(|| Trace::new(0));
            StageTrace { name, trace }
        });
        Ok(made.collect())
    }
}

impl NormedExecutor for StageChain {
    fn normed(&self, context: &mut TransformContext) -> Result<Rows, ModelError> {
        self.step(StepGoal::Normed, context)
    }
}
