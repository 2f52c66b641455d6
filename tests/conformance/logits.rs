//! Nine architectures against HF transformers in float32: prompt, greedy, long input; decode equals prefill; any chunk.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::kernels::Arithmetic;
use menagerie::pipeline::{LogitsOptions, TextPipeline};
use menagerie_conformance::{Reference, distance, fixtures, options, rows};

/// A fixture, and what is the truth for its GGUF where implementations disagree.
struct Case {
    name: &'static str,
    tolerance: f32,
    /// Suffix or prefix of the long reference: `{}` stands for `logits_long` and `logits_long_greedy`.
    long: &'static str,
}

/// 1e-4 is twice the noise between two honest f32 implementations on these models; longrope's long factors make it
/// 1e-4 to 2e-4 (HF against its own f64 run), hence 3e-4.
const fn case(name: &'static str) -> Case {
    Case { name, tolerance: 1e-4, long: "{}" }
}

struct Opened {
    case: Case,
    pipeline: TextPipeline,
    reference: Reference,
}

impl Opened {
    fn new(case: Case) -> Self {
        let folder = fixtures().join("base").join(case.name);
        let pipeline = TextPipeline::open(&folder.join("model-f32.gguf"), &options(Arithmetic::Fast));
        let pipeline = pipeline.unwrap_or_else(|e| panic!("{e}"));
        assert!(pipeline.notices().is_empty(), "{:?}", pipeline.notices());
        Self { pipeline, reference: Reference::open(&folder.join("reference.safetensors")), case }
    }

    fn rows(&self, tokens: &[u32], chunk: usize, decode_from: Option<usize>) -> Vec<Vec<f32>> {
        rows(&self.pipeline, tokens, &LogitsOptions { chunk: Some(chunk), decode_from })
    }

    fn check(&self, what: &str, rows: &[Vec<f32>], reference: &str) {
        let found = distance(rows, &self.reference.values(reference));
        let Case { name, tolerance, .. } = self.case;
        assert!(
            found <= tolerance,
            "{name}, {what}: differs from {reference} by {found:e}, at most {tolerance:e}"
        );
    }

    fn all(&self) {
        let prompt = self.reference.ids("tokens_prompt");
        let whole = self.rows(&prompt, 512, None);
        self.check("prompt", &whole, "logits_prompt");
        for chunk in [1, 7, 31] {
            self.check("prompt in chunks", &self.rows(&prompt, chunk, None), "logits_prompt");
        }
        self.check("prompt, decoded from 5", &self.rows(&prompt, 512, Some(5)), "logits_prompt");
        self.greedy("tokens_prompt", "tokens_greedy", "logits_greedy");
        let long = self.reference.ids("tokens_long");
        let positions = self.reference.ids("positions_long");
        for (chunk, decode_from) in [(512, None), (64, None), (512, Some(long.len() - 20))] {
            let rows = self.rows(&long, chunk, decode_from);
            let wanted: Vec<Vec<f32>> = positions.iter().map(|&p| rows[p as usize].clone()).collect();
            self.check("long", &wanted, &self.case.long.replace("{}", "logits_long"));
        }
        self.greedy("tokens_long", "tokens_long_greedy", &self.case.long.replace("{}", "logits_long_greedy"));
    }

    /// Row 0 is the last row of the prompt; row i follows from feeding token i - 1 through the cache.
    fn greedy(&self, prompt: &str, tokens: &str, logits: &str) {
        let mut all = self.reference.ids(prompt);
        let start = all.len();
        let generated = self.reference.ids(tokens);
        all.extend(&generated[..generated.len() - 1]);
        let rows = self.rows(&all, 512, Some(start));
        self.check("greedy", &rows[start - 1..], logits);
    }
}

macro_rules! cases {
    ($($test:ident => $case:expr;)*) => { $(
        #[test]
        fn $test() {
            Opened::new($case).all();
        }
    )* };
}

cases! {
    llama => case("llama");
    mixtral => case("mixtral");
    phi2 => case("phi2");
    // The key attention.sliding_window is in the file and HF applies it; llama.cpp ignores it.
    phi3 => Case { tolerance: 3e-4, ..case("phi3") };
    qwen2 => case("qwen2");
    qwen3 => case("qwen3");
    qwen3moe => case("qwen3moe");
    // The converter does not write the window: for the GGUF the truth is the model without it.
    starcoder2 => Case { long: "{}_nosw", ..case("starcoder2") };
    mistral3 => case("mistral3");
}

/// Decoding across `original_max_position_embeddings`: every step equals a full recompute with the factors that its
/// length calls for, so the cache is made again when the limit is crossed.
#[test]
fn phi3_crosses_its_original_context() {
    let opened = Opened::new(Case { tolerance: 3e-4, ..case("phi3") });
    opened.greedy("tokens_cross", "tokens_cross_greedy", "logits_cross_greedy");
}
