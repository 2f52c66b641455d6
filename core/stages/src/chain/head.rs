//! [`Head`]: the chain's end of the links.

mod coming;
mod failing;
mod watching;

use super::ChainOptions;
use super::pending::PendingSteps;
use super::progress::Progress;
use super::sending::Sending;
use crate::bytes::{Reader, Writer};
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::{Content, FrameKind, Header};
use crate::identity::Identity;
use crate::link::{CHAIN, Link, sooner};
use crate::open::OpenMessage;
use crate::row_fault::RowFault;
use crate::section::Section;
use crate::session::Session;
use crate::states::{Access, StatesMessage};
use crate::times::StageTime;
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
        let Sending { session, message, wanted, cancelled, .. } = sending;
        let waiting = Waiting { by: self.by(), session: Some((session, session.epoch())), cancelled };
        let step = self.next_step();
        let header = sending.header(step);
        let mut out = Writer::default();
        out.bytes(&message.encode());
        RowFault::encode_all(&[], &mut out);
        let rows = Section::encode_all(Vec::new(), &mut out);
        self.pending.sending(session, &header, sending.rows());
        if let Err(fault) = self.send(header, Content { told: out.0, rows }, &waiting) {
            self.pending.unsent(step);
            if fault.kind == FaultKind::Cancelled {
                session.put_back(&message.changes);
            }
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
    fn send(
        &mut self,
        header: Header,
        content: impl Into<Content>,
        waiting: &Waiting,
    ) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        self.take_back()?;
        while !self.link.has_credit() {
            self.link.ask();
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
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
        let sent = self.link.send(header, content, waiting.by);
        sent.map_err(|fault| self.unsent(fault, waiting))
    }
}
