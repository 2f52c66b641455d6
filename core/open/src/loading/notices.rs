//! [`notices()`]: what every load reports, whatever the model is opened for.

use crate::notice::Notice;
use crate::options::{AdapterOption, PlacementOptions};
use crate::request::LoadRequest;
use crate::resolved::ResolvedFile;
use crate::text::TextCapabilities;
use menagerie_model::Compute;

/// Notices of the file and its spec, of the tables of spec folders, of the device, of options that have no effect, and of
/// the recipe.
pub(crate) fn notices(
    resolved: &ResolvedFile,
    text: &TextCapabilities,
    compute: &Compute,
    request: &LoadRequest,
) -> Vec<Notice> {
    let mut notices = resolved.notices();
    notices.extend(text.notices.iter().cloned());
    notices.extend(compute.backend.notes().into_iter().map(Notice::Note));
    let PlacementOptions { device, threads, .. } = &request.options.placement;
    notices.extend(device.thread_notice(resolved.environment.entries(), *threads));
    notices.extend(recipe_notice(resolved, request));
    notices
}

/// What a recipe combines.
fn recipe_notice(resolved: &ResolvedFile, request: &LoadRequest) -> Option<Notice> {
    let recipes = (!request.recipes.is_empty()).then(|| request.recipes.join(" over "))?;
    let file = resolved.file_name();
    let adapter = |one: &AdapterOption| format!("{} {}", one.kind.name(), one.path.display());
    let adapters = request.options.composition.adapters.iter().map(adapter);
    let parts: Vec<String> = std::iter::once(file).chain(adapters).collect();
    Some(Notice::Note(format!("recipe {recipes}: {}", parts.join(" with "))))
}
