//! The built-in architectures that are a spec and nothing else: embeds and registers `specs/<id>.toml`, one per line.
//!
//! `specs` of this package is a link to the folder of the same name, so that the package is whole. To build in a new
//! architecture: put its spec there and its id below.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Registers `specs/<id>.toml` for each id.
macro_rules! built_in {
    ($($id:literal)*) => {
        /// The ids that are registered here, in the order of the list.
        pub const IDS: &[&str] = &[$($id),*];

        $(register!(Architecture {
            name: GGUFArchitecture::from_static($id),
            spec: include_str!(concat!("../specs/", $id, ".toml")),
            registered_by: env!("CARGO_PKG_NAME"),
        });)*
    };
}

built_in! {
    "arcee" "baichuan" "bailingmoe" "bailingmoe2" "chatglm" "codeshell" "cogvlm" "cohere2" "cohere2moe"
    "command-r" "dbrx" "deci" "deepseek" "deepseek2-ocr" "dots1" "ernie4_5" "ernie4_5-moe" "exaone"
    "exaone-moe" "exaone4" "falcon" "gemma" "gemma2" "gemma3" "glm4" "glm4moe" "gpt2" "gptneox" "granite"
    "granite_swa" "grok" "hunyuan-dense" "hunyuan-moe" "hunyuan_vl" "hy_v3" "internlm2" "jais2" "lfm2"
    "lfm2moe" "llama4" "maincoder" "mellum" "mimo2" "minicpm" "minimax-m2" "nemotron" "olmo" "olmo2" "olmoe"
    "openelm" "orion" "paddleocr" "pangu-embedded" "plamo" "plamo3" "qwen" "qwen2moe" "qwen2vl" "qwen3vl"
    "qwen3vlmoe" "seed_oss" "smallthinker" "smollm3" "stablelm" "starcoder" "xverse"
}
