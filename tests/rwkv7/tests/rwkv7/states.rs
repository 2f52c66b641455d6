//! The states of sequences: however a text is cut, beside whatever others it is computed, the bits are the same.

use crate::way::{MODELS, Way, reference};
use menagerie::engine::{
    Arithmetic, Event, Request, SamplingOptions, SchedulerOptions, Session, TextPipeline,
};
use menagerie::measure::{LogitsOptions, logits};
use menagerie_conformance::options;

fn bits(pipeline: &TextPipeline, tokens: &[u32], chunk: usize, decode_from: usize) -> Vec<u32> {
    let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
    logits(pipeline, tokens, &options).unwrap().values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn cuts_and_threads_change_no_bit() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let tokens = &reference(name).ids("tokens_long")[..150];
        let load = |threads| options(Arithmetic::Fast).with_threads(threads);
        let usual = bits(&way.open(name, &load(1)), tokens, 512, 140);
        for (threads, chunk) in [(2, 512), (3, 31), (1, 9), (2, 64)] {
            let found = bits(&way.open(name, &load(threads)), tokens, chunk, 140);
            assert!(found == usual, "{way:?}, {name}: {threads} threads, chunks of {chunk}");
        }
    }
}

/// Tokens and their log probabilities to the bit.
type Said = Vec<(u32, u32)>;

fn request() -> Request {
    let sampling = SamplingOptions::default().with_seed(5).with_temperature(1.5);
    Request::default().with_sampling(sampling).with_max_tokens(9).with_ignore_eos(true).with_logprobs(0)
}

fn note(said: &mut Said, event: Event) {
    if let Event::Token { id, logprob: Some(logprob), .. } = event {
        said.push((id, logprob.to_bits()));
    }
}

fn answer(session: &mut Session, prompt: &[u32]) -> Said {
    let mut said = Said::new();
    session.generate(prompt, &request(), |event| note(&mut said, event)).unwrap();
    said
}

#[test]
fn a_held_beginning_changes_no_bit() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let pipeline = way.open(name, &options(Arithmetic::Fast).with_chunk(20));
        let prompt = &reference(name).ids("tokens_prompt")[..41];
        let mut session = pipeline.session().unwrap();
        let first = answer(&mut session, prompt);
        assert_eq!(first.len(), 9);
        // The states go back to a snapshot.
        assert_eq!(answer(&mut session, prompt), first, "{way:?}, {name}: again");
        for held in [2, 20, 39, 40] {
            let mut session = pipeline.session().unwrap();
            session.generate(&prompt[..held], &Request::greedy(1), |_| {}).unwrap();
            assert_eq!(answer(&mut session, prompt), first, "{way:?}, {name}: {held} held");
        }
    }
}

#[test]
fn a_sequence_in_a_batch_is_what_it_is_alone() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let pipeline = way.open(name, &options(Arithmetic::Fast).with_chunk(16));
        let text = reference(name).ids("tokens_long");
        let prompts = [&text[..41], &text[50..53], &text[60..61], &text[100..127], &text[200..216]];
        let room = SchedulerOptions::default()
            .with_sequences(5)
            .with_prefixes(0)
            .with_capacity_tokens(512)
            .with_step_tokens(24);
        let mut queue = pipeline.queue(room).unwrap();
        let request = request();
        let ids: Vec<_> = prompts.iter().map(|prompt| queue.submit(*prompt, &request)).collect();
        let mut said = vec![Said::new(); prompts.len()];
        let results = queue.run(|request, event| {
            note(&mut said[ids.iter().position(|id| *id == request).unwrap()], event);
        });
        results.into_iter().for_each(|(_, result)| drop(result.unwrap()));
        for (prompt, said) in prompts.iter().zip(said) {
            let alone = answer(&mut pipeline.session().unwrap(), prompt);
            let what = format!("{way:?}, {name}: a prompt of {}", prompt.len());
            let ids = |said: &Said| said.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            assert_eq!(ids(&said), ids(&alone), "{what}");
            // One row and several have products of their own, which round otherwise: 2e-6 was measured.
            for ((_, shared), (_, own)) in said.iter().zip(&alone) {
                let far = (f32::from_bits(*shared) - f32::from_bits(*own)).abs();
                assert!(far < 3e-5, "{what}: {far:e}");
            }
        }
    }
}
