//! [`Link`]: numbers, checksums and credits of frames over a [`PipelineTransport`].

use crate::fault::FaultKind;
use crate::frame::{Frame, FrameKind, Header};
use crate::times;
use crate::transport::{PipelineTransport, TransportFault};
use std::time::{Duration, Instant};

/// The number of the chain itself, where stages have theirs.
pub(crate) const CHAIN: u16 = u16::MAX;

/// What is wrong with a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkFault {
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
    /// What the frame says of itself, where that can be read.
    pub(crate) header: Option<Header>,
}

/// A stage has dealt with a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) header: Header,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// The links of a stage, or of the chain.
pub(crate) struct Link {
    transport: Box<dyn PipelineTransport>,
    /// Its own number.
    own: u16,
    /// The one behind the link that it sends on.
    next: u16,
    /// Frames sent, frames that the next one was done with, and frames received.
    sent: u64,
    acknowledged: u64,
    received: u64,
    /// Most frames that the next one has not dealt with.
    credits: u64,
    /// A frame that came before one that is missing.
    early: Option<(Header, Vec<u8>)>,
}

fn broken(fault: TransportFault) -> LinkFault {
    let kind = match fault {
        TransportFault::Closed | TransportFault::System(_) => FaultKind::Closed,
        TransportFault::Full => FaultKind::Late,
        TransportFault::Broken(_) => FaultKind::Corrupted,
    };
    LinkFault { kind, detail: fault.to_string(), header: None }
}

impl Link {
    pub(crate) fn new(transport: Box<dyn PipelineTransport>, [own, next]: [u16; 2], credits: usize) -> Self {
        let credits = credits as u64;
        Self { transport, own, next, sent: 0, acknowledged: 0, received: 0, credits, early: None }
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.sent - self.acknowledged < self.credits
    }

    /// Sends a frame, which takes a credit.
    pub(crate) fn send(&mut self, header: Header, payload: Vec<u8>, by: Instant) -> Result<(), LinkFault> {
        let left = by.saturating_duration_since(Instant::now()).as_millis();
        let deadline = u32::try_from(left).unwrap_or(u32::MAX);
        let header = Header { stage: self.own, number: self.sent, deadline, ..header };
        let frame = Frame::new(&header, payload).map_err(|detail| LinkFault {
            kind: FaultKind::Unsupported,
            detail,
            header: Some(header),
        })?;
        self.transport.send(frame, by).map_err(broken)?;
        self.sent += 1;
        Ok(())
    }

    /// The next frame, once it is the one that follows; none if nothing comes until `by`. A frame that comes before a missing one
    /// is given after the fault.
    pub(crate) fn receive(&mut self, by: Instant) -> Result<Option<(Header, Vec<u8>)>, LinkFault> {
        if let Some(early) = self.early.take() {
            return Ok(Some(early));
        }
        let Some(frame) = self.transport.receive(by).map_err(broken)? else { return Ok(None) };
        let header = match frame.header() {
            Ok(header) => header,
            Err(detail) => {
                // Which one it was cannot be known; that the next one follows it is as good as certain.
                self.received += 1;
                return Err(LinkFault { kind: FaultKind::Corrupted, detail, header: None });
            }
        };
        let expected = self.received;
        if header.number == expected {
            self.received += 1;
            return Ok(Some((header, frame.payload)));
        }
        let (kind, what) = if header.number < expected {
            (FaultKind::Doubled, "came twice or too late")
        } else {
            self.received = header.number + 1;
            self.early = Some((header, frame.payload));
            (FaultKind::Missing, "came before one that is missing")
        };
        let detail = format!("frame {} {what}: frame {expected} was expected", header.number);
        Err(LinkFault { kind, detail, header: Some(header) })
    }

    /// Tells the one before that the last frame was dealt with, which could not be read.
    pub(crate) fn done_with_broken(&mut self) -> Result<(), LinkFault> {
        let number = self.received.saturating_sub(1);
        self.done(&Header { number, ..Header::of(FrameKind::Fault) }, [times::now(); 2])
    }

    /// Tells the one before that a frame of this header was dealt with, and when.
    pub(crate) fn done(&mut self, of: &Header, [began, ended]: [u64; 2]) -> Result<(), LinkFault> {
        let header = Header { kind: FrameKind::Done, stage: self.own, ..*of };
        self.back(header, times::encode(began, ended))
    }

    /// Tells the one before what a later one was done with.
    pub(crate) fn pass_back(&mut self, done: &Done) -> Result<(), LinkFault> {
        self.back(done.header, times::encode(done.began, done.ended))
    }

    fn back(&mut self, header: Header, payload: Vec<u8>) -> Result<(), LinkFault> {
        let frame = Frame::new(&header, payload).map_err(|detail| LinkFault {
            kind: FaultKind::Unsupported,
            detail,
            header: None,
        })?;
        self.transport.send_back(frame).map_err(broken)
    }

    /// What the next one was done with, which gives a credit; or one behind it.
    pub(crate) fn receive_back(&mut self, by: Instant) -> Result<Option<Done>, LinkFault> {
        let Some(frame) = self.transport.receive_back(by).map_err(broken)? else { return Ok(None) };
        let corrupted = |detail| LinkFault { kind: FaultKind::Corrupted, detail, header: None };
        let header = frame.header().map_err(corrupted)?;
        let (began, ended) = times::decode(&frame.payload).map_err(corrupted)?;
        if header.stage == self.next {
            // Of frames that were lost on the way nothing is heard: the ones after them speak for them.
            self.acknowledged = self.acknowledged.max((header.number + 1).min(self.sent));
        }
        Ok(Some(Done { header, began, ended }))
    }
}

/// `by`, or sooner.
pub(crate) fn sooner(by: Instant, slice: Duration) -> Instant {
    by.min(Instant::now() + slice)
}
