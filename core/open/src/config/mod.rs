//! How a model is opened: options, device, recipes, and what lies beside the model's file.

mod beside;
mod device;
mod options;
mod recipe;

pub use beside::Beside;
pub use device::{Device, DeviceLine, DeviceName, DeviceOptions, devices};
pub use options::{GivenAdapter, GivenTemplate, KeyOptions, LoadOptions, LoadWrapper};
pub(crate) use recipe::applied;
pub use recipe::{FilesOnly, Ingredients, Locate, is_recipe};
