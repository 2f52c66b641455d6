//! Nine architectures against HF transformers in float32: prompt, greedy, long input; decode equals prefill; any chunk.

use crate::{Reference, distance, fixtures, rows};
use menagerie::engine::TextPipeline;
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use std::path::Path;

/// Tests of every base model, `base_models!(options)`.
#[macro_export]
macro_rules! base_models {
    ($options:expr) => {
        $crate::base_models! {
            $options; llama mixtral phi2 phi3 qwen2 qwen3 qwen3moe starcoder2 mistral3
        }
    };
    ($options:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::suite::base::Opened::new(stringify!($name), &$options).all();
            }
        )*

        #[test]
        fn every_base_model_is_listed() {
            $crate::suite::base::expect_fixtures(&[$(stringify!($name)),*]);
        }

        /// Decoding across `original_max_position_embeddings`: every step equals a full recomputation with the factors
        /// for its length, so the cache is computed again when the limit is crossed.
        #[test]
        fn phi3_crosses_its_original_context() {
            let opened = $crate::suite::base::Opened::new("phi3", &$options);
            opened.greedy("tokens_cross", "tokens_cross_greedy", "logits_cross_greedy");
        }
    };
}

/// 1e-4 is twice the noise between two honest f32 implementations on these models; longrope's long factors make it
/// 1e-4 to 2e-4 (HF against its own f64 run), hence 3e-4.
fn tolerance(name: &str) -> f32 {
    if name == "phi3" { 3e-4 } else { 1e-4 }
}

/// Suffix of the long references that decide for the GGUF, where implementations disagree.
fn long_of_gguf(name: &str) -> &'static str {
    match name {
        // The converter does not write the window: for the GGUF the model without it decides. (phi3's key
        // attention.sliding_window is in the file and HF applies it; llama.cpp ignores it.)
        "starcoder2" => "_nosw",
        _ => "",
    }
}

/// A base model, opened, and its reference.
pub struct Opened {
    name: &'static str,
    pipeline: LoadedModel<TextPipeline>,
    reference: Reference,
    /// Suffix of the long references that decide for the opened model.
    long: &'static str,
}

impl Opened {
    /// Opens the fixture of this name; there must be no notices.
    pub fn new(name: &'static str, options: &LoadOptions) -> Self {
        let path = fixtures().join("base").join(name).join("model-f32.gguf");
        Self { long: long_of_gguf(name), ..Self::at(name, &path, options) }
    }

    /// Opens the fixture of this name at another path: its Hugging Face folder, for which HF is always the reference.
    pub fn at(name: &'static str, path: &Path, options: &LoadOptions) -> Self {
        let folder = fixtures().join("base").join(name);
        let pipeline = ModelBuilder::new(path).with_options(options).open_text();
        let pipeline = pipeline.unwrap_or_else(|e| panic!("{e}"));
        assert!(pipeline.notices().is_empty(), "{:?}", pipeline.notices());
        let reference = Reference::open(&folder.join("reference.safetensors"));
        Self { name, pipeline, reference, long: "" }
    }

    fn rows(&self, tokens: &[u32], chunk: usize, decode_from: Option<usize>) -> Vec<Vec<f32>> {
        rows(
            &self.pipeline,
            tokens,
            &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from),
        )
    }

    fn check(&self, what: &str, rows: &[Vec<f32>], reference: &str) {
        let found = distance(rows, &self.reference.values(reference));
        let (name, tolerance) = (self.name, tolerance(self.name));
        assert!(
            found <= tolerance,
            "{name}, {what}: differs from {reference} by {found:e}, at most {tolerance:e}"
        );
    }

    /// Everything in the reference, through prefill and through the cache.
    pub fn all(&self) {
        let prompt = self.reference.ids("tokens_prompt");
        self.check("prompt", &self.rows(&prompt, 512, None), "logits_prompt");
        for chunk in [1, 7, 31] {
            self.check("prompt in chunks", &self.rows(&prompt, chunk, None), "logits_prompt");
        }
        self.check("prompt, decoded from 5", &self.rows(&prompt, 512, Some(5)), "logits_prompt");
        self.greedy("tokens_prompt", "tokens_greedy", "logits_greedy");
        let tokens = self.reference.ids("tokens_long");
        let positions = self.reference.ids("positions_long");
        let suffix = self.long;
        for (chunk, decode_from) in [(512, None), (64, None), (512, Some(tokens.len() - 20))] {
            let rows = self.rows(&tokens, chunk, decode_from);
            let wanted: Vec<Vec<f32>> = positions.iter().map(|&p| rows[p as usize].clone()).collect();
            self.check("long", &wanted, &format!("logits_long{suffix}"));
        }
        self.greedy("tokens_long", "tokens_long_greedy", &format!("logits_long_greedy{suffix}"));
    }

    /// Row 0 is the last row of the prompt; row i is the result of feeding token i - 1 through the cache.
    pub fn greedy(&self, prompt: &str, tokens: &str, logits: &str) {
        let mut all = self.reference.ids(prompt);
        let start = all.len();
        let generated = self.reference.ids(tokens);
        all.extend(&generated[..generated.len() - 1]);
        let rows = self.rows(&all, 512, Some(start));
        self.check("greedy", &rows[start - 1..], logits);
    }
}

/// Every folder of the base fixtures is one of these.
pub fn expect_fixtures(listed: &[&str]) {
    for entry in std::fs::read_dir(fixtures().join("base")).expect("a folder of fixtures") {
        let entry = entry.expect("a fixture");
        let name = entry.file_name().into_string().expect("a name");
        assert!(!entry.path().is_dir() || listed.contains(&name.as_str()), "{name} has no test");
    }
}
