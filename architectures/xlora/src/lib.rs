//! X-LoRA over each architecture it was published for: forms of recipes, which are no models until a base and adapters are
//! named (`menagerie run MODEL --xlora FOLDER`).
//!
//! X-LoRA works over every other architecture too: nothing here is needed for it.
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
