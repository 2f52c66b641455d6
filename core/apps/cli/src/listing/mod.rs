//! Descriptions of models, recipes, adapters and specs for `show`, `list` and `spec explain`.

pub(crate) mod adapter_listing;
pub(crate) mod block_svg;
pub(crate) mod model_summary;
pub(crate) mod plugin_parts;
pub(crate) mod recipe_listing;
