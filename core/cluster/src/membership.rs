//! [`Membership`]: which stages are alive.

use crate::error::ClusterError;
use crate::node::ClusterNode;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample, SampleKind};

/// The stages that are alive, kept up to date while this value exists.
pub struct Membership {
    living: Arc<LivingStages>,
    _subscriber: Subscriber<()>,
}

#[derive(Default)]
struct LivingStages {
    state: Mutex<LivingState>,
    changed: Condvar,
}

#[derive(Default)]
struct LivingState {
    /// The nodes that serve a stage.
    nodes: BTreeSet<String>,
    /// The number of changes so far.
    changes: u64,
}

impl LivingStages {
    fn lock(&self) -> MutexGuard<'_, LivingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, sample: &Sample) {
        let Some(node) = sample.key_expr().as_str().rsplit('/').next() else { return };
        let mut state = self.lock();
        let changed = match sample.kind() {
            SampleKind::Put => state.nodes.insert(node.to_owned()),
            SampleKind::Delete => state.nodes.remove(node),
        };
        state.changes += u64::from(changed);
        drop(state);
        self.changed.notify_all();
    }
}

impl Membership {
    /// Watches the stages of a cluster.
    ///
    /// # Errors
    /// The network failed.
    pub fn watch(node: &ClusterNode) -> Result<Self, ClusterError> {
        let living = Arc::<LivingStages>::default();
        let noted = Arc::clone(&living);
        let liveliness = node.session().liveliness();
        let declared = liveliness
            .declare_subscriber(node.keys().all_stages())
            .history(true)
            .callback(move |sample| noted.note(&sample))
            .wait();
        let _subscriber = declared
            .map_err(|error| ClusterError::network("cannot watch the stages of the cluster", error))?;
        Ok(Self { living, _subscriber })
    }

    /// Whether this node serves a stage and is alive.
    pub fn has(&self, node: &str) -> bool {
        self.living.lock().nodes.contains(node)
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.living.lock().changes
    }

    /// Waits until there were more than `seen` changes, or until `by`.
    pub fn wait(&self, seen: u64, by: Instant) {
        let mut state = self.living.lock();
        while state.changes <= seen {
            let left = by.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            state = self.living.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
