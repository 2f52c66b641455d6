//! A fake model whose answers are known: texts are bytes, and the answer depends on the message.

use crate::byte_text::{Bytes, END, Format, THINK, THOUGHT, VOCABULARY, ids, thinking};
use crate::tools::calls_of_f;
use menagerie_engine::{ChatCapable, Engine, KvType, Request, SchedulerOptions, TextPipeline};
use menagerie_server::{ServedModel, TextService};
use menagerie_testkit::FakeModel;
use std::sync::Arc;

pub const CONTEXT: usize = 4096;

/// The tokens of the answer to a message, with the one that ends it.
fn answer_to(message: &str) -> Vec<u32> {
    match message {
        "think" => [&[THINK], &ids("hm")[..], &[THOUGHT], &ids("ok"), &[END]].concat(),
        "ponder" => [&[THINK], &ids("aaaaaaaa")[..], &[END]].concat(),
        "call" => [&ids("so <c>f {\"a\": 1}</c>")[..], &[END]].concat(),
        "call nothing" => [&ids("<c>f {}</c>")[..], &[END]].concat(),
        "long" => ids(&"x".repeat(CONTEXT)),
        other => [&ids(&other.chars().rev().collect::<String>())[..], &[END]].concat(),
    }
}

/// The next token: of the answer to a conversation, or a letter that depends on all before it.
fn script(history: &[u32]) -> u32 {
    let bytes: Vec<u8> = history.iter().map(|id| u8::try_from(*id).unwrap_or(b'?')).collect();
    let Some(at) = bytes.windows(2).position(|two| two == b"A:") else {
        return history.iter().enumerate().fold(7, |sum: u32, (at, id)| (sum * 3 + id + at as u32) % 26) + 97;
    };
    let prompt = String::from_utf8_lossy(&bytes[..at]).into_owned();
    let message = prompt.trim_end_matches(';').rsplit("U:").next().unwrap_or_default().to_owned();
    answer_to(&message).get(history.len() - at - 2).copied().unwrap_or(END)
}

pub fn model() -> Arc<FakeModel> {
    Arc::new(FakeModel::new(VOCABULARY, script))
}

/// A pipeline on a fake model. Its tool is `f`.
pub fn pipeline(model: &Arc<FakeModel>, chunk: usize) -> TextPipeline {
    let format = Format { tags: vec![thinking()], calls: Some(calls_of_f()) };
    pipeline_with(model, chunk, Arc::new(format))
}

/// A pipeline on a fake model with this chat format.
pub fn pipeline_with(model: &Arc<FakeModel>, chunk: usize, format: Arc<dyn ChatCapable>) -> TextPipeline {
    let engine = Engine {
        model: Arc::clone(model) as _,
        compute: FakeModel::compute(),
        kv_type: KvType::F32,
        context: CONTEXT,
        learned_positions: None,
        chunk,
        guard: None,
        adapters: None,
    };
    TextPipeline::new("fake", engine).with_text(Ok(Arc::new(Bytes)), Ok(format))
}

/// This many requests at once, in steps of 16 rows.
pub fn scheduler(parallel: usize) -> SchedulerOptions {
    SchedulerOptions::default()
        .with_sequences(parallel)
        .with_prefixes(0)
        .with_capacity_tokens(4 * CONTEXT)
        .with_step_tokens(16)
}

/// A model with this id that generates greedily, `parallel` answers at once.
pub fn served(id: &str, model: &Arc<FakeModel>, parallel: usize) -> ServedModel {
    served_with(id, pipeline(model, 16), scheduler(parallel))
}

/// A model with this id that knows no tools, so that its answers can be constrained.
pub fn served_without_tools(id: &str) -> ServedModel {
    let format = Format { tags: vec![thinking()], calls: None };
    served_with(id, pipeline_with(&model(), 16, Arc::new(format)), scheduler(2))
}

/// A model with this id that generates greedily.
pub fn served_with(id: &str, pipeline: TextPipeline, scheduler: SchedulerOptions) -> ServedModel {
    let service = TextService::new(Request::greedy(CONTEXT).with_max_tokens(None), scheduler);
    let vectors = Err("a fake model has none".to_owned());
    ServedModel::new(id).with_text(Ok((pipeline, service))).with_vectors(vectors)
}
