//! Texts to vectors through a queue: steps, turns, cancellation.

use crate::encoder::encoder;
use menagerie_engine::{
    EmbeddingOptions, EmbeddingPipeline, GenerateError, Hookable, Metrics, MissingCapability, Normalization,
    RequestId, TextTokens, VectorQueue,
};
use menagerie_model::Pooling;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A queue over the encoder, the sequences of each step, and what is counted.
fn queue(step_tokens: usize) -> (VectorQueue, Arc<Mutex<Vec<usize>>>, Arc<Metrics>) {
    let (engine, steps) = encoder(step_tokens);
    let missing = MissingCapability::Tokenizer { model: "it".to_owned(), reason: "none".to_owned() };
    let mut pipeline = EmbeddingPipeline::new("it".to_owned(), engine, Err(missing));
    let metrics = Arc::new(Metrics::default());
    pipeline.add_lifecycle(Arc::clone(&metrics) as _);
    (pipeline.queue(), steps, metrics)
}

fn tokens(tokens: &[u32]) -> TextTokens {
    TextTokens { tokens: tokens.to_vec(), second: None, cut: 0 }
}

fn plain() -> EmbeddingOptions {
    EmbeddingOptions::default().with_normalization(Normalization::None)
}

#[test]
fn vectors_are_those_of_the_texts_alone() {
    let texts: [&[u32]; 6] = [&[1, 2], &[3; 5], &[], &[7, 100], &[4, 5, 6], &[9; 9]];
    for step_tokens in [1, 7, 64] {
        let (mut queue, _, metrics) = queue(step_tokens);
        let ids: Vec<RequestId> = texts.iter().map(|text| queue.submit(tokens(text), &plain(), 0)).collect();
        assert_eq!((queue.waiting(), metrics.requests_waiting.get()), (6, 6));
        let mut found = BTreeMap::new();
        while !queue.is_idle() {
            let ended = queue.step(None);
            assert!(!ended.is_empty());
            found.extend(ended);
        }
        let (engine, _) = encoder(64);
        for index in [0, 1, 4] {
            let alone = engine.embed(&[texts[index]], &plain()).pop().unwrap().unwrap();
            assert_eq!(found[&ids[index]].as_ref().unwrap(), &alone);
        }
        assert!(matches!(found[&ids[2]], Err(GenerateError::EmptyPrompt)));
        assert!(matches!(found[&ids[3]], Err(GenerateError::TokenOutOfRange { id: 100, .. })));
        assert!(matches!(found[&ids[5]], Err(GenerateError::PromptTooLong { tokens: 9, context: 8 })));
        let requests = &metrics.requests;
        assert_eq!((requests.computed.get(), requests.refused.get(), metrics.requests_open.get()), (3, 3, 0));
    }
}

/// A thousand texts of one tenant; another one's text is in the next step.
#[test]
fn tenants_take_turns() {
    let (mut queue, steps, _) = queue(8);
    for _ in 0..1000 {
        queue.submit(tokens(&[1, 2]), &plain(), 5);
    }
    queue.step(None);
    for tenant in [1, 9] {
        let late = queue.submit(tokens(&[3]), &plain(), tenant);
        assert!(queue.step(None).iter().any(|(id, _)| *id == late), "tenant {tenant}");
    }
    assert_eq!(*steps.lock().unwrap(), [4, 4, 4]);
    assert_eq!(queue.waiting(), 1000 + 2 - 12);
    // A text that does not fit beside others is first in the next step.
    let large = queue.submit(tokens(&[1; 7]), &plain(), 9);
    let at = (0..2).find(|_| queue.step(None).iter().any(|(id, _)| *id == large));
    assert!(at.is_some());
}

#[test]
fn texts_of_a_step_have_the_same_options() {
    let (mut queue, steps, _) = queue(64);
    let cls = plain().with_pooling(Pooling::Cls);
    let ids = [plain(), plain(), cls, plain()].map(|options| queue.submit(tokens(&[1, 2, 6]), &options, 0));
    let mut found = BTreeMap::new();
    while !queue.is_idle() {
        found.extend(queue.step(None));
    }
    assert_eq!(*steps.lock().unwrap(), [2, 1, 1]);
    // As in `embedding`: the mean of 10, 11 and 15, or the first one.
    let vectors = ids.map(|id| found[&id].as_ref().unwrap()[0]);
    assert_eq!(vectors, [12.0, 12.0, 10.0, 12.0]);
}

#[test]
fn a_text_that_waits_can_be_cancelled() {
    let (mut queue, steps, metrics) = queue(64);
    let ids = [0, 0, 1].map(|tenant| queue.submit(tokens(&[1]), &plain(), tenant));
    queue.cancel(ids[0]);
    queue.cancel(ids[2]);
    assert_eq!((queue.waiting(), queue.is_idle()), (1, false));
    let ended: BTreeMap<_, _> = queue.step(None).into_iter().collect();
    assert!(matches!(ended[&ids[0]], Err(GenerateError::Cancelled)));
    assert!(matches!(ended[&ids[2]], Err(GenerateError::Cancelled)) && ended[&ids[1]].is_ok());
    queue.cancel(ids[1]);
    assert!(queue.is_idle() && queue.step(None).is_empty());
    assert_eq!((steps.lock().unwrap().len(), metrics.requests.cancelled.get()), (1, 2));
}

/// With no time a step has the fewest rows, or one text; with any time it is full.
#[test]
fn steps_have_the_rows_of_their_time() {
    let (mut queue, steps, _) = queue(64);
    for _ in 0..100 {
        queue.submit(tokens(&[1; 8]), &plain(), 0);
    }
    for time in [Some(Duration::ZERO), Some(Duration::ZERO), None, Some(Duration::ZERO), Some(Duration::MAX)]
    {
        queue.step(time);
    }
    assert_eq!(*steps.lock().unwrap(), [4, 4, 8, 4, 8]);
}
