//! A model in stages on threads whose pipelines can be made again, each with its own mischief.

use crate::mischief::{Faulty, Mischief, Place};
use crate::split::{LONG, ended, stages};
use menagerie::engine::{Arithmetic, Engine, TextPipeline};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie::stages::{
    ChainFacts, ChainOptions, Identity, PipelineDemand, PipelineLinks, PipelineSource, SharedLibrary,
    StageChain, StageFault, StageReach, StageWorker, TransportKind, WorkerParts, ring,
};
use menagerie_conformance::options;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What becomes of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// Something happens to one of its frames.
    Of(Mischief, Place),
    /// There is none.
    Missing(StageFault),
}

/// How a model is split.
#[derive(Clone)]
pub(crate) struct Renewing {
    pub(crate) stages: usize,
    pub(crate) transport: TransportKind,
    /// Steps in flight.
    pub(crate) overlap: usize,
    pub(crate) deadline: Duration,
    pub(crate) restoring: Duration,
    /// Of the pipelines, in the order in which they are made; those after them are whole.
    pub(crate) fates: Vec<Fate>,
}

impl Renewing {
    /// Two stages whose first pipeline has this mischief.
    pub(crate) fn once(mischief: Mischief, place: Place) -> Self {
        Self::all(vec![Fate::Of(mischief, place)])
    }

    /// Two stages whose pipelines have these fates.
    pub(crate) fn all(fates: Vec<Fate>) -> Self {
        let transport = TransportKind::Serialized;
        Self { stages: 2, transport, overlap: 1, deadline: LONG, restoring: LONG, fates }
    }
}

/// Makes pipelines of threads.
struct ThreadSource {
    whole: Arc<LoadedModel<TextPipeline>>,
    shared: Arc<SharedLibrary>,
    stages: usize,
    transport: TransportKind,
    fates: VecDeque<Fate>,
    made: Arc<AtomicUsize>,
    workers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl PipelineSource for ThreadSource {
    fn connect(&mut self, demand: &PipelineDemand) -> Result<PipelineLinks, StageFault> {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        assert_eq!(demand.lost.is_some(), made > 0, "the fault comes with every demand but the first");
        // The links of the pipeline before it are closed, so its stages end.
        ended(std::mem::take(&mut self.workers.lock().unwrap()));
        let mischief = match self.fates.pop_front() {
            Some(Fate::Missing(fault)) => return Err(fault),
            Some(Fate::Of(mischief, place)) => Some((mischief, place)),
            None => None,
        };
        let (stages, names) = stages(&self.whole, self.stages);
        let mut links = ring(self.stages + 1).into_iter().enumerate().map(|(link, inner)| {
            let own = mischief.filter(|(_, place)| place.link == link);
            Faulty::new(inner, self.transport, own.map(|(mischief, place)| (mischief, place.frame)))
        });
        let transport = Box::new(links.next().unwrap());
        for (index, (stage, link)) in stages.into_iter().zip(links).enumerate() {
            let parts = WorkerParts {
                stage,
                compute: self.whole.compute().clone(),
                identity: Identity::default(),
                library: Arc::clone(&self.shared) as _,
                names: names.clone(),
                index,
                credits: ChainOptions::default().credits,
                cancelled: None,
                guard: None,
                state_memory: None,
                meter: Arc::default(),
            };
            // A hook of a test may panic.
            let run = move || {
                let run = AssertUnwindSafe(|| StageWorker::new(parts, Box::new(link)).run());
                drop(catch_unwind(run));
            };
            self.workers.lock().unwrap().push(std::thread::spawn(run));
        }
        Ok(PipelineLinks { transport, names })
    }
}

/// A model in stages whose pipelines are made again, and in one piece.
pub(crate) struct Renewed {
    pub(crate) engine: Engine,
    pub(crate) whole: Arc<LoadedModel<TextPipeline>>,
    made: Arc<AtomicUsize>,
    workers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Renewed {
    pub(crate) fn open(file: &Path, how: Renewing) -> Self {
        let whole = ModelBuilder::new(file).with_options(&options(Arithmetic::Fast)).open_text().unwrap();
        Self::of(&Arc::new(whole), how)
    }

    pub(crate) fn of(whole: &Arc<LoadedModel<TextPipeline>>, how: Renewing) -> Self {
        let whole = Arc::clone(whole);
        let (made, workers) = (Arc::default(), Arc::default());
        let shared = Arc::new(SharedLibrary::new(StageReach::SameProcess));
        let source = ThreadSource {
            whole: Arc::clone(&whole),
            shared: Arc::clone(&shared),
            stages: how.stages,
            transport: how.transport,
            fates: how.fates.into(),
            made: Arc::clone(&made),
            workers: Arc::clone(&workers),
        };
        let waits = ChainOptions::default().with_overlap(how.overlap).with_deadline(how.deadline);
        let waits = waits.with_restoring(how.restoring);
        let facts = ChainFacts::of_whole(&*whole.engine().model);
        let chain = StageChain::over(Box::new(source), facts, Identity::default(), shared, waits);
        let chain = chain.unwrap_or_else(|fault| panic!("{fault}"));
        let engine = Engine { model: Arc::new(chain), ..(**whole.engine()).clone() };
        Self { engine, whole, made, workers }
    }

    /// A pipeline over the stages, with this chunk.
    pub(crate) fn pipeline(&self, chunk: usize) -> TextPipeline {
        TextPipeline::new("renewed", Engine { chunk, ..self.engine.clone() })
    }

    /// The pipeline of the whole model, with this chunk.
    pub(crate) fn one(&self, chunk: usize) -> TextPipeline {
        TextPipeline::new("whole", Engine { chunk, ..(**self.whole.engine()).clone() })
    }

    /// How many pipelines were made, including those that were not complete.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Drops the model, and sees that no stage is left.
    pub(crate) fn end(self) {
        let Self { engine, workers, .. } = self;
        drop(engine);
        ended(std::mem::take(&mut workers.lock().unwrap()));
    }
}
