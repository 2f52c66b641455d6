//! [`PipelineTransport`]: passes frames from one stage to the next.

mod channel;
#[cfg(unix)]
mod socket;

pub use channel::{Channel, ring};
#[cfg(unix)]
pub use socket::SocketTransport;

use crate::frame::{StageFrame, TransportKind};
use std::time::Instant;

/// Why a transport failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportFault {
    /// The other end is gone.
    #[error("the other end is gone")]
    Closed,
    /// The other end accepted nothing until the deadline.
    #[error("the other end accepted nothing until the deadline")]
    Full,
    /// The received bytes are not a frame.
    #[error("{0}")]
    Broken(String),
    /// An error of the system.
    #[error("{0}")]
    System(String),
}

/// The two links of a stage: from the previous stage, and to the next one. It keeps the order of frames and is bounded. The
/// layer above detects frames that are lost, duplicated or damaged, and does not know where the other stages are.
pub trait PipelineTransport: Send {
    /// Whether frames leave the process; the same at both ends.
    fn kind(&self) -> TransportKind;

    /// Sends a frame to the next stage.
    ///
    /// # Errors
    /// The next stage is gone, or accepts nothing until `by`.
    fn send(&mut self, frame: StageFrame, by: Instant) -> Result<(), TransportFault>;

    /// Receives the next frame of the previous stage; `None` if nothing arrives until `by`.
    ///
    /// # Errors
    /// The previous stage is gone, or sends something that is not a frame.
    fn receive(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault>;

    /// Sends a frame without rows back to the previous stage, without waiting.
    ///
    /// # Errors
    /// The previous stage is gone.
    fn send_back(&mut self, frame: StageFrame) -> Result<(), TransportFault>;

    /// Receives the next frame that the next stage sent back; `None` if nothing arrives until `by`.
    ///
    /// # Errors
    /// The next stage is gone, or sends something that is not a frame.
    fn receive_back(&mut self, by: Instant) -> Result<Option<StageFrame>, TransportFault>;
}
