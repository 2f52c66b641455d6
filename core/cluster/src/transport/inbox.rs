//! [`Inbox`]: frames that have arrived, and the end of the member that sends them.

use super::outlet::MARK;
use menagerie_stages::{FRAME_HEADER_BYTES, StageFrame, TransportFault};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zenoh::sample::Sample;

/// Most frames that wait. Credits keep a link below it.
pub(super) const MOST_FRAMES: usize = 128;
/// Most acknowledgments that wait. They have no credits, and those of all later stages come: a head that collects recorded
/// rows reads them when it has all rows.
pub(super) const MOST_ACKNOWLEDGMENTS: usize = 1 << 16;
/// Most bytes that wait.
const MOST_BYTES: usize = 1 << 30;

/// Most characters of the reason of a neighbor.
const MOST_REASON: usize = 400;

/// Frames that have arrived, and the end of the member that sends them.
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
    /// Most messages that wait.
    most: usize,
}

#[derive(Default)]
struct InboxState {
    waiting: VecDeque<Sample>,
    bytes: usize,
    /// Why nothing more arrives. What has arrived before is still received.
    ended: Option<TransportFault>,
    /// Why this member itself ended. Nothing is received any more.
    abandoned: Option<String>,
}

impl Inbox {
    /// An inbox in which at most this number of messages waits.
    pub(super) fn bounded(most: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), most }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message of the neighbor. It is called on a thread of zenoh, so it copies and computes nothing.
    pub(super) fn put(&self, sample: Sample) {
        let mut state = self.lock();
        let mark = sample.attachment().map(|bytes| bytes.len());
        if mark == Some(MARK.len()) {
            let end = end_of(&sample);
            state.ended.get_or_insert(end);
        } else if state.ended.is_none() {
            state.bytes = state.bytes.saturating_add(sample.payload().len());
            state.waiting.push_back(sample);
            if state.waiting.len() > self.most || state.bytes > MOST_BYTES {
                let reason = "more frames arrived than credits allow".to_owned();
                state.ended = Some(TransportFault::System(reason));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The neighbor is gone.
    pub(super) fn end(&self) {
        self.lock().ended.get_or_insert(TransportFault::Closed);
        self.changed.notify_all();
    }

    /// This member itself ends.
    pub(super) fn abandon(&self, reason: &str) {
        self.lock().abandoned.get_or_insert(reason.to_owned());
        self.changed.notify_all();
    }

    /// Why this member itself ended, if it was told to.
    pub(super) fn abandoned(&self) -> Option<String> {
        self.lock().abandoned.clone()
    }

    /// Fails once the neighbor is gone.
    pub(super) fn check(&self) -> Result<(), TransportFault> {
        let state = self.lock();
        match (&state.abandoned, &state.ended) {
            (Some(reason), _) => Err(TransportFault::System(reason.clone())),
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Ok(()),
        }
    }

    /// The next frame; `None` if none arrives until `by`.
    pub(super) fn take(&self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        let mut state = self.lock();
        loop {
            if let Some(reason) = &state.abandoned {
                return Err(TransportFault::System(reason.clone()));
            }
            if let Some(sample) = state.waiting.pop_front() {
                state.bytes = state.bytes.saturating_sub(sample.payload().len());
                drop(state);
                return frame_of(&sample).map(Some);
            }
            if let Some(fault) = &state.ended {
                return Err(fault.clone());
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The reason in the last message of a neighbor.
fn end_of(sample: &Sample) -> TransportFault {
    let payload = sample.payload();
    match payload.try_to_string() {
        Ok(text) if !text.is_empty() && text.len() <= MOST_REASON => {
            TransportFault::System(text.into_owned())
        }
        _ => TransportFault::Closed,
    }
}

/// The frame of a message. Its size is checked before it is copied.
fn frame_of(sample: &Sample) -> Result<StageFrame, TransportFault> {
    let broken = |detail: &str| TransportFault::Broken(detail.to_owned());
    let attached = sample.attachment().ok_or_else(|| broken("a message without the header of a frame"))?;
    if attached.len() != FRAME_HEADER_BYTES {
        return Err(broken("a message whose header has another size than that of a frame"));
    }
    let head: [u8; FRAME_HEADER_BYTES] =
        attached.to_bytes().as_ref().try_into().map_err(|_| broken("the header of a frame is cut off"))?;
    let (announced, found) =
        (StageFrame::announced(&head).map_err(TransportFault::Broken)?, sample.payload().len());
    if announced != found {
        return Err(TransportFault::Broken(format!("a frame announces {announced} bytes, found {found}")));
    }
    Ok(StageFrame { head, payload: sample.payload().to_bytes().into_owned(), rows: Vec::new() })
}
