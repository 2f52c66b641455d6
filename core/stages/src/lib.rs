//! A model split into stages: each computes its layers, keeps their states, and sends frames to the next.
//!
//! [`StageChain`] is an [`menagerie_model::Executor`] like a whole model. A step goes down the chain as a [`Frame`]: where the
//! sequences lie ([`menagerie_model::Placement`]), tokens, positions, rope regimes, adapter sets, what happened to the memory
//! of states since the step before ([`StateChange`]), and the rows that layers hand on. Each stage is a [`StageWorker`], whose
//! `StageWorker::execute_stage` serves every model; the last one sends logits back to the chain.
//!
//! The pool of the chain keeps tables and no memory; the pools of the stages keep memory and are told where everything
//! lies. What the scheduler does to sequences therefore reaches every stage, whatever it is, or is refused.
//!
//! Hooks act where their layers are: on threads the hooks themselves, in processes copies of those that can be copied
//! ([`menagerie_model::SerializableHook`]). What copies keep, and the times of a trace, the chain asks for when somebody wants them.
//!
//! Everything is checked on receipt: numbers of frames, their sums, sizes, epochs, and that rows are numbers. What is
//! missing, late, doubled, out of order or broken is a [`StageFault`] that names stage, layers, request and position.
//! Frames travel over a [`PipelineTransport`]; nothing above it knows where the other end is.
#![forbid(unsafe_code)]

mod bytes;
mod chain;
mod change;
mod channel;
mod crc;
mod fault;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod hook_message;
mod identity;
mod library;
mod link;
mod open;
mod row_fault;
mod section;
mod session;
#[cfg(unix)]
mod socket;
mod states;
mod step;
mod times;
mod trace_message;
mod transport;
mod worker;

pub use chain::{ChainFacts, ChainOptions, StageChain};
pub use change::StateChange;
pub use channel::{Channel, ring};
pub use fault::{FaultKind, StageFault, StageName};
pub use frame::{Content, Frame, FrameKind, HEADER_BYTES, Header, MOST_BYTES};
pub use identity::Identity;
pub use library::{Shared, StageLibrary, StageReach};
#[cfg(unix)]
pub use socket::SocketTransport;
pub use times::StageTime;
pub use transport::{Carriage, PipelineTransport, TransportFault};
pub use worker::{StageWorker, WorkerParts};
