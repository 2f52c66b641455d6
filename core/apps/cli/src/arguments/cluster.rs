//! Arguments of the commands that join a cluster.

use crate::arguments::link_threads;
use crate::failure::Failure;
use crate::screen::report;
use clap::Args;
use menagerie::cluster::{ClusterHead, ClusterNode, ClusterOptions, HeadOptions, WantedModel, model_name};
use menagerie::open::{StageFinder, StageOptions, StageWish};
use menagerie::stages::PipelineSource;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a node finds the others of its cluster.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ReachArguments {
    /// Address of a node of the cluster (repeatable); one is enough, it tells of the others
    #[arg(
        long,
        hide_short_help = true,
        value_name = "HOST:PORT",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    connect: Vec<String>,
    /// Find the nodes of the local network by multicast
    #[arg(long, hide_short_help = true, requires = "cluster", help_heading = "Cluster")]
    lan: bool,
    /// Folder with the certificates of this node, as `cluster keys` writes it
    #[arg(long, hide_short_help = true, value_name = "DIR", requires = "cluster", help_heading = "Cluster")]
    tls_dir: Option<PathBuf>,
    /// A node without a sign of life for this number of seconds counts as dead [default: 3]
    #[arg(long, hide_short_help = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600), requires = "cluster", help_heading = "Cluster")]
    lease: Option<u64>,
}

/// How a node reaches the others of its cluster.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeArguments {
    #[command(flatten)]
    reach: ReachArguments,
    /// Let other machines connect without certificates: everybody who reaches the address can read and change prompts
    #[arg(long, hide_short_help = true, requires = "cluster", help_heading = "Cluster")]
    insecure: bool,
}

impl NodeArguments {
    /// How a node reaches this cluster; without an address to listen on, it uses a free port.
    pub(crate) fn options(&self, cluster: &str, listen: &[String]) -> ClusterOptions {
        self.reach.options(cluster, listen).with_insecure(self.insecure)
    }
}

impl ReachArguments {
    /// How a node reaches this cluster; without an address to listen on, it uses a free port.
    fn options(&self, cluster: &str, listen: &[String]) -> ClusterOptions {
        if self.tls_dir.is_some() {
            link_threads::share();
        }
        let is_local = |address: &String| host_is_local(address);
        let listen = match listen {
            [] if self.lan || !self.connect.iter().all(is_local) => vec!["0.0.0.0:0".to_owned()],
            given => given.to_vec(),
        };
        let options = ClusterOptions::new(cluster)
            .with_listen(listen)
            .with_connect(self.connect.clone())
            .with_lan(self.lan)
            .with_tls_dir(self.tls_dir.clone());
        match self.lease {
            Some(seconds) => options.with_lease(Duration::from_secs(seconds)),
            None => options,
        }
    }
}

/// Whether an address is one of this machine only.
fn host_is_local(address: &str) -> bool {
    let address = address.rsplit('/').next().unwrap_or(address);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let number = || address.parse::<SocketAddr>().map(|one| one.ip()).or_else(|_| host.parse::<IpAddr>());
    host == "localhost" || number().is_ok_and(|number| number.is_loopback())
}

/// The cluster whose stages a command uses.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterArguments {
    /// Use the stages of this cluster (see `menagerie stage`); the results are bit-identical
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = "Cluster")]
    cluster: Option<String>,
    /// Use only the stages of this replica [default: any complete one]
    #[arg(long, hide_short_help = true, value_name = "NAME", requires = "cluster", help_heading = "Cluster")]
    replica: Option<String>,
    /// Address where the stages reach this process [default: a free port]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "HOST:PORT",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_listen: Vec<String>,
    /// Longest time to wait for the stages at the start, in seconds [default: 300]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=300),
        requires = "cluster",
        help_heading = "Cluster"
    )]
    cluster_wait: Option<u64>,
    #[command(flatten)]
    reach: ReachArguments,
}

impl ClusterArguments {
    /// Whether a cluster is given.
    pub(crate) fn is_given(&self) -> bool {
        self.cluster.is_some()
    }

    /// The same cluster, with the stages of this replica.
    pub(crate) fn with_replica(&self, replica: &str) -> Self {
        Self { replica: Some(replica.to_owned()), ..self.clone() }
    }

    /// How this process joins the cluster a second time, as a further node; `None` without a cluster.
    pub(crate) fn node_options(&self, insecure: bool) -> Option<ClusterOptions> {
        Some(self.reach.options(self.cluster.as_ref()?, &[]).with_insecure(insecure))
    }

    /// Stages of the cluster, for a process with these plugins; `None` without a cluster. With `insecure` other machines may
    /// connect without certificates.
    pub(crate) fn stages(&self, plugins: Vec<String>, insecure: bool) -> Option<StageOptions> {
        let name = self.cluster.clone()?;
        let options = self.reach.options(&name, &self.cluster_listen).with_insecure(insecure);
        let head = HeadOptions::default().with_replica(self.replica.clone()).with_plugins(plugins);
        let head = match self.cluster_wait {
            Some(seconds) => head.with_wait(Duration::from_secs(seconds)),
            None => head,
        };
        Some(StageOptions::elsewhere(finder(options, head)))
    }
}

/// Joins the cluster once a model is opened.
fn finder(options: ClusterOptions, head: HeadOptions) -> StageFinder {
    StageFinder(Arc::new(move |wish: StageWish| {
        let name = options.name.clone();
        let note = move |text: &str| report::note(&format!("cluster {name}: {text}"));
        let joined =
            ClusterNode::join(&options).and_then(|node| ClusterHead::new(node, head.clone(), Box::new(note)));
        let joined = joined.map_err(|error| error.to_string())?;
        let StageWish { file, identity, layers, credits } = wish;
        let name = key_name(&file, &identity.weights);
        let source = joined.source(WantedModel { name, identity, layers, credits });
        Ok(Box::new(source) as Box<dyn PipelineSource>)
    }))
}

/// The name of a model in the keys of a cluster, from its file and from what identifies its weights.
pub(crate) fn key_name(file: &str, weights: &str) -> String {
    let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
    model_name(&name.unwrap_or_else(|| file.to_owned()), weights)
}

/// The error of a cluster as that of a command.
pub(crate) fn cluster_failure(error: &menagerie::cluster::ClusterError) -> Failure {
    match error {
        menagerie::cluster::ClusterError::Options(reason) => Failure::Usage(reason.clone()),
        other => Failure::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        for local in ["127.0.0.1:7447", "localhost:1", "tcp/127.0.0.2:7447", "[::1]:9", "tls/localhost:5"] {
            assert!(host_is_local(local), "{local}");
        }
        for other in ["10.0.0.1:7447", "head-0.head:7447", "tls/node:1", "0.0.0.0:1"] {
            assert!(!host_is_local(other), "{other}");
        }
    }
}
