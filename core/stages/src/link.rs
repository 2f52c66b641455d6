//! [`Link`]: numbers, checksums and credits of frames over a [`PipelineTransport`].

use crate::fault::{FaultKind, StageFault};
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

/// What comes back from the stages behind.
#[derive(Clone, Debug)]
pub(crate) enum Back {
    /// One of them has dealt with a frame.
    Done(Done),
    /// One of them is gone, as the one before it says, which is the last that is heard of them.
    Gone(StageFault),
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

    /// Tells the one before that a later one is gone.
    pub(crate) fn back_gone(&mut self, fault: &StageFault) -> Result<(), LinkFault> {
        self.back(Header { stage: self.own, ..Header::of(FrameKind::Fault) }, fault.encode())
    }

    /// What the next one was done with, which gives a credit; or one behind it. A frame that was changed is as good as lost:
    /// of what it was to say the ones after it speak as well.
    pub(crate) fn receive_back(&mut self, by: Instant) -> Result<Option<Back>, LinkFault> {
        loop {
            let Some(frame) = self.transport.receive_back(by).map_err(broken)? else { return Ok(None) };
            match frame.header().and_then(|header| Ok((header, told_back(&header, &frame.payload)?))) {
                Ok((header, back)) => {
                    if let (Back::Done(_), true) = (&back, header.stage == self.next) {
                        self.acknowledged = self.acknowledged.max((header.number + 1).min(self.sent));
                    }
                    return Ok(Some(back));
                }
                Err(detail) => tracing::warn!(stage = self.own, detail, "what a stage gave back is broken"),
            }
        }
    }
}

fn told_back(header: &Header, payload: &[u8]) -> Result<Back, String> {
    match header.kind {
        FrameKind::Fault => StageFault::decode(payload).map(Back::Gone),
        FrameKind::Done => {
            let (began, ended) = times::decode(payload)?;
            Ok(Back::Done(Done { header: *header, began, ended }))
        }
        kind => Err(format!("a frame of kind {kind:?} that was given back")),
    }
}

/// `by`, or sooner.
pub(crate) fn sooner(by: Instant, slice: Duration) -> Instant {
    by.min(Instant::now() + slice)
}
