//! [`Channel`]: the transport between threads of one process.

use crate::frame::Frame;
use crate::transport::{Carriage, PipelineTransport, TransportFault};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most frames of a queue: more than the credits of a link and its control frames, so that it is the backstop only.
const MOST_FRAMES: usize = 64;

#[derive(Default)]
struct Queue {
    frames: Mutex<Frames>,
    changed: Condvar,
}

#[derive(Default)]
struct Frames {
    waiting: VecDeque<Frame>,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done` gives something, or `by`.
    fn until<T>(&self, by: Instant, mut done: impl FnMut(&mut Frames) -> Option<T>) -> Option<T> {
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

    fn put(&self, frame: Frame, by: Instant) -> Result<(), TransportFault> {
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

    /// What was put before the other end closed is still given.
    fn take(&self, by: Instant) -> Result<Option<Frame>, TransportFault> {
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

/// A link between two threads: frames one way, what is given back the other.
#[derive(Default)]
struct Pair {
    down: Queue,
    up: Queue,
}

impl Pair {
    fn close(&self) {
        self.down.close();
        self.up.close();
    }
}

/// The transport of a thread: a link from the one before, a link to the next one.
pub struct Channel {
    before: Arc<Pair>,
    next: Arc<Pair>,
}

/// The transports of `count` threads in a ring: each sends to the next, the last one to the first.
pub fn ring(count: usize) -> Vec<Channel> {
    let links: Vec<Arc<Pair>> = (0..count).map(|_| Arc::default()).collect();
    let channel = |index: usize| Channel {
        before: Arc::clone(&links[(index + count - 1) % count]),
        next: Arc::clone(&links[index]),
    };
    (0..count).map(channel).collect()
}

impl PipelineTransport for Channel {
    fn carriage(&self) -> Carriage {
        Carriage::InMemory
    }

    fn send(&mut self, frame: Frame, by: Instant) -> Result<(), TransportFault> {
        self.next.down.put(frame, by)
    }

    fn receive(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.before.down.take(by)
    }

    fn send_back(&mut self, frame: Frame) -> Result<(), TransportFault> {
        self.before.up.put(frame, Instant::now())
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault> {
        self.next.up.take(by)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.before.close();
        self.next.close();
    }
}
