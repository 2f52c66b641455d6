//! Generations that come and go: order, sharing, room, cancellation.

use crate::fixture::{engine, mixing};
use menagerie_engine::{
    Completion, Event, GenerateError, Outcome, Queue, Request, RequestId, SamplingOptions, Scheduler,
    SchedulerOptions, StopReason,
};
use menagerie_testkit::{FakeModel, Seen};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Plain, with a state that cannot be truncated, with a window.
fn models() -> [(&'static str, Arc<FakeModel>); 3] {
    let model = || FakeModel::new(50, mixing);
    [("plain", model()), ("recurrent", model().recurrent()), ("windowed", model().windowed(40))]
        .map(|(name, model)| (name, Arc::new(model)))
}

/// Room for so many sequences of 8192 tokens, in steps of 512 rows.
fn queue(model: &Arc<FakeModel>, sequences: usize) -> Queue {
    let room = SchedulerOptions::default()
        .with_sequences(sequences)
        .with_prefixes(sequences)
        .with_capacity_tokens(8 * 8192)
        .with_step_tokens(512);
    Queue::new(Scheduler::new(engine(model, 8192, 512), Vec::new(), room).unwrap(), None)
}

/// Steps until nothing is left to do.
fn finish(queue: &mut Queue) -> BTreeMap<RequestId, Result<Outcome, GenerateError>> {
    let mut ended = BTreeMap::new();
    while !queue.is_idle() {
        ended.extend(queue.step(|_, _| {}));
    }
    ended
}

fn alone(model: &Arc<FakeModel>, prompt: &[u32], request: &Request) -> Vec<u32> {
    let mut queue = queue(model, 1);
    let id = queue.submit(prompt, request);
    let tokens = finish(&mut queue).remove(&id).unwrap().unwrap().tokens;
    model.take_seen();
    tokens
}

/// Tokens that are no two times alike soon, the same for the same salt.
fn text(len: usize, salt: u32) -> Vec<u32> {
    (0..len as u32).map(|index| (index * index + index / 7 + salt * 11) % 50).collect()
}

fn rows(seen: &[Seen]) -> usize {
    seen.iter().map(|seen| seen.tokens.len()).sum()
}

#[test]
fn tasks_join_and_leave_while_others_run() {
    for (name, model) in models() {
        let tasks: Vec<(Vec<u32>, Request)> = (0..12u32)
            .map(|index| {
                (text(3 + 37 * index as usize, index), Request::greedy(3 + (index as usize * 5) % 17))
            })
            .collect();
        let expected: Vec<Vec<u32>> =
            tasks.iter().map(|(prompt, request)| alone(&model, prompt, request)).collect();
        let mut queue = queue(&model, 4);
        let (mut ids, mut ended) = (Vec::new(), BTreeMap::new());
        for (prompt, request) in tasks {
            ids.push(queue.submit(prompt, &request));
            ended.extend(queue.step(|_, _| {}));
            assert!(queue.running() <= 4);
        }
        ended.extend(finish(&mut queue));
        for (id, expected) in ids.iter().zip(&expected) {
            assert_eq!(&ended.remove(id).unwrap().unwrap().tokens, expected, "{name}: {id:?}");
        }
        assert!(model.take_seen().iter().any(|seen| seen.together == 4), "{name}: steps were shared");
    }
}

/// The first computes its prompt; the second, which begins with the same 4,000 tokens, fewer than 2 % of that.
#[test]
fn a_prefix_of_4000_tokens_is_computed_once() {
    for (name, model) in models() {
        let prefix = text(4000, 1);
        let prompt = |salt: u32| [prefix.clone(), vec![salt; 30]].concat();
        let (first, second) = (prompt(41), prompt(42));
        let expected = [&first, &second].map(|prompt| alone(&model, prompt, &Request::greedy(5)));
        for places in [2, 1] {
            let mut queue = queue(&model, places);
            let ids = [first.clone(), second.clone()].map(|prompt| queue.submit(prompt, &Request::greedy(5)));
            let mut ended = finish(&mut queue);
            let outcomes = ids.map(|id| ended.remove(&id).unwrap().unwrap());
            assert_eq!(outcomes.each_ref().map(|one| one.tokens.clone()), expected, "{name}");
            assert_eq!(outcomes[1].statistics.cached_tokens, 4000, "{name}");
            let computed = rows(&model.take_seen());
            // Four tokens are fed back in each.
            let second = computed - 4030 - 2 * 4;
            assert!(second * 100 < 2 * 4030, "{name}, {places} at once: {second} rows");
        }
    }
}

/// Who comes when the others have gone finds what they left: any part of it where states keep every row; where they do
/// not, the second one finds a point before where they part, which it learns, and the third one finds that.
#[test]
fn a_prefix_is_found_after_its_sequence_has_ended() {
    for (name, model) in models() {
        let prefix = text(1000, 1);
        let mut queue = queue(&model, 2);
        let cached: Vec<usize> = (0..4)
            .map(|salt| {
                let prompt = [prefix.clone(), vec![40 + salt; 400]].concat();
                let expected = alone(&model, &prompt, &Request::greedy(3));
                let id = queue.submit(prompt, &Request::greedy(3));
                let outcome = finish(&mut queue).remove(&id).unwrap().unwrap();
                assert_eq!(outcome.tokens, expected, "{name}");
                outcome.statistics.cached_tokens
            })
            .collect();
        match name {
            "plain" => assert_eq!(cached, [0, 1000, 1000, 1000]),
            // A chunk's end.
            _ => assert_eq!(cached, [0, 512, 1000, 1000], "{name}"),
        }
    }
}

/// The second one comes when the first one has said what it had to, long after its windows moved on, and computes fewer than
/// 2 % of the rows.
#[test]
fn a_prefix_of_4000_tokens_is_found_by_the_next_one() {
    for (name, model) in models() {
        let prefix = text(4000, 1);
        let mut queue = queue(&model, 2);
        let mut before = 0;
        let computed: Vec<usize> = [41, 42, 43]
            .map(|last| {
                let prompt = [prefix.clone(), vec![last; 40]].concat();
                let expected = alone(&model, &prompt, &Request::greedy(700));
                let id = queue.submit(prompt, &Request::greedy(700));
                let outcome = finish(&mut queue).remove(&id).unwrap().unwrap();
                assert_eq!(outcome.tokens, expected, "{name}");
                model.take_seen();
                let rows = queue.scheduler().counts().rows as usize;
                rows - std::mem::replace(&mut before, rows) - 699
            })
            .to_vec();
        // 64 tokens before the prompt's end is a border; where the first two part is too near for a point of its own.
        let next = if name == "plain" { 40 } else { 64 };
        assert_eq!(computed, [4040, next, next], "{name}");
        assert!(next * 100 < 2 * 4040);
    }
}

/// Points that windows could go back to stand in nobody's way: with no room beside those that run they are given up.
#[test]
fn points_of_windows_give_way() {
    let model = Arc::new(FakeModel::new(50, mixing).windowed(40));
    let engine = engine(&model, 600, 32);
    let room = engine.pool_options(5, 600).with_page_len(16);
    let scheduler = Scheduler::with_pool(engine, Vec::new(), room, 32).unwrap().with_prefixes(1);
    let mut queue = Queue::new(scheduler, None);
    let prompts: Vec<Vec<u32>> = (0..9).map(|salt| text(400 + 13 * salt as usize, salt)).collect();
    let expected: Vec<Vec<u32>> =
        prompts.iter().map(|prompt| alone(&model, prompt, &Request::greedy(90))).collect();
    let ids: Vec<RequestId> =
        prompts.into_iter().map(|prompt| queue.submit(prompt, &Request::greedy(90))).collect();
    let mut ended = finish(&mut queue);
    for (id, expected) in ids.iter().zip(&expected) {
        assert_eq!(&ended.remove(id).unwrap().unwrap().tokens, expected);
    }
    assert_eq!(queue.scheduler().counts().preemptions, 0, "windows have room for all that run");
    queue.scheduler_mut().forget().unwrap();
    assert_eq!(queue.scheduler().state_bytes(), 0);
}

/// What was said goes on: the whole conversation is there, with the answer.
#[test]
fn a_conversation_goes_on_where_it_was() {
    for (name, model) in models() {
        let mut queue = queue(&model, 2);
        let mut prompt = text(300, 3);
        for turn in 0..4 {
            let expected = alone(&model, &prompt, &Request::greedy(8));
            let id = queue.submit(&prompt, &Request::greedy(8));
            let outcome = finish(&mut queue).remove(&id).unwrap().unwrap();
            assert_eq!(outcome.tokens, expected, "{name}, turn {turn}");
            if turn > 0 {
                // All but the answer's last token, which was never fed, and what is new.
                assert_eq!(outcome.statistics.cached_tokens, prompt.len() - 10, "{name}");
            }
            prompt.extend(outcome.tokens);
            prompt.extend([turn, 7, 8, 9, 10, 11, 12, 13, 14]);
        }
    }
}

#[test]
fn answers_of_one_prompt_share_it() {
    for (name, model) in models() {
        let prompt = text(700, 2);
        let request = |seed| {
            Request::greedy(6).with_sampling(
                SamplingOptions::default()
                    .with_seed(seed)
                    .with_temperature(5.0)
                    .with_top_k(0)
                    .with_min_p(0.0),
            )
        };
        let expected: Vec<Vec<u32>> = (0..5).map(|seed| alone(&model, &prompt, &request(seed))).collect();
        assert!(expected.iter().any(|tokens| *tokens != expected[0]), "seeds make answers differ");
        let mut queue = queue(&model, 5);
        let ids: Vec<RequestId> = (0..5).map(|seed| queue.submit(&prompt, &request(seed))).collect();
        let mut ended = finish(&mut queue);
        let tokens: Vec<Vec<u32>> = ids.iter().map(|id| ended.remove(id).unwrap().unwrap().tokens).collect();
        assert_eq!(tokens, expected, "{name}");
        let computed = rows(&model.take_seen());
        assert!(computed <= 700 + 4 * 2 + 5 * 5, "{name}: {computed} rows");
    }
}

/// Adapters are not looked at here: `tests/conformance` has models with some.
#[test]
fn another_rope_regime_shares_nothing() {
    let model = Arc::new(FakeModel::new(50, mixing).with_limit(210));
    let mut queue = queue(&model, 2);
    for (len, cached) in [(200, 0), (205, 200), (230, 0), (240, 230)] {
        let id = queue.submit(text(len, 1), &Request::greedy(1));
        let outcome = finish(&mut queue).remove(&id).unwrap().unwrap();
        assert_eq!(outcome.statistics.cached_tokens, cached, "{len} tokens");
    }
}

/// However long a prompt is, no more rows than those of a step lie between two tokens of a sequence that decodes.
#[test]
fn a_long_prompt_delays_others_by_one_step_at_most() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let room = SchedulerOptions::default()
        .with_sequences(4)
        .with_prefixes(4)
        .with_capacity_tokens(4 * 8192)
        .with_step_tokens(100);
    let mut queue = Queue::new(Scheduler::new(engine(&model, 8192, 512), Vec::new(), room).unwrap(), None);
    let quick = queue.submit(vec![1, 2, 3], &Request::greedy(60));
    queue.step(|_, _| {});
    model.take_seen();
    for salt in 0..3 {
        queue.submit(text(5000, salt), &Request::greedy(2));
    }
    let mut longest = 0;
    loop {
        let mut told = 0;
        let ended = queue.step(|id, event| {
            told += usize::from(id == quick && matches!(event, Event::Token { .. }));
        });
        let computed = rows(&model.take_seen());
        if ended.iter().any(|(id, _)| *id == quick) {
            break;
        }
        assert_eq!(told, 1, "a token in every step");
        longest = longest.max(computed);
    }
    assert_eq!(longest, 100, "the prompts take what is left of each step");
}

#[test]
fn urgent_tasks_come_first_and_nobody_waits_for_ever() {
    let model = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 1);
    let submit = |queue: &mut Queue, salt, priority| {
        queue.submit(text(5, salt), &Request::greedy(2).with_priority(priority))
    };
    let ids = [submit(&mut queue, 1, 0), submit(&mut queue, 2, 5), submit(&mut queue, 3, 1)];
    let mut order = Vec::new();
    while !queue.is_idle() {
        order.extend(queue.step(|_, _| {}).into_iter().map(|(id, _)| id));
    }
    assert_eq!(order, [ids[1], ids[2], ids[0]]);
    // One that is less urgent, and more and more that are urgent.
    let patient = submit(&mut queue, 4, 0);
    for salt in 5..1000 {
        submit(&mut queue, salt, 3);
        if queue.step(|_, _| {}).iter().any(|(id, _)| *id == patient) {
            return;
        }
    }
    panic!("it waited for ever");
}

#[test]
fn what_goes_wrong_with_one_is_its_result() {
    let model = Arc::new(FakeModel::new(50, mixing).broken_after(mixing(&[9]), f32::NAN));
    let fine = Arc::new(FakeModel::new(50, mixing));
    let mut queue = queue(&model, 3);
    let bias = SamplingOptions::greedy().with_logit_bias(vec![(9999, 1.0)]);
    let prompts = [vec![9], vec![1; 8193], text(70, 1), vec![4, 5, 6]];
    let requests =
        [Request::greedy(4), Request::greedy(4), Request::greedy(4).with_sampling(bias), Request::greedy(1)];
    let ids: Vec<RequestId> =
        prompts.iter().zip(&requests).map(|(prompt, request)| queue.submit(prompt, request)).collect();
    let mut ended = finish(&mut queue);
    let mut result = |index: usize| ended.remove(&ids[index]).unwrap();
    assert!(matches!(result(0), Err(GenerateError::NotFinite { .. })));
    assert!(matches!(result(1), Err(GenerateError::PromptTooLong { .. })));
    assert!(matches!(result(2), Err(GenerateError::Sampling(_))));
    assert_eq!(result(3).unwrap().tokens, alone(&fine, &prompts[3], &requests[3]));
}

/// Two sequences of 40 tokens do not fit into 64, one does: the one that came later gives way, once, and says the same.
#[test]
fn who_has_no_room_is_computed_again_later() {
    for model in [FakeModel::new(50, mixing), FakeModel::new(50, mixing).recurrent()] {
        let model = Arc::new(model);
        let prompts: [Vec<u32>; 2] = [(0..12).collect(), (0..10).collect()];
        let expected = prompts.each_ref().map(|prompt| alone(&model, prompt, &Request::greedy(30)));
        let engine = engine(&model, 64, 16);
        let room = engine.pool_options(2, 64).with_page_len(4);
        let mut queue = Queue::new(Scheduler::with_pool(engine, Vec::new(), room, 16).unwrap(), None);
        let ids = prompts.map(|prompt| queue.submit(prompt, &Request::greedy(30)));
        let mut ended = finish(&mut queue);
        let outcomes = ids.map(|id| ended.remove(&id).unwrap().unwrap());
        assert_eq!(outcomes.each_ref().map(|one| one.tokens.clone()), expected);
        assert_eq!(outcomes.each_ref().map(|one| one.statistics.preemptions), [0, 1]);
        assert_eq!(queue.scheduler().counts().preemptions, 1);
        // It had 28 tokens when the other one wanted the last pages.
        assert!((20..40).contains(&queue.scheduler().counts().preempted_tokens));
    }
}

/// The same for a model whose prompts and answers are computed in different ways: the prompt is computed again as a
/// prompt, and the answer after it token by token. The tokens that it has are not sampled again.
#[test]
fn an_answer_that_is_computed_again_is_not_sampled_again() {
    let model = Arc::new(FakeModel::new(50, mixing).taking_whole_prompts());
    let prompts: [Vec<u32>; 2] = [(0..12).collect(), (0..10).collect()];
    for scored in [None, Some(2)] {
        let request = Request::greedy(30).with_logprobs(1).with_prompt_logprobs(scored);
        let run = |prompts: &[Vec<u32>], capacity: usize| {
            let engine = engine(&model, 64, 16);
            let room = engine.pool_options(2, capacity).with_page_len(4);
            let mut queue = Queue::new(Scheduler::with_pool(engine, Vec::new(), room, 16).unwrap(), None);
            let ids: Vec<RequestId> = prompts.iter().map(|prompt| queue.submit(prompt, &request)).collect();
            let mut events = BTreeMap::<RequestId, Vec<Event>>::new();
            let mut ended: BTreeMap<_, _> =
                queue.run(|id, event| events.entry(id).or_default().push(event)).into_iter().collect();
            let preemptions = queue.scheduler().counts().preemptions;
            let each =
                ids.iter().map(|id| (events.remove(id).unwrap(), ended.remove(id).unwrap().unwrap().tokens));
            (each.collect::<Vec<_>>(), preemptions)
        };
        let (plenty, none) = run(&prompts, 128);
        let (little, some) = run(&prompts, 64);
        assert_eq!((none, some), (0, 1));
        assert_eq!(plenty, little, "{scored:?}");
    }
}

/// The same with memory for what it held: nothing is computed twice.
#[test]
fn who_has_no_room_is_set_aside() {
    for (name, model) in models() {
        let prompts: [Vec<u32>; 2] = [(0..12).collect(), (0..10).collect()];
        let expected = prompts.each_ref().map(|prompt| alone(&model, prompt, &Request::greedy(30)));
        let engine = engine(&model, 64, 16);
        let room = engine.pool_options(2, 64).with_page_len(4);
        let scheduler = Scheduler::with_pool(engine, Vec::new(), room, 16).unwrap().with_swap_bytes(8 * 40);
        let mut queue = Queue::new(scheduler, None);
        let ids = prompts.map(|prompt| queue.submit(prompt, &Request::greedy(30)));
        let mut ended = finish(&mut queue);
        let outcomes = ids.map(|id| ended.remove(&id).unwrap().unwrap());
        assert_eq!(outcomes.each_ref().map(|one| one.tokens.clone()), expected, "{name}");
        let counts = *queue.scheduler().counts();
        assert_eq!(counts.rows, 12 + 10 + 2 * 29, "{name}: nothing is computed twice");
        assert_eq!(outcomes.each_ref().map(|one| one.statistics.preemptions), [0, 1], "{name}");
        assert_eq!(outcomes.each_ref().map(|one| one.statistics.set_aside), [0, 1], "{name}");
        assert_eq!((counts.preemptions, counts.set_aside, counts.preempted_tokens), (1, 1, 0), "{name}");
        assert!((20..40).contains(&counts.set_aside_tokens), "{name}");
        assert!(
            outcomes[1].statistics.to_string().ends_with("set aside 1 times for lack of pages"),
            "{name}"
        );
    }
}

/// By flag and by id, while they wait, compute their prompt and answer: nothing stays behind.
#[test]
fn a_thousand_cancelled_requests_leave_the_pages_as_before() {
    for (name, model) in models() {
        let mut queue = queue(&model, 8);
        let before = queue.scheduler().state_bytes();
        let (mut cancelled, mut said) = (0, 0);
        for index in 0..1000 {
            let flag = Arc::new(AtomicBool::new(false));
            let request = Request::greedy(100_000).with_cancel(Arc::clone(&flag));
            let id = queue.submit(text(10 + index % 900, index as u32), &request);
            let mut told = |ended: Vec<Completion>| {
                for (_, result) in ended {
                    match result {
                        Ok(outcome) => {
                            assert_eq!(outcome.reason, StopReason::Cancelled);
                            said += outcome.tokens.len();
                        }
                        Err(error) => assert!(matches!(error, GenerateError::Cancelled), "{error}"),
                    }
                    cancelled += 1;
                }
            };
            (0..index % 4).for_each(|_| told(queue.step(|_, _| {})));
            match index % 3 {
                0 => queue.cancel(id),
                _ => flag.store(true, Ordering::Relaxed),
            }
        }
        cancelled += finish(&mut queue).len();
        assert_eq!(cancelled, 1000, "{name}");
        assert!(said > 0, "{name}: some had begun to answer");
        queue.scheduler_mut().forget().unwrap();
        assert_eq!(queue.scheduler().state_bytes(), before, "{name}");
    }
}
