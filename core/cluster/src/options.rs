//! [`ClusterOptions`]: how a node reaches its cluster.

use std::path::PathBuf;
use std::time::Duration;

/// How a node reaches its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// The name of the cluster. Nodes of other clusters are not seen.
    pub name: String,
    /// Where other nodes reach this one: `HOST:PORT`, or an endpoint of zenoh such as `tcp/HOST:PORT`. Port 0 is a free
    /// port. Empty: a free port of the loopback address.
    pub listen: Vec<String>,
    /// Nodes of the cluster, each as in [`Self::listen`]. One is enough: it tells of the others.
    pub connect: Vec<String>,
    /// Whether nodes are also searched for by multicast.
    pub lan: bool,
    /// Whether other machines may connect without certificates.
    pub insecure: bool,
    /// The folder with the certificates of this node.
    pub tls_dir: Option<PathBuf>,
    /// After this time without a sign of life a node counts as dead.
    pub lease: Duration,
}

impl ClusterOptions {
    /// The cluster of this name, on the loopback address.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            listen: Vec::new(),
            connect: Vec::new(),
            lan: false,
            insecure: false,
            tls_dir: None,
            lease: Duration::from_secs(3),
        }
    }

    /// The same with these [`Self::listen`].
    #[must_use]
    pub fn with_listen(self, listen: Vec<String>) -> Self {
        Self { listen, ..self }
    }

    /// The same with these [`Self::connect`].
    #[must_use]
    pub fn with_connect(self, connect: Vec<String>) -> Self {
        Self { connect, ..self }
    }

    /// The same with this [`Self::lan`].
    #[must_use]
    pub fn with_lan(self, lan: bool) -> Self {
        Self { lan, ..self }
    }

    /// The same with this [`Self::insecure`].
    #[must_use]
    pub fn with_insecure(self, insecure: bool) -> Self {
        Self { insecure, ..self }
    }

    /// The same with this [`Self::tls_dir`].
    #[must_use]
    pub fn with_tls_dir(self, tls_dir: Option<PathBuf>) -> Self {
        Self { tls_dir, ..self }
    }

    /// The same with this [`Self::lease`].
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }
}
