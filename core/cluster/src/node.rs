//! [`ClusterNode`]: the session of a process in a cluster.

use crate::configuration::{configuration, listen_endpoints};
use crate::control::{VERB_DESCRIBE, VERB_DRAIN, answers_of, request_of};
use crate::description::StageDescription;
use crate::error::ClusterError;
use crate::keys::ClusterKeys;
use crate::names::check_name;
use crate::options::ClusterOptions;
use crate::received::check_description;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;

/// How long the end of a session may take.
const CLOSING: Duration = Duration::from_secs(2);

/// The session of a process in a cluster. Clones share it; it is closed with the last one.
#[derive(Clone)]
pub struct ClusterNode(Arc<NodeSession>);

struct NodeSession {
    session: zenoh::Session,
    keys: ClusterKeys,
    cluster: String,
    id: String,
    endpoints: Vec<String>,
    _alive: LivelinessToken,
}

impl ClusterNode {
    /// Joins a cluster.
    ///
    /// # Errors
    /// Invalid options; an address that cannot be used.
    pub fn join(options: &ClusterOptions) -> Result<Self, ClusterError> {
        check_name("cluster", &options.name)?;
        if options.tls_dir.is_some() {
            crate::link_threads::check()?;
        }
        let endpoints = listening(options)?;
        let config = configuration(options, &endpoints)?;
        let opened = zenoh::open(config).wait();
        let session = opened.map_err(|error| {
            let addresses = endpoints.join(", ");
            ClusterError::network(&format!("cannot join the cluster with {addresses}"), error)
        })?;
        let (id, keys) = (session.zid().to_string(), ClusterKeys::new(&options.name));
        let alive = session.liveliness().declare_token(keys.node(&id)).wait();
        let _alive = alive.map_err(|error| ClusterError::network("cannot announce this node", error))?;
        let cluster = options.name.clone();
        Ok(Self(Arc::new(NodeSession { session, keys, cluster, id, endpoints, _alive })))
    }

    /// The identifier of this node, which is new in every process.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The name of the cluster.
    pub fn cluster(&self) -> &str {
        &self.0.cluster
    }

    /// Where this node listens, as endpoints of zenoh.
    pub fn endpoints(&self) -> &[String] {
        &self.0.endpoints
    }

    pub(crate) fn session(&self) -> &zenoh::Session {
        &self.0.session
    }

    pub(crate) fn keys(&self) -> &ClusterKeys {
        &self.0.keys
    }

    /// What all stages of the cluster say about themselves, ordered by model, replica and layers. Stages that do not
    /// answer within this time are left out.
    ///
    /// # Errors
    /// The network failed.
    pub fn describe(&self, within: Duration) -> Result<Vec<StageDescription>, ClusterError> {
        let key = self.keys().request(["*"; 3], VERB_DESCRIBE);
        let mut all = answers_of::<StageDescription>(self.session(), &key, within)?;
        all.retain(|stage| match check_description(stage) {
            Ok(()) => true,
            Err(detail) => {
                tracing::warn!(detail, "a stage is left out");
                false
            }
        });
        let order = |one: &StageDescription| {
            let StageDescription { model, replica, first, end, node, .. } = one;
            (model.clone(), replica.clone(), *first, *end, node.clone())
        };
        all.sort_by_cached_key(order);
        Ok(all)
    }

    /// Asks a stage to accept no further head and to end once it has nothing to do.
    ///
    /// # Errors
    /// The stage is gone, or does not answer within this time.
    pub fn drain(&self, stage: &StageDescription, within: Duration) -> Result<(), ClusterError> {
        let key = self.keys().request([&stage.model, &stage.replica, &stage.node], VERB_DRAIN);
        request_of(self.session(), &key, &(), within).map_err(|fault| ClusterError::Refused(fault.reason))
    }
}

impl Drop for NodeSession {
    fn drop(&mut self) {
        // On a link that loses data, closing can take long; the process must not wait for it.
        let session = self.session.clone();
        let (done, closed) = sync_channel::<()>(1);
        let close = move || {
            if let Err(error) = session.close().wait() {
                tracing::debug!(%error, "the session did not close");
            }
            drop(done);
        };
        if std::thread::Builder::new().name("menagerie-cluster-end".to_owned()).spawn(close).is_ok() {
            // Ends when the thread drops its end.
            let _ = closed.recv_timeout(CLOSING);
        }
    }
}

/// Where a node listens; a free port is chosen for port 0.
fn listening(options: &ClusterOptions) -> Result<Vec<String>, ClusterError> {
    listen_endpoints(options)?.iter().map(|endpoint| with_port(endpoint)).collect()
}

/// The same endpoint with a free port instead of port 0.
fn with_port(endpoint: &str) -> Result<String, ClusterError> {
    let Some(before) = endpoint.strip_suffix(":0") else { return Ok(endpoint.to_owned()) };
    let host = before.split_once('/').map_or(before, |(_, host)| host);
    let bound = TcpListener::bind(format!("{host}:0")).and_then(|listener| listener.local_addr());
    let port =
        bound.map_err(|error| ClusterError::network(&format!("cannot listen on {host}"), error))?.port();
    Ok(format!("{before}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_endpoints() {
        let options = ClusterOptions::new("c");
        let given = options.clone().with_listen(vec!["a:7447".to_owned(), "tls/b:1".to_owned()]);
        assert_eq!(listening(&given).unwrap(), ["tcp/a:7447", "tls/b:1"]);
        let free = listening(&options).unwrap();
        assert!(free[0].starts_with("tcp/127.0.0.1:") && !free[0].ends_with(":0"), "{free:?}");
    }
}
