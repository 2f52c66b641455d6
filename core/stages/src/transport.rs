//! [`PipelineTransport`]: how frames get from one stage to the next.

use crate::frame::Frame;
use std::time::Instant;

/// Why a transport cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// The other end is gone.
    #[error("the other end is gone")]
    Closed,
    /// The other end took nothing until the deadline.
    #[error("the other end took nothing until the deadline")]
    Full,
    /// What arrived is no frame.
    #[error("{0}")]
    Broken(String),
    /// What the system reports.
    #[error("{0}")]
    System(String),
}

/// Whether what a transport carries can change on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// It stays in the memory of one process: rows are handed over as they are, and the checksum is that of the header.
    InMemory,
    /// It leaves the process: everything is bytes, and the checksum is that of all of them.
    Travels,
}

/// The two links of a stage: from the stage before it, and to the next one. It keeps the order and is bounded; that
/// nothing is lost, doubled or changed is checked above it, and nothing above it knows where the others are.
pub trait PipelineTransport: Send {
    /// Whether what it carries can change on its way; the same at both ends.
    fn carriage(&self) -> Carriage;

    /// Gives a frame to the next stage.
    ///
    /// # Errors
    /// The next stage is gone, or has no room until `by`.
    fn send(&mut self, frame: Frame, by: Instant) -> Result<(), TransportFault>;

    /// The next frame of the stage before; none if nothing comes until `by`.
    ///
    /// # Errors
    /// The stage before is gone, or what it sends is no frame.
    fn receive(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault>;

    /// Gives a frame without payload back to the stage before, without waiting.
    ///
    /// # Errors
    /// The stage before is gone.
    fn send_back(&mut self, frame: Frame) -> Result<(), TransportFault>;

    /// The next frame that the next stage gave back; none if nothing comes until `by`.
    ///
    /// # Errors
    /// The next stage is gone, or what it sends is no frame.
    fn receive_back(&mut self, by: Instant) -> Result<Option<Frame>, TransportFault>;
}
