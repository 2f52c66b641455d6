//! Log probabilities of the tokens of prompts.

use crate::byte_text::{THINK, ids};
use crate::fixture::{engine, mixing, session};
use menagerie_engine::{Event, Queue, Request, Scheduler, SchedulerOptions, StopReason, TokenLogprob};
use menagerie_testkit::FakeModel;
use std::sync::Arc;

const VOCABULARY: usize = 50;

/// Position, id, log probability, best alternatives.
type Reported = (usize, u32, Option<f32>, Vec<TokenLogprob>);

fn text(len: usize) -> Vec<u32> {
    (0..len as u32).map(|index| if index % 3 == 0 { 7 } else { (index * index + index / 7) % 50 }).collect()
}

fn queue(model: &Arc<FakeModel>, step: usize) -> Queue {
    let options = SchedulerOptions::default().with_step_tokens(step);
    Queue::new(Scheduler::new(engine(model, 2048, step), Vec::new(), options).unwrap(), None)
}

/// Runs a request; the reported tokens of its prompt, and how many were cached.
fn scored(queue: &mut Queue, prompt: &[u32], request: &Request) -> (Vec<Reported>, usize) {
    let mut reported = Vec::new();
    queue.submit(prompt, request);
    let ended = queue.run(|_, event| {
        if let Event::PromptToken { position, id, logprob, top, .. } = event {
            reported.push((position, id, logprob, top));
        }
    });
    let outcome = ended.into_iter().next().unwrap().1.unwrap();
    assert_eq!(outcome.tokens.len(), request.max_tokens.unwrap());
    (reported, outcome.statistics.cached_tokens)
}

/// The softmax of the script's logits: 5 for the next token, 1 for the one after it, 0 for all others.
fn check(reported: &[Reported], prompt: &[u32], first: usize, window: usize) {
    let normalizer = (5f64.exp() + 1f64.exp() + (VOCABULARY - 2) as f64).ln();
    assert_eq!(reported.len(), prompt.len() - first);
    for ((position, id, logprob, top), expected) in reported.iter().zip(first..) {
        assert_eq!((*position, *id), (expected, prompt[expected]));
        if expected == 0 {
            assert!(logprob.is_none() && top.is_empty());
            continue;
        }
        let best = mixing(&prompt[expected.saturating_sub(window)..expected]);
        let logit = [(best, 5.0), ((best + 1) % 50, 1.0)].into_iter().find(|(token, _)| token == id);
        let wanted = logit.map_or(0.0, |(_, logit)| logit) - normalizer;
        assert!((f64::from(logprob.unwrap()) - wanted).abs() < 1e-5, "{position}: {logprob:?} {wanted}");
        assert_eq!((top.len(), top[0].id), (2, best));
        assert!((f64::from(top[0].logprob) - (5.0 - normalizer)).abs() < 1e-5);
    }
}

/// From any position, in any chunks, beside what earlier requests left: each token once, and no row more than needed.
#[test]
fn every_token_of_the_prompt_is_scored_once() {
    let model = || FakeModel::new(VOCABULARY, mixing);
    let all = [
        ("plain", model(), usize::MAX),
        ("recurrent", model().recurrent(), usize::MAX),
        ("windowed", model().windowed(40), 40),
    ];
    for (name, model, window) in all {
        let (model, prompt) = (Arc::new(model), text(300));
        for step in [512, 64, 7] {
            let mut queue = queue(&model, step);
            for first in [0, 1, 299, 150, 298] {
                let request = Request::greedy(3).with_logprobs(2).with_prompt_logprobs(first);
                let (reported, cached) = scored(&mut queue, &prompt, &request);
                check(&reported, &prompt, first, window);
                // The row of the token before the first one predicts it, so at least that row is computed.
                assert!(cached <= first.saturating_sub(1), "{name} {step} {first}: {cached}");
                if name == "plain" && first > 1 {
                    assert_eq!(cached, first - 1, "{step} {first}");
                }
            }
            // Past the prompt nothing is reported, and the last row is computed as ever.
            let (none, cached) = scored(&mut queue, &prompt, &Request::greedy(3).with_prompt_logprobs(300));
            assert_eq!((none.len(), name != "plain" || cached == 299), (0, true), "{name} {step}");
        }
    }
}

#[test]
fn a_prompt_is_scored_without_an_answer() {
    let model = Arc::new(FakeModel::new(VOCABULARY, mixing));
    let prompt = text(100);
    let request = Request::greedy(0).with_logprobs(2).with_prompt_logprobs(0);
    let (reported, _) = scored(&mut queue(&model, 16), &prompt, &request);
    check(&reported, &prompt, 0, usize::MAX);
}

/// However many rows a step has, few of them have logits of a large vocabulary; two prompts share the limit.
#[test]
fn rows_of_a_large_vocabulary_are_computed_in_small_steps() {
    let model = Arc::new(FakeModel::new(150_000, mixing));
    let mut queue = queue(&model, 512);
    let score = |first| Request::greedy(1).with_logprobs(0).with_prompt_logprobs(first);
    queue.submit(text(200), &score(0));
    queue.submit((0..200).map(|index| (index * 7 + 3) % 50).collect::<Vec<u32>>(), &score(150));
    let (mut reported, mut most, mut widest) = (0, 0, 0);
    while !queue.is_idle() {
        queue.step(|_, event| reported += usize::from(matches!(event, Event::PromptToken { .. })));
        let seen = model.take_seen();
        most = most.max(seen.iter().map(|part| part.logits).sum());
        widest = widest.max(seen.iter().map(|part| part.tokens.len()).sum());
    }
    assert_eq!(reported, 200 + 50);
    // 32 MiB of f32, and one row for each that decodes.
    assert!((55..=57).contains(&most), "{most}");
    assert!(widest > 150, "rows without logits are not limited: {widest}");
}

/// A session scores as well, and says the same as without; tokens have their text.
#[test]
fn a_session_scores_its_prompt() {
    let model = Arc::new(FakeModel::saying(262, 5, &ids("abc")));
    let prompt = [ids("x\u{e9}y"), vec![THINK]].concat();
    let mut session = session(&model, 64);
    for first in [0, 0, 3] {
        let request = Request::greedy(2).with_prompt_logprobs(first);
        let mut reported = Vec::new();
        let outcome = session
            .generate(&prompt, &request, |event| match event {
                Event::PromptToken { position, piece, bytes, logprob, top, .. } => {
                    assert!(top.is_empty());
                    reported.push((position, piece, bytes, logprob.is_some()));
                }
                Event::Token { logprob, .. } => assert!(logprob.is_none(), "only those of the prompt"),
                _ => {}
            })
            .unwrap();
        assert_eq!((outcome.text.as_str(), outcome.reason), ("ab", StopReason::MaxTokens));
        let bytes: Vec<u8> = reported.iter().flat_map(|(_, _, bytes, _)| bytes.clone()).collect();
        assert_eq!(bytes, "x\u{e9}y".as_bytes()[first..], "a control token has no bytes");
        let places: Vec<(usize, bool)> = reported.iter().map(|(at, .., has)| (*at, *has)).collect();
        assert_eq!(places, (first..5).map(|at| (at, at > 0)).collect::<Vec<_>>());
    }
    let plain = session.generate(&prompt, &Request::greedy(2), |event| {
        assert!(!matches!(event, Event::PromptToken { .. }));
    });
    assert_eq!(plain.unwrap().text, "ab");
}
