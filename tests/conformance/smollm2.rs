//! SmolLM2-135M-Instruct: prompts tokenize as in llama.cpp and greedy text equals llama.cpp's from the same file.
//!
//! Needs the real model (`menagerie pull smollm2`, 98 MB); where it is not on the machine, the tests say that they are
//! ignored. A binary without the test harness, so that this is seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::hub::{Environment, Hub, ModelReference};
use menagerie::pipeline::Arithmetic;
use menagerie::pipeline::{ChatMessage, LoadOptions, LogitsOptions, RenderOptions, TextPipeline};
use menagerie_conformance::{fixtures, options, runner};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

fn located() -> Option<PathBuf> {
    let hub = Hub::new(Environment::of_process());
    hub.locate(&ModelReference::parse("smollm2").unwrap()).unwrap()
}

fn open(arithmetic: Arithmetic) -> TextPipeline {
    let options = LoadOptions { context: Some(1024), threads: None, ..options(arithmetic) };
    TextPipeline::open(&located().unwrap(), &options).unwrap_or_else(|e| panic!("{e}"))
}

fn cases() -> Vec<Value> {
    let text = std::fs::read_to_string(fixtures().join("smollm2/greedy.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["cases"].as_array().unwrap().clone()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn prompt(pipeline: &TextPipeline, case: &Value) -> Vec<u32> {
    if case["kind"] == "raw" {
        return pipeline.tokenizer().unwrap().encode_prompt(case["prompt"].as_str().unwrap()).unwrap();
    }
    let message = |m: &Value| ChatMessage::new(m["role"].as_str().unwrap(), m["content"].as_str().unwrap());
    let messages: Vec<ChatMessage> = case["messages"].as_array().unwrap().iter().map(message).collect();
    let rendered =
        pipeline.chat_format().unwrap().render_prompt(&messages, &RenderOptions::default()).unwrap();
    assert_eq!(rendered.text, case["prompt"].as_str().unwrap());
    rendered.tokens
}

/// A token that llama.cpp took, with its lead over the second, and whether it is ours too.
struct Choice {
    place: String,
    margin: f64,
    same: bool,
}

/// Feeds the reference's tokens of every case, and asks at each what ours would have been.
fn choices(pipeline: &TextPipeline, run: &str) -> Vec<Choice> {
    let mut all = Vec::new();
    for case in cases() {
        let mut tokens = prompt(pipeline, &case);
        assert_eq!(tokens, ids(&case["prompt_tokens"]), "{}: tokens of the prompt", case["name"]);
        let start = tokens.len();
        let (wanted, margins) = (ids(&case[run]["tokens"]), case[run]["margins"].as_array().unwrap());
        tokens.extend(&wanted[..wanted.len() - 1]);
        let options = LogitsOptions { chunk: Some(512), decode_from: Some(start) };
        let logits = pipeline.logits(&tokens, &options).unwrap();
        for (step, (&id, margin)) in wanted.iter().zip(margins).enumerate() {
            let row = logits.row(start - 1 + step);
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
            let place = format!("{}, {run}, token {step}: {best} for {id}", case["name"]);
            all.push(Choice { place, margin: margin.as_f64().unwrap(), same: best as u32 == id });
        }
    }
    all
}

/// At least `share` of the tokens are the same, and none differs whose lead is `sure` or more.
fn expect(choices: &[Choice], share: f64, sure: f64) {
    let differ: Vec<String> = choices
        .iter()
        .filter(|choice| !choice.same)
        .map(|choice| format!("{} (by a lead of {})", choice.place, choice.margin))
        .collect();
    let same = choices.len() - differ.len();
    println!("{same} of {} tokens are the same", choices.len());
    let unlike = choices.iter().filter(|choice| !choice.same && choice.margin >= sure).count();
    assert!(same as f64 >= share * choices.len() as f64 && unlike == 0, "{}", differ.join("\n"));
    assert!(choices.len() > 580, "only {} tokens were compared", choices.len());
}

/// f32 arithmetic on both sides: only a near tie may fall the other way.
fn exact_text_is_that_of_the_f32_reference() {
    expect(&choices(&open(Arithmetic::Exact), "f32"), 0.99, 0.01);
}

/// 8-bit activations move leads: by up to 0.6 between llama.cpp's own two ways, whose choices then part at leads below 0.5.
fn fast_text_is_that_of_stock_llama_cpp() {
    expect(&choices(&open(Arithmetic::Fast), "stock"), 0.95, 0.5);
}

fn main() -> ExitCode {
    let missing = located().is_none().then_some("SmolLM2: `menagerie pull smollm2` fetches it");
    runner::run(
        &[
            ("exact_text_is_that_of_the_f32_reference", exact_text_is_that_of_the_f32_reference),
            ("fast_text_is_that_of_stock_llama_cpp", fast_text_is_that_of_stock_llama_cpp),
        ],
        missing,
    )
}
