//! From what a user typed to the file of a model.

use crate::failure::Failure;
use std::path::PathBuf;

/// The file of a reference; fetched if it is not on this machine.
#[cfg(feature = "hub")]
pub(crate) fn locate(model: &str) -> Result<PathBuf, Failure> {
    use crate::{interrupt, progress, report};
    use menagerie::hub::{Environment, Hub, ModelReference};

    let reference = ModelReference::parse(model)?;
    let hub = Hub::new(Environment::of_process());
    if let Some(path) = hub.locate(&reference)? {
        return Ok(path);
    }
    let _at_once = interrupt::at_once()?;
    let path = hub.pull(&reference, &mut progress::Bar::default())?;
    report::line(&format!("{model} is {}", path.display()));
    Ok(path)
}

/// The file of a path: this build fetches nothing.
#[cfg(not(feature = "hub"))]
pub(crate) fn locate(model: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(model);
    match std::fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) => {
            let reason = format!("{error}; this build knows files only (it lacks the feature `hub`)");
            Err(Failure::about(model, reason))
        }
    }
}
