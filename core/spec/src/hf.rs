//! The Hugging Face side: config.json to canonical keys, and names of roles in both directions.

mod config;
mod every_class;
mod keys;
mod names;
mod rope;
mod values;

pub use config::HfConfig;
pub use keys::HfKeys;
pub use names::{HfOrigin, HfPart, HfPlace};
