//! X-LoRA over each architecture that it was published for, as templates of recipes. They become models with a base and
//! adapters (`menagerie run MODEL --xlora FOLDER`).
//!
//! X-LoRA also works over all other architectures, without a template.
#![forbid(unsafe_code)]

use menagerie_registry::{BuiltInRecipe, register};

/// Registers `recipes/<name>.recipe.toml` for each name.
macro_rules! built_in {
    ($($name:literal)*) => {
        $(register!(BuiltInRecipe {
            name: $name,
            text: include_str!(concat!("../recipes/", $name, ".recipe.toml")),
            registered_by: env!("CARGO_PKG_NAME"),
        });)*
    };
}

built_in! {
    "XLoraGemma" "XLoraGemma2" "XLoraLlama" "XLoraPhi2" "XLoraPhi3" "XLoraQwen2" "XLoraQwen3" "XLoraStarcoder2"
}
