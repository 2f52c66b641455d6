//! Mischief on a link: something happens to one frame, counted, so that it is the same frame each time.

use menagerie::stages::{
    Carriage, Channel, Content, Frame, FrameKind, Header, PipelineTransport, TransportFault,
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
    pub(crate) fn carriage(self) -> Carriage {
        match self {
            Self::FlipBit | Self::FlipDone => Carriage::Travels,
            _ => Carriage::InMemory,
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
    carriage: Carriage,
    mischief: Option<(Mischief, usize)>,
    frames: usize,
    given_back: usize,
    kept: Option<Frame>,
}

fn changed(frame: Frame, carriage: Carriage, change: impl Fn(&mut Header, &mut Content)) -> Frame {
    let (mut header, mut content) = frame.open(carriage).unwrap();
    change(&mut header, &mut content);
    Frame::new(&header, content, carriage).unwrap()
}

fn flipped(mut frame: Frame) -> Frame {
    let at = frame.payload.len() / 2;
    frame.payload[at] ^= 4;
    frame
}

impl Faulty {
    pub(crate) fn new(inner: Channel, carriage: Carriage, mischief: Option<(Mischief, usize)>) -> Self {
        Self { inner, carriage, mischief, frames: 0, given_back: 0, kept: None }
    }

    /// What is due for the next frame that counts.
    fn due(&self, count: usize) -> Option<Mischief> {
        self.mischief.filter(|(_, at)| *at == count).map(|(mischief, _)| mischief)
    }
}

impl PipelineTransport for Faulty {
    fn carriage(&self) -> Carriage {
        self.carriage
    }

    fn send(&mut self, frame: Frame, by: Instant) -> Result<(), TransportFault> {
        if let Some((Mischief::Mute, _)) = self.mischief {
            return Ok(());
        }
        let mut due = None;
        let (carriage, kind) = (self.carriage, frame.header(self.carriage).unwrap().kind);
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
                self.inner.send(changed(frame, carriage, |header, _| header.epoch += 7), by)
            }
            Some(Mischief::NotANumber) => {
                let change = |_: &mut Header, content: &mut Content| {
                    let at = content.rows.len() - 2;
                    content.rows[at] = f32::NAN;
                };
                self.inner.send(changed(frame, carriage, change), by)
            }
            Some(Mischief::Slow(seconds)) => {
                std::thread::sleep(Duration::from_secs(seconds));
                self.inner.send(frame, by)
            }
            Some(Mischief::Gone) => Err(TransportFault::Closed),
        }
    }

    fn receive(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.inner.receive(by)
    }

    fn send_back(&mut self, frame: Frame) -> Result<(), TransportFault> {
        let count = self.given_back;
        self.given_back += 1;
        match self.mischief.filter(|(_, at)| *at <= count).map(|(mischief, at)| (mischief, count - at)) {
            Some((Mischief::LoseDone, 0) | (Mischief::LoseThree, 0..3)) => Ok(()),
            Some((Mischief::LoseEverySecond, since)) if since % 2 == 0 => Ok(()),
            Some((Mischief::FlipDone, 0)) => self.inner.send_back(flipped(frame)),
            _ => self.inner.send_back(frame),
        }
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.inner.receive_back(by)
    }
}
