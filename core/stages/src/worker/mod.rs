//! [`StageWorker`]: a stage at its place in the chain.

mod meter;
mod observers;
mod states;
mod step;

pub use meter::{StageCounts, StageMeter};
pub(crate) use states::pool_bytes;
pub(crate) use step::ReceivedStep;

use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::frame::{FrameContent, FrameHeader, FrameKind};
use crate::identity::Identity;
use crate::library::StageLibrary;
use crate::link::{Acknowledgment, BackMessage, CHAIN, Link, LinkFault, sooner};
use crate::message::open::OpenMessage;
use crate::message::state_access::{StateAccess, StatesMessage};
use crate::message::step::SetWeights;
use crate::message::times;
use crate::transport::PipelineTransport;
use menagerie_model::{Adapter, AdapterSet, Compute, ModelError, Stage, StateId, StatePool, WeightGuard};
use observers::StageObservers;
use states::{SessionStates, StageSession, states_of};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a waiting stage checks for messages from later stages.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a stage waits for another one when the chain has set no deadline.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parts of a stage.
pub struct WorkerParts {
    /// Its layers, with embedding and head if it has them.
    pub stage: Stage,
    /// Where it computes.
    pub compute: Compute,
    /// What it must have in common with the other stages.
    pub identity: Identity,
    /// Adapters, fitted to its sites, and hooks.
    pub library: Arc<dyn StageLibrary>,
    /// The names of all stages, in order.
    pub names: Vec<StageName>,
    /// Its index among them.
    pub index: usize,
    /// Most unacknowledged frames on a link.
    pub credits: usize,
    /// Set from outside to cancel what is being computed.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Called after each step to check the weights; absent if all stages are in one process, whose owner checks them.
    pub guard: Option<WeightGuard>,
    /// Most bytes that the states of all requests may take. Absent if the chain is in the same process, which checks the
    /// memory itself.
    pub state_memory: Option<u64>,
    /// Counts what the stage computes.
    pub meter: Arc<StageMeter>,
}

/// A stage with its links, states and adapters.
pub struct StageWorker {
    parts: WorkerParts,
    link: Link,
    /// The numbers of its states in the whole model.
    own: Range<usize>,
    sessions: HashMap<u64, StageSession>,
    adapters: HashMap<u32, Arc<Adapter>>,
    sets: HashMap<SetKey, Arc<AdapterSet>>,
    observers: StageObservers,
}

/// The key of an adapter set: numbers and weights (as bits) of its adapters, and their additional factors.
type SetKey = (Vec<[u32; 2]>, SetWeights);

/// A message for the next stage: kind, rows, columns, content.
type Answer = (FrameKind, [usize; 2], FrameContent);

/// Kind and detail of a fault of this stage.
pub(crate) type Fault = (FaultKind, String);

fn corrupted(detail: String) -> Fault {
    (FaultKind::Corrupted, detail)
}

fn execution(error: ModelError) -> Fault {
    let kind = match error {
        ModelError::Cancelled => FaultKind::Cancelled,
        _ => FaultKind::Execution,
    };
    (kind, error.to_string())
}

/// The fault of a neighboring stage that is gone.
fn gone(stage: StageName, fault: &LinkFault) -> StageFault {
    StageFault::of(FaultKind::Closed, stage, format!("is gone ({})", fault.detail))
}

/// The properties that all stages must have in common, and the number of states before this stage.
pub(crate) fn read_hello(payload: &[u8]) -> Result<(Identity, usize), String> {
    let mut from = PayloadReader::new(payload);
    let hello = (Identity::decode(&mut from)?, from.number()?);
    from.end()?;
    Ok(hello)
}

impl StageWorker {
    /// A stage before its first frame.
    pub fn new(parts: WorkerParts, transport: Box<dyn PipelineTransport>) -> Self {
        let next = if parts.index + 1 == parts.names.len() { CHAIN } else { parts.index as u16 + 1 };
        let link = Link::new(transport, [parts.index as u16, next], parts.credits);
        let count = parts.stage.body().stack.states().len();
        Self {
            parts,
            link,
            own: 0..count,
            sessions: HashMap::new(),
            adapters: HashMap::new(),
            sets: HashMap::new(),
            observers: StageObservers::default(),
        }
    }

    /// Reports why this process cannot be a stage, and waits until the chain has received the report.
    pub fn refuse(transport: Box<dyn PipelineTransport>, stage: StageName, reason: &str) {
        let mut link = Link::new(transport, [stage.index, CHAIN], 1);
        let fault = StageFault::of(FaultKind::Refused, stage, reason);
        let sent = link.send(FrameHeader::of(FrameKind::Fault), fault.encode(), Instant::now() + PATIENCE);
        // Waits until the previous stage is gone: if the links closed at once, the chain would report only that.
        while sent.is_ok()
            && !matches!(
                link.receive(Instant::now() + POLL_INTERVAL),
                Err(LinkFault { kind: FaultKind::Closed, .. })
            )
        {}
    }

    /// The parts of a stage that has served its chain, for the next chain.
    pub fn into_parts(self) -> WorkerParts {
        self.parts
    }

    fn name(&self) -> StageName {
        self.parts.names[self.parts.index]
    }

    /// Processes frames until the previous stage is gone.
    ///
    /// # Errors
    /// Why it ended before the chain did: the next stage is gone, or accepts nothing.
    pub fn run(&mut self) -> Result<(), StageFault> {
        loop {
            match self.receive()? {
                Ok((header, content)) => self.take(header, content)?,
                Err(fault) if fault.kind == FaultKind::Closed => {
                    return match self.parts.index.checked_sub(1) {
                        // The chain itself ended.
                        None => Ok(()),
                        Some(previous) => {
                            let gone = gone(self.parts.names[previous], &fault);
                            // The other stages may be gone too.
                            drop(self.send_fault(&gone, &FrameHeader::of(FrameKind::Fault)));
                            Err(gone)
                        }
                    };
                }
                Err(fault) => self.lost_frame(fault)?,
            }
        }
    }

    /// Waits for the next frame, or a fault of the link from the previous stage. An error if a later stage is gone.
    fn receive(&mut self) -> Result<Result<(FrameHeader, FrameContent), LinkFault>, StageFault> {
        loop {
            while self.take_back(Instant::now())? {}
            match self.link.receive(Instant::now() + POLL_INTERVAL) {
                Ok(Some(frame)) => return Ok(Ok(frame)),
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault)),
            }
        }
    }

    /// Passes messages of later stages to the previous one; waits for the first until `by`. Returns whether there was one.
    /// An error if a later stage is gone, which is then reported to the previous one.
    fn take_back(&mut self, by: Instant) -> Result<bool, StageFault> {
        let gone = match self.link.receive_back(by) {
            Ok(None) => return Ok(false),
            Ok(Some(BackMessage::Acknowledgment(done))) => {
                self.pass_back(&done);
                return Ok(true);
            }
            Ok(Some(BackMessage::Gone(fault))) => fault,
            Err(fault) => self.next_is_gone(&fault),
        };
        // The other stages may be gone too.
        drop(self.link.report_gone(&gone));
        Err(gone)
    }

    /// The fault of the next stage, or of the chain if this is the last stage.
    fn next_is_gone(&self, fault: &LinkFault) -> StageFault {
        match self.parts.names.get(self.parts.index + 1) {
            Some(next) => gone(*next, fault),
            None => StageFault::of(
                FaultKind::Closed,
                self.name(),
                format!("its chain is gone ({})", fault.detail),
            ),
        }
    }

    /// Passes an acknowledgment to the previous stage. If that stage is gone, the next receive reports it.
    fn pass_back(&mut self, done: &Acknowledgment) {
        if done.header.stage != CHAIN {
            drop(self.link.pass_back(done));
        }
    }

    /// Handles a fault of the link: it drops the states of one request (a duplicate frame) or of all requests.
    fn lost_frame(&mut self, fault: LinkFault) -> Result<(), StageFault> {
        let previous = match self.parts.index.checked_sub(1) {
            None => "the chain".to_owned(),
            Some(previous) => self.parts.names[previous].to_string(),
        };
        let detail = format!(
            "on the link from {previous}: {}; the states of its layers are dropped, and prompts must be computed again",
            fault.detail
        );
        let header = fault.header.unwrap_or(FrameHeader::of(FrameKind::Fault));
        // If a frame is missing or damaged, the chain knows its step: the oldest one without an answer.
        let step = if fault.kind == FaultKind::Duplicate { header.step } else { 0 };
        let header = FrameHeader { step, ..header };
        let mut fault =
            StageFault { position: header.position, ..StageFault::of(fault.kind, self.name(), detail) };
        let own = |number: &u64| fault.kind != FaultKind::Duplicate || *number == header.request;
        let mut lost: Vec<(u64, u32)> = Vec::new();
        for (number, session) in self.sessions.iter_mut().filter(|(number, _)| own(number)) {
            if fault.kind != FaultKind::Duplicate || session.epoch == header.epoch {
                session.states = None;
                lost.push((*number, session.epoch));
            }
        }
        if lost.is_empty() && fault.kind == FaultKind::Corrupted {
            lost.push((0, 0));
        }
        for (request, epoch) in lost {
            fault.request = request;
            self.send_fault(&fault, &FrameHeader { request, epoch, ..header })?;
        }
        match fault.kind {
            FaultKind::Corrupted => drop(self.link.acknowledge_last()),
            FaultKind::Duplicate => self.acknowledge(&header, [times::now(); 2]),
            // The frame itself is received next.
            _ => {}
        }
        Ok(())
    }

    /// Processes a frame, and acknowledges it.
    fn take(&mut self, header: FrameHeader, content: FrameContent) -> Result<(), StageFault> {
        let began = times::now();
        let by = match header.deadline {
            0 => Instant::now() + PATIENCE,
            left => Instant::now() + Duration::from_millis(u64::from(left)),
        };
        let executed = self.metered(&header, content);
        match executed {
            // Cancelled because the previous stage is gone, which the next receive reports.
            Ok(None) | Err((FaultKind::Cancelled, _)) => {}
            Ok(Some((kind, [rows, cols], content))) => {
                let header = FrameHeader { kind, rows: rows as u32, cols: cols as u32, ..header };
                self.send(header, content, by)?;
            }
            Err((kind, detail)) => {
                let mut header = header;
                if let Some(session) = self.sessions.get_mut(&header.request) {
                    // The open epoch cannot continue.
                    (session.states, header.epoch) = (None, session.epoch);
                }
                let (request, position) = (header.request, header.position);
                let fault = StageFault { request, position, ..StageFault::of(kind, self.name(), detail) };
                self.send_fault(&fault, &header)?;
            }
        }
        self.acknowledge(&header, [began, times::now()]);
        Ok(())
    }

    /// Executes a frame, and counts it if it is a step.
    fn metered(&mut self, header: &FrameHeader, content: FrameContent) -> Result<Option<Answer>, Fault> {
        let meter = Arc::clone(&self.parts.meter);
        if header.kind != FrameKind::Step {
            let executed = self.execute_stage(header, content);
            meter.set_requests(self.sessions.len());
            return executed;
        }
        meter.begin();
        let began = Instant::now();
        let executed = self.execute_stage(header, content);
        meter.end(header.rows, began.elapsed().as_micros() as u64);
        executed
    }

    /// Acknowledges a frame. If the previous stage is gone, the next receive reports it.
    fn acknowledge(&mut self, header: &FrameHeader, times: [u64; 2]) {
        drop(self.link.acknowledge(header, times));
    }

    fn send_fault(&mut self, fault: &StageFault, header: &FrameHeader) -> Result<(), StageFault> {
        let header = FrameHeader { kind: FrameKind::Fault, rows: 0, cols: 0, ..*header };
        self.send(header, fault.encode(), Instant::now() + PATIENCE).map(drop)
    }

    /// Sends a frame once the next stage has credit for it; returns whether it was sent.
    fn send(
        &mut self,
        header: FrameHeader,
        content: impl Into<FrameContent>,
        by: Instant,
    ) -> Result<bool, StageFault> {
        while !self.link.has_credit() {
            self.link.poll();
            let received = self.take_back(sooner(by, POLL_INTERVAL))?;
            // The chain has its own deadline and reports it; a late frame is useless.
            if !received && (Instant::now() >= by || self.is_cancelled()) {
                return Ok(false);
            }
        }
        let Err(fault) = self.link.send(header, content, by) else { return Ok(true) };
        match fault.kind {
            FaultKind::Timeout => return Ok(false),
            FaultKind::Unsupported => {
                let unsent = StageFault::of(fault.kind, self.name(), fault.detail);
                let FrameHeader { request, position, .. } = header;
                self.send_fault(&StageFault { request, position, ..unsent }, &header)?;
                return Ok(false);
            }
            _ => {}
        }
        // The next stage may have reported which stage ended first.
        while self.take_back(Instant::now())? {}
        let gone = self.next_is_gone(&fault);
        drop(self.link.report_gone(&gone));
        Err(gone)
    }

    /// Whether the computation was cancelled.
    fn is_cancelled(&self) -> bool {
        self.parts.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// One frame in, one frame out, for every model and every stage.
    ///
    /// # Errors
    /// The frame is invalid, or the computation failed.
    fn execute_stage(
        &mut self,
        header: &FrameHeader,
        content: FrameContent,
    ) -> Result<Option<Answer>, Fault> {
        let shape = [header.rows as usize, header.cols as usize];
        let body = &content.body;
        let answer = match header.kind {
            FrameKind::Step => return self.step(header, content),
            FrameKind::States => return self.states(header, body),
            FrameKind::Hello => self.hello(body)?.into(),
            FrameKind::Gather => self.gather(header, body)?.into(),
            FrameKind::Open => {
                self.open(header, body)?;
                content
            }
            FrameKind::Adapter => {
                self.learn(header.position, body)?;
                content
            }
            FrameKind::Hook => {
                self.observers.learn(header.position, body, &*self.parts.library)?;
                content
            }
            FrameKind::Close => {
                self.sessions.remove(&header.request);
                self.observers.release();
                content
            }
            FrameKind::Piece | FrameKind::Fault => content,
            FrameKind::Logits | FrameKind::Acknowledgment | FrameKind::Poll => {
                return Err(corrupted(format!("unexpected frame of kind {:?}", header.kind)));
            }
        };
        Ok(Some((header.kind, shape, answer)))
    }

    /// Takes an adapter that sets will name by this number.
    fn learn(&mut self, number: u32, name: &[u8]) -> Result<(), Fault> {
        let name = String::from_utf8_lossy(name);
        let found = self.parts.library.adapter(number, &name).ok_or_else(|| {
            let detail = format!("adapter \"{name}\" is unknown to this stage; open the model with it");
            (FaultKind::Refused, detail)
        })?;
        self.adapters.insert(number, found);
        Ok(())
    }

    /// Compares the identities, and counts the states.
    fn hello(&mut self, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let (theirs, first) = read_hello(payload).map_err(corrupted)?;
        if let Some(difference) = self.parts.identity.difference(&theirs) {
            return Err((FaultKind::Refused, difference));
        }
        let end = first.checked_add(self.own.len());
        self.own = first..end.ok_or_else(|| {
            corrupted(format!("the number {first} of states before this stage is too large"))
        })?;
        let mut out = PayloadWriter::default();
        theirs.encode(&mut out);
        out.count(self.own.end);
        Ok(out.0)
    }

    /// Allocates the states of a request, once in each epoch, within the memory that the stage has for them.
    fn open(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        let OpenMessage { options, windows } = OpenMessage::decode(payload).map_err(corrupted)?;
        if let Some(known) = self.sessions.get(&header.request)
            && known.epoch >= header.epoch
        {
            let detail = format!(
                "the request was opened in epoch {}, and again in epoch {}",
                known.epoch, header.epoch
            );
            return Err((FaultKind::Duplicate, detail));
        }
        // First, the memory of the previous epoch is freed.
        self.sessions.remove(&header.request);
        self.check_requests()?;
        let specs = self.parts.stage.body().stack.states().to_vec();
        let bytes = pool_bytes(&options, &specs, self.room_of(header.request))?;
        let pool = StatePool::new(&*self.parts.compute.backend, specs, options).map_err(execution)?;
        let states = Some(SessionStates::new(pool, bytes, windows));
        self.sessions.insert(header.request, StageSession { epoch: header.epoch, states });
        Ok(())
    }

    /// Reads or writes the contents of a state of a request, if this stage has it.
    fn states(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<Option<Answer>, Fault> {
        let mut message = StatesMessage::decode(payload).map_err(corrupted)?;
        let room = self.room_of(header.request);
        let Some(states) = states_of(&mut self.sessions, header)? else { return Ok(None) };
        states.change(&message.changes, &self.own, room)?;
        let state = message.state as usize;
        if self.own.contains(&state) && !matches!(message.access, StateAccess::Completed(_)) {
            let state = StateId(state - self.own.start);
            states.pool.use_set(message.set as usize).map_err(execution)?;
            let read = message.access.apply(state, &mut states.pool, &states.copies);
            message.access = StateAccess::Completed(read.map_err(execution)?);
        }
        Ok(Some((FrameKind::States, [0, 0], message.encode().into())))
    }
}
