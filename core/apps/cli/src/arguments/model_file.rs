//! [`locate()`]: from a model argument to the model's file.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use std::path::PathBuf;

/// The file of a path, a short name (built in, or from a table in a spec folder) or a repository, downloaded if it is not
/// on this machine.
#[cfg(feature = "hub")]
pub(crate) fn locate(model: &NameOrPath, specs: &SpecArguments) -> Result<PathBuf, Failure> {
    use crate::interrupt;
    use crate::screen::{progress, report};
    use menagerie::files::path_text;
    use menagerie::hub::{Hub, HubSettings};

    let (hub, reference) = (Hub::new(HubSettings::of_process()), reference(model, specs)?);
    if let Some(path) = hub.locate(&reference)? {
        return Ok(path);
    }
    let _at_once = interrupt::at_once()?;
    let path = hub.pull(&reference, &mut progress::Bar::default())?;
    report::line(&format!("{model} is {}", path_text(&path)));
    Ok(path)
}

/// The file of a model that is on this machine.
#[cfg(all(feature = "hub", feature = "serve"))]
pub(crate) fn locate_here(model: &NameOrPath, specs: &SpecArguments) -> Result<PathBuf, Failure> {
    use menagerie::hub::{Hub, HubSettings};
    let found = Hub::new(HubSettings::of_process()).locate(&reference(model, specs)?)?;
    found.ok_or_else(|| {
        let help = format!("`menagerie pull {model}` downloads it");
        Failure::about(model, "it is not on this machine").with_help(&help)
    })
}

/// The file of a model: without downloads all models are on this machine.
#[cfg(all(not(feature = "hub"), feature = "serve"))]
pub(crate) fn locate_here(model: &NameOrPath, specs: &SpecArguments) -> Result<PathBuf, Failure> {
    locate(model, specs)
}

/// What an argument names.
#[cfg(feature = "hub")]
fn reference(model: &NameOrPath, specs: &SpecArguments) -> Result<menagerie::hub::ModelReference, Failure> {
    use crate::arguments::model_names::ModelNames;
    use menagerie::hub::ModelReference;
    // A path needs no table, so an invalid table must not make it fail.
    match ModelReference::path(model.path()) {
        Some(path) => Ok(ModelReference::Path(path)),
        None => ModelNames::read(specs)?.reference(model),
    }
}

/// The file of a path: this build cannot download.
#[cfg(not(feature = "hub"))]
pub(crate) fn locate(model: &NameOrPath, _specs: &SpecArguments) -> Result<PathBuf, Failure> {
    let path = model.path().to_owned();
    match std::fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) => {
            let reason = format!("{error}; this build supports files only (it lacks the feature `hub`)");
            Err(Failure::about(model, reason))
        }
    }
}
