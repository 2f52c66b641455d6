//! Quantized files against HF on the dequantized weights: within a tolerance in `exact`, KL below 0.03 in `fast`.

use crate::{Reference, distance, divergence, fixtures, rows};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, ModelBuilder};

/// Tests of every quantized file, `quantized_files!(tolerance in exact, options in exact, options in fast)`.
#[macro_export]
macro_rules! quantized_files {
    ($tolerance:expr, $exact:expr, $fast:expr) => {
        $crate::quantized_files! {
            $tolerance, $exact, $fast;
            f16 => "F16";
            bf16 => "BF16";
            q4_0 => "Q4_0";
            q4_1 => "Q4_1";
            q5_0 => "Q5_0";
            q5_1 => "Q5_1";
            q8_0 => "Q8_0";
            q2_k => "Q2_K";
            q3_k_s => "Q3_K_S";
            q4_k_m => "Q4_K_M";
            q5_k_m => "Q5_K_M";
            q6_k => "Q6_K";
            iq4_nl => "IQ4_NL";
            iq4_xs => "IQ4_XS";
        }
    };
    ($tolerance:expr, $exact:expr, $fast:expr; $($test:ident => $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                $crate::suite::quantized::exact($name, $tolerance, &$exact);
                $crate::suite::quantized::fast($name, &$fast);
            }
        )*

        #[test]
        fn every_quantized_file_is_listed() {
            $crate::suite::quantized::expect_fixtures(&[$($name),*]);
        }
    };
}

/// The name of a comparison, our rows, and the reference's values.
type Compared = (&'static str, Vec<Vec<f32>>, Vec<f32>);

/// Prompt rows and greedy rows (row 0 = last prompt row), each through prefill and through the cache, with the
/// reference's values.
fn logits(name: &str, options: &LoadOptions) -> [Compared; 2] {
    let folder = fixtures().join("quant");
    let pipeline = ModelBuilder::new(folder.join(format!("{name}.gguf"))).with_options(options).open_text();
    let pipeline = pipeline.unwrap_or_else(|e| panic!("{e}"));
    let reference = Reference::open(&folder.join(format!("{name}.reference.safetensors")));
    let mut tokens = reference.ids("tokens_prompt");
    let start = tokens.len();
    let prompt = rows(&pipeline, &tokens, &LogitsOptions::default().with_chunk(512));
    let greedy = reference.ids("tokens_greedy");
    tokens.extend(&greedy[..greedy.len() - 1]);
    let all = rows(&pipeline, &tokens, &LogitsOptions::default().with_chunk(512).with_decode_from(start));
    [
        ("prompt", prompt, reference.values("logits_dequant_prompt")),
        ("greedy", all[start - 1..].to_vec(), reference.values("logits_dequant_greedy")),
    ]
}

/// Logits in `exact` equal the reference's within `tolerance`.
pub fn exact(name: &str, tolerance: f32, options: &LoadOptions) {
    for (what, ours, wanted) in logits(name, options) {
        let found = distance(&ours, &wanted);
        assert!(found <= tolerance, "{name}, exact, {what}: differs by {found:e}, at most {tolerance:e}");
    }
}

/// Distributions in `fast` are near the reference's.
pub fn fast(name: &str, options: &LoadOptions) {
    for (what, ours, wanted) in logits(name, options) {
        let found = divergence(&ours, &wanted);
        assert!(found < 0.03, "{name}, fast, {what}: KL {found:e}, below 0.03");
    }
}

/// Every quantized file is one of these.
pub fn expect_fixtures(listed: &[&str]) {
    for entry in std::fs::read_dir(fixtures().join("quant")).expect("a folder of fixtures") {
        let name = entry.expect("a fixture").file_name().into_string().expect("a name");
        if let Some(name) = name.strip_suffix(".gguf") {
            assert!(listed.contains(&name), "{name}.gguf has no test");
        }
    }
}
