//! X-LoRA over each architecture it was published for: forms of recipes, which are no models until a base and adapters are
//! named (`menagerie run MODEL --xlora FOLDER`).
//!
//! X-LoRA works over every other architecture too: nothing here is needed for it.
#![forbid(unsafe_code)]

use menagerie_registry::{BuiltInRecipe, register};

register!(BuiltInRecipe {
    name: "XLoraGemma",
    text: include_str!("../recipes/XLoraGemma.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraGemma2",
    text: include_str!("../recipes/XLoraGemma2.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraLlama",
    text: include_str!("../recipes/XLoraLlama.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraPhi2",
    text: include_str!("../recipes/XLoraPhi2.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraPhi3",
    text: include_str!("../recipes/XLoraPhi3.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraQwen2",
    text: include_str!("../recipes/XLoraQwen2.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraQwen3",
    text: include_str!("../recipes/XLoraQwen3.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
register!(BuiltInRecipe {
    name: "XLoraStarcoder2",
    text: include_str!("../recipes/XLoraStarcoder2.recipe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
