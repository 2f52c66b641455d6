//! Stages on threads, each with its own node of a cluster on the loopback address, and heads that use them.

use menagerie::cluster::{
    ClusterHead, ClusterNode, ClusterOptions, HeadOptions, MemoryFigures, ServedStage, StageServer,
    StepFigures, WantedModel, model_name,
};
use menagerie::engine::TextPipeline;
use menagerie::open::{
    ChainPlace, LoadError, LoadOptions, LoadedModel, ModelBuilder, StageFinder, StageOptions, StageShare,
};
use menagerie::stages::{PipelineSource, StageMeter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest that a test waits for what should come at once.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A cluster of its own for a test.
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Where its first node listens.
    seed: Mutex<Option<String>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    pub(crate) meters: Mutex<Vec<Arc<StageMeter>>>,
    /// What stages reported to their users.
    pub(crate) reports: Arc<Mutex<Vec<String>>>,
}

/// A stage to start.
pub(crate) struct Start<'a> {
    pub(crate) file: &'a Path,
    pub(crate) load: &'a LoadOptions,
    pub(crate) share: StageShare,
    pub(crate) replica: &'a str,
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap().to_string_lossy().into_owned()
}

impl Cluster {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self {
            name,
            seed: Mutex::default(),
            threads: Mutex::default(),
            stop: Arc::default(),
            meters: Mutex::default(),
            reports: Arc::default(),
        }
    }

    /// As many stages as `of` for a model.
    pub(crate) fn with_stages(file: &Path, load: &LoadOptions, of: usize) -> Self {
        let cluster = Self::new();
        for index in 0..of {
            cluster.start(Start { file, load, share: StageShare::Part { index, of }, replica: "main" });
        }
        cluster
    }

    pub(crate) fn options(&self) -> ClusterOptions {
        let seed = self.seed.lock().unwrap().iter().cloned().collect();
        ClusterOptions::new(&self.name).with_connect(seed).with_lease(Duration::from_secs(10))
    }

    /// Starts a stage, and returns once it is announced.
    pub(crate) fn start(&self, start: Start) {
        let node = ClusterNode::join(&self.options()).unwrap();
        self.seed.lock().unwrap().get_or_insert_with(|| node.endpoints()[0].clone());
        let mut stage =
            ModelBuilder::new(start.file).with_options(start.load).open_stage(&start.share).unwrap();
        let identity = stage.identity();
        let served = ServedStage {
            model: model_name(&file_name(stage.file()), &identity.weights),
            replica: start.replica.to_owned(),
            identity,
            plugins: Vec::new(),
            layers: stage.layers(),
            all_layers: stage.all_layers(),
        };
        self.meters.lock().unwrap().push(stage.meter());
        let (meter, reports, stop) = (stage.meter(), Arc::clone(&self.reports), Arc::clone(&self.stop));
        let figures = Box::new(move || {
            let counts = meter.counts();
            let steps =
                StepFigures { steps: counts.steps, requests: counts.requests, ..StepFigures::default() };
            (MemoryFigures::default(), steps)
        });
        let report = Box::new(move |text: &str| reports.lock().unwrap().push(text.to_owned()));
        let (announced, is_announced) = channel();
        let serve = move || {
            let server = StageServer::announce(&node, served, figures, report, LONG).unwrap();
            announced.send(()).unwrap();
            server.serve(&stop, |pipeline| {
                let place = ChainPlace {
                    names: pipeline.names,
                    index: pipeline.index,
                    credits: pipeline.credits,
                    cancelled: pipeline.transport.gone(),
                };
                stage.serve(place, Box::new(pipeline.transport)).map_err(|error| error.to_string())
            });
        };
        self.threads.lock().unwrap().push(std::thread::spawn(serve));
        is_announced.recv_timeout(LONG).unwrap();
    }

    /// A model over the stages of the cluster.
    pub(crate) fn open(
        &self,
        file: &Path,
        load: &LoadOptions,
    ) -> Result<LoadedModel<TextPipeline>, LoadError> {
        self.open_within(file, load, LONG)
    }

    pub(crate) fn open_within(
        &self,
        file: &Path,
        load: &LoadOptions,
        wait: Duration,
    ) -> Result<LoadedModel<TextPipeline>, LoadError> {
        let (options, head) = (self.options(), HeadOptions::default().with_wait(wait));
        let finder = StageFinder(Arc::new(move |wish| {
            let node = ClusterNode::join(&options).map_err(|error| error.to_string())?;
            let head =
                ClusterHead::new(node, head.clone(), Box::new(|_| ())).map_err(|error| error.to_string())?;
            let name = model_name(&file_name(&wish.file), &wish.identity.weights);
            let wanted =
                WantedModel { name, identity: wish.identity, layers: wish.layers, credits: wish.credits };
            Ok(Box::new(head.source(wanted)) as Box<dyn PipelineSource>)
        }));
        let load = load.clone().with_stages(StageOptions::elsewhere(finder));
        ModelBuilder::new(file).with_options(&load).open_text()
    }

    /// Waits until `is_so`.
    pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let asked = Instant::now();
        while !is_so() {
            assert!(asked.elapsed() < LONG, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.lock().unwrap().drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a stage panicked");
        }
    }
}
