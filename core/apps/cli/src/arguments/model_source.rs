//! [`find_source`]: from a model argument to the files of the model, including those of a recipe.

use crate::arguments::model_file::locate;
#[cfg(feature = "serve")]
use crate::arguments::model_file::locate_here;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::{Failure, LocateFailure};
use menagerie::open::{Locate, ModelSource};
use menagerie::registry::{Environment, RecipeEntry};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Finds the files of a model, or of a recipe and its base; downloads those that are not on this machine.
pub(crate) fn find_source(
    model: &NameOrPath,
    specs: &SpecArguments,
    environment: &Environment,
) -> Result<ModelSource, Failure> {
    Ok(ModelSource::find(model.path(), environment, Some(&Downloader(specs)))?)
}

/// Finds the files of a model, or of a recipe and its base, on this machine: nothing is downloaded.
#[cfg(feature = "serve")]
pub(crate) fn find_here(
    model: &NameOrPath,
    specs: &SpecArguments,
    environment: &Environment,
) -> Result<ModelSource, Failure> {
    Ok(ModelSource::find(model.path(), environment, Some(&ModelsHere(specs)))?)
}

/// Finds models that are on this machine.
#[cfg(feature = "serve")]
struct ModelsHere<'a>(&'a SpecArguments);

#[cfg(feature = "serve")]
impl Locate for ModelsHere<'_> {
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        let model = NameOrPath::from(reference.as_os_str().to_owned());
        locate_here(&model, self.0).map_err(|failure| LocateFailure(failure).into())
    }

    #[cfg(feature = "hub")]
    fn is_model_name(&self, name: &str) -> bool {
        Downloader(self.0).is_model_name(name)
    }
}

/// The recipe of a file or of a name in the environment; `None` if the argument is something else.
pub(crate) fn find_recipe(
    model: &NameOrPath,
    specs: &SpecArguments,
    environment: &Environment,
) -> Result<Option<RecipeEntry>, Failure> {
    Ok(menagerie::open::find_recipe(model.path(), environment, Some(&Downloader(specs)))?)
}

/// Downloads models that are not on this machine.
struct Downloader<'a>(&'a SpecArguments);

impl Locate for Downloader<'_> {
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        let model = NameOrPath::from(reference.as_os_str().to_owned());
        locate(&model, self.0).map_err(|failure| LocateFailure(failure).into())
    }

    #[cfg(feature = "hub")]
    fn is_model_name(&self, name: &str) -> bool {
        let names = crate::arguments::model_names::ModelNames::read(self.0);
        names.is_ok_and(|names| names.hub().reference(name).is_ok())
    }
}
