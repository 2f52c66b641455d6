//! Gemma 3 270M, from its built-in spec: prompts tokenize as in llama.cpp and greedy text equals llama.cpp's from the same file.
//!
//! Needs the real model (`menagerie pull gemma3-270m`, 253 MB); where it is not on the machine, the tests say that they are
//! ignored. A binary without the test harness, so that this is seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::Arithmetic;
use menagerie_conformance::runner;
use menagerie_conformance::suite::greedy::{Choice, choices, expect, located};
use std::process::ExitCode;

fn of_gemma(arithmetic: Arithmetic, run: &str) -> Vec<Choice> {
    let choices = choices("gemma3-270m", arithmetic, run);
    assert_eq!(choices.len(), 8 * 48);
    choices
}

/// f32 arithmetic on both sides, 40 tokens of eight prompts: only a near tie may fall the other way.
fn forty_tokens_are_those_of_the_f32_reference() {
    let choices: Vec<Choice> =
        of_gemma(Arithmetic::Exact, "f32").into_iter().filter(|choice| choice.step < 40).collect();
    expect(&choices, 0.99, 0.01);
}

/// 8-bit activations move leads, of llama.cpp's own two ways too.
fn fast_text_is_that_of_stock_llama_cpp() {
    expect(&of_gemma(Arithmetic::Fast, "stock"), 0.95, 0.5);
}

fn main() -> ExitCode {
    let missing =
        located("gemma3-270m").is_none().then_some("Gemma 3 270M: `menagerie pull gemma3-270m` fetches it");
    runner::run(
        &[
            ("forty_tokens_are_those_of_the_f32_reference", forty_tokens_are_those_of_the_f32_reference),
            ("fast_text_is_that_of_stock_llama_cpp", fast_text_is_that_of_stock_llama_cpp),
        ],
        missing,
    )
}
