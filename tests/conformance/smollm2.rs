//! SmolLM2-135M-Instruct: prompts tokenize as in llama.cpp and greedy text equals llama.cpp's from the same file.
//!
//! Needs the real model (`menagerie pull smollm2`, 98 MB); where it is not on the machine, the tests say that they are
//! ignored. A binary without the test harness, so that this is seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::pipeline::Arithmetic;
use menagerie_conformance::runner;
use menagerie_conformance::suite::greedy::{Choice, choices, expect, located};
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

fn main() -> ExitCode {
    let missing = located("smollm2").is_none().then_some("SmolLM2: `menagerie pull smollm2` fetches it");
    runner::run(
        &[
            ("exact_text_is_that_of_the_f32_reference", exact_text_is_that_of_the_f32_reference),
            ("fast_text_is_that_of_stock_llama_cpp", fast_text_is_that_of_stock_llama_cpp),
        ],
        missing,
    )
}
