//! [`Link`]: numbers, checksums and credits of frames over a [`PipelineTransport`].

use crate::fault::{FaultKind, StageFault};
use crate::frame::{Content, Frame, FrameKind, Header};
use crate::times;
use crate::transport::{PipelineTransport, TransportFault};
use std::time::{Duration, Instant};

/// The number of the chain itself, where stages have theirs.
pub(crate) const CHAIN: u16 = u16::MAX;

/// How long a link without credit is silent before it is asked what was given back, and most between two such questions.
const SILENT: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

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
    early: Option<(Header, Content)>,
    /// When the next one is asked what it was done with, and how long it was silent before; none while it gives credit.
    asking: Option<(Instant, Duration)>,
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
        Self {
            transport,
            own,
            next,
            sent: 0,
            acknowledged: 0,
            received: 0,
            credits,
            early: None,
            asking: None,
        }
    }

    pub(crate) fn has_credit(&self) -> bool {
        self.sent - self.acknowledged < self.credits
    }

    /// Sends a frame, which takes a credit.
    pub(crate) fn send(
        &mut self,
        header: Header,
        content: impl Into<Content>,
        by: Instant,
    ) -> Result<(), LinkFault> {
        let left = by.saturating_duration_since(Instant::now()).as_millis();
        let deadline = u32::try_from(left).unwrap_or(u32::MAX);
        let header = Header { stage: self.own, number: self.sent, deadline, ..header };
        let frame = self.frame(&header, content.into())?;
        self.transport.send(frame, by).map_err(broken)?;
        self.sent += 1;
        Ok(())
    }

    fn frame(&self, header: &Header, content: Content) -> Result<Frame, LinkFault> {
        Frame::new(header, content, self.transport.carriage()).map_err(|detail| LinkFault {
            kind: FaultKind::Unsupported,
            detail,
            header: Some(*header),
        })
    }

    /// Asks the next one what it was done with, where it gives no credit for a while: what it gave back may be lost. It is to
    /// be called as long as there is no credit.
    pub(crate) fn ask(&mut self) {
        let now = Instant::now();
        let [first, most] = SILENT;
        let (at, silent) = *self.asking.get_or_insert((now + first, first));
        if now < at {
            return;
        }
        let silent = (silent * 2).min(most);
        self.asking = Some((now + silent, silent));
        let header = Header { stage: self.own, number: self.sent, ..Header::of(FrameKind::Ask) };
        if let Ok(frame) = self.frame(&header, Content::default()) {
            // Where there is no room for it, what was sent before is still to be dealt with.
            drop(self.transport.send(frame, now));
        }
    }

    /// The next frame, once it is the one that follows; none if nothing comes until `by`. A frame that comes before a missing one
    /// is given after the fault.
    pub(crate) fn receive(&mut self, by: Instant) -> Result<Option<(Header, Content)>, LinkFault> {
        loop {
            if let Some(early) = self.early.take() {
                return Ok(Some(early));
            }
            let Some(frame) = self.transport.receive(by).map_err(broken)? else { return Ok(None) };
            let (header, content) = match frame.open(self.transport.carriage()) {
                Ok(opened) => opened,
                Err(detail) => {
                    // Which one it was cannot be known; that the next one follows it is as good as certain.
                    self.received += 1;
                    return Err(LinkFault { kind: FaultKind::Corrupted, detail, header: None });
                }
            };
            if header.kind != FrameKind::Ask {
                return self.followed(header, content).map(Some);
            }
            self.asked(&header)?;
        }
    }

    /// Takes a frame that has its place in the order.
    fn followed(&mut self, header: Header, content: Content) -> Result<(Header, Content), LinkFault> {
        let expected = self.received;
        if header.number == expected {
            self.received += 1;
            return Ok((header, content));
        }
        let (kind, what) = if header.number < expected {
            (FaultKind::Doubled, "came twice or too late")
        } else {
            self.received = header.number + 1;
            self.early = Some((header, content));
            (FaultKind::Missing, "came before one that is missing")
        };
        let detail = format!("frame {} {what}: frame {expected} was expected", header.number);
        Err(LinkFault { kind, detail, header: Some(header) })
    }

    /// Says again what was dealt with: everything that came, since what came before the question was. What was sent before it
    /// and is not here is lost.
    fn asked(&mut self, header: &Header) -> Result<(), LinkFault> {
        let expected = self.received;
        self.received = expected.max(header.number);
        if self.received > 0 {
            drop(self.done_with_last());
        }
        if self.received == expected {
            return Ok(());
        }
        let detail = format!("frame {expected} is missing: the one before sent {}", header.number);
        Err(LinkFault { kind: FaultKind::Missing, detail, header: None })
    }

    /// Tells the one before that the last frame was dealt with, and with it all before.
    pub(crate) fn done_with_last(&mut self) -> Result<(), LinkFault> {
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
        let frame = self.frame(&header, payload.into())?;
        self.transport.send_back(frame).map_err(broken)
    }

    /// Tells the one before that a later one is gone.
    pub(crate) fn back_gone(&mut self, fault: &StageFault) -> Result<(), LinkFault> {
        self.back(Header { stage: self.own, ..Header::of(FrameKind::Fault) }, fault.encode())
    }

    /// What the next one was done with, and with it all before, which gives their credits; or one behind it. A frame that was
    /// changed is as good as lost: of what it was to say the ones after it speak as well, and [`Self::ask`] where none comes.
    pub(crate) fn receive_back(&mut self, by: Instant) -> Result<Option<Back>, LinkFault> {
        loop {
            let Some(frame) = self.transport.receive_back(by).map_err(broken)? else { return Ok(None) };
            let opened = frame.open(self.transport.carriage());
            match opened.and_then(|(header, content)| Ok((header, told_back(&header, &content.told)?))) {
                Ok((header, back)) => {
                    if let (Back::Done(_), true) = (&back, header.stage == self.next) {
                        self.acknowledge(header.number.saturating_add(1));
                    }
                    return Ok(Some(back));
                }
                Err(detail) => tracing::warn!(stage = self.own, detail, "what a stage gave back is broken"),
            }
        }
    }

    /// So many frames were dealt with.
    fn acknowledge(&mut self, frames: u64) {
        let frames = frames.min(self.sent);
        if frames > self.acknowledged {
            (self.acknowledged, self.asking) = (frames, None);
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
