//! Hugging Face folders: config.json to canonical keys, and names of roles in both directions.

mod config;
mod every_class;
mod keys;
mod names;
mod rope;
mod values;
mod wrapped;

pub use config::HfConfig;
pub use keys::{HfKeys, RowTimes};
pub use names::{HfOrigin, HfPart, HfPlace};
pub use wrapped::{unwrapped, wrapping_classes};
