//! Ten thousand random operations on a queue whose pool is too small, beside answers computed without any state.

use crate::drafts::all_guesses;
use crate::fixture::{engine, mixing};
use menagerie_engine::{
    DraftPace, DraftSource, Event, GenerateError, Queue, Request, RequestId, Scheduler, StopReason,
};
use menagerie_random::SplitMix64;
use menagerie_testkit::FakeModel;
use std::collections::BTreeMap;
use std::sync::Arc;

const CONTEXT: usize = 96;
const PLACES: usize = 6;
const PREFIXES: usize = 3;
/// Not enough for two sequences of the context's length.
const CAPACITY: usize = 160;
const STEP: usize = 20;

/// What a model that sees the last `window` tokens says, from the script alone.
fn answer(prompt: &[u32], tokens: usize, window: usize) -> Vec<u32> {
    let mut history = prompt.to_vec();
    let room = (CONTEXT + 1).saturating_sub(prompt.len());
    for _ in 0..tokens.min(room) {
        let from = history.len().saturating_sub(window);
        history.push(mixing(&history[from..]));
    }
    history.split_off(prompt.len())
}

/// The log probability of the token at a position of a prompt: the logits of the script are 5 for one token, 1 for the
/// next one, and 0 for the other 48.
fn score(prompt: &[u32], position: usize, window: usize) -> Option<f64> {
    let best = mixing(&prompt[position.saturating_sub(window)..position]);
    let normalizer = (5f64.exp() + 1f64.exp() + 48.0).ln();
    let logit = match prompt[position] {
        id if id == best => 5.0,
        id if id == (best + 1) % 50 => 1.0,
        _ => 0.0,
    };
    (position > 0).then_some(logit - normalizer)
}

/// A request that is running: its prompt, the most tokens of its answer, the first token of the prompt to report.
type Asked = (Vec<u32>, usize, Option<usize>);

/// A prompt that often begins as earlier ones did.
fn prompt(random: &mut SplitMix64, earlier: &[Vec<u32>]) -> Vec<u32> {
    let mut prompt = match random.below(3) {
        0 => Vec::new(),
        _ if earlier.is_empty() => Vec::new(),
        _ => {
            let known = &earlier[earlier.len() - 1 - random.below(earlier.len().min(8))];
            known[..random.below(known.len() + 1)].to_vec()
        }
    };
    let more = 1 + random.below(50);
    prompt.extend((0..more).map(|_| random.below(50) as u32));
    prompt.truncate(CONTEXT - 1);
    prompt
}

/// Each token from the first one on, once and in order.
fn check_scores(
    found: &[(usize, Option<f32>)],
    prompt: &[u32],
    scored: Option<usize>,
    window: usize,
    is_whole: bool,
) {
    let expected = scored.unwrap_or(prompt.len())..prompt.len().max(scored.unwrap_or(0));
    assert!(found.len() == expected.len() || !is_whole, "{found:?} of {expected:?}");
    for ((position, logprob), expected) in found.iter().zip(expected) {
        assert_eq!(*position, expected);
        let wanted = score(prompt, expected, window);
        let close = |(found, wanted): (f32, f64)| (f64::from(found) - wanted).abs() < 1e-5;
        assert!(logprob.zip(wanted).map_or(logprob.is_none() && wanted.is_none(), close), "{position}");
    }
}

/// Guesses for an answer, of a random kind.
fn guesses(random: &mut SplitMix64, prompt: &[u32], tokens: usize, window: usize) -> Arc<dyn DraftSource> {
    let text = [prompt, &answer(prompt, tokens, window)].concat();
    let mut all = all_guesses(&text);
    all.swap_remove(random.below(all.len()))
}

/// `aside`: bytes of memory for what gave way; `drafts`: whether next tokens are guessed.
fn run(model: FakeModel, window: usize, seed: u64, aside: usize, drafts: bool) {
    let model = Arc::new(model);
    let engine = engine(&model, CONTEXT, 16);
    let room = engine.pool_options(PLACES + PREFIXES, CAPACITY).with_page_len(8);
    let scheduler = Scheduler::with_pool(engine, Vec::new(), room, STEP)
        .unwrap()
        .with_prefixes(PREFIXES)
        .with_swap_bytes(aside)
        .with_draft_pace(DraftPace::Always);
    let mut queue = Queue::new(scheduler, None);
    let mut random = SplitMix64::new(seed);
    let (mut earlier, mut open) = (Vec::new(), BTreeMap::<RequestId, Asked>::new());
    let (mut answered, mut cancelled, mut reported) = (0, 0, 0);
    let mut scores = BTreeMap::<RequestId, Vec<(usize, Option<f32>)>>::new();
    for operation in 0..10_000 {
        match random.below(8) {
            0 | 1 if queue.waiting() < 12 => {
                let prompt = prompt(&mut random, &earlier);
                let tokens = 1 + random.below(60);
                let scored = (random.below(4) == 0).then(|| random.below(prompt.len() + 2));
                let request = Request::greedy(tokens)
                    .with_priority(random.below(3) as i32)
                    .with_tenant(random.below(3) as u64)
                    .with_prompt_logprobs(scored)
                    .with_draft(drafts.then(|| guesses(&mut random, &prompt, tokens, window)));
                let id = queue.submit(&prompt, &request);
                earlier.push(prompt.clone());
                open.insert(id, (prompt, tokens, scored));
            }
            2 if random.below(8) == 0 => {
                let ids: Vec<RequestId> = open.keys().copied().collect();
                if !ids.is_empty() {
                    queue.cancel(ids[random.below(ids.len())]);
                }
            }
            _ => {
                let ended = queue.step(|id, event| {
                    if let Event::PromptToken { position, logprob, .. } = event {
                        scores.entry(id).or_default().push((position, logprob));
                    }
                });
                for (id, result) in ended {
                    let (prompt, tokens, scored) = open.remove(&id).unwrap();
                    let expected = answer(&prompt, tokens, window);
                    let found = scores.remove(&id).unwrap_or_default();
                    reported += found.len();
                    let is_whole = matches!(&result, Ok(outcome) if outcome.reason != StopReason::Cancelled);
                    check_scores(&found, &prompt, scored, window, is_whole);
                    match result {
                        Ok(outcome) if outcome.reason == StopReason::Cancelled => {
                            assert!(expected.starts_with(&outcome.tokens), "operation {operation}");
                            cancelled += 1;
                        }
                        Ok(outcome) => {
                            assert_eq!(outcome.tokens, expected, "operation {operation}: {prompt:?}");
                            answered += 1;
                        }
                        Err(GenerateError::Cancelled) => cancelled += 1,
                        Err(error) => panic!("operation {operation}: {error}"),
                    }
                }
                model.take_seen();
            }
        }
    }
    let mut steps = 0;
    while !queue.is_idle() {
        answered += queue.step(|_, _| {}).into_iter().filter(|(_, result)| result.is_ok()).count();
        steps += 1;
        assert!(steps < 10_000, "somebody waits for ever");
    }
    let counts = *queue.scheduler().counts();
    assert!(reported > 1000, "{reported} tokens of prompts");
    assert!(answered > 200 && cancelled > 20, "{answered} answered, {cancelled} cancelled");
    if window > CONTEXT {
        assert!(counts.preemptions > 20, "{counts:?}");
        // Where steps overlap, sequences more often wait for pages than others give way.
        let least = if model.most_in_flight() > 0 { 2 } else { 20 };
        assert_eq!(counts.set_aside > least, aside > 0, "{counts:?}");
        // There is never memory for all of them.
        assert!(counts.set_aside < counts.preemptions && counts.preempted_tokens > 0, "{counts:?}");
    }
    assert_eq!((counts.drafted > 5000, counts.accepted > 1000), (drafts, drafts), "{counts:?}");
    assert!(counts.shared > 200 && counts.evictions > 100, "{counts:?}");
    queue.scheduler_mut().forget().unwrap();
    assert_eq!(queue.scheduler().state_bytes(), 0, "no page is lost");
}

#[test]
fn ten_thousand_operations_of_a_queue_are_what_the_script_says() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x1234_5678_9abc_def1] {
        run(FakeModel::new(50, mixing), usize::MAX, seed, 0, false);
    }
}

#[test]
fn ten_thousand_operations_with_states_set_aside_are_too() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x1234_5678_9abc_def1] {
        run(FakeModel::new(50, mixing), usize::MAX, seed, 300, false);
        run(FakeModel::new(50, mixing).recurrent(), usize::MAX, seed, 300, false);
    }
}

#[test]
fn ten_thousand_operations_with_a_recurrent_state_are_too() {
    run(FakeModel::new(50, mixing).recurrent(), usize::MAX, 0x9e37_79b9_7f4a_7c15, 0, false);
}

#[test]
fn ten_thousand_operations_with_a_window_are_too() {
    run(FakeModel::new(50, mixing).windowed(11), 11, 0x9e37_79b9_7f4a_7c15, 300, false);
}

/// Up to three steps in flight, each with other sequences: the same answers.
#[test]
fn ten_thousand_operations_in_overlapping_steps_are_too() {
    let model = || FakeModel::new(50, mixing).overlapping(3);
    run(model(), usize::MAX, 0x1234_5678_9abc_def1, 300, false);
    run(model().recurrent(), usize::MAX, 0x9e37_79b9_7f4a_7c15, 0, false);
    run(model().windowed(11), 11, 0x9e37_79b9_7f4a_7c15, 300, false);
    run(model(), usize::MAX, 0x1234_5678_9abc_def1, 0, true);
    run(model().recurrent(), usize::MAX, 0x1234_5678_9abc_def1, 300, true);
}

/// The same answers, whatever is guessed, while sequences give way, share prefixes and are cancelled.
#[test]
fn ten_thousand_operations_with_drafts_are_too() {
    for aside in [0, 300] {
        run(FakeModel::new(50, mixing), usize::MAX, 0x1234_5678_9abc_def1, aside, true);
        run(FakeModel::new(50, mixing).recurrent(), usize::MAX, 0x1234_5678_9abc_def1, aside, true);
        run(FakeModel::new(50, mixing).windowed(11), 11, 0x9e37_79b9_7f4a_7c15, aside, true);
    }
}
