//! Descriptions of models, recipes, adapters and specs for `show`, `list` and `spec explain`, and what `lens` read.

pub(crate) mod adapter_listing;
pub(crate) mod block_svg;
pub(crate) mod lens_listing;
pub(crate) mod model_summary;
pub(crate) mod plugin_parts;
pub(crate) mod recipe_listing;
