//! [`ClusterTransport`]: the links of a member of a pipeline.

mod inbox;
mod outlet;
mod seat;
#[cfg(test)]
mod tests;

pub(crate) use seat::{PipelineSeat, SeatPlace};

use inbox::Inbox;
use menagerie_stages::{PipelineTransport, StageFrame, TransportFault, TransportKind};
use outlet::Outlet;
use seat::SeatGuards;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long a frame that is sent back may wait for its first receiver.
const BACK: Duration = Duration::from_secs(5);

/// How long the token of a member that ended stays. The end of a token has the highest priority and could overtake the last
/// messages, which tell the neighbors of the end; without them they would not know the reason.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// The links of a member of a pipeline: from the member before it, and to the member after it. Frames are messages of
/// zenoh in order; a neighbor that is gone is known from the end of its token, at once if its process died, and within the
/// lease if it hangs.
pub struct ClusterTransport {
    down: Arc<Inbox>,
    up: Arc<Inbox>,
    next: Outlet,
    previous: Outlet,
    gone: Arc<AtomicBool>,
    guards: Option<SeatGuards>,
}

/// Ends a transport from another thread.
#[derive(Clone)]
pub(crate) struct TransportEnd {
    inboxes: [Arc<Inbox>; 2],
    gone: Arc<AtomicBool>,
}

impl TransportEnd {
    /// Ends the transport; `reason` says why.
    pub(crate) fn close(&self, reason: &str) {
        self.gone.store(true, std::sync::atomic::Ordering::Relaxed);
        self.inboxes.iter().for_each(|inbox| inbox.abandon(reason));
    }
}

impl ClusterTransport {
    /// Set once a neighbor or the head is gone, so that the current step can be cancelled.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    pub(crate) fn ender(&self) -> TransportEnd {
        TransportEnd { inboxes: [Arc::clone(&self.down), Arc::clone(&self.up)], gone: Arc::clone(&self.gone) }
    }
}

impl PipelineTransport for ClusterTransport {
    fn kind(&self) -> TransportKind {
        TransportKind::Serialized
    }

    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault> {
        // The member after this one is watched by the inbox that it sends back to.
        self.up.check()?;
        self.next.send(frame, &self.up, by)
    }

    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.down.take(by)
    }

    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault> {
        self.down.check()?;
        self.previous.send(frame, &self.down, Instant::now() + BACK)
    }

    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault> {
        self.up.take(by)
    }
}

impl Drop for ClusterTransport {
    fn drop(&mut self) {
        let reason = self.down.abandoned().unwrap_or_default();
        self.next.end(&reason);
        self.previous.end(&reason);
        let guards = self.guards.take();
        let end = move || {
            std::thread::sleep(LAST_MESSAGES);
            drop(guards);
        };
        // If there is no thread, the token ends at once.
        drop(std::thread::Builder::new().name("menagerie-cluster-end".to_owned()).spawn(end));
    }
}
