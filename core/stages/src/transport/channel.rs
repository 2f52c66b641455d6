//! [`Channel`]: the transport between threads of one process.

use super::{PipelineTransport, TransportFault};
use crate::frame::{StageFrame, TransportKind};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most frames of a queue. Credits keep a link below it; this is only a safeguard.
const MOST_FRAMES: usize = 64;

#[derive(Default)]
struct FrameQueue {
    frames: Mutex<QueuedFrames>,
    changed: Condvar,
}

#[derive(Default)]
struct QueuedFrames {
    waiting: VecDeque<StageFrame>,
    closed: bool,
}

impl FrameQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedFrames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done` returns a value, or until `by`.
    fn until<T>(&self, by: Instant, mut done: impl FnMut(&mut QueuedFrames) -> Option<T>) -> Option<T> {
        let mut frames = self.lock();
        loop {
            if let Some(value) = done(&mut frames) {
                self.changed.notify_all();
                return Some(value);
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            frames = self.changed.wait_timeout(frames, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn put(&self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        let mut frame = Some(frame);
        let put = self.until(by, |frames| {
            if frames.closed {
                return Some(Err(TransportFault::Closed));
            }
            if frames.waiting.len() >= MOST_FRAMES {
                return None;
            }
            frames.waiting.extend(frame.take());
            Some(Ok(()))
        });
        put.unwrap_or(Err(TransportFault::Full))
    }

    /// Frames that were queued before the other end closed are still received.
    fn take(&self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        let taken = self.until(by, |frames| match frames.waiting.pop_front() {
            Some(frame) => Some(Ok(frame)),
            None => frames.closed.then_some(Err(TransportFault::Closed)),
        });
        taken.transpose()
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

/// A link between two threads: frames in one direction, acknowledgments in the other.
#[derive(Default)]
struct ThreadLink {
    down: FrameQueue,
    up: FrameQueue,
}

impl ThreadLink {
    fn close(&self) {
        self.down.close();
        self.up.close();
    }
}

/// The transport of a thread: a link from the previous thread, and a link to the next one.
pub struct Channel {
    previous: Arc<ThreadLink>,
    next: Arc<ThreadLink>,
}

/// The transports of `count` threads in a ring: each sends to the next, the last one to the first.
pub fn ring(count: usize) -> Vec<Channel> {
    let links: Vec<Arc<ThreadLink>> = (0..count).map(|_| Arc::default()).collect();
    let channel = |index: usize| Channel {
        previous: Arc::clone(&links[(index + count - 1) % count]),
        next: Arc::clone(&links[index]),
    };
    (0..count).map(channel).collect()
}

impl PipelineTransport for Channel {
    fn kind(&self) -> TransportKind {
        TransportKind::InMemory
    }

    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        self.next.down.put(frame, by)
    }

    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.previous.down.take(by)
    }

    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault> {
        self.previous.up.put(frame, Instant::now())
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.next.up.take(by)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.previous.close();
        self.next.close();
    }
}
