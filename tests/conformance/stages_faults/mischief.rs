//! Mischief on a link: something happens to one frame, counted, so that it is the same frame each time.

use menagerie::stages::{
    Channel, FrameContent, FrameHeader, FrameKind, PipelineTransport, StageFrame, TransportFault,
    TransportKind,
};
use std::time::{Duration, Instant};

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    Drop,
    Double,
    Swap,
    FlipBit,
    OldEpoch,
    NotANumber,
    /// It comes after so many seconds.
    Slow(u64),
    Gone,
    /// Nothing arrives, from the first frame on.
    Mute,
    /// Of what is given back for frames: nothing of one arrives, or it is changed.
    LoseDone,
    FlipDone,
    /// Nothing of three in a row arrives, or of every second one from there on.
    LoseThree,
    LoseEverySecond,
}

impl Mischief {
    /// What frames that were changed are noticed in: those that leave the process have a checksum.
    pub(crate) fn transport(self) -> TransportKind {
        match self {
            Self::FlipBit | Self::FlipDone => TransportKind::Serialized,
            _ => TransportKind::InMemory,
        }
    }
}

/// A frame: the link that it goes over (0 to stage 0, 1 to stage 1, 2 to the chain), and its number there among those of
/// steps, answers, and reads and writes of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) link: usize,
    pub(crate) frame: usize,
}

/// A channel that does something to one frame that is sent over it.
pub(crate) struct Faulty {
    inner: Channel,
    transport: TransportKind,
    mischief: Option<(Mischief, usize)>,
    frames: usize,
    given_back: usize,
    kept: Option<StageFrame>,
}

fn changed(
    frame: StageFrame,
    transport: TransportKind,
    change: impl Fn(&mut FrameHeader, &mut FrameContent),
) -> StageFrame {
    let (mut header, mut content) = frame.open(transport).unwrap();
    change(&mut header, &mut content);
    StageFrame::new(&header, content, transport).unwrap()
}

fn flipped(mut frame: StageFrame) -> StageFrame {
    let at = frame.payload.len() / 2;
    frame.payload[at] ^= 4;
    frame
}

impl Faulty {
    pub(crate) fn new(inner: Channel, transport: TransportKind, mischief: Option<(Mischief, usize)>) -> Self {
        Self { inner, transport, mischief, frames: 0, given_back: 0, kept: None }
    }

    /// What is due for the next frame that counts.
    fn due(&self, count: usize) -> Option<Mischief> {
        self.mischief.filter(|(_, at)| *at == count).map(|(mischief, _)| mischief)
    }
}

impl PipelineTransport for Faulty {
    fn kind(&self) -> TransportKind {
        self.transport
    }

    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        if let Some((Mischief::Mute, _)) = self.mischief {
            return Ok(());
        }
        let mut due = None;
        let (transport, kind) = (self.transport, frame.header(self.transport).unwrap().kind);
        if matches!(kind, FrameKind::Step | FrameKind::Logits | FrameKind::States) {
            due = self.due(self.frames);
            self.frames += 1;
        }
        match due {
            None
            | Some(
                Mischief::Mute
                | Mischief::LoseDone
                | Mischief::FlipDone
                | Mischief::LoseThree
                | Mischief::LoseEverySecond,
            ) => {
                self.inner.send(frame, by)?;
                self.kept.take().map_or(Ok(()), |kept| self.inner.send(kept, by))
            }
            Some(Mischief::Drop) => Ok(()),
            Some(Mischief::Double) => {
                self.inner.send(frame.clone(), by)?;
                self.inner.send(frame, by)
            }
            Some(Mischief::Swap) => {
                self.kept = Some(frame);
                Ok(())
            }
            Some(Mischief::FlipBit) => self.inner.send(flipped(frame), by),
            Some(Mischief::OldEpoch) => {
                self.inner.send(changed(frame, transport, |header, _| header.epoch += 7), by)
            }
            Some(Mischief::NotANumber) => {
                let change = |_: &mut FrameHeader, content: &mut FrameContent| {
                    let at = content.rows.len() - 2;
                    content.rows[at] = f32::NAN;
                };
                self.inner.send(changed(frame, transport, change), by)
            }
            Some(Mischief::Slow(seconds)) => {
                std::thread::sleep(Duration::from_secs(seconds));
                self.inner.send(frame, by)
            }
            Some(Mischief::Gone) => Err(TransportFault::Closed),
        }
    }

    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.inner.receive(by)
    }

    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault> {
        let count = self.given_back;
        self.given_back += 1;
        match self.mischief.filter(|(_, at)| *at <= count).map(|(mischief, at)| (mischief, count - at)) {
            Some((Mischief::LoseDone, 0) | (Mischief::LoseThree, 0..3)) => Ok(()),
            Some((Mischief::LoseEverySecond, since)) if since % 2 == 0 => Ok(()),
            Some((Mischief::FlipDone, 0)) => self.inner.send_back(flipped(frame)),
            _ => self.inner.send_back(frame),
        }
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.inner.receive_back(by)
    }
}
