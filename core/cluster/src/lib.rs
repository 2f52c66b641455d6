//! Stages over machines: the network between the stages of a model and the processes that use them, on zenoh.
//!
//! A **node** is a process in a cluster. A node that serves a stage announces it ([`StageServer`]); a node that uses a
//! complete set of stages is a **head** ([`ClusterHead`]). Nodes find each other from one address; there is no server.
//!
//! | read | for |
//! |---|---|
//! | `options.rs`, `configuration/` | how a node reaches the others, as the configuration of zenoh |
//! | `certificates/` | the authority of a cluster and the certificates of its nodes |
//! | `link_threads.rs` | the setting that links with TLS need |
//! | `names.rs`, `keys.rs` | names of clusters, models and replicas, and the keys that are made of them |
//! | `node.rs`, `membership.rs` | a session; which stages are alive |
//! | `description.rs`, `control/` | what a stage says about itself; requests to a stage and their answers |
//! | `transport/` | frames between two stages |
//! | `server/` | a stage that serves one head after the other |
//! | `plan/` | which node computes which layers |
//! | `status/` | the stages as an operator sees them |
//! | `received.rs` | checks of what another node says |
//! | `head/` | a head: waits for stages, compares them, and opens a pipeline |
//!
//! Zenoh does not promise that a message arrives: a `put` to a dead stage succeeds. The links of `menagerie-stages` number
//! and acknowledge frames, and every member of a pipeline watches the tokens of its neighbors.
#![forbid(unsafe_code)]

mod certificates;
mod configuration;
mod control;
mod description;
mod error;
mod head;
mod keys;
mod link_threads;
mod membership;
mod names;
mod node;
mod options;
mod plan;
mod received;
mod server;
mod status;
mod transport;

pub use certificates::{
    Certificate, CertificateError, CertificateState, Day, Issue, KeyFolder, KeyRequest, ListedCertificate,
    NodeRole,
};
pub use description::{MemoryFigures, StageDescription, StageState, StepFigures};
pub use error::ClusterError;
pub use head::{ClusterHead, ClusterSource, HeadOptions, OpenPipeline, WantedModel};
pub use link_threads::LINK_THREADS;
pub use membership::Membership;
pub use names::model_name;
pub use node::ClusterNode;
pub use options::ClusterOptions;
pub use plan::{
    ClusterPlan, ExpectedSpeed, LayerRangesError, LayerSizes, NodeMeasure, NodesFile, PlannedStage,
    ShapeLayer, expected_speed, measured_nodes, plan_layers,
};
pub use server::{AcceptedPipeline, ServedStage, StageFigures, StageServer};
pub use status::{ClusterStatus, ReplicaStatus, SilentStage};
pub use transport::ClusterTransport;
