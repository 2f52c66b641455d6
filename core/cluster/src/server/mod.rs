//! [`StageServer`]: a stage that serves one head after the other.

mod desk;

use crate::control::{PROTOCOL, fields_of};
use crate::description::{MemoryFigures, StageDescription, StageState, StepFigures, host_name};
use crate::error::ClusterError;
use crate::names::check_name;
use crate::node::ClusterNode;
use crate::transport::{ClusterTransport, TransportEnd};
use desk::RequestDesk;
use menagerie_stages::{FRAME_VERSION, Identity, StageName};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;

/// How often a waiting stage looks whether it must end.
const LOOK: Duration = Duration::from_millis(50);

/// What a stage is.
#[derive(Clone, Debug)]
pub struct ServedStage {
    /// The name of the model in keys; see [`crate::model_name`].
    pub model: String,
    /// The name of the replica.
    pub replica: String,
    /// What the stage must have in common with its head.
    pub identity: Identity,
    /// The plugins that are loaded, each with its checksum.
    pub plugins: Vec<String>,
    /// Its layers.
    pub layers: Range<usize>,
    /// Layers of the whole model.
    pub all_layers: usize,
}

/// Figures of a stage that change.
pub type StageFigures = dyn Fn() -> (MemoryFigures, StepFigures) + Send + Sync;

/// A pipeline that a head opened with this stage.
pub struct AcceptedPipeline {
    /// The head, for messages.
    pub head: String,
    /// The names of all stages, in order.
    pub names: Vec<StageName>,
    /// The index of this stage.
    pub index: usize,
    /// Most unacknowledged frames on a link.
    pub credits: usize,
    /// The links.
    pub transport: ClusterTransport,
}

/// A stage that is announced in a cluster and serves one head after the other.
pub struct StageServer {
    shared: Arc<ServerShared>,
    accepted: Receiver<AcceptedPipeline>,
    desk: Option<RequestDesk>,
    _ready: LivelinessToken,
}

/// What the stage and the thread that answers requests have in common.
struct ServerShared {
    node: ClusterNode,
    stage: ServedStage,
    figures: Box<StageFigures>,
    /// Receives what users of the machine should know.
    report: Box<dyn Fn(&str) + Send + Sync>,
    state: Mutex<ServerState>,
    /// Set once no further head is accepted.
    draining: AtomicBool,
    /// Longest time that a drained stage waits for running requests.
    patience: Duration,
}

#[derive(Default)]
struct ServerState {
    /// The head that is served, and how its pipeline is ended.
    serving: Option<(String, TransportEnd)>,
    last_fault: Option<String>,
}

impl ServerShared {
    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn describe(&self) -> StageDescription {
        let ServedStage { model, replica, identity, plugins, layers, all_layers } = &self.stage;
        let (memory, steps) = (self.figures)();
        let state = self.state();
        let doing = match (&state.serving, self.is_draining()) {
            (_, true) => StageState::Draining,
            (Some((head, _)), false) => StageState::Serving(head.clone()),
            (None, false) => StageState::Ready,
        };
        StageDescription {
            protocol: PROTOCOL,
            frames: FRAME_VERSION,
            node: self.node.id().to_owned(),
            host: host_name(),
            process: std::process::id(),
            endpoints: self.node.endpoints().to_vec(),
            model: model.clone(),
            replica: replica.clone(),
            identity: fields_of(identity),
            plugins: plugins.clone(),
            first: layers.start,
            end: layers.end,
            layers: *all_layers,
            memory,
            steps,
            state: doing,
            last_fault: state.last_fault.clone(),
        }
    }
}

impl StageServer {
    /// Announces a stage that is loaded. `figures` returns its current figures; `report` receives messages for its user,
    /// for instance about a head that was refused. A drained stage waits at most `patience` for running requests.
    ///
    /// # Errors
    /// Invalid names; the network failed.
    pub fn announce(
        node: &ClusterNode,
        stage: ServedStage,
        figures: Box<StageFigures>,
        report: Box<dyn Fn(&str) + Send + Sync>,
        patience: Duration,
    ) -> Result<Self, ClusterError> {
        check_name("replica", &stage.replica)?;
        let names = [stage.model.clone(), stage.replica.clone()];
        let (state, draining) = (Mutex::default(), AtomicBool::new(false));
        let shared =
            Arc::new(ServerShared { node: node.clone(), stage, figures, report, state, draining, patience });
        let (to, accepted) = sync_channel(1);
        let desk = Some(RequestDesk::open(&shared, to)?);
        let [model, replica] = &names;
        let token = node.session().liveliness().declare_token(node.keys().stage(model, replica, node.id()));
        let _ready =
            token.wait().map_err(|error| ClusterError::network("cannot announce the stage", error))?;
        Ok(Self { shared, accepted, desk, _ready })
    }

    /// What the stage says about itself.
    pub fn describe(&self) -> StageDescription {
        self.shared.describe()
    }

    /// Serves one head after the other with `run`, which returns why a pipeline ended early, if it did. Ends once the
    /// stage is drained: by a request, or because `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, mut run: impl FnMut(AcceptedPipeline) -> Result<(), String>) {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let shared = &self.shared;
            let ended = &ended;
            let watch = || {
                while !ended.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(LOOK);
                }
                if stop.load(Ordering::Relaxed) {
                    shared.draining.store(true, Ordering::Relaxed);
                }
            };
            let _watching = scope.spawn(watch);
            loop {
                match self.accepted.recv_timeout(LOOK) {
                    Ok(pipeline) => {
                        let result = run(pipeline);
                        let mut state = self.shared.state();
                        state.serving = None;
                        state.last_fault = result.err().or_else(|| state.last_fault.take());
                    }
                    Err(RecvTimeoutError::Timeout) if !self.shared.is_draining() => {}
                    Err(_) => break,
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}

impl Drop for StageServer {
    fn drop(&mut self) {
        drop(self.desk.take());
    }
}
