//! [`StageWorker`]: a stage at its place in the chain.

mod computing;
mod watching;

pub(crate) use computing::ReceivedStep;

use crate::bytes::{Reader, Writer};
use crate::change::SetChange;
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{Content, FrameKind, Header};
use crate::identity::Identity;
use crate::library::StageLibrary;
use crate::link::{Back, CHAIN, Done, Link, LinkFault, sooner};
use crate::open::OpenMessage;
use crate::states::{Access, StatesMessage};
use crate::step::SetWeights;
use crate::times;
use crate::transport::PipelineTransport;
use menagerie_model::{
    Adapter, AdapterSet, BlockCopy, Compute, ModelError, Stage, StateId, StatePool, WeightGuard,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watching::Watching;

/// How often a stage that waits looks for what later ones give back.
const LOOK: Duration = Duration::from_millis(50);

/// How long a stage that nobody is waiting for waits for another.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a stage is made of.
pub struct WorkerParts {
    /// Its layers, with what its position has.
    pub stage: Stage,
    /// Where it computes.
    pub compute: Compute,
    /// What it must have in common with the others.
    pub identity: Identity,
    /// Adapters, fitted to its sites, and hooks.
    pub library: Arc<dyn StageLibrary>,
    /// All stages, in order.
    pub names: Vec<StageName>,
    /// Which of them it is.
    pub index: usize,
    /// Frames that may be on a link.
    pub credits: usize,
    /// Set from outside when nobody waits for what is being computed.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Asked after each step; absent where the chain's owner asks for all stages, which are then in its process.
    pub guard: Option<WeightGuard>,
}

/// A request in this stage.
struct Session {
    epoch: u32,
    /// Absent: something went wrong, and what follows in this epoch is dropped.
    held: Option<Held>,
}

/// States of a request in this stage.
struct Held {
    windows: Vec<Option<usize>>,
    kept: HashMap<u64, BlockCopy>,
    pool: StatePool,
}

impl Held {
    /// Does what happened to the memory of the states with the numbers `own`.
    fn change(&mut self, changes: &[SetChange], own: &Range<usize>) -> Result<(), Fault> {
        changes
            .iter()
            .try_for_each(|change| change.apply(own, &mut self.pool, &mut self.kept))
            .map_err(computing)
    }
}

/// A stage with its links, states and adapters.
pub struct StageWorker {
    parts: WorkerParts,
    link: Link,
    /// Numbers of its states in the whole model.
    own: Range<usize>,
    sessions: HashMap<u64, Session>,
    adapters: HashMap<u32, Arc<Adapter>>,
    sets: HashMap<SetKey, Arc<AdapterSet>>,
    watching: Watching,
}

/// What tells adapter sets apart: numbers and weights (as bits), and what else multiplies them.
type SetKey = (Vec<[u32; 2]>, SetWeights);

/// What a stage sends on: kind, rows, columns, content.
type Sent = (FrameKind, [usize; 2], Content);

/// Kind and detail of a fault of this stage.
type Fault = (FaultKind, String);

fn corrupted(detail: String) -> Fault {
    (FaultKind::Corrupted, detail)
}

fn computing(error: ModelError) -> Fault {
    let kind = match error {
        ModelError::Cancelled => FaultKind::Cancelled,
        _ => FaultKind::Computing,
    };
    (kind, error.to_string())
}

/// A stage beside this one is gone.
fn gone(stage: StageName, fault: &LinkFault) -> StageFault {
    StageFault::of(FaultKind::Closed, stage, format!("is gone ({})", fault.detail))
}

/// The states of a request in its epoch; none where something went wrong in it before.
fn held<'s>(sessions: &'s mut HashMap<u64, Session>, header: &Header) -> Result<Option<&'s mut Held>, Fault> {
    let Some(session) = sessions.get_mut(&header.request) else {
        return Err((FaultKind::Missing, "a step of a request that was not opened".to_owned()));
    };
    if session.epoch != header.epoch {
        let detail = format!("a step of epoch {}, and epoch {} is open", header.epoch, session.epoch);
        return Err((FaultKind::Stale, detail));
    }
    Ok(session.held.as_mut())
}

/// What all stages must agree on, and the number of states before this stage.
pub(crate) fn read_hello(payload: &[u8]) -> Result<(Identity, usize), String> {
    let mut from = Reader::new(payload);
    let hello = (Identity::decode(&mut from)?, from.number()?);
    from.end()?;
    Ok(hello)
}

impl StageWorker {
    /// A stage that has computed nothing yet.
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
            watching: Watching::default(),
        }
    }

    /// Says why there is no stage at its place, and waits until the chain has heard it.
    pub fn refuse(transport: Box<dyn PipelineTransport>, stage: StageName, reason: &str) {
        let mut link = Link::new(transport, [stage.index, CHAIN], 1);
        let fault = StageFault::of(FaultKind::Refused, stage, reason);
        let said = link.send(Header::of(FrameKind::Fault), fault.encode(), Instant::now() + PATIENCE);
        // Until the one before it is gone: links that end at once would be all that is noticed.
        while said.is_ok()
            && !matches!(link.receive(Instant::now() + LOOK), Err(LinkFault { kind: FaultKind::Closed, .. }))
        {
        }
    }

    fn name(&self) -> StageName {
        self.parts.names[self.parts.index]
    }

    /// Computes what comes until the stage before it is gone.
    ///
    /// # Errors
    /// Why it ended otherwise than by the end of the chain: the next stage is gone, or takes nothing.
    pub fn run(&mut self) -> Result<(), StageFault> {
        loop {
            match self.receive()? {
                Ok((header, content)) => self.take(header, content)?,
                Err(fault) if fault.kind == FaultKind::Closed => {
                    return match self.parts.index.checked_sub(1) {
                        // The chain itself ended.
                        None => Ok(()),
                        Some(before) => {
                            let gone = gone(self.parts.names[before], &fault);
                            // Nobody may be left to hear of it.
                            drop(self.send_fault(&gone, &Header::of(FrameKind::Fault)));
                            Err(gone)
                        }
                    };
                }
                Err(fault) => self.lost_frame(fault)?,
            }
        }
    }

    /// The next frame, however long it takes, or what is wrong with the link from the stage before; an error where a later stage
    /// is gone.
    fn receive(&mut self) -> Result<Result<(Header, Content), LinkFault>, StageFault> {
        loop {
            while self.take_back(Instant::now())? {}
            match self.link.receive(Instant::now() + LOOK) {
                Ok(Some(frame)) => return Ok(Ok(frame)),
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault)),
            }
        }
    }

    /// Tells the stage before what later ones gave back until `by`; whether there was anything. An error where one is gone,
    /// which the stage before has heard then.
    fn take_back(&mut self, by: Instant) -> Result<bool, StageFault> {
        let gone = match self.link.receive_back(by) {
            Ok(None) => return Ok(false),
            Ok(Some(Back::Done(done))) => {
                self.pass_back(&done);
                return Ok(true);
            }
            Ok(Some(Back::Gone(fault))) => fault,
            Err(fault) => self.next_is_gone(&fault),
        };
        // Nobody may be left to hear of it.
        drop(self.link.back_gone(&gone));
        Err(gone)
    }

    /// The next stage is gone, or the chain behind the last one.
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

    /// Tells the stage before what a later one was done with. That it is gone the next frame says, or that there is none.
    fn pass_back(&mut self, done: &Done) {
        if done.header.stage != CHAIN {
            drop(self.link.pass_back(done));
        }
    }

    /// A frame is lost, and with it what requests have here: of one that came twice its own, else that of all.
    fn lost_frame(&mut self, fault: LinkFault) -> Result<(), StageFault> {
        let before = match self.parts.index.checked_sub(1) {
            None => "the chain".to_owned(),
            Some(before) => self.parts.names[before].to_string(),
        };
        let detail = format!(
            "on the link from {before}: {}; the states of its layers are dropped, and prompts must be computed again",
            fault.detail
        );
        let header = fault.header.unwrap_or(Header::of(FrameKind::Fault));
        // Of one that is missing or changed the chain knows which it was: the oldest that it waits for.
        let step = if fault.kind == FaultKind::Doubled { header.step } else { 0 };
        let header = Header { step, ..header };
        let mut fault =
            StageFault { position: header.position, ..StageFault::of(fault.kind, self.name(), detail) };
        let own = |number: &u64| fault.kind != FaultKind::Doubled || *number == header.request;
        let mut lost: Vec<(u64, u32)> = Vec::new();
        for (number, session) in self.sessions.iter_mut().filter(|(number, _)| own(number)) {
            if fault.kind != FaultKind::Doubled || session.epoch == header.epoch {
                session.held = None;
                lost.push((*number, session.epoch));
            }
        }
        if lost.is_empty() && fault.kind == FaultKind::Corrupted {
            lost.push((0, 0));
        }
        for (request, epoch) in lost {
            fault.request = request;
            self.send_fault(&fault, &Header { request, epoch, ..header })?;
        }
        match fault.kind {
            FaultKind::Corrupted => drop(self.link.done_with_last()),
            FaultKind::Doubled => self.acknowledge(&header, [times::now(); 2]),
            // The frame itself comes next.
            _ => {}
        }
        Ok(())
    }

    /// Deals with a frame, and tells the stage before it.
    fn take(&mut self, header: Header, content: Content) -> Result<(), StageFault> {
        let began = times::now();
        let by = match header.deadline {
            0 => Instant::now() + PATIENCE,
            left => Instant::now() + Duration::from_millis(u64::from(left)),
        };
        match self.execute_stage(&header, content) {
            // Cancelled because the stage before is gone, which is said next.
            Ok(None) | Err((FaultKind::Cancelled, _)) => {}
            Ok(Some((kind, [rows, cols], content))) => {
                let header = Header { kind, rows: rows as u32, cols: cols as u32, ..header };
                self.send(header, content, by)?;
            }
            Err((kind, detail)) => {
                let mut header = header;
                if let Some(session) = self.sessions.get_mut(&header.request) {
                    // The epoch that is open is the one that cannot go on.
                    (session.held, header.epoch) = (None, session.epoch);
                }
                let (request, position) = (header.request, header.position);
                let fault = StageFault { request, position, ..StageFault::of(kind, self.name(), detail) };
                self.send_fault(&fault, &header)?;
            }
        }
        self.acknowledge(&header, [began, times::now()]);
        Ok(())
    }

    /// Tells the stage before; that it is gone the next frame says, or that there is none.
    fn acknowledge(&mut self, header: &Header, times: [u64; 2]) {
        drop(self.link.done(header, times));
    }

    fn send_fault(&mut self, fault: &StageFault, header: &Header) -> Result<(), StageFault> {
        let header = Header { kind: FrameKind::Fault, rows: 0, cols: 0, ..*header };
        self.send(header, fault.encode(), Instant::now() + PATIENCE).map(drop)
    }

    /// Sends a frame once the next stage has room for it; gives whether it had.
    fn send(&mut self, header: Header, content: impl Into<Content>, by: Instant) -> Result<bool, StageFault> {
        while !self.link.has_credit() {
            self.link.ask();
            let came = self.take_back(sooner(by, LOOK))?;
            // The chain has a deadline of its own and says so; what is late is of no use to anybody.
            if !came && (Instant::now() >= by || self.is_cancelled()) {
                return Ok(false);
            }
        }
        let Err(fault) = self.link.send(header, content, by) else { return Ok(true) };
        match fault.kind {
            FaultKind::Late => return Ok(false),
            FaultKind::Unsupported => {
                let unsent = StageFault::of(fault.kind, self.name(), fault.detail);
                let Header { request, position, .. } = header;
                self.send_fault(&StageFault { request, position, ..unsent }, &header)?;
                return Ok(false);
            }
            _ => {}
        }
        // Who went first the next one may have said.
        while self.take_back(Instant::now())? {}
        let gone = self.next_is_gone(&fault);
        drop(self.link.back_gone(&gone));
        Err(gone)
    }

    /// Whether nobody waits for what is computed.
    fn is_cancelled(&self) -> bool {
        self.parts.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// One frame in, one frame out: the same for every model and every place.
    ///
    /// # Errors
    /// What is wrong with the frame, or what computing it reports.
    fn execute_stage(&mut self, header: &Header, content: Content) -> Result<Option<Sent>, Fault> {
        let shape = [header.rows as usize, header.cols as usize];
        let told = &content.told;
        let answer = match header.kind {
            FrameKind::Step => return self.step(header, content),
            FrameKind::States => return self.states(header, told),
            FrameKind::Hello => self.hello(told)?.into(),
            FrameKind::Gather => self.gather(header, told)?.into(),
            FrameKind::Open => {
                self.open(header, told)?;
                content
            }
            FrameKind::Adapter => {
                self.learn(header.position, told)?;
                content
            }
            FrameKind::Hook => {
                self.watching.learn(header.position, told, &*self.parts.library)?;
                content
            }
            FrameKind::Close => {
                self.sessions.remove(&header.request);
                self.watching.rest();
                content
            }
            FrameKind::Gathered | FrameKind::Fault => content,
            FrameKind::Logits | FrameKind::Done | FrameKind::Ask => {
                return Err(corrupted(format!("a frame of kind {:?}", header.kind)));
            }
        };
        Ok(Some((header.kind, shape, answer)))
    }

    /// Takes an adapter that sets will name by this number.
    fn learn(&mut self, number: u32, name: &[u8]) -> Result<(), Fault> {
        let name = String::from_utf8_lossy(name);
        let found = self.parts.library.adapter(number, &name).ok_or_else(|| {
            let detail =
                format!("adapter \"{name}\" was not given when the stages began; open the model with it");
            (FaultKind::Refused, detail)
        })?;
        self.adapters.insert(number, found);
        Ok(())
    }

    /// Compares what all must have in common, and counts the states.
    fn hello(&mut self, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let (theirs, first) = read_hello(payload).map_err(corrupted)?;
        if let Some(difference) = self.parts.identity.difference(&theirs) {
            return Err((FaultKind::Refused, difference));
        }
        let end = first.checked_add(self.own.len());
        self.own = first..end.ok_or_else(|| corrupted(format!("{first} states before this stage")))?;
        let mut out = Writer::default();
        theirs.encode(&mut out);
        out.count(self.own.end);
        Ok(out.0)
    }

    /// Makes room for the states of a request: once in each epoch.
    fn open(&mut self, header: &Header, payload: &[u8]) -> Result<(), Fault> {
        let OpenMessage { options, windows } = OpenMessage::decode(payload).map_err(corrupted)?;
        if let Some(known) = self.sessions.get(&header.request)
            && known.epoch >= header.epoch
        {
            let detail =
                format!("was opened in epoch {} and is opened again in epoch {}", known.epoch, header.epoch);
            return Err((FaultKind::Doubled, detail));
        }
        // The memory of the epoch before is given back first.
        self.sessions.remove(&header.request);
        let specs = self.parts.stage.body().stack.states().to_vec();
        let pool = StatePool::new(&*self.parts.compute.backend, specs, options).map_err(computing)?;
        let held = Some(Held { windows, kept: HashMap::new(), pool });
        self.sessions.insert(header.request, Session { epoch: header.epoch, held });
        Ok(())
    }

    /// Reads or writes what a state of a request holds, where it is one of this stage.
    fn states(&mut self, header: &Header, payload: &[u8]) -> Result<Option<Sent>, Fault> {
        let mut message = StatesMessage::decode(payload).map_err(corrupted)?;
        let Some(held) = held(&mut self.sessions, header)? else { return Ok(None) };
        held.change(&message.changes, &self.own)?;
        let state = message.state as usize;
        if self.own.contains(&state) && !matches!(message.access, Access::Done(_)) {
            let state = StateId(state - self.own.start);
            held.pool.use_set(message.set as usize).map_err(computing)?;
            let read = message.access.apply(state, &mut held.pool, &held.kept);
            message.access = Access::Done(read.map_err(computing)?);
        }
        Ok(Some((FrameKind::States, [0, 0], message.encode().into())))
    }
}
