//! [`Head`]: the chain's end of the links.

mod watching;

use super::ChainOptions;
use super::pending::{Answers, PendingSteps};
use super::progress::Progress;
use super::sending::Sending;
use crate::bytes::{Reader, Writer};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{FrameKind, Header};
use crate::identity::Identity;
use crate::link::{Back, CHAIN, Link, LinkFault, sooner};
use crate::open::OpenMessage;
use crate::session::Session;
use crate::states::{Access, StatesMessage};
use crate::times::{self, StageTime};
use crate::transport::PipelineTransport;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a step that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// Who waits, and for how long.
struct Waiting<'a> {
    by: Instant,
    /// The request, and the epoch that it is about.
    session: Option<(&'a Session, u32)>,
    cancelled: Option<&'a AtomicBool>,
}

/// Sends steps and takes what comes back.
pub(super) struct Head {
    link: Link,
    names: Vec<StageName>,
    options: ChainOptions,
    steps: u32,
    pending: PendingSteps,
    sessions: Vec<Weak<Session>>,
    progress: Progress,
    /// Adapters and hooks that the stages know.
    announced: HashSet<(FrameKind, u32)>,
    /// Questions that went round.
    questions: u32,
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
        let progress = Progress::new(names.len());
        Self {
            link,
            names,
            options,
            steps: 0,
            pending: PendingSteps::default(),
            sessions: Vec::new(),
            progress,
            announced: HashSet::new(),
            questions: 0,
            dead: None,
        }
    }

    pub(super) fn times(&self) -> Vec<StageTime> {
        self.progress.times()
    }

    /// A fault of a stage, of no request.
    pub(super) fn fault(&self, kind: FaultKind, stage: usize, detail: &str) -> StageFault {
        let stage = self.names.get(stage).copied().unwrap_or(StageName { index: 0, first: 0, end: 0 });
        StageFault::of(kind, stage, detail)
    }

    fn by(&self) -> Instant {
        Instant::now() + self.options.deadline
    }

    fn last(&self) -> usize {
        self.names.len() - 1
    }

    fn next_step(&mut self) -> u32 {
        self.steps = self.steps.wrapping_add(1).max(1);
        self.steps
    }

    /// Asks all stages whether they agree; the number of their states.
    pub(super) fn greet(&mut self, identity: &Identity) -> Result<usize, StageFault> {
        let mut out = Writer::default();
        identity.encode(&mut out);
        out.count(0);
        let by = Instant::now() + self.options.opening;
        let waiting = Waiting { by, session: None, cancelled: None };
        let step = self.next_step();
        self.send(Header { step, ..Header::of(FrameKind::Hello) }, out.0, &waiting)?;
        let payload = self.wait(&waiting, |came| match came {
            Came::Round(header, payload) if header.kind == FrameKind::Hello => Some(payload),
            _ => None,
        });
        let seconds = self.options.opening.as_secs();
        let payload = payload.map_err(|fault| match fault.kind {
            FaultKind::Late => {
                let detail = format!("has not opened the model for {seconds} s: it is stopped or hangs");
                StageFault { detail, ..fault }
            }
            _ => fault,
        })?;
        let mut from = Reader::new(&payload);
        let states = Identity::decode(&mut from).and_then(|_| from.number());
        states.map_err(|detail| self.fault(FaultKind::Corrupted, self.last(), &detail))
    }

    /// Tells the stages that requests ended; what they were told is taken off.
    pub(super) fn close(&mut self, ended: &mut Vec<u64>, session: &Session) -> Result<(), StageFault> {
        self.sessions.retain(|session| session.strong_count() > 0);
        while let Some(&request) = ended.last() {
            let header = Header { request, ..Header::of(FrameKind::Close) };
            self.send_for(Some(session), header, Vec::new())?;
            ended.pop();
        }
        Ok(())
    }

    /// Lets the stages make room for a request, once in each epoch.
    pub(super) fn open(&mut self, session: &Arc<Session>) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        if !session.opens() {
            return Ok(());
        }
        if !self.sessions.iter().any(|known| known.as_ptr() == Arc::as_ptr(session)) {
            self.sessions.push(Arc::downgrade(session));
        }
        let payload = OpenMessage { options: session.options, windows: session.windows() }.encode();
        let (request, epoch) = (session.number, session.epoch());
        self.send_for(Some(session), Header { request, epoch, ..Header::of(FrameKind::Open) }, payload)
    }

    /// Tells the stages the number of an adapter or a hook, once.
    pub(super) fn announce(
        &mut self,
        (kind, number): (FrameKind, u32),
        session: Option<&Session>,
        payload: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StageFault> {
        if !self.announced.insert((kind, number)) {
            return Ok(());
        }
        self.send_for(session, Header { position: number, ..Header::of(kind) }, payload())
    }

    /// Sends a step; its logits, which are waited for where a row wants any.
    pub(super) fn step(&mut self, sending: Sending) -> Result<Vec<f32>, StageFault> {
        let Sending { session, message, wanted, cancelled } = sending;
        let waiting = Waiting { by: self.by(), session: Some((session, session.epoch())), cancelled };
        let step = self.next_step();
        let header = sending.header(step);
        let told = message.encode();
        let mut out = Writer::default();
        out.bytes(&told);
        out.count(0);
        self.pending.sending(session, &header, message.sequences.len());
        if let Err(fault) = self.send(header, out.0, &waiting) {
            self.pending.unsent(step);
            return Err(fault);
        }
        if wanted > 0 {
            return self.wait(&waiting, |came| match came {
                Came::Logits(of, values) if of == step => Some(values),
                _ => None,
            });
        }
        // What went wrong with an earlier one is said as early as can be.
        while self.look(Instant::now(), &waiting)?.is_some() {}
        Ok(Vec::new())
    }

    /// Lets the stage that has a state read or write it; what was read.
    pub(super) fn access(
        &mut self,
        session: &Arc<Session>,
        message: StatesMessage,
    ) -> Result<Vec<u8>, StageFault> {
        let answer = self.round(session, &message);
        if let Err(fault) = &answer {
            // What happened before was in the frame.
            session.lose(Some(fault));
        }
        answer
    }

    fn round(&mut self, session: &Arc<Session>, message: &StatesMessage) -> Result<Vec<u8>, StageFault> {
        self.open(session)?;
        let (request, epoch) = (session.number, session.epoch());
        let waiting = Waiting { by: self.by(), session: Some((session, epoch)), cancelled: None };
        let step = self.next_step();
        let header = Header { request, epoch, step, ..Header::of(FrameKind::States) };
        self.send(header, message.encode(), &waiting)?;
        let payload = self.wait(&waiting, |came| match came {
            Came::Round(header, payload) if header.step == step => Some(payload),
            _ => None,
        })?;
        let done = StatesMessage::decode(&payload).and_then(|message| match message.access {
            Access::Done(bytes) => Ok(bytes),
            _ => Err(format!("state {} is in no stage", message.state)),
        });
        done.map_err(|detail| StageFault {
            request,
            ..self.fault(FaultKind::Corrupted, self.last(), &detail)
        })
    }

    /// Waits for what `answers` takes.
    fn wait<T>(
        &mut self,
        waiting: &Waiting,
        mut answers: impl FnMut(Came) -> Option<T>,
    ) -> Result<T, StageFault> {
        loop {
            match self.look(sooner(waiting.by, LOOK), waiting)? {
                Some(came) => {
                    if let Some(answer) = answers(came) {
                        return Ok(answer);
                    }
                }
                None if Instant::now() >= waiting.by => return Err(self.late(waiting)),
                None => {}
            }
            if waiting.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                // Its answer is thrown away when it comes; what it wrote is written again or put back.
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
    }

    /// The next frame of the last stage, if one comes until `by`. What goes wrong with another request is told to that one, at
    /// its next step; what goes wrong with this one, or with all, is the error.
    fn look(&mut self, by: Instant, waiting: &Waiting) -> Result<Option<Came>, StageFault> {
        let came = self.came(by);
        let lost = waiting.session.filter(|(session, epoch)| session.epoch() != *epoch);
        match (came, lost, waiting.session) {
            (Err(_), None, Some(_)) if self.dead.is_none() => Ok(Some(Came::Nothing)),
            (Err(fault), ..) => Err(fault),
            (Ok(_), Some((session, _)), _) => {
                let unsaid = || self.fault(FaultKind::Missing, 0, "an earlier step of the request was lost");
                Err(session.loss().unwrap_or_else(unsaid))
            }
            (Ok(came), None, _) => Ok(came),
        }
    }

    /// Sends a frame that a request wants sent and does not wait for.
    fn send_for(
        &mut self,
        session: Option<&Session>,
        header: Header,
        payload: Vec<u8>,
    ) -> Result<(), StageFault> {
        let session = session.map(|session| (session, session.epoch()));
        let waiting = Waiting { by: self.by(), session, cancelled: None };
        self.send(header, payload, &waiting)
    }

    /// Sends a frame once stage 0 has room for it; what comes meanwhile is taken.
    fn send(&mut self, header: Header, payload: Vec<u8>, waiting: &Waiting) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        self.take_back()?;
        while !self.link.has_credit() {
            // Logits of steps that nobody waits for any more must not hold the last stage up.
            drop(self.look(sooner(waiting.by, LOOK), waiting)?);
            self.take_back()?;
            if self.link.has_credit() {
                break;
            }
            // Stage 0 may take steps for a while that the stages after it do not answer.
            let owed = self.pending.owed_since().map(|since| since + self.options.deadline);
            if Instant::now() >= owed.map_or(waiting.by, |owed| owed.min(waiting.by)) {
                return Err(self.late(waiting));
            }
            if waiting.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                let cancelled = self.fault(FaultKind::Cancelled, 0, "cancelled");
                // What happened before it is told to nobody.
                waiting.session.into_iter().for_each(|(session, _)| session.lose(None));
                return Err(cancelled);
            }
        }
        let sent = self.link.send(header, payload, waiting.by);
        sent.map_err(|fault| self.unsent(fault, waiting))
    }

    /// Why a frame could not be sent.
    fn unsent(&mut self, fault: LinkFault, waiting: &Waiting) -> StageFault {
        match fault.kind {
            FaultKind::Late => self.late(waiting),
            FaultKind::Closed => match self.take_back() {
                // Which stage went first was said on the way back, or it is stage 0.
                Err(said) => said,
                // Stage 0 is there: it is the last one that is gone.
                Ok(()) => self.broken(fault, self.last()),
            },
            kind => self.fault(kind, 0, &fault.detail),
        }
    }

    /// What stages say they are done with.
    fn take_back(&mut self) -> Result<(), StageFault> {
        loop {
            match self.link.receive_back(Instant::now()) {
                Ok(None) => return Ok(()),
                Ok(Some(Back::Done(done))) => self.progress.note(done),
                Ok(Some(Back::Gone(fault))) => return Err(self.failed(fault, 0, 0)),
                Err(fault) => return Err(self.broken(fault, 0)),
            }
        }
    }

    /// The next frame of the last stage; none if nothing comes until `by`.
    fn came(&mut self, by: Instant) -> Result<Option<Came>, StageFault> {
        let (header, payload) = match self.link.receive(by) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                // A stage that is gone is no news here: the last one says it, or is gone itself.
                self.take_back_quietly();
                return Ok(None);
            }
            Err(fault) => {
                match fault.kind {
                    FaultKind::Corrupted => drop(self.link.done_with_broken()),
                    // Who went first was said on the way back before.
                    FaultKind::Closed => self.take_back()?,
                    _ => {}
                }
                let over = |header: Header| self.epoch_of(header.request) != Some(header.epoch);
                if fault.kind == FaultKind::Doubled && fault.header.is_some_and(over) {
                    return Ok(Some(Came::Nothing));
                }
                return Err(self.broken(fault, self.last()));
            }
        };
        // A stage that is gone has said why before: what it said is taken first.
        drop(self.link.done(&header, [times::now(); 2]));
        match header.kind {
            FrameKind::Logits => self.logits(&header, &payload).map(Some),
            FrameKind::Fault => {
                let fault = StageFault::decode(&payload)
                    .map_err(|detail| self.fault(FaultKind::Corrupted, self.last(), &detail))?;
                if header.request != 0 && self.epoch_of(header.request) != Some(header.epoch) {
                    return Ok(Some(Came::Nothing));
                }
                if fault.kind == FaultKind::Closed {
                    self.take_back()?;
                }
                Err(self.failed(fault, header.request, header.step))
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
        while let Ok(Some(back)) = self.link.receive_back(Instant::now()) {
            match back {
                Back::Done(done) => self.progress.note(done),
                Back::Gone(fault) => drop(self.failed(fault, 0, 0)),
            }
        }
    }

    /// Logits answer the oldest step of their request's epoch; those of an epoch that is over answer nothing.
    fn logits(&mut self, header: &Header, payload: &[u8]) -> Result<Came, StageFault> {
        match self.pending.answered(header) {
            Answers::Nothing => return Ok(Came::Nothing),
            Answers::Later => {
                let detail = "the answer to a step did not come, and that to a later one did";
                let missing = self.fault(FaultKind::Missing, self.last(), detail);
                return Err(self.failed(missing, 0, 0));
            }
            Answers::Foreign(epoch) => {
                let detail = format!("an answer of epoch {} to a step of epoch {epoch}", header.epoch);
                let stale = self.fault(FaultKind::Stale, self.last(), &detail);
                return Err(self.failed(stale, 0, header.step));
            }
            Answers::Oldest => {}
        }
        let mut from = Reader::new(payload);
        let values = from.f32s().and_then(|values| from.end().map(|()| values));
        let rows = header.rows as usize * header.cols as usize;
        match values {
            Ok(values) if values.len() == rows => Ok(Came::Logits(header.step, values)),
            Ok(_) | Err(_) => {
                let detail = "logits of another size than their header says";
                let fault = self.fault(FaultKind::Corrupted, self.last(), detail);
                Err(self.failed(fault, 0, header.step))
            }
        }
    }

    /// What a request has in the stages is lost; what all have, where it is of none (0). The fault is named after its step (0
    /// where that is not known).
    fn failed(&mut self, fault: StageFault, request: u64, step: u32) -> StageFault {
        let fault = self.pending.name(fault, step);
        for session in self.sessions.iter().filter_map(Weak::upgrade) {
            if request == 0 || session.number == request {
                session.lose(Some(&fault));
            }
        }
        self.pending.forget(request);
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
        // A frame that came twice is known itself; of one that is missing or changed it is what is waited for.
        let known = fault.header.filter(|_| fault.kind == FaultKind::Doubled);
        let (request, position, step) =
            known.map_or((0, 0, 0), |header| (header.request, header.position, header.step));
        let fault = StageFault { request, position, ..self.fault(fault.kind, stage, &detail) };
        self.failed(fault, 0, step)
    }

    /// Names the first stage that is not done with the oldest step.
    fn late(&mut self, waiting: &Waiting) -> StageFault {
        self.take_back_quietly();
        let step = self.pending.oldest().unwrap_or(self.steps);
        let stage = self.progress.behind(step);
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "has not answered for {seconds} s: it is stopped, hangs or is too slow; --stage-deadline gives it more time"
        );
        let late = self.fault(FaultKind::Late, stage, &detail);
        let Some((session, _)) = waiting.session else { return late };
        let late = self.pending.name(StageFault { request: session.number, ..late }, 0);
        session.lose(Some(&late));
        late
    }
}
