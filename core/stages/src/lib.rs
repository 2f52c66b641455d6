//! A model in stages: each stage computes its layers, has their states, and sends frames to the next stage.
//!
//! [`StageChain`] is an [`menagerie_model::Executor`] like a whole model. Its pool has page tables but no memory; the pools
//! of the stages have the memory and receive the placement of every sequence. A step passes through the chain as a frame:
//! the placement ([`menagerie_model::Placement`]), tokens, positions, rope regimes, adapter sets, the changes of states since
//! the previous step, and rows. Each stage is a [`StageWorker`], whose `StageWorker::execute_stage` serves every model. The
//! last stage sends logits back to the chain.
//!
//! Hooks act where their layers are: stages on threads share the hooks, and stages in processes have copies of those that can
//! be copied ([`menagerie_model::SerializableHook`]). The chain collects the data of copies and the times of a trace on
//! request.
//!
//! Everything is checked on receipt: sequence numbers, checksums, sizes, epochs, the memory that a request needs, and that rows
//! are finite. A frame that is missing, late, duplicated, out of order or damaged is a [`StageFault`] that names the stage, its
//! layers, the request and the position.
//!
//! | read | for |
//! |---|---|
//! | `frame/` | the bytes of a frame: header, payload, checksum |
//! | `message/` | the messages in frames, with their encodings |
//! | `transport/`, `link.rs` | passing frames on: between threads, between processes; sequence numbers and credits |
//! | `source.rs` | where the links come from, at the start and after a stage was lost |
//! | `worker/` | a stage: from a received frame to the frame that it sends |
//! | `chain/` | the executor over all stages |
#![forbid(unsafe_code)]

mod block_copies;
mod chain;
mod fault;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod library;
mod link;
mod message;
mod source;
mod transport;
mod worker;

pub use chain::{ChainFacts, ChainOptions, StageChain};
pub use fault::{FaultKind, StageFault, StageName};
pub use frame::{
    FRAME_HEADER_BYTES, FRAME_VERSION, FrameContent, FrameHeader, FrameKind, StageFrame, TransportKind,
};
pub use identity::Identity;
pub use library::{SharedLibrary, StageLibrary, StageReach};
pub use message::times::StageTime;
pub use source::{PipelineDemand, PipelineLinks, PipelineSource};
#[cfg(unix)]
pub use transport::SocketTransport;
pub use transport::{Channel, PipelineTransport, TransportFault, ring};
pub use worker::{StageCounts, StageMeter, StageWorker, WorkerParts};
