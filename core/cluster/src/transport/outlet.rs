//! [`Outlet`]: sends frames to a neighbor.

use super::inbox::Inbox;
use crate::error::ClusterError;
use crate::node::ClusterNode;
use menagerie_stages::{StageFrame, TransportFault};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};

/// The attachment of the last message of a member; the attachments of frames are longer.
pub(super) const MARK: &[u8] = b"end";

/// How long a first frame waits for its receiver, and how often it looks.
const FIRST: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Sends frames to a neighbor.
pub(super) struct Outlet {
    publisher: Publisher<'static>,
    /// Whether the neighbor is known to receive. Before that, zenoh drops what is sent.
    is_received: bool,
}

impl Outlet {
    pub(super) fn new(node: &ClusterNode, key: String, priority: Priority) -> Result<Self, ClusterError> {
        let declared = node
            .session()
            .declare_publisher(key)
            .congestion_control(CongestionControl::Block)
            .priority(priority)
            .express(true)
            .wait();
        let publisher = declared.map_err(|error| ClusterError::network("cannot declare a link", error))?;
        Ok(Self { publisher, is_received: false })
    }

    /// Sends a frame; `of` tells whether the neighbor is gone.
    pub(super) fn send(&mut self, frame: StageFrame, of: &Inbox, by: Instant) -> Result<(), TransportFault> {
        self.wait_for_receiver(of, by)?;
        let StageFrame { head, payload, .. } = frame;
        let sent = self.publisher.put(payload).attachment(head.as_slice()).wait();
        sent.map_err(|error| TransportFault::System(error.to_string()))
    }

    /// Sends the last message. If the neighbor is gone, it is lost.
    pub(super) fn end(&self, reason: &str) {
        if self.is_received
            && let Err(error) = self.publisher.put(reason).attachment(MARK).wait()
        {
            tracing::debug!(%error, "the end of a link was not sent");
        }
    }

    fn wait_for_receiver(&mut self, of: &Inbox, by: Instant) -> Result<(), TransportFault> {
        let until = by.max(Instant::now()).min(Instant::now() + FIRST);
        while !self.is_received {
            let status = self.publisher.matching_status().wait();
            let status = status.map_err(|error| TransportFault::System(error.to_string()))?;
            self.is_received = status.matching();
            if self.is_received {
                break;
            }
            of.check()?;
            if Instant::now() >= until {
                let reason = "this machine has no connection to the machine of the neighboring stage; check the addresses of \
                              --listen and firewalls";
                return Err(TransportFault::System(reason.to_owned()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
