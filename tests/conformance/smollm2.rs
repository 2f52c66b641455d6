//! SmolLM2-135M-Instruct: prompts tokenize as in llama.cpp and greedy text equals llama.cpp's from the same file.
//!
//! Needs the real model (`menagerie pull smollm2`, 98 MB); where it is not on the machine, the tests say that they are
//! ignored. A binary without the test harness, so that this is seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::Arithmetic;
use menagerie::measure::{Against, PerplexityOptions, TextChunks, perplexity};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_conformance::suite::greedy::{Choice, choices, expect, located};
use menagerie_conformance::{root, runner};
use std::process::ExitCode;

fn of_smollm2(arithmetic: Arithmetic, run: &str) -> Vec<Choice> {
    let choices = choices("smollm2", arithmetic, run);
    assert!(choices.len() > 580, "only {} tokens were compared", choices.len());
    choices
}

/// f32 arithmetic on both sides: only a near tie may fall the other way.
fn exact_text_is_that_of_the_f32_reference() {
    expect(&of_smollm2(Arithmetic::Exact, "f32"), 0.99, 0.01);
}

/// 8-bit activations move leads: by up to 0.6 between llama.cpp's own two ways, whose choices then part at leads below 0.5.
fn fast_text_is_that_of_stock_llama_cpp() {
    expect(&of_smollm2(Arithmetic::Fast, "stock"), 0.95, 0.5);
}

/// Two chunks of a text score what llama.cpp gives them (`tests/reference/make_perplexity.py`).
fn perplexity_is(arithmetic: Arithmetic, reference: &str, most: f64) {
    let read =
        |name: &str| std::fs::read_to_string(root().join("tests/fixtures/perplexity").join(name)).unwrap();
    let recorded: serde_json::Value = serde_json::from_str(&read("smollm2.json")).unwrap();
    let expected = recorded["models"][reference]["running"][1].as_f64().unwrap();
    let options = LoadOptions::default().with_arithmetic(arithmetic).with_context(512);
    let pipeline = ModelBuilder::new(located("smollm2").unwrap()).with_options(&options).open_text().unwrap();
    let text = read("coriolanus.txt");
    let chunks =
        TextChunks::of_text(&**pipeline.tokenizer().unwrap(), text.trim_end_matches('\n'), 512, Some(2));
    let chunks = chunks.unwrap();
    let options = PerplexityOptions::default();
    let made = perplexity(&pipeline, &chunks, Against::Nothing, &options, &mut |_| {}).unwrap();
    let off = made.perplexity.value / expected - 1.0;
    assert!(off.abs() < most, "{} instead of {expected}", made.perplexity.value);
}

/// The file's weights dequantized, f32 arithmetic on both sides: within 0.1 %.
fn exact_perplexity_is_that_of_the_f32_reference() {
    perplexity_is(Arithmetic::Exact, "f32", 1e-3);
}

/// Activations of 8 bits on both sides: within 0.5 %.
fn fast_perplexity_is_that_of_stock_llama_cpp() {
    perplexity_is(Arithmetic::Fast, "stock", 5e-3);
}

fn main() -> ExitCode {
    let missing = located("smollm2").is_none().then_some("SmolLM2: `menagerie pull smollm2` fetches it");
    runner::run(
        &[
            ("exact_text_is_that_of_the_f32_reference", exact_text_is_that_of_the_f32_reference),
            ("fast_text_is_that_of_stock_llama_cpp", fast_text_is_that_of_stock_llama_cpp),
            ("exact_perplexity_is_that_of_the_f32_reference", exact_perplexity_is_that_of_the_f32_reference),
            ("fast_perplexity_is_that_of_stock_llama_cpp", fast_perplexity_is_that_of_stock_llama_cpp),
        ],
        missing,
    )
}
