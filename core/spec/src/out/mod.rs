//! The language and its specs for readers: reference page, JSON Schema, descriptions, listings, merged text.

pub(crate) mod described;
pub(crate) mod difference;
mod features;
mod merged_text;
pub(crate) mod outline;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod stated;
