//! [`ChainHead`]: the chain's end of the links.

mod answers;
mod arrivals;
mod failures;
mod gather;
mod renewal;

use super::ChainOptions;
use super::outgoing::OutgoingStep;
use super::pending::PendingSteps;
use super::progress::StageProgress;
use super::session::ChainSession;
use crate::fault::{FaultKind, StageFault, StageName};
use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::frame::{FrameContent, FrameHeader, FrameKind};
use crate::identity::Identity;
use crate::link::{CHAIN, Link, sooner};
use crate::message::open::OpenMessage;
use crate::message::row_fault::RowFault;
use crate::message::section::RowSection;
use crate::message::state_access::{StateAccess, StatesMessage};
use crate::message::times::StageTime;
use crate::transport::PipelineTransport;
use answers::AwaitedAnswers;
use menagerie_model::Cancellation;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a waiting step checks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The limits of a wait.
struct WaitContext<'a> {
    by: Instant,
    /// The request and its epoch.
    session: Option<(&'a ChainSession, u32)>,
    cancelled: Cancellation<'a>,
}

/// Sends steps and receives their answers.
pub(super) struct ChainHead {
    link: Link,
    names: Vec<StageName>,
    options: ChainOptions,
    steps: u32,
    pending: PendingSteps,
    answers: AwaitedAnswers,
    sessions: Vec<Weak<ChainSession>>,
    progress: StageProgress,
    /// The adapters and hooks that the stages know.
    announced: HashSet<(FrameKind, u32)>,
    /// The number of gather requests.
    gathers: u32,
    /// The fault that ended the chain, or its links if they can be renewed.
    dead: Option<StageFault>,
    /// The fault of a stage that has not answered, if links can be renewed.
    late: Option<StageFault>,
    /// Why the newest attempts to renew the links failed, and when.
    unrestored: Option<(StageFault, Instant)>,
    /// Whether links that are lost can be renewed.
    pub(super) restores: bool,
}

/// A received message.
enum Arrival {
    /// A control frame that has passed through all stages.
    Round(FrameHeader, Vec<u8>),
    /// The answer of a step, which is kept if it is awaited, or a message that is no longer needed.
    Nothing,
}

impl ChainHead {
    pub(super) fn new(
        transport: Box<dyn PipelineTransport>,
        names: Vec<StageName>,
        options: ChainOptions,
    ) -> Self {
        // A chunk of a prompt may follow each of the steps in flight.
        let credits = options.credits.max(2 * options.overlap);
        let options = ChainOptions { credits, ..options };
        let link = Link::new(transport, [CHAIN, 0], credits);
        let progress = StageProgress::new(names.len());
        Self {
            link,
            names,
            options,
            steps: 0,
            pending: PendingSteps::default(),
            answers: AwaitedAnswers::default(),
            sessions: Vec::new(),
            progress,
            announced: HashSet::new(),
            gathers: 0,
            dead: None,
            late: None,
            unrestored: None,
            restores: false,
        }
    }

    pub(super) fn times(&self) -> Vec<StageTime> {
        self.progress.times()
    }

    /// A fault of a stage that concerns no request.
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

    /// Checks that all stages have the same identity, and as many states together as the model.
    pub(super) fn agree(
        &mut self,
        identity: &Identity,
        expected: usize,
        within: Duration,
        cancelled: Cancellation,
    ) -> Result<(), StageFault> {
        let states = self.greet(identity, within, cancelled)?;
        if states == expected {
            return Ok(());
        }
        let detail = format!("the stages have {states} states, expected {expected} as in the model");
        Err(self.fault(FaultKind::Refused, 0, &detail))
    }

    /// Checks that all stages have the same identity; returns the number of their states.
    fn greet(
        &mut self,
        identity: &Identity,
        within: Duration,
        cancelled: Cancellation,
    ) -> Result<usize, StageFault> {
        let mut out = PayloadWriter::default();
        identity.encode(&mut out);
        out.count(0);
        let wait = WaitContext { by: Instant::now() + within, session: None, cancelled };
        let step = self.next_step();
        self.send(FrameHeader { step, ..FrameHeader::of(FrameKind::Hello) }, out.0, &wait)?;
        let payload = self.wait_for(&wait, |arrival| match arrival {
            Arrival::Round(header, payload) if header.kind == FrameKind::Hello => Some(payload),
            _ => None,
        });
        let seconds = within.as_secs();
        let payload = payload.map_err(|fault| match fault.kind {
            FaultKind::Timeout => {
                let detail = format!("has not opened the model for {seconds} s: it is stopped or hangs");
                StageFault { detail, ..fault }
            }
            _ => fault,
        })?;
        let mut from = PayloadReader::new(&payload);
        let states = Identity::decode(&mut from).and_then(|_| from.number());
        states.map_err(|detail| self.fault(FaultKind::Corrupted, self.last(), &detail))
    }

    /// Reports ended requests to the stages; reported ones are removed from the list.
    pub(super) fn close(&mut self, ended: &mut Vec<u64>, session: &ChainSession) -> Result<(), StageFault> {
        self.sessions.retain(|session| session.strong_count() > 0);
        while let Some(&request) = ended.last() {
            let header = FrameHeader { request, ..FrameHeader::of(FrameKind::Close) };
            self.send_for(Some(session), header, Vec::new())?;
            ended.pop();
        }
        Ok(())
    }

    /// Lets the stages allocate the states of a request, once in each epoch.
    pub(super) fn open(&mut self, session: &Arc<ChainSession>) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        if !session.mark_open() {
            return Ok(());
        }
        if !self.sessions.iter().any(|known| known.as_ptr() == Arc::as_ptr(session)) {
            self.sessions.push(Arc::downgrade(session));
        }
        let payload = OpenMessage { options: session.options, windows: session.windows() }.encode();
        let (request, epoch) = (session.number, session.epoch());
        self.send_for(
            Some(session),
            FrameHeader { request, epoch, ..FrameHeader::of(FrameKind::Open) },
            payload,
        )
    }

    /// Announces the number of an adapter or a hook to the stages, once.
    pub(super) fn announce(
        &mut self,
        (kind, number): (FrameKind, u32),
        session: Option<&ChainSession>,
        payload: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StageFault> {
        if !self.announced.insert((kind, number)) {
            return Ok(());
        }
        self.send_for(session, FrameHeader { position: number, ..FrameHeader::of(kind) }, payload())
    }

    /// Sends a step. Returns its number if it will be answered; [`Self::finish`] then waits for the answer.
    pub(super) fn begin(&mut self, outgoing: OutgoingStep) -> Result<Option<u32>, StageFault> {
        let OutgoingStep { session, message, expected, cancelled, .. } = outgoing;
        let wait = WaitContext { by: self.by(), session: Some((session, session.epoch())), cancelled };
        let step = self.next_step();
        let header = outgoing.header(step);
        let mut out = PayloadWriter::default();
        out.bytes(&message.encode());
        RowFault::encode_all(&[], &mut out);
        let rows = RowSection::encode_all(Vec::new(), &mut out);
        self.pending.add(session, &header, outgoing.rows());
        if let Err(fault) = self.send(header, FrameContent { body: out.0, rows }, &wait) {
            self.pending.remove_unsent(step);
            if fault.kind == FaultKind::Cancelled {
                session.put_back(&message.changes);
            }
            return Err(fault);
        }
        if expected > 0 {
            self.answers.note_step(step);
            return Ok(Some(step));
        }
        // Faults of earlier steps are reported as early as possible.
        while self.next_arrival(Instant::now(), &wait)?.is_some() {}
        Ok(None)
    }

    /// Reads or writes a state in the stage that has it; returns what was read.
    pub(super) fn access(
        &mut self,
        session: &Arc<ChainSession>,
        message: StatesMessage,
    ) -> Result<Vec<u8>, StageFault> {
        let answer = self.round(session, &message);
        if let Err(fault) = &answer {
            // The frame contained the changes before the access.
            session.lose(Some(fault));
        }
        answer
    }

    fn round(&mut self, session: &Arc<ChainSession>, message: &StatesMessage) -> Result<Vec<u8>, StageFault> {
        self.open(session)?;
        let (request, epoch) = (session.number, session.epoch());
        let wait = WaitContext {
            by: self.by(),
            session: Some((session, epoch)),
            cancelled: Cancellation::default(),
        };
        let step = self.next_step();
        let header = FrameHeader { request, epoch, step, ..FrameHeader::of(FrameKind::States) };
        self.send(header, message.encode(), &wait)?;
        let payload = self.wait_for(&wait, |arrival| match arrival {
            Arrival::Round(header, payload) if header.step == step => Some(payload),
            _ => None,
        })?;
        let completed = StatesMessage::decode(&payload).and_then(|message| match message.access {
            StateAccess::Completed(bytes) => Ok(bytes),
            _ => Err(format!("no stage has state {}", message.state)),
        });
        completed.map_err(|detail| StageFault {
            request,
            ..self.fault(FaultKind::Corrupted, self.last(), &detail)
        })
    }

    /// Waits for a message that `answers` accepts.
    fn wait_for<T>(
        &mut self,
        wait: &WaitContext,
        mut answers: impl FnMut(Arrival) -> Option<T>,
    ) -> Result<T, StageFault> {
        loop {
            match self.next_arrival(sooner(wait.by, POLL_INTERVAL), wait)? {
                Some(arrival) => {
                    if let Some(answer) = answers(arrival) {
                        return Ok(answer);
                    }
                }
                None if Instant::now() >= wait.by => return Err(self.timeout(wait)),
                None => {}
            }
            if wait.cancelled.is_requested() {
                // Its answer is ignored when it arrives; what it wrote is written again or restored.
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
    }

    /// The next message of the last stage, if one arrives until `by`. A fault of another request is reported at the next step
    /// of that request; a fault of this request, or of all, is returned.
    fn next_arrival(&mut self, by: Instant, wait: &WaitContext) -> Result<Option<Arrival>, StageFault> {
        let arrival = self.receive(by);
        let is_lost = self.check_epoch(wait).is_err();
        match arrival {
            Err(_) if !is_lost && wait.session.is_some() && self.dead.is_none() => Ok(Some(Arrival::Nothing)),
            Err(fault) => Err(fault),
            Ok(arrival) => self.check_epoch(wait).map(|()| arrival),
        }
    }

    /// An error if the states of the request have been lost.
    fn check_epoch(&self, wait: &WaitContext) -> Result<(), StageFault> {
        match wait.session {
            Some((session, epoch)) if session.epoch() != epoch => {
                let unknown = || self.fault(FaultKind::Missing, 0, "an earlier step of the request was lost");
                Err(session.loss().unwrap_or_else(unknown))
            }
            _ => Ok(()),
        }
    }

    /// Sends a frame for a request, without waiting for an answer.
    fn send_for(
        &mut self,
        session: Option<&ChainSession>,
        header: FrameHeader,
        payload: Vec<u8>,
    ) -> Result<(), StageFault> {
        let session = session.map(|session| (session, session.epoch()));
        let wait = WaitContext { by: self.by(), session, cancelled: Cancellation::default() };
        self.send(header, payload, &wait)
    }

    /// Sends a frame once stage 0 has credit for it; handles messages that arrive meanwhile.
    fn send(
        &mut self,
        header: FrameHeader,
        content: impl Into<FrameContent>,
        wait: &WaitContext,
    ) -> Result<(), StageFault> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        self.take_back()?;
        while !self.link.has_credit() {
            self.link.poll();
            // Unneeded logits must not block the last stage.
            drop(self.next_arrival(sooner(wait.by, POLL_INTERVAL), wait)?);
            self.take_back()?;
            if self.link.has_credit() {
                break;
            }
            // Stage 0 may accept steps for a while although the stages behind it do not answer.
            let answer_by = self.pending.waiting_since().map(|since| since + self.options.deadline);
            if Instant::now() >= answer_by.map_or(wait.by, |by| by.min(wait.by)) {
                return Err(self.timeout(wait));
            }
            if wait.cancelled.is_requested() {
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
        let sent = self.link.send(header, content, wait.by);
        sent.map_err(|fault| self.unsent(fault, wait))
    }
}
