//! [`PipelineSeat`]: a member of a pipeline takes its place.

use super::ClusterTransport;
use super::inbox::{Inbox, MOST_ACKNOWLEDGMENTS, MOST_FRAMES};
use super::outlet::Outlet;
use crate::error::ClusterError;
use crate::keys::PipelineKeys;
use crate::node::ClusterNode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::qos::Priority;
use zenoh::sample::{Sample, SampleKind};

/// A place in the ring of a pipeline: the stages in order, and then the head.
#[derive(Clone, Debug)]
pub(crate) struct SeatPlace {
    pub(crate) keys: PipelineKeys,
    /// The number of this member.
    pub(crate) member: usize,
    /// The number of all members.
    pub(crate) members: usize,
}

impl SeatPlace {
    fn next(&self) -> usize {
        (self.member + 1) % self.members
    }

    fn previous(&self) -> usize {
        (self.member + self.members - 1) % self.members
    }

    /// The members whose end is an end for this one, with the inboxes (from the member before and from the member after)
    /// that end with them: its neighbors, and the head, which ends all.
    fn watched(&self, [down, up]: [&Arc<Inbox>; 2]) -> BTreeMap<usize, Vec<Arc<Inbox>>> {
        let mut watched = BTreeMap::<usize, Vec<Arc<Inbox>>>::new();
        let head = self.members - 1;
        for (other, inbox) in [(self.previous(), down), (self.next(), up), (head, down), (head, up)] {
            if other != self.member {
                watched.entry(other).or_default().push(Arc::clone(inbox));
            }
        }
        watched
    }
}

/// What a member declares in the cluster; it ends with the transport.
pub(super) struct SeatGuards {
    // The order matters: the token ends after the subscribers.
    _subscribers: Vec<Subscriber<()>>,
    _token: LivelinessToken,
    /// Keeps the session.
    _node: ClusterNode,
}

/// A member of a pipeline that receives, and may not send yet.
pub(crate) struct PipelineSeat {
    node: ClusterNode,
    place: SeatPlace,
    down: Arc<Inbox>,
    up: Arc<Inbox>,
    gone: Arc<AtomicBool>,
    /// Set once the token of the head was seen, so that its end will be seen.
    has_head: Arc<AtomicBool>,
    guards: SeatGuards,
}

impl PipelineSeat {
    /// Takes a place: from now on frames are received.
    ///
    /// # Errors
    /// The network failed.
    pub(crate) fn take(node: &ClusterNode, place: SeatPlace) -> Result<Self, ClusterError> {
        let failed =
            |error: zenoh::Error| ClusterError::network("cannot declare the links of a pipeline", error);
        let (down, up, gone) = (
            Arc::new(Inbox::bounded(MOST_FRAMES)),
            Arc::new(Inbox::bounded(MOST_ACKNOWLEDGMENTS)),
            Arc::<AtomicBool>::default(),
        );
        let mut subscribers = Vec::new();
        let SeatPlace { keys, member, members } = &place;
        for (key, inbox) in [(keys.forward(*member), &down), (keys.back(*member), &up)] {
            let inbox = Arc::clone(inbox);
            let declared = node.session().declare_subscriber(key).callback(move |sample| inbox.put(sample));
            subscribers.push(declared.wait().map_err(failed)?);
        }
        let has_head = Arc::new(AtomicBool::new(false));
        for (other, ends) in place.watched([&down, &up]) {
            let (gone, has_head) = (Arc::clone(&gone), Arc::clone(&has_head));
            let is_head = other + 1 == *members;
            let note = move |sample: Sample| {
                if sample.kind() == SampleKind::Delete {
                    gone.store(true, Ordering::Relaxed);
                    ends.iter().for_each(|inbox| inbox.end());
                } else if is_head {
                    has_head.store(true, Ordering::Relaxed);
                }
            };
            let liveliness = node.session().liveliness();
            let declared = liveliness.declare_subscriber(keys.member(other)).history(true).callback(note);
            subscribers.push(declared.wait().map_err(failed)?);
        }
        let _token =
            node.session().liveliness().declare_token(keys.member(*member)).wait().map_err(failed)?;
        let guards = SeatGuards { _subscribers: subscribers, _token, _node: node.clone() };
        Ok(Self { node: node.clone(), place, down, up, gone, has_head, guards })
    }

    /// Waits until the head is seen; returns whether it was.
    pub(crate) fn wait_for_head(&self, by: Instant) -> bool {
        while !self.has_head.load(Ordering::Relaxed) && Instant::now() < by {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.has_head.load(Ordering::Relaxed) && !self.gone.load(Ordering::Relaxed)
    }

    /// The links of the member.
    ///
    /// # Errors
    /// The network failed.
    pub(crate) fn links(self) -> Result<ClusterTransport, ClusterError> {
        let Self { node, place, down, up, gone, guards, .. } = self;
        let next = Outlet::new(&node, place.keys.forward(place.next()), Priority::InteractiveHigh)?;
        let previous = Outlet::new(&node, place.keys.back(place.previous()), Priority::RealTime)?;
        Ok(ClusterTransport { down, up, next, previous, gone, guards: Some(guards) })
    }
}
