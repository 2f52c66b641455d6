//! [`StageWorker`]: a stage at its place in the chain.

use crate::adapters::AdapterLibrary;
use crate::bytes::{Reader, Writer};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{FrameKind, Header};
use crate::identity::Identity;
use crate::link::{CHAIN, Done, Link, LinkFault, sooner};
use crate::open::OpenMessage;
use crate::section::{Carried, Section};
use crate::step::{SetMembers, StepMessage};
use crate::times;
use crate::transport::PipelineTransport;
use menagerie_model::{
    Adapter, AdapterSet, Compute, KeptBlock, ModelError, Rows, SlotId, Stage, StageOutput, StatePool,
    TransformContext,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often a stage that waits looks for what later ones give back.
const LOOK: Duration = Duration::from_millis(50);

/// How long a stage that nobody is waiting for waits for another.
const PATIENCE: Duration = Duration::from_secs(60);

/// Adapter sets that a stage keeps made.
const SETS: usize = 64;

/// What a stage is made of.
pub struct WorkerParts {
    /// Its layers, with what its position has.
    pub stage: Stage,
    /// Where it computes.
    pub compute: Compute,
    /// What it must have in common with the others.
    pub identity: Identity,
    /// Adapters, fitted to its sites.
    pub adapters: Arc<dyn AdapterLibrary>,
    /// All stages, in order.
    pub names: Vec<StageName>,
    /// Which of them it is.
    pub index: usize,
    /// Frames that may be on a link.
    pub credits: usize,
    /// Set from outside when nobody waits for what is being computed.
    pub cancelled: Option<Arc<AtomicBool>>,
}

/// States of a request in this stage.
struct Session {
    epoch: u32,
    windows: Vec<Option<usize>>,
    kept: HashMap<u64, KeptBlock>,
    /// Absent: something went wrong, and what follows in this epoch is dropped.
    pool: Option<StatePool>,
}

/// A stage with its links, states and adapters.
pub struct StageWorker {
    parts: WorkerParts,
    link: Link,
    /// Numbers of its states in the whole model.
    own: Range<usize>,
    sessions: HashMap<u64, Session>,
    adapters: HashMap<u32, Arc<Adapter>>,
    sets: HashMap<Vec<[u32; 2]>, Arc<AdapterSet>>,
}

/// What a stage sends on: kind, rows, columns, payload.
type Sent = (FrameKind, [usize; 2], Vec<u8>);

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
        }
    }

    /// Says why there is no stage at its place, and waits until the chain has heard it.
    pub fn refuse(transport: Box<dyn PipelineTransport>, stage: StageName, reason: &str) {
        let mut link = Link::new(transport, [stage.index, CHAIN], 1);
        let kind = FaultKind::Refused;
        let fault = StageFault { kind, stage, request: 0, position: 0, detail: reason.to_owned() };
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
                Ok((header, payload)) => self.take(header, payload)?,
                Err(fault) if fault.kind == FaultKind::Closed => {
                    return match self.parts.index.checked_sub(1) {
                        // The chain itself ended.
                        None => Ok(()),
                        Some(before) => {
                            let stage = self.parts.names[before];
                            let detail = format!("is gone ({})", fault.detail);
                            let kind = FaultKind::Closed;
                            let gone = StageFault { kind, stage, request: 0, position: 0, detail };
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

    /// The next frame, however long it takes, or what is wrong with the link from the stage before; an error where the next
    /// stage is gone.
    fn receive(&mut self) -> Result<Result<(Header, Vec<u8>), LinkFault>, StageFault> {
        loop {
            while let Some(done) =
                self.link.receive_back(Instant::now()).map_err(|fault| self.fault(fault))?
            {
                self.pass_back(&done);
            }
            match self.link.receive(Instant::now() + LOOK) {
                Ok(Some(frame)) => return Ok(Ok(frame)),
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault)),
            }
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
        let (stage, position) = (self.name(), header.position);
        let mut fault = StageFault { kind: fault.kind, stage, request: 0, position, detail };
        let own = |number: &u64| fault.kind != FaultKind::Doubled || *number == header.request;
        let mut lost: Vec<(u64, u32)> = Vec::new();
        for (number, session) in self.sessions.iter_mut().filter(|(number, _)| own(number)) {
            if fault.kind != FaultKind::Doubled || session.epoch == header.epoch {
                session.pool = None;
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
            FaultKind::Corrupted => drop(self.link.done_with_broken()),
            FaultKind::Doubled => self.acknowledge(&header, [times::now(); 2]),
            // The frame itself comes next.
            _ => {}
        }
        Ok(())
    }

    /// Deals with a frame, and tells the stage before it.
    fn take(&mut self, header: Header, payload: Vec<u8>) -> Result<(), StageFault> {
        let began = times::now();
        let by = match header.deadline {
            0 => Instant::now() + PATIENCE,
            left => Instant::now() + Duration::from_millis(u64::from(left)),
        };
        match self.execute_stage(&header, payload) {
            // Cancelled because the stage before is gone, which is said next.
            Ok(None) | Err((FaultKind::Cancelled, _)) => {}
            Ok(Some((kind, [rows, cols], payload))) => {
                let header = Header { kind, rows: rows as u32, cols: cols as u32, ..header };
                self.send(header, payload, by)?;
            }
            Err((kind, detail)) => {
                let mut header = header;
                if let Some(session) = self.sessions.get_mut(&header.request) {
                    // The epoch that is open is the one that cannot go on.
                    (session.pool, header.epoch) = (None, session.epoch);
                }
                let (request, position) = (header.request, header.position);
                let fault = StageFault { kind, stage: self.name(), request, position, detail };
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

    fn fault(&self, fault: LinkFault) -> StageFault {
        let LinkFault { kind, detail, header } = fault;
        let (request, position) = header.map_or((0, 0), |header| (header.request, header.position));
        StageFault { kind, stage: self.name(), request, position, detail }
    }

    fn send_fault(&mut self, fault: &StageFault, header: &Header) -> Result<(), StageFault> {
        let header = Header { kind: FrameKind::Fault, rows: 0, cols: 0, ..*header };
        self.send(header, fault.encode(), Instant::now() + PATIENCE)
    }

    /// Sends a frame once the next stage has room for it.
    fn send(&mut self, header: Header, payload: Vec<u8>, by: Instant) -> Result<(), StageFault> {
        while !self.link.has_credit() {
            let done = self.link.receive_back(sooner(by, LOOK)).map_err(|fault| self.fault(fault))?;
            match done {
                Some(done) => self.pass_back(&done),
                // The chain has a deadline of its own and says so; what is late is of no use to anybody.
                None if Instant::now() >= by => return Ok(()),
                None => {}
            }
        }
        self.link.send(header, payload, by).map_err(|fault| self.fault(fault))
    }

    /// One frame in, one frame out: the same for every model and every place.
    ///
    /// # Errors
    /// What is wrong with the frame, or what computing it reports.
    fn execute_stage(&mut self, header: &Header, payload: Vec<u8>) -> Result<Option<Sent>, Fault> {
        let shape = [header.rows as usize, header.cols as usize];
        match header.kind {
            FrameKind::Hello => self.hello(&payload).map(|payload| Some((FrameKind::Hello, shape, payload))),
            FrameKind::Open => {
                self.open(header, &payload)?;
                Ok(Some((FrameKind::Open, shape, payload)))
            }
            FrameKind::Adapter => {
                let name = String::from_utf8_lossy(&payload).into_owned();
                let found = self.parts.adapters.find(header.step, &name).ok_or_else(|| {
                    let detail = format!(
                        "adapter \"{name}\" was not given when the stages began; open the model with it"
                    );
                    (FaultKind::Refused, detail)
                })?;
                self.adapters.insert(header.step, found);
                Ok(Some((FrameKind::Adapter, shape, payload)))
            }
            FrameKind::Step => self.step(header, &payload),
            FrameKind::Close => {
                self.sessions.remove(&header.request);
                Ok(Some((FrameKind::Close, shape, payload)))
            }
            FrameKind::Fault => Ok(Some((FrameKind::Fault, shape, payload))),
            FrameKind::Logits | FrameKind::Done => {
                Err(corrupted(format!("a frame of kind {:?}", header.kind)))
            }
        }
    }

    /// Compares what all must have in common, and counts the states.
    fn hello(&mut self, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut from = Reader::new(payload);
        let theirs = Identity::decode(&mut from).map_err(corrupted)?;
        let first = from.number().map_err(corrupted)?;
        from.end().map_err(corrupted)?;
        if let Some(difference) = self.parts.identity.difference(&theirs) {
            return Err((FaultKind::Refused, difference));
        }
        self.own = first..first + self.own.len();
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
        let session = Session { epoch: header.epoch, windows, kept: HashMap::new(), pool: Some(pool) };
        self.sessions.insert(header.request, session);
        Ok(())
    }

    fn step(&mut self, header: &Header, payload: &[u8]) -> Result<Option<Sent>, Fault> {
        let mut from = Reader::new(payload);
        let length = from.count(1).map_err(corrupted)?;
        let told = from.take(length).map_err(corrupted)?;
        let sections = sections(from).map_err(corrupted)?;
        let mut message = Reader::new(told);
        let step = StepMessage::decode(&mut message).and_then(|step| message.end().map(|()| step));
        let step = step.map_err(corrupted)?;
        check_sections(&sections, &step, header)?;
        let sets = step.sets.iter().map(|set| self.set(set)).collect::<Result<Vec<_>, _>>()?;
        let Some(session) = self.sessions.get_mut(&header.request) else {
            return Err((FaultKind::Missing, "a step of a request that was not opened".to_owned()));
        };
        if session.epoch != header.epoch {
            let detail = format!("a step of epoch {}, and epoch {} is open", header.epoch, session.epoch);
            return Err((FaultKind::Stale, detail));
        }
        let Some(pool) = &mut session.pool else { return Ok(None) };
        for change in &step.changes {
            change.apply(&self.own, pool, &mut session.kept).map_err(computing)?;
        }
        let placements: Vec<_> = step.sequences.iter().map(|part| part.placement.clone()).collect();
        let ids = pool.place(&placements, &session.windows).map_err(computing)?;
        let layout = step.layout(&ids).map_err(computing)?;
        let mut context = TransformContext::new(&self.parts.compute, &layout, step.input.as_input(), pool);
        context.token_types = step.token_types.as_deref();
        context.adapters = &sets;
        context.cancelled = self.parts.cancelled.as_deref();
        let span = tracing::debug_span!(
            "stage",
            stage = self.parts.index,
            request = header.request,
            step = header.step,
            position = header.position,
            rows = layout.rows()
        );
        let _entered = span.enter();
        let stream = put(sections, &mut context).map_err(computing)?;
        match self.parts.stage.execute(stream, &mut context).map_err(computing)? {
            StageOutput::Hidden(rows) => {
                let shape = [rows.rows(), rows.cols()];
                let payload = handed_on(told, &rows, &context).map_err(computing)?;
                Ok(Some((FrameKind::Step, shape, payload)))
            }
            StageOutput::Logits(rows) => {
                let mut out = Writer::default();
                out.f32s(&self.parts.compute.backend.read(&rows).map_err(computing)?);
                Ok(Some((FrameKind::Logits, [rows.rows(), rows.cols()], out.0)))
            }
        }
    }

    /// An adapter set, made once.
    fn set(&mut self, members: &SetMembers) -> Result<Arc<AdapterSet>, Fault> {
        let key: Vec<[u32; 2]> = members.iter().map(|(number, weight)| [*number, weight.to_bits()]).collect();
        if let Some(known) = self.sets.get(&key) {
            return Ok(Arc::clone(known));
        }
        let member = |(number, weight): &(u32, f32)| match self.adapters.get(number) {
            Some(adapter) => Ok((Arc::clone(adapter), *weight)),
            None => Err((FaultKind::Missing, format!("adapter {number} was not announced"))),
        };
        let members = members.iter().map(member).collect::<Result<_, Fault>>()?;
        let made = AdapterSet::new(members, &*self.parts.compute.backend).map_err(computing)?;
        if self.sets.len() >= SETS {
            self.sets.clear();
        }
        let made = Arc::new(made);
        self.sets.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

fn sections(mut from: Reader) -> Result<Vec<Section>, String> {
    let count = from.count(21)?;
    let sections = (0..count).map(|_| Section::decode(&mut from)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(sections)
}

/// Rows that fit the step, each kind once, and numbers all of them.
fn check_sections(sections: &[Section], step: &StepMessage, header: &Header) -> Result<(), Fault> {
    let rows: usize = step.sequences.iter().map(|part| part.placement.rows).sum();
    for (index, section) in sections.iter().enumerate() {
        let own = section.values.len() / section.cols;
        let fits = match section.carried {
            Carried::PerLayer => rows > 0 && own.is_multiple_of(rows),
            _ => own == rows,
        };
        if !fits || sections[..index].iter().any(|other| other.carried == section.carried) {
            return Err(corrupted(format!("{own} rows of {:?} for a step of {rows}", section.carried)));
        }
        if let Some((row, column, value)) = section.not_finite() {
            let position = step.positions.get(row * step.axes).copied().unwrap_or(header.position);
            let detail = format!(
                "column {column} of the row at position {position} that it was given is {value}; the weights are broken, or \
                 the cache overflows (--kv-type f32 rules that out)"
            );
            return Err((FaultKind::NotFinite, detail));
        }
    }
    Ok(())
}

/// Puts what was handed on where layers look for it; gives the stream.
fn put(sections: Vec<Section>, context: &mut TransformContext) -> Result<Option<Rows>, ModelError> {
    let mut stream = None;
    for Section { carried, cols, values } in sections {
        let rows = context.compute.backend.upload(values, cols)?;
        match carried {
            Carried::Stream => stream = Some(rows),
            Carried::Embedded => context.embedded = Some(rows),
            Carried::Held => context.held = Some(rows),
            Carried::PerLayer => context.per_layer = Some(rows),
            Carried::Slot(slot) => context.slots.write(SlotId(slot as usize), rows),
        }
    }
    Ok(stream)
}

/// The payload for the next stage: what all are told, and the rows.
fn handed_on(told: &[u8], stream: &Rows, context: &TransformContext) -> Result<Vec<u8>, ModelError> {
    let beside = [
        (Carried::Embedded, &context.embedded),
        (Carried::Held, &context.held),
        (Carried::PerLayer, &context.per_layer),
    ];
    let beside = beside.into_iter().filter_map(|(carried, rows)| Some((carried, rows.as_ref()?)));
    let slots = context.slots.written().map(|(slot, rows)| (Carried::Slot(slot.0 as u32), rows));
    let all: Vec<(Carried, &Rows)> =
        std::iter::once((Carried::Stream, stream)).chain(beside).chain(slots).collect();
    let mut out = Writer::default();
    out.count(told.len());
    out.0.extend_from_slice(told);
    out.count(all.len());
    for (carried, rows) in all {
        carried.encode(rows.cols(), &context.compute.backend.read(rows)?, &mut out);
    }
    Ok(out.0)
}
