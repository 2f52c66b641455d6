//! [`RequestDesk`]: answers the requests to a stage, whatever the stage computes meanwhile.

use super::{AcceptedPipeline, LOOK, ServerShared};
use crate::control::{
    OpenRequest, RefusedRequest, VERB_DESCRIBE, VERB_DRAIN, VERB_OPEN, answer, differences, fields_of,
    read_json,
};
use crate::error::ClusterError;
use crate::transport::{PipelineSeat, SeatPlace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::query::{Query, Queryable};

/// Most requests that wait.
const MOST_REQUESTS: usize = 64;

/// How long a head that opens a pipeline may be out of sight.
const SIGHT: Duration = Duration::from_secs(2);

/// A drained stage ends once it has computed nothing for this time.
const IDLE: Duration = Duration::from_secs(1);

/// The thread that answers requests.
pub(super) struct RequestDesk {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct DeskClerk {
    shared: Arc<ServerShared>,
    queries: Queryable<FifoChannelHandler<Query>>,
    accepted: SyncSender<AcceptedPipeline>,
    ended: Arc<AtomicBool>,
    /// When draining began, and when the number of steps changed last.
    drained: Option<(Instant, u64, Instant)>,
}

impl RequestDesk {
    pub(super) fn open(
        shared: &Arc<ServerShared>,
        accepted: SyncSender<AcceptedPipeline>,
    ) -> Result<Self, ClusterError> {
        let key = request_key(shared, "*");
        let declared =
            shared.node.session().declare_queryable(key).with(FifoChannel::new(MOST_REQUESTS)).wait();
        let queries = declared.map_err(|error| ClusterError::network("cannot answer requests", error))?;
        let ended = Arc::new(AtomicBool::new(false));
        let clerk = DeskClerk {
            shared: Arc::clone(shared),
            queries,
            accepted,
            ended: Arc::clone(&ended),
            drained: None,
        };
        let thread = std::thread::Builder::new().name("menagerie-cluster-requests".to_owned());
        let thread = thread
            .spawn(move || clerk.work())
            .map_err(|error| ClusterError::network("cannot start a thread", error))?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for RequestDesk {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            drop(thread.join());
        }
    }
}

fn request_key(shared: &ServerShared, verb: &str) -> String {
    let names = [&*shared.stage.model, &*shared.stage.replica, shared.node.id()];
    shared.node.keys().request(names, verb)
}

impl DeskClerk {
    fn work(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            match self.queries.handler().recv_timeout(LOOK) {
                Ok(Some(query)) => self.take(&query),
                Ok(None) => {}
                Err(_) => return,
            }
            self.drain();
        }
    }

    fn take(&self, query: &Query) {
        let verb = query.key_expr().as_str().rsplit('/').next().unwrap_or_default().to_owned();
        let key = request_key(&self.shared, &verb);
        match verb.as_str() {
            VERB_DESCRIBE => answer(query, &key, &Ok(self.shared.describe())),
            VERB_OPEN => answer(query, &key, &self.open(query)),
            VERB_DRAIN => {
                self.shared.draining.store(true, Ordering::Relaxed);
                answer(query, &key, &Ok(()));
            }
            _ => {
                let unknown = RefusedRequest::new(format!("a stage does not know the request {verb:?}"));
                answer(query, &key, &Err::<(), _>(unknown));
            }
        }
    }

    /// A head opens a pipeline with this stage.
    fn open(&self, query: &Query) -> Result<(), RefusedRequest> {
        let none = || RefusedRequest::new("the request is empty");
        let request: OpenRequest =
            read_json(query.payload().ok_or_else(none)?).map_err(RefusedRequest::new)?;
        let stage = &self.shared.stage;
        let checked = request.check([stage.layers.start, stage.layers.end]).map_err(RefusedRequest::new);
        let agreed = checked.and_then(|()| self.agrees(&request));
        if let Err(refused) = &agreed {
            (self.shared.report)(&format!("head {} is refused: {}", shown(&request.head), refused.reason));
        }
        agreed?;
        if self.shared.is_draining() {
            return Err(RefusedRequest::temporary("it is drained and accepts no further head"));
        }
        if let Some((head, _)) = &self.shared.state().serving {
            return Err(RefusedRequest::temporary(format!("it serves another head, {head}")));
        }
        self.accept(request)
    }

    fn agrees(&self, request: &OpenRequest) -> Result<(), RefusedRequest> {
        let (own, plugins) = (fields_of(&self.shared.stage.identity), &self.shared.stage.plugins);
        let found = differences((&own, plugins), (&request.identity, &request.plugins));
        if found.is_empty() { Ok(()) } else { Err(RefusedRequest::new(found.join("; "))) }
    }

    fn accept(&self, request: OpenRequest) -> Result<(), RefusedRequest> {
        let failed = |error: ClusterError| RefusedRequest::temporary(error.to_string());
        let ServerShared { node, stage, .. } = &*self.shared;
        let place = SeatPlace {
            keys: node.keys().pipeline([&stage.model, &stage.replica, &request.epoch]),
            member: request.index,
            members: request.stages.len() + 1,
        };
        let seat = PipelineSeat::take(node, place).map_err(failed)?;
        if !seat.wait_for_head(Instant::now() + SIGHT) {
            let reason = "it does not see the head; check the addresses of --listen and firewalls";
            return Err(RefusedRequest::temporary(reason));
        }
        let transport = seat.links().map_err(failed)?;
        let head = shown(&request.head);
        let serving = (head.clone(), transport.ender());
        let (names, index, credits) = (request.names(), request.index, request.credits);
        let accepted = AcceptedPipeline { head, names, index, credits, transport };
        let mut state = self.shared.state();
        self.accepted.try_send(accepted).map_err(|_| RefusedRequest::temporary("it is busy"))?;
        state.serving = Some(serving);
        Ok(())
    }

    /// Ends the pipeline of a drained stage once it computes nothing, or after a while.
    fn drain(&mut self) {
        if !self.shared.is_draining() {
            return;
        }
        let now = Instant::now();
        let (_, steps) = (self.shared.figures)();
        let (since, last, changed) = self.drained.get_or_insert((now, steps.steps, now));
        if *last != steps.steps || steps.is_computing {
            (*last, *changed) = (steps.steps, now);
        }
        if now - *changed >= IDLE || now - *since >= self.shared.patience {
            let serving = self.shared.state().serving.as_ref().map(|(_, end)| end.clone());
            if let Some(end) = serving {
                end.close("it was drained");
            }
        }
    }
}

/// A text of another node for messages.
fn shown(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(200).collect()
}
