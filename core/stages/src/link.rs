//! [`Link`]: sequence numbers, checksums and credits over a [`PipelineTransport`].

use crate::fault::{FaultKind, StageFault};
use crate::frame::{FrameContent, FrameHeader, FrameKind, StageFrame};
use crate::message::times;
use crate::transport::{PipelineTransport, TransportFault};
use std::time::{Duration, Instant};

/// The stage number of the chain itself.
pub(crate) const CHAIN: u16 = u16::MAX;

/// How long a link without credit is silent before the first poll, and the longest time between two polls.
const POLL_DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A fault of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkFault {
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
    /// The header of the frame, if it is readable.
    pub(crate) header: Option<FrameHeader>,
}

/// The acknowledgment of a processed frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgment {
    pub(crate) header: FrameHeader,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// A message from the next stages back to the previous ones.
#[derive(Clone, Debug)]
pub(crate) enum BackMessage {
    /// A stage has processed a frame.
    Acknowledgment(Acknowledgment),
    /// A stage is gone, as its predecessor reports. No further message follows.
    Gone(StageFault),
}

/// The links of a stage, or of the chain.
pub(crate) struct Link {
    transport: Box<dyn PipelineTransport>,
    /// The number of this stage.
    own: u16,
    /// The number of the stage that receives its frames.
    next: u16,
    /// The numbers of frames sent, frames acknowledged by the next stage, and frames received.
    sent: u64,
    acknowledged: u64,
    received: u64,
    /// Most unacknowledged frames.
    credits: u64,
    /// A frame that arrived before a missing one.
    early: Option<(FrameHeader, FrameContent)>,
    /// The time of the next poll, and the delay before it; `None` while there is credit.
    next_poll: Option<(Instant, Duration)>,
}

fn broken(fault: TransportFault) -> LinkFault {
    let kind = match fault {
        TransportFault::Closed | TransportFault::System(_) => FaultKind::Closed,
        TransportFault::Full => FaultKind::Timeout,
        TransportFault::Broken(_) => FaultKind::Corrupted,
    };
    LinkFault { kind, detail: fault.to_string(), header: None }
}

impl Link {
    pub(crate) fn new(transport: Box<dyn PipelineTransport>, [own, next]: [u16; 2], credits: usize) -> Self {
        let credits = credits as u64;
        Self {
            transport,
            own,
            next,
            sent: 0,
            acknowledged: 0,
            received: 0,
            credits,
            early: None,
            next_poll: None,
        }
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.sent - self.acknowledged < self.credits
    }

    /// Sends a frame, which uses a credit.
    pub(crate) fn send(
        &mut self,
        header: FrameHeader,
        content: impl Into<FrameContent>,
        by: Instant,
    ) -> Result<(), LinkFault> {
        let left = by.saturating_duration_since(Instant::now()).as_millis();
        let deadline = u32::try_from(left).unwrap_or(u32::MAX);
        let header = FrameHeader { stage: self.own, number: self.sent, deadline, ..header };
        let frame = self.frame(&header, content.into())?;
        self.transport.send(frame, by).map_err(broken)?;
        self.sent += 1;
        Ok(())
    }

    fn frame(&self, header: &FrameHeader, content: FrameContent) -> Result<StageFrame, LinkFault> {
        StageFrame::new(header, content, self.transport.kind()).map_err(|detail| LinkFault {
            kind: FaultKind::Unsupported,
            detail,
            header: Some(*header),
        })
    }

    /// Polls the next stage for acknowledgments, which may have been lost, if there was no credit for a while. The caller
    /// repeats the call as long as there is no credit.
    pub(crate) fn poll(&mut self) {
        let now = Instant::now();
        let [first, most] = POLL_DELAYS;
        let (at, silent) = *self.next_poll.get_or_insert((now + first, first));
        if now < at {
            return;
        }
        let silent = (silent * 2).min(most);
        self.next_poll = Some((now + silent, silent));
        let header = FrameHeader { stage: self.own, number: self.sent, ..FrameHeader::of(FrameKind::Poll) };
        if let Ok(frame) = self.frame(&header, FrameContent::default()) {
            // If the transport is full, earlier frames are still to be processed.
            drop(self.transport.send(frame, now));
        }
    }

    /// The next frame in sequence; `None` if nothing arrives until `by`. A frame after a missing one is returned after the
    /// fault.
    pub(crate) fn receive(&mut self, by: Instant) -> Result<Option<(FrameHeader, FrameContent)>, LinkFault> {
        loop {
            if let Some(early) = self.early.take() {
                return Ok(Some(early));
            }
            let Some(frame) = self.transport.receive(by).map_err(broken)? else { return Ok(None) };
            let (header, content) = match frame.open(self.transport.kind()) {
                Ok(opened) => opened,
                Err(detail) => {
                    // Its number is unknown, but the next frame almost certainly follows it.
                    self.received += 1;
                    return Err(LinkFault { kind: FaultKind::Corrupted, detail, header: None });
                }
            };
            if header.kind != FrameKind::Poll {
                return self.in_sequence(header, content).map(Some);
            }
            self.answer_poll(&header)?;
        }
    }

    /// Checks the sequence number of a frame.
    fn in_sequence(
        &mut self,
        header: FrameHeader,
        content: FrameContent,
    ) -> Result<(FrameHeader, FrameContent), LinkFault> {
        let expected = self.received;
        if header.number == expected {
            self.received += 1;
            return Ok((header, content));
        }
        let (kind, what) = if header.number < expected {
            (FaultKind::Duplicate, "came twice or too late")
        } else {
            self.received = header.number + 1;
            self.early = Some((header, content));
            (FaultKind::Missing, "came before one that is missing")
        };
        let detail = format!("frame {} {what}: expected frame {expected}", header.number);
        Err(LinkFault { kind, detail, header: Some(header) })
    }

    /// Repeats the acknowledgment of all received frames. Frames that were sent before the poll and have not arrived are
    /// lost.
    fn answer_poll(&mut self, header: &FrameHeader) -> Result<(), LinkFault> {
        let expected = self.received;
        self.received = expected.max(header.number);
        if self.received > 0 {
            drop(self.acknowledge_last());
        }
        if self.received == expected {
            return Ok(());
        }
        let detail = format!("frame {expected} is missing: {} frames were sent", header.number);
        Err(LinkFault { kind: FaultKind::Missing, detail, header: None })
    }

    /// Acknowledges the last frame, and thereby all frames before it.
    pub(crate) fn acknowledge_last(&mut self) -> Result<(), LinkFault> {
        let number = self.received.saturating_sub(1);
        self.acknowledge(&FrameHeader { number, ..FrameHeader::of(FrameKind::Fault) }, [times::now(); 2])
    }

    /// Acknowledges the frame of this header, with the times of its processing.
    pub(crate) fn acknowledge(
        &mut self,
        of: &FrameHeader,
        [began, ended]: [u64; 2],
    ) -> Result<(), LinkFault> {
        let header = FrameHeader { kind: FrameKind::Acknowledgment, stage: self.own, ..*of };
        self.back(header, times::encode(began, ended))
    }

    /// Passes an acknowledgment of a later stage to the previous one.
    pub(crate) fn pass_back(&mut self, done: &Acknowledgment) -> Result<(), LinkFault> {
        self.back(done.header, times::encode(done.began, done.ended))
    }

    fn back(&mut self, header: FrameHeader, payload: Vec<u8>) -> Result<(), LinkFault> {
        let frame = self.frame(&header, payload.into())?;
        self.transport.send_back(frame).map_err(broken)
    }

    /// Reports to the previous stage that a later one is gone.
    pub(crate) fn report_gone(&mut self, fault: &StageFault) -> Result<(), LinkFault> {
        self.back(FrameHeader { stage: self.own, ..FrameHeader::of(FrameKind::Fault) }, fault.encode())
    }

    /// The next message from the stages behind; an acknowledgment of the next stage also covers all earlier frames and
    /// returns their credits. A damaged message is ignored: a later one covers it, or [`Self::poll`] requests another.
    pub(crate) fn receive_back(&mut self, by: Instant) -> Result<Option<BackMessage>, LinkFault> {
        loop {
            let Some(frame) = self.transport.receive_back(by).map_err(broken)? else { return Ok(None) };
            let opened = frame.open(self.transport.kind());
            match opened.and_then(|(header, content)| Ok((header, decode_back(&header, &content.body)?))) {
                Ok((header, back)) => {
                    if let (BackMessage::Acknowledgment(_), true) = (&back, header.stage == self.next) {
                        self.credit(header.number.saturating_add(1));
                    }
                    return Ok(Some(back));
                }
                Err(detail) => tracing::warn!(stage = self.own, detail, "an acknowledgment is damaged"),
            }
        }
    }

    /// The next stage has processed this many frames.
    fn credit(&mut self, frames: u64) {
        let frames = frames.min(self.sent);
        if frames > self.acknowledged {
            (self.acknowledged, self.next_poll) = (frames, None);
        }
    }
}

fn decode_back(header: &FrameHeader, payload: &[u8]) -> Result<BackMessage, String> {
    match header.kind {
        FrameKind::Fault => StageFault::decode(payload).map(BackMessage::Gone),
        FrameKind::Acknowledgment => {
            let (began, ended) = times::decode(payload)?;
            Ok(BackMessage::Acknowledgment(Acknowledgment { header: *header, began, ended }))
        }
        kind => Err(format!("unexpected acknowledgment of kind {kind:?}")),
    }
}

/// `by`, or the end of `slice` if that is sooner.
pub(crate) fn sooner(by: Instant, slice: Duration) -> Instant {
    by.min(Instant::now() + slice)
}
