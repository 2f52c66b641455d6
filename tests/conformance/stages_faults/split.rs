//! A model in two stages on threads, with mischief on one of its links.

use crate::mischief::{Faulty, Mischief, Place};
use crate::overlap::{Recorder, SeenFrames};
use menagerie::assembly::{AssembleOptions, Assembly, StagePlan};
use menagerie::engine::{
    Arithmetic, Engine, GenerateError, LogitRows, Scheduler, Sequence, StepOutput, StepResults, TextPipeline,
};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::model::{
    Cancellation, Compute, InferenceStep, ModelError, RopeRegime, SequenceId, SequenceLayout, SequenceRows,
    Stage, StatePool, StepInput, TransformContext, WeightGuard,
};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie::stages::{
    ChainFacts, ChainOptions, Channel, Identity, SharedLibrary, StageChain, StageFault, StageName,
    StageReach, StageWorker, TransportKind, WorkerParts, ring,
};
use menagerie_conformance::{fixtures, options};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A time that nothing takes, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// How a split model is made.
pub(crate) struct Making {
    pub(crate) mischief: Option<(Mischief, Place)>,
    pub(crate) transport: TransportKind,
    pub(crate) deadline: Duration,
    pub(crate) opening: Duration,
    /// What the chain and each stage say of themselves.
    pub(crate) identities: [Identity; 3],
    /// Most bytes of the states in a stage.
    pub(crate) state_memory: Option<u64>,
    /// Whether the weights of a stage can still be read.
    pub(crate) guard: Option<Arc<StageGuard>>,
    /// Most steps in flight.
    pub(crate) overlap: usize,
    /// Where the chain's frames are recorded.
    pub(crate) seen: Option<Arc<SeenFrames>>,
}

/// The answer of a stage, by its index.
pub(crate) type StageGuard = dyn Fn(usize) -> Result<(), ModelError> + Send + Sync;

impl Default for Making {
    fn default() -> Self {
        let transport = TransportKind::InMemory;
        let identities = Default::default();
        Self {
            mischief: None,
            transport,
            deadline: LONG,
            opening: LONG,
            identities,
            state_memory: None,
            guard: None,
            overlap: 1,
            seen: None,
        }
    }
}

/// The base model in two stages, and in one piece.
pub(crate) struct Split {
    pub(crate) chain: Arc<StageChain>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) whole: Arc<Engine>,
    workers: Vec<JoinHandle<()>>,
}

impl Split {
    pub(crate) fn new(mischief: Mischief, place: Place, deadline: Duration) -> Self {
        Self::carried(mischief, place, deadline, mischief.transport())
    }

    pub(crate) fn carried(
        mischief: Mischief,
        place: Place,
        deadline: Duration,
        transport: TransportKind,
    ) -> Self {
        let making = Making { mischief: Some((mischief, place)), transport, deadline, ..Making::default() };
        Self::made(making).unwrap_or_else(|fault| panic!("{fault}"))
    }

    pub(crate) fn made(making: Making) -> Result<Self, StageFault> {
        let file = fixtures().join("base/llama/model-f32.gguf");
        let whole = ModelBuilder::new(&file).with_options(&options(Arithmetic::Fast)).open_text().unwrap();
        let (stages, names) = stages(&whole, 2);
        let facts = ChainFacts::of(&stages).unwrap();
        let shared = Arc::new(SharedLibrary::new(StageReach::SameProcess));
        let mut links = ring(3).into_iter().enumerate().map(|(link, inner)| faulty(inner, &making, link));
        let inner = links.next().unwrap();
        let end = Box::new(Recorder { inner, seen: making.seen.clone().unwrap_or_default() });
        let [own, of_stages @ ..] = making.identities.clone();
        let workers = stages.into_iter().zip(links).enumerate().map(|(index, (stage, link))| {
            let guard = making.guard.clone();
            let parts = WorkerParts {
                guard: guard.map(|guard| Box::new(move || guard(index)) as WeightGuard),
                stage,
                compute: whole.compute().clone(),
                identity: of_stages[index].clone(),
                library: Arc::clone(&shared) as _,
                names: names.clone(),
                index,
                credits: ChainOptions::default().credits,
                cancelled: None,
                state_memory: making.state_memory,
                meter: Arc::default(),
            };
            std::thread::spawn(move || drop(StageWorker::new(parts, Box::new(link)).run()))
        });
        let workers: Vec<_> = workers.collect();
        let waits = ChainOptions::default()
            .with_deadline(making.deadline)
            .with_opening(making.opening)
            .with_overlap(making.overlap);
        let chain = match StageChain::connect(facts, end, names.clone(), &own, Arc::clone(&shared), waits) {
            Ok(chain) => Arc::new(chain),
            Err(fault) => {
                ended(workers);
                return Err(fault);
            }
        };
        let engine = Engine { model: Arc::clone(&chain) as _, ..(**whole.engine()).clone() };
        Ok(Self { chain, engine: Arc::new(engine), whole: Arc::clone(whole.engine()), workers })
    }

    /// Drops the model, and sees that no stage is left.
    pub(crate) fn end(self) {
        let Self { chain, engine, workers, .. } = self;
        drop((engine, chain));
        ended(workers);
    }
}

fn faulty(inner: Channel, making: &Making, link: usize) -> Faulty {
    let own = making.mischief.filter(|(_, place)| place.link == link);
    Faulty::new(inner, making.transport, own.map(|(mischief, place)| (mischief, place.frame)))
}

/// Stages end with their links.
pub(crate) fn ended(workers: Vec<JoinHandle<()>>) {
    let asked = Instant::now();
    while !workers.iter().all(JoinHandle::is_finished) {
        assert!(asked.elapsed() < LONG, "a stage is left");
        std::thread::sleep(Duration::from_millis(5));
    }
    workers.into_iter().for_each(|worker| worker.join().expect("a stage that panicked"));
}

/// The stages of a model, and their names.
pub(crate) fn stages(whole: &LoadedModel<TextPipeline>, count: usize) -> (Vec<Stage>, Vec<StageName>) {
    let resolved = whole.resolved();
    let components = resolved.environment.components();
    let plan = StagePlan::by_bytes(resolved.config(), &*resolved.tensors, count).unwrap();
    let compute: &Compute = whole.compute();
    let how = AssembleOptions::whole(compute, components);
    let made = plan.assemble(resolved.config(), &*resolved.tensors, &how).unwrap();
    let name = |(index, layers): (usize, &std::ops::Range<usize>)| StageName {
        index: index as u16,
        first: layers.start as u32,
        end: layers.end as u32,
    };
    let names = plan.stages().iter().enumerate().map(name).collect();
    (made.into_iter().filter_map(Assembly::into_stage).collect(), names)
}

pub(crate) const TOKENS: [u32; 12] = [3, 14, 15, 9, 26, 5, 35, 8, 97, 93, 2, 38];

/// Tokens that are fed back after the prompt.
const FED: [u32; 3] = [7, 71, 19];

/// Rows of a chunk.
pub(crate) const CHUNK: usize = 3;

/// The bits of all logits: chunks of three, which are all waited for, then single tokens.
pub(crate) fn computed(engine: &Arc<Engine>) -> Result<Vec<u32>, String> {
    let how = LogitsOptions::default().with_chunk(CHUNK).with_decode_from(6);
    let pipeline = TextPipeline::new("split", Engine::clone(engine));
    let values = logits(&pipeline, &TOKENS, &how).map_err(|error| error.to_string())?;
    Ok(values.values.iter().map(|value| value.to_bits()).collect())
}

/// A scheduler with chunks of three and a sequence that the prompt was given to.
pub(crate) fn prompted(engine: &Arc<Engine>) -> Result<(Scheduler, Sequence), GenerateError> {
    let engine = Arc::new(Engine { chunk: CHUNK, ..(**engine).clone() });
    let mut scheduler = Scheduler::for_one(engine, Vec::new())?;
    let mut sequence = scheduler.create()?;
    scheduler.begin(&mut sequence, &TOKENS, LogitRows::Last)?;
    Ok((scheduler, sequence))
}

/// Adds the bits of what a step gave.
pub(crate) fn taken(output: StepOutput, bits: &mut Vec<u32>) -> Result<(), GenerateError> {
    bits.extend(output.logits()?.iter().map(|value| value.to_bits()));
    Ok(())
}

/// What went wrong in a step, by sequence.
pub(crate) fn errors(step: StepResults) -> Vec<GenerateError> {
    let mut errors = Vec::new();
    step.each(&mut |_, output| errors.extend(output.err()));
    errors
}

/// The bits of the logits after a prompt in four chunks, of which only the last is waited for, and after three tokens.
pub(crate) fn generated(engine: &Arc<Engine>) -> Result<Vec<u32>, String> {
    let run = || {
        let (mut scheduler, mut sequence) = prompted(engine)?;
        let mut bits = Vec::new();
        let mut take = |_: &Sequence, output: StepOutput| taken(output, &mut bits);
        scheduler.feed(&mut sequence, None, &mut take)?;
        for token in FED {
            scheduler.push(&mut sequence, token)?;
            scheduler.feed(&mut sequence, None, &mut take)?;
        }
        Ok(bits)
    };
    run().map_err(|error: GenerateError| error.to_string())
}

/// Tokens of a prompt that are computed in one step, without a scheduler.
#[derive(Clone, Copy)]
pub(crate) struct Part<'t> {
    pub(crate) sequence: SequenceId,
    /// Position of the first.
    pub(crate) first: usize,
    pub(crate) tokens: &'t [u32],
    /// So many of the last ones want logits.
    pub(crate) wants: usize,
}

/// A pool with an empty sequence.
pub(crate) fn empty_pool(engine: &Arc<Engine>) -> (StatePool, SequenceId) {
    let mut pool = engine.pool(engine.pool_options(2, 256)).unwrap();
    let id = pool.create().unwrap();
    (pool, id)
}

/// The bits of the logits of a part; the sequence is not advanced.
pub(crate) fn computed_part(
    engine: &Arc<Engine>,
    pool: &mut StatePool,
    part: Part,
    cancelled: Option<&AtomicBool>,
) -> Result<Vec<u32>, ModelError> {
    let Part { sequence, first, tokens, wants } = part;
    let rows = SequenceRows {
        sequence,
        rows: 0..tokens.len(),
        first_position: first,
        step: InferenceStep::Prefill {
            chunk_tokens: tokens.len(),
            chunk_start_position: first,
            total_prompt_tokens: first + tokens.len(),
            is_final_chunk: wants > 0,
        },
        regime: RopeRegime::Short,
        logits: tokens.len() - wants..tokens.len(),
        adapters: None,
    };
    let layout = SequenceLayout::new(vec![rows])?;
    let mut context = TransformContext::new(&engine.compute, &layout, StepInput::Tokens(tokens), pool);
    context.cancelled = Cancellation::by_all(cancelled.as_slice());
    let logits = engine.model.execute(&mut context)?;
    let values = engine.compute.backend.read(&logits)?;
    Ok(values.iter().map(|value| value.to_bits()).collect())
}
