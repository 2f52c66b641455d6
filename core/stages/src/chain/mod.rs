//! [`StageChain`]: an executor over the stages of a model.

mod head;
mod outgoing;
mod pending;
mod progress;
mod renewal;
mod restoring;
mod sent_step;
mod session;
mod states;

use crate::fault::{StageFault, StageName};
use crate::frame::FrameKind;
use crate::identity::Identity;
use crate::library::{SharedLibrary, StageReach};
use crate::message::gather::GatherSubject;
use crate::message::hook::HookMessage;
use crate::message::step::{SetMessage, SetWeights, StepMessage, StepParts};
use crate::message::times::StageTime;
use crate::message::trace::TraceParts;
use crate::transport::PipelineTransport;
use head::ChainHead;
use menagerie_model::{
    AdapterSet, BegunStep, Cancellation, Compute, Executor, Hooks, LayerHook, ModelError, ModelShape,
    NormedExecutor, PoolOptions, Rows, SequenceFailure, SequenceId, SerializableHook, Stage, StageTrace,
    StatePool, StateSpec, StepGoal, Trace, TransformContext,
};
use outgoing::OutgoingStep;
use renewal::ChainRenewal;
use sent_step::SentStep;
pub(crate) use session::ChainSession;
pub(crate) use states::StagedStates;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The properties of a model in stages that a pipeline needs.
#[derive(Clone, Debug)]
pub struct ChainFacts {
    /// The sizes of the whole model.
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
    /// A component whose rows may have other bits beside other rows.
    pub company_dependent: Option<&'static str>,
}

impl ChainFacts {
    /// The facts of stages in this process; `None` if they lack an embedding or a head.
    pub fn of(stages: &[Stage]) -> Option<Self> {
        let stacks = || stages.iter().map(|stage| &stage.body().stack);
        Some(Self {
            shape: stages.first()?.body().shape.clone(),
            states: stacks().flat_map(|stack| stack.states().to_vec()).collect(),
            vocabulary: stages.first()?.embedding()?.vocabulary(),
            logits_width: stages.last()?.head()?.vocabulary(),
            is_bidirectional: stacks().any(|stack| stack.is_bidirectional()),
            takes_whole_prompts: stacks().any(|stack| stack.takes_whole_prompts()),
            company_dependent: stacks().find_map(|stack| stack.company_dependent()),
        })
    }

    /// The facts of a whole model.
    pub fn of_whole(model: &dyn Executor) -> Self {
        Self {
            shape: model.shape().clone(),
            states: model.states().to_vec(),
            vocabulary: model.vocabulary(),
            logits_width: model.logits_width(),
            is_bidirectional: model.is_bidirectional(),
            takes_whole_prompts: model.takes_whole_prompts(),
            company_dependent: model.company_dependent(),
        }
    }
}

/// The deadlines and credits of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainOptions {
    /// Longest time of a step.
    pub deadline: Duration,
    /// Most unacknowledged frames on a link. With two or more, a stage computes a chunk while the next one computes the chunk
    /// before it.
    pub credits: usize,
    /// Most steps in flight, for sequences that do not wait for each other; 0 for one per stage. One per stage is best if every
    /// stage has processor cores of its own, and 1 if stages share them: a step of all sequences then reads the weights once.
    pub overlap: usize,
    /// Longest time until all stages have opened the model.
    pub opening: Duration,
    /// Longest time until another pipeline takes the place of one that lost a stage ([`StageChain::over`]).
    pub restoring: Duration,
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

    /// The same with this [`Self::overlap`].
    #[must_use]
    pub fn with_overlap(self, overlap: usize) -> Self {
        Self { overlap, ..self }
    }

    /// The same with this [`Self::opening`].
    #[must_use]
    pub fn with_opening(self, opening: Duration) -> Self {
        Self { opening, ..self }
    }

    /// The same with this [`Self::restoring`].
    #[must_use]
    pub fn with_restoring(self, restoring: Duration) -> Self {
        Self { restoring, ..self }
    }
}

impl Default for ChainOptions {
    fn default() -> Self {
        let long = Duration::from_secs(300);
        let restoring = Duration::from_secs(60);
        Self { deadline: long, credits: 3, overlap: 1, opening: long, restoring }
    }
}

/// Stages that run steps like one model. The chain does not wait for a step without logits (a chunk of a prompt before the
/// last one). If such a step fails, one of the next steps of its request returns the error, which names the positions of the
/// chunk, and all states of the request are lost. The last chunk has logits, so that a prompt ends with all of it computed.
pub struct StageChain {
    facts: ChainFacts,
    library: Arc<SharedLibrary>,
    head: Arc<Mutex<ChainHead>>,
    /// Most steps in flight.
    overlap: usize,
    requests: AtomicU64,
    /// Requests that ended, which the stages do not know of yet.
    ended: Arc<Mutex<Vec<u64>>>,
    /// Where links come from after a stage was lost; dropped after the links.
    renewal: Option<ChainRenewal>,
    /// The threads or processes of the stages; dropped after the links.
    hosts: Option<Box<dyn Send + Sync>>,
}

impl StageChain {
    /// Connects to the stages over the chain's end of the links, and checks that all of them have `identity`. Stages in this
    /// process find the adapters and hooks of steps in `library`.
    ///
    /// # Errors
    /// A stage differs, or does not answer.
    pub fn connect(
        facts: ChainFacts,
        transport: Box<dyn PipelineTransport>,
        names: Vec<StageName>,
        identity: &Identity,
        library: Arc<SharedLibrary>,
        options: ChainOptions,
    ) -> Result<Self, StageFault> {
        let ended: Arc<Mutex<Vec<u64>>> = Arc::default();
        let overlap = if options.overlap == 0 { names.len().max(1) } else { options.overlap };
        let (opening, options) = (options.opening, options.with_overlap(overlap));
        let mut head = ChainHead::new(transport, names, options);
        head.agree(identity, facts.states.len(), opening, Cancellation::default())?;
        let head = Arc::new(Mutex::new(head));
        let requests = AtomicU64::new(1);
        Ok(Self { facts, library, head, overlap, requests, ended, renewal: None, hosts: None })
    }

    /// Keeps the threads or processes of the stages as long as the chain exists.
    pub fn with_hosts(mut self, hosts: Box<dyn Send + Sync>) -> Self {
        self.hosts = Some(hosts);
        self
    }

    /// The times of the last few thousand steps in each stage, the newest last.
    pub fn times(&self) -> Vec<StageTime> {
        self.head().times()
    }

    fn head(&self) -> MutexGuard<'_, ChainHead> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message of an adapter set; new adapters are announced to the stages.
    fn set(
        &self,
        head: &mut ChainHead,
        set: &AdapterSet,
        session: &ChainSession,
    ) -> Result<SetMessage, StageFault> {
        let weights = match set.scaling_layers() {
            None => SetWeights::Constant,
            Some(layers) => {
                self.library.scale_by(layers);
                SetWeights::ByRow
            }
        };
        let mut members = Vec::new();
        for (adapter, weight) in set.adapters() {
            let number = self.library.adapter_number(adapter);
            let name = || adapter.name().as_bytes().to_vec();
            head.announce((FrameKind::Adapter, number), Some(session), name)?;
            members.push((number, weight));
        }
        Ok(SetMessage { members, weights })
    }

    /// Reports ended requests to the stages.
    fn close_ended(&self, head: &mut ChainHead, session: &ChainSession) -> Result<(), StageFault> {
        // Moved out of the lock, since a request may end while frames are sent.
        let mut ended = std::mem::take(&mut *self.ended());
        let closed = head.close(&mut ended, session);
        self.ended().append(&mut ended);
        closed
    }

    fn ended(&self) -> MutexGuard<'_, Vec<u64>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a hook; a new hook is announced to the stages.
    fn hook(
        &self,
        head: &mut ChainHead,
        hook: &Arc<dyn LayerHook>,
        session: Option<&ChainSession>,
    ) -> Result<u32, ModelError> {
        let copy = match self.library.reach() {
            StageReach::SameProcess => None,
            StageReach::OtherProcess => Some(hook.serializable().ok_or_else(|| {
                ModelError::Unsupported(format!(
                    "hook \"{}\" works only in this process, but the layers are in other processes; use stages on threads \
                     (--stages), or run the model without stages",
                    hook.name()
                ))
            })?),
        };
        let number = self.library.hook_number(hook);
        let payload = || {
            let recipe = copy.map(|hook| hook.recipe());
            HookMessage { removed: self.library.removed_hooks(), recipe }.encode()
        };
        head.announce((FrameKind::Hook, number), session, payload)?;
        Ok(number)
    }

    /// Computes a step, for logits or for normed rows.
    fn step(&self, goal: StepGoal, context: &mut TransformContext) -> Result<Rows, ModelError> {
        let sent = self.begin_step(goal, context)?;
        self.complete(sent, context)
    }

    /// Sends a step, for logits or for normed rows.
    fn begin_step(&self, goal: StepGoal, context: &mut TransformContext) -> Result<SentStep, ModelError> {
        context.check_cancelled()?;
        context.states.prepare(context.layout)?;
        let session = Arc::clone(&context.states.parts::<StagedStates>()?.1.session);
        let mut head = self.head();
        let epoch = session.epoch();
        let sent = self.send(&mut head, &session, goal, context);
        if session.epoch() == epoch
            && sent.as_ref().is_err_and(|error| !matches!(error, ModelError::Cancelled))
        {
            // The stages may not know of the state changes before the step.
            session.lose(None);
        }
        drop(head);
        sent
    }

    /// Waits for a step that was sent.
    fn complete(&self, mut sent: SentStep, context: &mut TransformContext) -> Result<Rows, ModelError> {
        let (values, failed) = sent.wait(context.states, context.cancelled)?;
        for failed in failed {
            if context.failures.is_none() {
                sent.session.lose(Some(&failed.fault));
            }
            context.fail(SequenceFailure::from(failed))?;
        }
        context.compute.backend.upload(values, sent.width)
    }

    /// Sends a step of a request whose rows have been prepared.
    fn send(
        &self,
        head: &mut ChainHead,
        session: &Arc<ChainSession>,
        goal: StepGoal,
        context: &TransformContext,
    ) -> Result<SentStep, ModelError> {
        self.close_ended(head, session)?;
        head.open(session)?;
        let sets = context.adapters.iter().map(|set| self.set(head, set, session));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let hooks = context.hooks.of_layers().map(|hook| self.hook(head, hook, Some(session)));
        let hooks = hooks.collect::<Result<Vec<_>, _>>()?;
        let followed = self.followed(context.hooks, &hooks);
        let message = StepMessage::of(context, session.take_changes(), StepParts { goal, sets, hooks })?;
        let (expected, width) = match goal {
            StepGoal::Logits => (context.layout.logit_rows().len(), self.facts.logits_width),
            StepGoal::Normed => (context.layout.rows(), self.facts.shape.embedding_length),
        };
        let parts = context.layout.sequences();
        let sequences: Vec<SequenceId> = parts.iter().map(|part| part.sequence).collect();
        let cancelled = context.cancelled;
        let sending = OutgoingStep { session, message: &message, sequences: &sequences, expected, cancelled };
        let first = message.sequences.first().map_or(0, |part| part.placement.tokens);
        let epoch = session.epoch();
        let answered_step = head.begin(sending).map_err(|fault| fault.seen_from(session.number, first))?;
        let sequences = parts.iter().map(|part| (part.sequence, part.first_position)).collect();
        let (session, head) = (Arc::clone(session), Arc::downgrade(&self.head));
        Ok(SentStep { session, epoch, head, answered_step, sequences, width, followed })
    }

    /// The hooks in other processes that are asked for their data after each step, with their numbers.
    fn followed(&self, hooks: &Hooks, numbers: &[u32]) -> Vec<(u32, Arc<dyn LayerHook>)> {
        if self.library.reach() == StageReach::SameProcess {
            return Vec::new();
        }
        let own = numbers.iter().copied().zip(hooks.of_layers().map(Arc::clone));
        own.filter(|(_, hook)| is_followed(hook)).collect()
    }

    /// Collects the data that copies of hooks recorded in other processes.
    fn collect(&self, head: &mut ChainHead, hooks: &Hooks) -> Result<(), ModelError> {
        if self.library.reach() == StageReach::SameProcess {
            return Ok(());
        }
        for hook in hooks.of_layers() {
            if let Some(own) = hook.serializable() {
                let number = self.hook(head, hook, None)?;
                head.gather(GatherSubject::Hook(number), &mut |_, piece| own.take(piece))?;
            }
        }
        Ok(())
    }
}

/// Whether copies of a hook are asked for their data after each step.
fn is_followed(hook: &Arc<dyn LayerHook>) -> bool {
    hook.serializable().is_some_and(SerializableHook::is_followed)
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

    fn company_dependent(&self) -> Option<&'static str> {
        self.facts.company_dependent
    }

    fn pool(&self, _compute: &Compute, options: PoolOptions) -> Result<StatePool, ModelError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(ChainSession::new(number, options, Arc::clone(&self.ended)));
        let sets = AtomicU32::new(0);
        let pool = StatePool::with_backing(self.facts.states.clone(), options, |_| {
            let (session, head) = (Arc::clone(&session), Arc::downgrade(&self.head));
            Ok(Box::new(StagedStates { session, head, set: sets.fetch_add(1, Ordering::Relaxed) }))
        })?;
        session.set_windows(pool.windows());
        Ok(pool)
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows, ModelError> {
        self.step(StepGoal::Logits, context)
    }

    fn overlap(&self, hooks: &Hooks) -> usize {
        // Their data belongs to one step at a time.
        let follows = self.library.reach() == StageReach::OtherProcess && hooks.of_layers().any(is_followed);
        if follows { 1 } else { self.overlap }
    }

    fn begin(&self, context: &mut TransformContext) -> Result<BegunStep, ModelError> {
        let sent = self.begin_step(StepGoal::Logits, context)?;
        if self.overlap > 1 && sent.answered_step.is_some() && sent.followed.is_empty() {
            return Ok(BegunStep::InFlight(Box::new(sent)));
        }
        self.complete(sent, context).map(BegunStep::Complete)
    }

    fn restore(&self, error: &ModelError, cancelled: Cancellation) -> Result<bool, ModelError> {
        let ModelError::Stage(fault) = error else { return Ok(false) };
        fault.downcast_ref().map_or(Ok(false), |fault| self.restored(fault, cancelled))
    }

    fn check_lens(&self) -> Result<(), ModelError> {
        Err(ModelError::Unsupported(
            "the model is in stages, and only the last one has its head; open the model without --stages"
                .to_owned(),
        ))
    }

    fn settle(&self, hooks: &Hooks) -> Result<(), ModelError> {
        let mut head = self.head();
        head.gather(GatherSubject::Nothing, &mut |_, _| Ok(()))?;
        self.collect(&mut head, hooks)
    }

    fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>, ModelError> {
        let mut head = self.head();
        let names = head.stage_names();
        let mut parts: Vec<TraceParts> = names.iter().map(|_| TraceParts::default()).collect();
        head.gather(GatherSubject::Trace(trace.number), &mut |stage, piece| {
            let taken = parts.get_mut(stage).map_or(Ok(()), |parts| parts.take(piece));
            taken.map_err(|detail| {
                let name = names.get(stage).map_or("a stage", String::as_str);
                ModelError::stage(format!("{name}: its trace cannot be read: {detail}"))
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
