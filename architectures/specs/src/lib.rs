//! The built-in architectures that consist of a spec alone: embeds and registers `specs/<id>.toml`.
//!
//! `specs` in this package is a link to the folder of the same name, so that the package is complete. To add a built-in
//! architecture, put its spec there and its id below.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Registers `specs/<id>.toml` for each id.
macro_rules! built_in {
    ($($id:literal)*) => {
        /// The registered ids, in the order of the list.
        pub const IDS: &[&str] = &[$($id),*];

        $(register!(Architecture {
            name: GGUFArchitecture::from_static($id),
            spec: include_str!(concat!("../specs/", $id, ".toml")),
            registered_by: env!("CARGO_PKG_NAME"),
        });)*
    };
}

built_in! {
    "afmoe" "apertus" "arcee" "arctic" "baichuan" "bailingmoe" "bailingmoe2" "bert" "bitnet" "bloom"
    "chameleon" "chatglm" "codeshell" "cogvlm" "cohere2" "cohere2moe" "command-r" "dbrx" "deci" "deepseek"
    "deepseek2" "deepseek2-ocr" "dots1" "dream" "ernie4_5" "ernie4_5-moe" "eurobert" "exaone" "exaone-moe"
    "exaone4" "falcon" "falcon-h1" "gemma" "gemma-embedding" "gemma2" "gemma3" "gemma4" "glm4" "glm4moe"
    "gpt-oss" "gpt2" "gptneox" "granite" "granite_swa" "granitehybrid" "grok" "hrm_text" "hunyuan-dense"
    "hunyuan-moe" "hunyuan_vl" "hy_v3" "internlm2" "jais" "jais2" "jamba" "jina-bert-v2" "jina-bert-v3"
    "kimi-linear" "laguna" "lfm2" "lfm2moe" "llada" "llada-moe" "llama-embed" "llama4" "maincoder" "mamba"
    "mamba2" "maple" "mellum" "mimo2" "minicpm" "minicpm3" "minimax-m2" "mistral4" "modern-bert" "mpt"
    "muse-glimmer" "nanbeige" "nemotron" "nemotron_h" "nemotron_h_moe" "neo-bert" "nomic-bert"
    "nomic-bert-moe" "olmo" "olmo2" "olmoe" "openelm" "orion" "paddleocr" "pangu-embedded" "phimoe" "plamo"
    "plamo2" "plamo3" "plm" "qwen" "qwen2moe" "qwen2vl" "qwen35" "qwen35moe" "qwen3next" "qwen3vl"
    "qwen3vlmoe" "refact" "rnd1" "seed_oss" "smallthinker" "smollm3" "spark2_5" "stablelm" "starcoder"
    "step35" "t5encoder" "talkie" "xverse"
}
