//! [`chain_elsewhere`]: stages that other processes serve, found by a [`StageFinder`].

use super::identity::identity;
use super::whole::facts_of;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::resolved::ResolvedFile;
use crate::stage_options::{StageFinder, StageOptions, StageWish};
use menagerie_assembly::Assembly;
use menagerie_model::Compute;
use menagerie_stages::{SharedLibrary, StageChain, StageReach};
use std::sync::Arc;

/// A chain whose stages other processes serve. `whole` is the model over the mapped file, of which only the facts are used.
///
/// # Errors
/// The stages are not there, or do not agree.
pub(crate) fn chain_elsewhere(
    resolved: &ResolvedFile,
    whole: &Assembly,
    finder: &StageFinder,
    compute: &Compute,
    options: &LoadOptions,
) -> Result<StageChain, LoadError> {
    let file = resolved.file_name();
    let failed = |reason: String| LoadError::Stages { file: file.clone(), reason };
    let facts = facts_of(whole).ok_or_else(|| failed("an encoder cannot be split into stages".to_owned()))?;
    let stages = options.placement.stages.as_ref();
    let overlap = stages.map(|stages| stages.overlap).unwrap_or_default().of_machines();
    let waits = stages.map(StageOptions::chain).unwrap_or_default().with_overlap(overlap);
    let identity = identity(resolved, options, compute)?;
    let wish = StageWish {
        file: file.clone(),
        identity: identity.clone(),
        layers: resolved.config().layers.len(),
        credits: waits.credits.max(2 * overlap),
    };
    let source = (finder.0)(wish).map_err(failed)?;
    let shared = Arc::new(SharedLibrary::new(StageReach::OtherProcess));
    StageChain::over(source, facts, identity, shared, waits).map_err(|fault| match fault.stage.end {
        // No stage was found yet.
        0 => failed(fault.detail),
        _ => failed(fault.to_string()),
    })
}
