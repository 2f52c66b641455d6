//! [`SocketTransport`]: the transport between processes of one machine, over Unix domain sockets.

use super::{PipelineTransport, TransportFault};
use crate::frame::{FRAME_HEADER_BYTES, StageFrame, TransportKind};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Frames that are read ahead: as many as credits allow, and control frames.
const READ_AHEAD: usize = 8;

/// How long a frame that is sent back may wait: the other end reads continuously.
const BACK: Duration = Duration::from_secs(5);

/// Two sockets, from the previous stage and to the next one. Threads read from them, so that the next frame arrives while
/// this one is computed.
pub struct SocketTransport {
    previous: UnixStream,
    next: UnixStream,
    down: Receiver<Result<StageFrame, TransportFault>>,
    up: Receiver<Result<StageFrame, TransportFault>>,
    gone: Arc<AtomicBool>,
}

fn system(error: &std::io::Error) -> TransportFault {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => TransportFault::Full,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
            TransportFault::Closed
        }
        _ => TransportFault::System(error.to_string()),
    }
}

impl SocketTransport {
    /// A transport over its two sockets.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new(previous: UnixStream, next: UnixStream) -> std::io::Result<Self> {
        let gone = Arc::new(AtomicBool::new(false));
        let down = reader("menagerie-from-previous", previous.try_clone()?, Some(Arc::clone(&gone)))?;
        let up = reader("menagerie-from-next", next.try_clone()?, None)?;
        Ok(Self { previous, next, down, up, gone })
    }

    /// The transport of a process whose standard input is the socket from the previous stage and whose standard output is the
    /// socket to the next one.
    ///
    /// # Errors
    /// An error of the system.
    pub fn of_standard_streams() -> std::io::Result<Self> {
        let previous = std::io::stdin().as_fd().try_clone_to_owned()?;
        let next = std::io::stdout().as_fd().try_clone_to_owned()?;
        Self::new(previous.into(), next.into())
    }

    /// Set once the previous stage is gone, so that the current step can be cancelled.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }
}

/// The frames of a socket, read on a thread until it closes; then `gone` is set.
fn reader(
    name: &str,
    mut from: UnixStream,
    gone: Option<Arc<AtomicBool>>,
) -> std::io::Result<Receiver<Result<StageFrame, TransportFault>>> {
    let (to, frames): (SyncSender<_>, _) = sync_channel(READ_AHEAD);
    let read = move || {
        loop {
            let frame = read(&mut from);
            let ended = frame.is_err();
            if let (true, Some(gone)) = (ended, &gone) {
                gone.store(true, Ordering::Relaxed);
            }
            if to.send(frame).is_err() || ended {
                return;
            }
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(read)?;
    Ok(frames)
}

/// Reads the next frame. The payload grows as bytes arrive, not to the announced size.
fn read(from: &mut UnixStream) -> Result<StageFrame, TransportFault> {
    let mut head = [0; FRAME_HEADER_BYTES];
    from.read_exact(&mut head).map_err(|error| system(&error))?;
    let bytes = StageFrame::announced(&head).map_err(TransportFault::Broken)?;
    let mut payload = Vec::new();
    from.take(bytes as u64).read_to_end(&mut payload).map_err(|error| system(&error))?;
    if payload.len() < bytes {
        return Err(TransportFault::Closed);
    }
    Ok(StageFrame { head, payload, rows: Vec::new() })
}

fn write(to: &mut UnixStream, frame: &StageFrame, by: Instant) -> Result<(), TransportFault> {
    let mut all = Vec::with_capacity(FRAME_HEADER_BYTES + frame.payload.len());
    all.extend_from_slice(&frame.head);
    all.extend_from_slice(&frame.payload);
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        let left = by.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        to.set_write_timeout(Some(left)).map_err(|error| system(&error))?;
        match to.write(rest) {
            Ok(0) => return Err(TransportFault::Closed),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The remainder of an incomplete frame would be read as another frame.
            Err(error) if rest.len() < all.len() && system(&error) == TransportFault::Full => {
                drop(to.shutdown(Shutdown::Both));
                return Err(TransportFault::System("the other end accepted only part of a frame".to_owned()));
            }
            Err(error) => return Err(system(&error)),
        }
    }
    Ok(())
}

fn take(
    frames: &Receiver<Result<StageFrame, TransportFault>>,
    by: Instant,
) -> Result<Option<StageFrame>, TransportFault> {
    match frames.recv_timeout(by.saturating_duration_since(Instant::now())) {
        Ok(frame) => frame.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(TransportFault::Closed),
    }
}

impl PipelineTransport for SocketTransport {
    fn kind(&self) -> TransportKind {
        TransportKind::Serialized
    }

    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        write(&mut self.next, &frame, by)
    }

    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        take(&self.down, by)
    }

    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault> {
        write(&mut self.previous, &frame, Instant::now() + BACK)
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        take(&self.up, by)
    }
}

impl Drop for SocketTransport {
    fn drop(&mut self) {
        // The reading threads have their own handles.
        drop(self.previous.shutdown(Shutdown::Both));
        drop(self.next.shutdown(Shutdown::Both));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameContent, FrameHeader, FrameKind};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn frames_pass_both_ways_and_a_closed_end_is_detected() {
        let (a, b) = UnixStream::pair().unwrap();
        let (c, d) = UnixStream::pair().unwrap();
        let mut first = SocketTransport::new(d, a).unwrap();
        let mut second = SocketTransport::new(b, c).unwrap();
        let content = FrameContent { body: vec![7; 60_000], rows: vec![0.5; 10_000] };
        let header = FrameHeader::of(FrameKind::Step);
        let frame = StageFrame::new(&header, content.clone(), TransportKind::Serialized).unwrap();
        first.send(frame.clone(), soon()).unwrap();
        let received = second.receive(soon()).unwrap().unwrap();
        assert_eq!(received, frame);
        assert_eq!(received.open(TransportKind::Serialized).unwrap(), (header, content));
        second.send_back(frame.clone()).unwrap();
        assert_eq!(first.receive_back(soon()).unwrap().unwrap(), frame);
        assert_eq!(first.receive(Instant::now()).unwrap(), None);
        let gone = second.gone();
        drop(first);
        assert_eq!(second.receive(soon()), Err(TransportFault::Closed));
        assert!(gone.load(Ordering::Relaxed));
        assert!(second.send(frame, soon()).is_err());
    }

    #[test]
    fn an_end_that_accepts_nothing_is_waited_for_until_the_deadline() {
        let (mut a, _held) = UnixStream::pair().unwrap();
        let content = FrameContent { body: vec![7; 8 << 20], rows: Vec::new() };
        let frame =
            StageFrame::new(&FrameHeader::of(FrameKind::Step), content, TransportKind::Serialized).unwrap();
        let began = Instant::now();
        assert!(write(&mut a, &frame, began + Duration::from_millis(200)).is_err());
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}
