//! SmolLM2-135M-Instruct: prompts tokenize as in llama.cpp and greedy text equals llama.cpp's from the same file.
//!
//! Needs the real model (`menagerie pull smollm2`, 98 MB); where it is not on the machine, the test says so and ends.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::hub::{Environment, Hub, ModelReference};
use menagerie::pipeline::Arithmetic;
use menagerie::pipeline::{ChatMessage, LoadOptions, LogitsOptions, RenderOptions, TextPipeline};
use menagerie_conformance::{fixtures, options};
use serde_json::Value;

fn open(arithmetic: Arithmetic) -> Option<TextPipeline> {
    let hub = Hub::new(Environment::of_process());
    let path = hub.locate(&ModelReference::parse("smollm2").unwrap()).unwrap();
    let Some(path) = path else {
        eprintln!("SmolLM2 is not on this machine; `menagerie pull smollm2` fetches it for this test");
        return None;
    };
    let options = LoadOptions { context: Some(1024), threads: None, ..options(arithmetic) };
    Some(TextPipeline::open(&path, &options).unwrap_or_else(|e| panic!("{e}")))
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

/// Feeds the reference's tokens and checks that each next one is ours, up to the first margin below `near_tie`.
fn follow(pipeline: &TextPipeline, case: &Value, run: &str, near_tie: f64, at_most: usize) -> usize {
    let mut tokens = prompt(pipeline, case);
    assert_eq!(tokens, ids(&case["prompt_tokens"]), "{}: tokens of the prompt", case["name"]);
    let start = tokens.len();
    let wanted = ids(&case[run]["tokens"]);
    let margins: Vec<f64> =
        case[run]["margins"].as_array().unwrap().iter().map(|m| m.as_f64().unwrap()).collect();
    let sure = margins.iter().position(|&margin| margin < near_tie).unwrap_or(margins.len()).max(at_most);
    let steps = sure.min(wanted.len());
    if steps == 0 {
        return 0;
    }
    tokens.extend(&wanted[..steps - 1]);
    let logits =
        pipeline.logits(&tokens, &LogitsOptions { chunk: Some(512), decode_from: Some(start) }).unwrap();
    for (step, &id) in wanted[..steps].iter().enumerate() {
        let row = logits.row(start - 1 + step);
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        assert_eq!(best as u32, id, "{}, {run}: token {step} of {steps}", case["name"]);
    }
    steps
}

/// f32 arithmetic on both sides: equal up to the first near tie below 0.01.
#[test]
fn exact_text_is_that_of_the_f32_reference() {
    let Some(pipeline) = open(Arithmetic::Exact) else { return };
    let steps: usize = cases().iter().map(|case| follow(&pipeline, case, "f32", 0.01, 0)).sum();
    assert!(steps > 200, "only {steps} tokens were compared");
}

/// 8-bit activations move a margin by up to 0.6 between stock and f32: equal up to the first margin below 1.
#[test]
fn fast_text_is_that_of_stock_llama_cpp() {
    let Some(pipeline) = open(Arithmetic::Fast) else { return };
    let steps: usize = cases().iter().map(|case| follow(&pipeline, case, "stock", 1.0, 0)).sum();
    assert!(steps > 40, "only {steps} tokens were compared");
}
