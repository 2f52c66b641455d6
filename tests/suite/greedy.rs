//! Greedy continuations of a published model, token by token, against llama.cpp's from the same file.

use crate::{fixtures, options};
use menagerie::engine::{Arithmetic, ChatMessage, RenderOptions, TextPipeline};
use menagerie::hub::{Hub, HubSettings, ModelReference};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadedModel, ModelBuilder};
use serde_json::Value;
use std::path::PathBuf;

/// Where a model of the catalog is stored, if it was pulled.
pub fn located(name: &str) -> Option<PathBuf> {
    let hub = Hub::new(HubSettings::of_process());
    hub.locate(&ModelReference::parse(name).unwrap()).unwrap()
}

fn open(name: &str, arithmetic: Arithmetic) -> LoadedModel<TextPipeline> {
    let options = options(arithmetic).with_context(1024).with_threads(None);
    ModelBuilder::new(located(name).unwrap())
        .with_options(&options)
        .open_text()
        .unwrap_or_else(|e| panic!("{e}"))
}

fn cases(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixtures().join(format!("greedy/{name}.json"))).unwrap();
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

/// A token of llama.cpp, with its lead over the second, and whether it is ours too.
pub struct Choice {
    place: String,
    /// Which token of the continuation it is.
    pub step: usize,
    margin: f64,
    same: bool,
}

/// Feeds the reference's tokens in every case, and records at each position which token ours would have been.
pub fn choices(name: &str, arithmetic: Arithmetic, run: &str) -> Vec<Choice> {
    let pipeline = open(name, arithmetic);
    let mut all = Vec::new();
    for case in cases(name) {
        let mut tokens = prompt(&pipeline, &case);
        assert_eq!(tokens, ids(&case["prompt_tokens"]), "{}: tokens of the prompt", case["name"]);
        let start = tokens.len();
        let (wanted, margins) = (ids(&case[run]["tokens"]), case[run]["margins"].as_array().unwrap());
        tokens.extend(&wanted[..wanted.len() - 1]);
        let options = LogitsOptions::default().with_chunk(512).with_decode_from(start);
        let logits = logits(&pipeline, &tokens, &options).unwrap();
        for (step, (&id, margin)) in wanted.iter().zip(margins).enumerate() {
            let row = logits.row(start - 1 + step);
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
            let place = format!("{}, {run}, token {step}: {best} for {id}", case["name"]);
            all.push(Choice { place, step, margin: margin.as_f64().unwrap(), same: best as u32 == id });
        }
    }
    all
}

/// At least `share` of the tokens are the same, and none with a lead of `sure` or more differs.
pub fn expect(choices: &[Choice], share: f64, sure: f64) {
    let differ: Vec<String> = choices
        .iter()
        .filter(|choice| !choice.same)
        .map(|choice| format!("{} (by a lead of {})", choice.place, choice.margin))
        .collect();
    let same = choices.len() - differ.len();
    println!("{same} of {} tokens are the same", choices.len());
    let unlike = choices.iter().filter(|choice| !choice.same && choice.margin >= sure).count();
    assert!(same as f64 >= share * choices.len() as f64 && unlike == 0, "{}", differ.join("\n"));
}
