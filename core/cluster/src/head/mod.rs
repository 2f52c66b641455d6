//! [`ClusterHead`]: a node that uses the stages of a cluster.

mod complete;
mod search;
mod source;

pub use source::ClusterSource;

use crate::control::{OpenRequest, PROTOCOL, RefusedRequest, VERB_OPEN, fields_of, request_of};
use crate::description::{StageDescription, host_name};
use crate::error::ClusterError;
use crate::membership::Membership;
use crate::names::check_name;
use crate::node::ClusterNode;
use crate::transport::{ClusterTransport, PipelineSeat, SeatPlace};
use menagerie_stages::{Identity, StageName};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// How long a stage may take to accept a head.
const OPENING: Duration = Duration::from_secs(10);

/// How a head chooses stages, and how long it waits for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeadOptions {
    /// Only stages of this replica.
    pub replica: Option<String>,
    /// Longest time until a pipeline is complete.
    pub wait: Duration,
    /// The plugins that are loaded, each with its checksum.
    pub plugins: Vec<String>,
}

impl Default for HeadOptions {
    fn default() -> Self {
        Self { replica: None, wait: Duration::from_secs(300), plugins: Vec::new() }
    }
}

impl HeadOptions {
    /// The same with this [`Self::replica`].
    #[must_use]
    pub fn with_replica(self, replica: Option<String>) -> Self {
        Self { replica, ..self }
    }

    /// The same with this [`Self::wait`].
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The same with these [`Self::plugins`].
    #[must_use]
    pub fn with_plugins(self, plugins: Vec<String>) -> Self {
        Self { plugins, ..self }
    }
}

/// The model of a head, as stages must have it.
#[derive(Clone, Debug)]
pub struct WantedModel {
    /// The name of the model in keys; see [`crate::model_name`].
    pub name: String,
    /// What all stages must have in common.
    pub identity: Identity,
    /// Layers of the whole model.
    pub layers: usize,
    /// Most unacknowledged frames on a link.
    pub credits: usize,
}

/// A complete pipeline.
pub struct OpenPipeline {
    /// The head's end of the links.
    pub transport: ClusterTransport,
    /// The names of the stages, in order.
    pub names: Vec<StageName>,
    /// The stages.
    pub stages: Vec<StageDescription>,
}

/// A node that uses the stages of a cluster. It serves one pipeline at a time for each call of [`Self::source`].
#[derive(Clone)]
pub struct ClusterHead(Arc<HeadParts>);

struct HeadParts {
    node: ClusterNode,
    membership: Membership,
    options: HeadOptions,
    /// Receives what the head waits for.
    progress: Box<dyn Fn(&str) + Send + Sync>,
}

impl ClusterHead {
    /// A head in a cluster. `progress` receives what it waits for whenever that changes.
    ///
    /// # Errors
    /// An invalid name of a replica; the network failed.
    pub fn new(
        node: ClusterNode,
        options: HeadOptions,
        progress: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, ClusterError> {
        if let Some(replica) = &options.replica {
            check_name("replica", replica)?;
        }
        let membership = Membership::watch(&node)?;
        Ok(Self(Arc::new(HeadParts { node, membership, options, progress })))
    }

    /// The node of this head.
    pub fn node(&self) -> &ClusterNode {
        &self.0.node
    }

    /// Pipelines for a model, at the start and after a stage was lost.
    pub fn source(&self, wanted: WantedModel) -> ClusterSource {
        ClusterSource::new(self.clone(), wanted)
    }

    /// Opens a pipeline with these stages, which together have all layers.
    fn open(
        &self,
        wanted: &WantedModel,
        stages: Vec<StageDescription>,
    ) -> Result<OpenPipeline, OpeningFault> {
        let network = |error: ClusterError| OpeningFault {
            stage: None,
            refused: RefusedRequest::new(error.to_string()),
        };
        let node = &self.0.node;
        let Some(first) = stages.first() else {
            return Err(OpeningFault { stage: None, refused: RefusedRequest::new("there are no stages") });
        };
        let (epoch, replica) = (new_epoch(), first.replica.clone());
        let keys = node.keys().pipeline([&wanted.name, &replica, &epoch]);
        let place = SeatPlace { keys, member: stages.len(), members: stages.len() + 1 };
        // From now on the stages see the head.
        let seat = PipelineSeat::take(node, place).map_err(network)?;
        let request = self.request(wanted, &stages, epoch);
        for (index, stage) in stages.iter().enumerate() {
            let key = node.keys().request([&stage.model, &stage.replica, &stage.node], VERB_OPEN);
            let request = OpenRequest { index, ..request.clone() };
            let asked = request_of(node.session(), &key, &request, OPENING);
            asked.map_err(|refused| OpeningFault { stage: Some(Box::new(stage.clone())), refused })?;
        }
        let transport = seat.links().map_err(network)?;
        Ok(OpenPipeline { transport, names: request.names(), stages })
    }

    fn request(&self, wanted: &WantedModel, stages: &[StageDescription], epoch: String) -> OpenRequest {
        let range = |stage: &StageDescription| [stage.first as u32, stage.end as u32];
        OpenRequest {
            protocol: PROTOCOL,
            epoch,
            head: format!("{} (process {}, node {})", host_name(), std::process::id(), self.0.node.id()),
            index: 0,
            stages: stages.iter().map(range).collect(),
            // Each stage may have a step in flight, and a chunk of a prompt after it.
            credits: wanted.credits.max(2 * stages.len()),
            identity: fields_of(&wanted.identity),
            plugins: self.0.options.plugins.clone(),
        }
    }

    /// Tells a stage that it differs from this head: it refuses, and reports the differences to its user.
    fn tell(&self, wanted: &WantedModel, stage: &StageDescription) {
        let node = &self.0.node;
        let key = node.keys().request([&stage.model, &stage.replica, &stage.node], VERB_OPEN);
        let request = self.request(wanted, std::slice::from_ref(stage), new_epoch());
        // It is refused in any case.
        drop(request_of(node.session(), &key, &request, OPENING));
    }
}

/// Why a pipeline was not opened, and which stage did not accept it.
struct OpeningFault {
    stage: Option<Box<StageDescription>>,
    refused: RefusedRequest,
}

/// A new epoch.
fn new_epoch() -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    format!("{:016x}", hasher.finish())
}
