//! [`notices()`]: what every load must say, whatever the model is opened for.

use crate::notice::Notice;
use crate::options::{AdapterOption, LoadOptions};
use crate::resolved::ResolvedFile;
use crate::text::Text;
use menagerie_model::Compute;

/// What is to be said of the file and its spec, of the tables of spec folders, of the device, of the recipe and of options that
/// change nothing.
pub(crate) fn notices(
    resolved: &ResolvedFile,
    text: &Text,
    compute: &Compute,
    options: &LoadOptions,
) -> Vec<Notice> {
    let mut notices = resolved.notices();
    notices.extend(text.notices.iter().cloned());
    notices.extend(compute.backend.notes().into_iter().map(Notice::Note));
    notices.extend(options.device.thread_notice(resolved.environment.entries(), options.threads));
    notices.extend(recipe_notice(resolved, options));
    notices
}

/// What a recipe made of the file.
fn recipe_notice(resolved: &ResolvedFile, options: &LoadOptions) -> Option<Notice> {
    let recipes = (!options.recipes.is_empty()).then(|| options.recipes.join(" over "))?;
    let file = resolved.file_name();
    let adapter = |one: &AdapterOption| format!("{} {}", one.kind.name(), one.path.display());
    let parts: Vec<String> = std::iter::once(file).chain(options.adapters.iter().map(adapter)).collect();
    Some(Notice::Note(format!("recipe {recipes}: {}", parts.join(" with "))))
}
