//! [`identity()`]: the model, options and program that results depend on.

use crate::arguments::plugins::plugin_names;
use crate::failure::Failure;
use menagerie::engine::{Cacheable, EmbeddingPipeline};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use serde_json::{Map, Value, json};

/// Everything besides the request that an answer depends on, as JSON: what a state depends on, and the program.
///
/// # Errors
/// A file can no longer be read.
pub(crate) fn identity(
    pipeline: &impl Cacheable,
    installed: &Environment,
) -> Result<Map<String, Value>, Failure> {
    said(json!(pipeline.state_identity()?.with_plugins(plugin_names(installed))))
}

/// The same for an embedding model.
///
/// # Errors
/// As [`identity`].
pub(crate) fn vectors_identity(
    pipeline: &LoadedModel<EmbeddingPipeline>,
    installed: &Environment,
) -> Result<Map<String, Value>, Failure> {
    let mut identity = said(json!(pipeline.resolved().fingerprint()?))?;
    identity.insert("device".to_owned(), pipeline.engine().compute.backend.name().into());
    identity.insert("context".to_owned(), pipeline.engine().context.into());
    identity.insert("plugins".to_owned(), json!(plugin_names(installed)));
    Ok(identity)
}

fn said(identity: Value) -> Result<Map<String, Value>, Failure> {
    let mut identity: Map<String, Value> = serde_json::from_value(identity)?;
    identity.insert("made_by".to_owned(), crate::version::short().into());
    Ok(identity)
}
