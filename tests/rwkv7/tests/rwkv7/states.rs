//! The states of sequences: however a text is cut, beside whatever others it is computed, the bits are the same.

use crate::way::{MODELS, Way, reference};
use menagerie::engine::{
    AnswerPrediction, Arithmetic, DraftPace, DraftSource, Event, Request, SamplingOptions, Scheduler,
    SchedulerOptions, Session, TextPipeline,
};
use menagerie::measure::{LogitsOptions, logits};
use menagerie_conformance::options;
use std::sync::Arc;

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
            // Bit for bit: the components declare it (`EXACT_ROWS`).
            assert_eq!(said, alone, "{what}");
        }
    }
}

/// With guesses that are right or wrong, all of which are computed, answers have the same bits as without.
#[test]
fn an_answer_with_drafts_is_the_one_without() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let pipeline = way.open(name, &options(Arithmetic::Fast).with_chunk(20));
        let text = reference(name).ids("tokens_prompt");
        let (mut drafted, mut accepted) = (0, 0);
        for seed in 0..12 {
            let prompt = text[seed..seed + 12].to_vec();
            let sampling = match seed % 3 {
                0 => SamplingOptions::greedy(),
                1 => SamplingOptions::default().with_temperature(0.5),
                _ => SamplingOptions::default().with_repeat_penalty(1.2),
            };
            let request = Request::greedy(16).with_sampling(sampling.with_seed(seed as u64)).with_logprobs(0);
            let ask = |request: &Request| {
                let scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), Vec::new()).unwrap();
                let scheduler = scheduler.with_draft_pace(DraftPace::Always);
                let mut session = Session::new(scheduler, None).unwrap();
                let mut said = Said::new();
                let outcome = session.generate(&prompt, request, |event| note(&mut said, event)).unwrap();
                (said, outcome.statistics)
            };
            let (plain, _) = ask(&request);
            // The answer itself, with a wrong token now and then.
            let wrong = |(at, (id, _)): (usize, &(u32, u32))| if at % 6 == 5 { id ^ 1 } else { *id };
            let guesses = plain.iter().enumerate().map(wrong).collect();
            let source: Arc<dyn DraftSource> = Arc::new(AnswerPrediction::new(guesses, None));
            let (found, statistics) = ask(&request.clone().with_draft(source));
            assert_eq!(found, plain, "{way:?}, {name}, seed {seed}");
            drafted += statistics.drafted_tokens;
            accepted += statistics.accepted_tokens;
        }
        assert!(drafted > 20 && accepted < drafted, "{way:?}, {name}: {accepted} of {drafted}");
    }
}
