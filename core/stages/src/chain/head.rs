//! [`Head`]: the chain's end of the links.

use super::ChainOptions;
use crate::bytes::{Reader, Writer};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{FrameKind, Header};
use crate::identity::Identity;
use crate::link::{CHAIN, Done, Link, LinkFault, sooner};
use crate::open::OpenMessage;
use crate::session::Session;
use crate::step::StepMessage;
use crate::times::{self, StageTime};
use crate::transport::PipelineTransport;
use menagerie_model::InferenceStep;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a step that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// Times of steps that are kept.
const TIMES: usize = 4096;

/// A step whose answer has not come.
struct Pending {
    session: Weak<Session>,
    request: u64,
    epoch: u32,
    step: u32,
}

/// A step that is to be sent.
pub(super) struct Sending<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) message: &'a StepMessage,
    /// Rows that want logits.
    pub(super) wanted: usize,
    pub(super) cancelled: Option<&'a AtomicBool>,
}

/// Sends steps and takes what comes back.
pub(super) struct Head {
    link: Link,
    names: Vec<StageName>,
    options: ChainOptions,
    steps: u32,
    pending: VecDeque<Pending>,
    sessions: Vec<Weak<Session>>,
    /// By stage, the step it was done with last.
    done: Vec<u32>,
    times: VecDeque<StageTime>,
    /// Adapters that the stages know.
    announced: HashSet<u32>,
    /// Why nothing goes any more.
    dead: Option<StageFault>,
}

/// What came.
enum Came {
    /// Logits of a step.
    Logits(u32, Vec<f32>),
    /// A control frame has been everywhere.
    Round(Header, Vec<u8>),
    /// Something of no use any more.
    Nothing,
}

impl Head {
    pub(super) fn new(
        transport: Box<dyn PipelineTransport>,
        names: Vec<StageName>,
        options: ChainOptions,
    ) -> Self {
        let link = Link::new(transport, [CHAIN, 0], options.credits);
        let done = vec![0; names.len()];
        Self {
            link,
            names,
            options,
            steps: 0,
            pending: VecDeque::new(),
            sessions: Vec::new(),
            done,
            times: VecDeque::new(),
            announced: HashSet::new(),
            dead: None,
        }
    }

    pub(super) fn times(&self) -> Vec<StageTime> {
        self.times.iter().copied().collect()
    }

    /// A fault of a stage, of no request.
    pub(super) fn fault(&self, kind: FaultKind, stage: usize, detail: &str) -> StageFault {
        let stage = self.names.get(stage).copied().unwrap_or(StageName { index: 0, first: 0, end: 0 });
        StageFault { kind, stage, request: 0, position: 0, detail: detail.to_owned() }
    }

    fn by(&self) -> Instant {
        Instant::now() + self.options.deadline
    }

    /// Asks all stages whether they agree; the number of their states.
    pub(super) fn greet(&mut self, identity: &Identity) -> Result<usize, StageFault> {
        let mut out = Writer::default();
        identity.encode(&mut out);
        out.count(0);
        let by = self.by();
        self.send(Header::of(FrameKind::Hello), out.0, by)?;
        loop {
            match self.came(sooner(by, LOOK))? {
                Some(Came::Round(header, payload)) if header.kind == FrameKind::Hello => {
                    let mut from = Reader::new(&payload);
                    let states = Identity::decode(&mut from).and_then(|_| from.number());
                    return states
                        .map_err(|detail| self.fault(FaultKind::Corrupted, self.names.len() - 1, &detail));
                }
                None if Instant::now() >= by => return Err(self.late(0)),
                _ => {}
            }
        }
    }

    /// Tells the stages that requests ended.
    pub(super) fn close(&mut self, ended: &[u64]) -> Result<(), StageFault> {
        self.sessions.retain(|session| session.strong_count() > 0);
        for request in ended {
            let by = self.by();
            self.send(Header { request: *request, ..Header::of(FrameKind::Close) }, Vec::new(), by)?;
        }
        Ok(())
    }

    /// Lets the stages make room for a request, once in each epoch.
    pub(super) fn open(
        &mut self,
        session: &Arc<Session>,
        windows: Vec<Option<usize>>,
    ) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        if !session.opens() {
            return Ok(());
        }
        if !self.sessions.iter().any(|known| known.as_ptr() == Arc::as_ptr(session)) {
            self.sessions.push(Arc::downgrade(session));
        }
        let payload = OpenMessage { options: session.options, windows }.encode();
        let (request, epoch) = (session.number, session.epoch());
        let by = self.by();
        self.send(Header { request, epoch, ..Header::of(FrameKind::Open) }, payload, by)
    }

    /// Tells the stages the number of an adapter, once.
    pub(super) fn announce(&mut self, number: u32, name: &str) -> Result<(), StageFault> {
        if !self.announced.insert(number) {
            return Ok(());
        }
        let by = self.by();
        self.send(Header { step: number, ..Header::of(FrameKind::Adapter) }, name.as_bytes().to_vec(), by)
    }

    /// Sends a step; its logits, which are waited for where a row wants any.
    pub(super) fn step(&mut self, sending: Sending) -> Result<Vec<f32>, StageFault> {
        let Sending { session, message, wanted, cancelled } = sending;
        let by = self.by();
        self.steps = self.steps.wrapping_add(1).max(1);
        let step = self.steps;
        let header = step_header(step, session, message, wanted);
        let told = message.encode();
        let mut out = Writer::default();
        out.count(told.len());
        out.0.extend_from_slice(&told);
        out.count(0);
        let (request, epoch) = (session.number, session.epoch());
        self.send(header, out.0, by)?;
        self.pending.push_back(Pending { session: Arc::downgrade(session), request, epoch, step });
        self.check(session, epoch, &header)?;
        if wanted == 0 {
            return Ok(Vec::new());
        }
        loop {
            match self.came(sooner(by, LOOK))? {
                Some(Came::Logits(of, values)) if of == step => return Ok(values),
                None if Instant::now() >= by => {
                    session.lose();
                    let late = self.late(step);
                    return Err(StageFault { request, position: header.position, ..late });
                }
                _ => {}
            }
            self.check(session, epoch, &header)?;
            if cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                // Its answer is thrown away when it comes; what it wrote is written again or put back.
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
    }

    /// A step of memory that was lost meanwhile has no answer.
    fn check(&mut self, session: &Session, epoch: u32, header: &Header) -> Result<(), StageFault> {
        if session.epoch() == epoch {
            return Ok(());
        }
        let lost =
            self.fault(FaultKind::Missing, 0, "an earlier step of the request was lost; prefill it again");
        Err(StageFault { request: header.request, position: header.position, ..lost })
    }

    /// Sends a frame once stage 0 has room for it; what comes meanwhile is taken.
    fn send(&mut self, header: Header, payload: Vec<u8>, by: Instant) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        self.take_back()?;
        while !self.link.has_credit() {
            // Logits of steps that nobody waits for any more must not hold the last stage up.
            drop(self.came(sooner(by, LOOK))?);
            self.take_back()?;
            if Instant::now() >= by {
                return Err(self.late(header.step));
            }
        }
        self.link.send(header, payload, by).map_err(|fault| self.broken(fault, 0))
    }

    /// What stages say they are done with.
    fn take_back(&mut self) -> Result<(), StageFault> {
        loop {
            match self.link.receive_back(Instant::now()) {
                Ok(None) => return Ok(()),
                Ok(Some(done)) => self.note(done),
                // Why stage 0 went, the last one may still say.
                Err(fault) if fault.kind == FaultKind::Closed => {
                    while self.came(Instant::now() + LOOK)?.is_some() {}
                    return Err(self.broken(fault, 0));
                }
                Err(fault) => return Err(self.broken(fault, 0)),
            }
        }
    }

    fn note(&mut self, Done { header, began, ended }: Done) {
        if header.kind != FrameKind::Done || header.step == 0 {
            return;
        }
        let Some(done) = self.done.get_mut(usize::from(header.stage)) else { return };
        *done = (*done).max(header.step);
        if self.times.len() >= TIMES {
            self.times.pop_front();
        }
        let (stage, step, rows) = (header.stage, header.step, header.rows);
        tracing::debug!(stage, step, rows, began, ended, "stage computed");
        self.times.push_back(StageTime { stage, step, rows, began, ended });
    }

    /// The next frame of the last stage; none if nothing comes until `by`.
    fn came(&mut self, by: Instant) -> Result<Option<Came>, StageFault> {
        let last = self.names.len() - 1;
        let (header, payload) = match self.link.receive(by) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.take_back_quietly();
                return Ok(None);
            }
            Err(fault) => {
                let header = fault.header;
                if fault.kind == FaultKind::Corrupted {
                    drop(self.link.done_with_broken());
                }
                let over = |header: Header| self.epoch_of(header.request) != Some(header.epoch);
                if fault.kind == FaultKind::Doubled && header.is_some_and(over) {
                    return Ok(Some(Came::Nothing));
                }
                return Err(self.broken(fault, last));
            }
        };
        // A stage that is gone has said why before: what it said is taken first.
        drop(self.link.done(&header, [times::now(); 2]));
        match header.kind {
            FrameKind::Logits => self.logits(&header, &payload).map(Some),
            FrameKind::Fault => {
                let fault = StageFault::decode(&payload)
                    .map_err(|detail| self.fault(FaultKind::Corrupted, last, &detail))?;
                if header.request != 0 && self.epoch_of(header.request) != Some(header.epoch) {
                    return Ok(Some(Came::Nothing));
                }
                Err(self.failed(fault, header.request))
            }
            _ => Ok(Some(Came::Round(header, payload))),
        }
    }

    /// The epoch of a request that goes on.
    fn epoch_of(&self, request: u64) -> Option<u32> {
        let mut sessions = self.sessions.iter().filter_map(Weak::upgrade);
        sessions.find(|session| session.number == request).map(|session| session.epoch())
    }

    fn take_back_quietly(&mut self) {
        while let Ok(Some(done)) = self.link.receive_back(Instant::now()) {
            self.note(done);
        }
    }

    /// Logits answer the oldest step of their request's epoch; those of an epoch that is over answer nothing.
    fn logits(&mut self, header: &Header, payload: &[u8]) -> Result<Came, StageFault> {
        let over = |one: &Pending| one.session.upgrade().is_none_or(|session| session.epoch() != one.epoch);
        while self.pending.front().is_some_and(|one| over(one) && one.step < header.step) {
            self.pending.pop_front();
        }
        let known = self.pending.front().is_some_and(|one| {
            (one.request, one.epoch, one.step) == (header.request, header.epoch, header.step)
        });
        if !known {
            let awaited = self.pending.iter().any(|one| one.step == header.step);
            if awaited {
                let missing = self.fault(
                    FaultKind::Missing,
                    self.names.len() - 1,
                    "an answer to an earlier step is missing",
                );
                return Err(self.failed(missing, 0));
            }
            return Ok(Came::Nothing);
        }
        self.pending.pop_front();
        let mut from = Reader::new(payload);
        let values = from.f32s().and_then(|values| from.end().map(|()| values));
        let rows = header.rows as usize * header.cols as usize;
        match values {
            Ok(values) if values.len() == rows => Ok(Came::Logits(header.step, values)),
            Ok(_) | Err(_) => {
                let detail = "logits of another size than their header says";
                let fault = self.fault(FaultKind::Corrupted, self.names.len() - 1, detail);
                Err(self.failed(fault, 0))
            }
        }
    }

    /// What a request has in the stages is lost; what all have, where it is of none.
    fn failed(&mut self, fault: StageFault, request: u64) -> StageFault {
        for session in self.sessions.iter().filter_map(Weak::upgrade) {
            if request == 0 || session.number == request {
                session.lose();
            }
        }
        self.pending.retain(|one| request != 0 && one.request != request);
        // What was announced may be what was lost.
        self.announced.clear();
        if fault.kind == FaultKind::Closed {
            self.dead.get_or_insert_with(|| fault.clone());
        }
        fault
    }

    /// A link of the chain itself is broken.
    fn broken(&mut self, fault: LinkFault, stage: usize) -> StageFault {
        if let Some(dead) = &self.dead {
            return dead.clone();
        }
        let detail = match fault.kind {
            FaultKind::Closed => format!("is gone ({}); open the model again", fault.detail),
            _ => format!("on the link to the chain: {}; prompts must be computed again", fault.detail),
        };
        let (request, position) = fault.header.map_or((0, 0), |header| (header.request, header.position));
        let fault = StageFault { request, position, ..self.fault(fault.kind, stage, &detail) };
        self.failed(fault, 0)
    }

    /// Names the first stage that is not done with a step.
    fn late(&mut self, step: u32) -> StageFault {
        self.take_back_quietly();
        let waiting = self.done.iter().position(|done| *done < step).unwrap_or(self.names.len() - 1);
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "has not answered for {seconds} s: it is stopped, hangs or is too slow; --stage-deadline gives it more time"
        );
        self.fault(FaultKind::Late, waiting, &detail)
    }
}

fn step_header(step: u32, session: &Session, message: &StepMessage, wanted: usize) -> Header {
    let rows: usize = message.sequences.iter().map(|part| part.placement.rows).sum();
    let is_last = |step: &InferenceStep| matches!(step, InferenceStep::Prefill { is_final_chunk: true, .. });
    Header {
        last_chunk: message.sequences.iter().any(|part| is_last(&part.step)),
        wants_logits: wanted > 0,
        epoch: session.epoch(),
        request: session.number,
        step,
        position: message.sequences.first().map_or(0, |part| part.placement.tokens as u32),
        rows: rows as u32,
        ..Header::of(FrameKind::Step)
    }
}
