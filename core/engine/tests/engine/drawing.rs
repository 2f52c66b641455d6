//! Tokens of several sequences of a step, drawn side by side: the same as alone, on whichever thread.

use crate::fixture::{eight_sequences, engine, mixing};
use menagerie_engine::{
    GenerateError, Outcome, Queue, Request, Sampler, SamplerStep, SamplingOptions, Scheduler, StopReason,
};
use menagerie_testkit::FakeModel;
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};

/// So many that drawing is worth threads.
const VOCABULARY: usize = 40_000;

/// Changes nothing, and notes on which thread.
struct Where(Arc<Mutex<Vec<ThreadId>>>);

impl SamplerStep for Where {
    fn sample(&mut self, _: &mut [f32], _: &[u32], _: usize, _: u64) -> Result<(), String> {
        self.0.lock().unwrap().push(current().id());
        Ok(())
    }
}

fn together(requests: &[(Vec<u32>, Request)]) -> Vec<Result<Outcome, GenerateError>> {
    let model = Arc::new(FakeModel::new(VOCABULARY, mixing));
    let mut queue =
        Queue::new(Scheduler::new(engine(&model, 128, 64), Vec::new(), eight_sequences()).unwrap(), None);
    for (prompt, request) in requests {
        queue.submit(prompt, request);
    }
    queue.run(|_, _| {}).into_iter().map(|(_, result)| result).collect()
}

fn request(seed: u64, max_tokens: usize) -> Request {
    let sampling = SamplingOptions::default().with_seed(seed).with_repeat_penalty(1.1);
    Request::greedy(max_tokens).with_sampling(sampling).with_max_tokens(max_tokens)
}

#[test]
fn what_is_drawn_beside_others_is_what_is_drawn_alone() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let sampler = |noted: &Arc<Mutex<Vec<ThreadId>>>| {
        let noted = Arc::clone(noted);
        Sampler::new("test/drawing:where", move || Ok(Box::new(Where(Arc::clone(&noted)))))
    };
    // Some end before others, two share a seed, one draws nothing, one has a sampler of somebody else.
    let mut requests: Vec<Request> = (0..6).map(|at| request(at as u64 / 2, 9 + 2 * at)).collect();
    requests[4] = request(9, 0);
    requests[5].sampling.samplers.push(sampler(&noted));
    let with_prompt = |(at, request): (usize, Request)| {
        ((0..5).map(|token| token * 3 + at as u32).collect::<Vec<_>>(), request)
    };
    let requests: Vec<(Vec<u32>, Request)> = requests.into_iter().enumerate().map(with_prompt).collect();
    let shared = together(&requests);
    assert!(noted.lock().unwrap().iter().all(|thread| *thread == current().id()), "samplers stay here");
    assert_eq!(noted.lock().unwrap().len(), 19);
    for (request, shared) in requests.iter().zip(shared) {
        let own = together(std::slice::from_ref(request)).remove(0).unwrap();
        let shared = shared.unwrap();
        assert_eq!((&shared.tokens, &shared.reason), (&own.tokens, &StopReason::MaxTokens));
        assert_eq!(shared.tokens.len(), request.1.max_tokens.unwrap());
    }
}
