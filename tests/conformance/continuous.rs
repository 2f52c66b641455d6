//! Continuous batching of real models: 32 sequences of mixed lengths, adapters and samplers that come and go give what each
//! gives alone, bit for bit; what sequences share is what they would compute.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{
    AdapterChoice, Arithmetic, DraftPace, DraftRequest, DraftSource, DraftToken, Drafter, Event,
    GenerateError, KvType, Outcome, Queue, Request, RequestId, SamplingOptions, Scheduler, SchedulerOptions,
    Session, TextPipeline,
};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie_conformance::{fixtures, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens with their log probabilities.
type Said = Vec<(u32, f32)>;

/// How far log probabilities of F32 and F16 weights may be apart: not at all, as those of quantized ones.
const FLOATS: f32 = 0.0;

fn open(file: &str, arithmetic: Arithmetic) -> LoadedModel<TextPipeline> {
    let options = options(arithmetic).with_context(256);
    ModelBuilder::new(fixtures().join(file))
        .with_options(&options)
        .open_text()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn tokens(vocabulary: usize, seed: usize, count: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * i * 7 + i * (13 + seed) + 5 * seed + 5) % vocabulary) as u32).collect()
}

/// 32 prompts of 1 to 130 tokens, of which every other one begins like one before it.
fn prompts(vocabulary: usize) -> Vec<Vec<u32>> {
    let prompt = |index: usize| {
        let own = tokens(vocabulary, index, 1 + (index * 37) % 101);
        match index % 2 {
            0 => own,
            _ => [tokens(vocabulary, 1000 + index % 3, 29), own].concat(),
        }
    };
    (0..32).map(prompt).collect()
}

/// Greedy, hot, with penalties, with DRY; each with a seed of its own.
fn request(index: usize, adapters: AdapterChoice) -> Request {
    let sampling = SamplingOptions::default().with_seed(index as u64);
    let sampling = match index % 4 {
        0 => SamplingOptions::greedy(),
        1 => sampling.with_temperature(1.5).with_top_k(0).with_min_p(0.0),
        2 => sampling.with_repeat_penalty(1.3).with_presence_penalty(0.5).with_temperature(1.0),
        _ => sampling.with_dry_multiplier(0.8).with_xtc_probability(0.3),
    };
    let max_tokens = Some(3 + (index * 11) % 23);
    Request::default()
        .with_sampling(sampling)
        .with_max_tokens(max_tokens)
        .with_ignore_eos(true)
        .with_logprobs(0)
        .with_adapters(adapters)
}

fn note(said: &mut Said, event: Event) {
    if let Event::Token { id, logprob, .. } = event {
        said.push((id, logprob.unwrap()));
    }
}

/// The same tokens, and log probabilities as near as this.
fn assert_same(said: &Said, expected: &Said, near: f32, what: &str) {
    let ids = |said: &Said| said.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!(ids(said), ids(expected), "{what}");
    for ((_, found), (_, expected)) in said.iter().zip(expected) {
        assert!((found - expected).abs() <= near, "{what}: {found} instead of {expected}");
    }
}

/// Steps until all is done; what each request said, and its outcome.
fn finish(queue: &mut Queue, said: &mut BTreeMap<RequestId, Said>) -> BTreeMap<RequestId, Outcome> {
    let mut ended = BTreeMap::new();
    while !queue.is_idle() {
        step(queue, said, &mut ended);
    }
    ended
}

fn step(queue: &mut Queue, said: &mut BTreeMap<RequestId, Said>, ended: &mut BTreeMap<RequestId, Outcome>) {
    let over = queue.step(|id, event| note(said.entry(id).or_default(), event));
    ended.extend(over.into_iter().map(|(id, result)| (id, result.unwrap_or_else(|error| panic!("{error}")))));
}

/// All requests in a queue in which they come one by one, with room for few of them, and alone.
fn together_is_alone(name: &str, pipeline: &TextPipeline, sets: &[AdapterChoice], near: f32) {
    let prompts = prompts(pipeline.vocabulary());
    let requests: Vec<Request> =
        (0..32).map(|index| request(index, sets[index % sets.len()].clone())).collect();
    let alone = |index: usize| {
        let mut said = Said::new();
        let mut session = pipeline.session().unwrap();
        session.generate(&prompts[index], &requests[index], |event| note(&mut said, event)).unwrap();
        said
    };
    let expected: Vec<Said> = (0..32).map(alone).collect();
    // Twelve pages of 256 tokens for eight sequences; and 32 at once.
    for (sequences, step_tokens, all_at_once) in [(8, 40, false), (32, 100, true)] {
        let room = SchedulerOptions::default()
            .with_sequences(sequences)
            .with_prefixes(sequences)
            .with_capacity_tokens(sequences * 256)
            .with_step_tokens(step_tokens);
        let mut queue = pipeline.queue(room).unwrap();
        let (mut said, mut ended, mut ids) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (prompt, request) in prompts.iter().zip(&requests) {
            ids.push(queue.submit(prompt, request));
            if !all_at_once {
                step(&mut queue, &mut said, &mut ended);
            }
        }
        ended.extend(finish(&mut queue, &mut said));
        assert_eq!(ended.len(), 32);
        for (index, id) in ids.iter().enumerate() {
            let what =
                format!("{name}, {sequences} at once, sequence {index} of {} tokens", prompts[index].len());
            assert_eq!(said[id].len(), requests[index].max_tokens.unwrap(), "{what}");
            assert_same(&said[id], &expected[index], near, &what);
        }
        let shared = queue.scheduler().counts().shared;
        assert!(shared >= 29, "{name}: {shared} tokens were shared");
    }
}

#[test]
fn thirty_two_sequences_of_quantized_models_are_what_they_are_alone() {
    for file in ["Q4_K_M", "Q8_0", "Q4_0", "IQ4_XS"] {
        let pipeline = open(&format!("quant/{file}.gguf"), Arithmetic::Fast);
        together_is_alone(file, &pipeline, &[AdapterChoice::Bare], 0.0);
    }
}

#[test]
fn thirty_two_sequences_with_adapters_are_too() {
    for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
        let pipeline = open("base/llama/model-f32.gguf", arithmetic);
        for name in ["a0", "a1", "a3"] {
            pipeline.load_adapter(name, fixtures().join("lora/llama/adapters").join(name)).unwrap();
        }
        let set = |members: &[(&str, f32)]| AdapterChoice::Set(pipeline.adapter_set(members).unwrap());
        let sets = [AdapterChoice::Bare, set(&[("a0", 1.0)]), set(&[("a1", 1.0), ("a3", 0.5)])];
        together_is_alone(&format!("llama, {arithmetic:?}"), &pipeline, &sets, FLOATS);
    }
}

/// Recurrent, windowed, both, latent attention, short convolutions.
#[test]
fn thirty_two_sequences_of_other_mixers_are_too() {
    for name in ["mamba2", "gemma3", "falcon-h1", "deepseek2-v3", "lfm2"] {
        let pipeline = open(&format!("zoo/{name}/model-f16.gguf"), Arithmetic::Fast);
        together_is_alone(name, &pipeline, &[AdapterChoice::Bare], FLOATS);
    }
}

/// The second sequence computes fewer than 2 % of the tokens of the first one: of attention, a recurrence, windows.
#[test]
fn a_shared_prefix_of_4000_tokens_is_computed_once() {
    for file in ["base/llama/model-f32.gguf", "zoo/mamba2/model-f16.gguf", "zoo/gemma3/model-f16.gguf"] {
        let options = options(Arithmetic::Fast).with_context(4200);
        let pipeline = ModelBuilder::new(fixtures().join(file)).with_options(&options).open_text().unwrap();
        let prefix = tokens(pipeline.vocabulary(), 3, 4000);
        let prompt = |last: usize| [&prefix[..], &tokens(pipeline.vocabulary(), last, 40)].concat();
        let request = Request::greedy(6).with_logprobs(0).with_ignore_eos(true);
        let alone = [1, 2].map(|last| {
            let mut said = Said::new();
            let mut session = pipeline.session().unwrap();
            session.generate(prompt(last), &request, |event| note(&mut said, event)).unwrap();
            said
        });
        let room = SchedulerOptions::default()
            .with_sequences(2)
            .with_prefixes(2)
            .with_capacity_tokens(3 * 4200)
            .with_step_tokens(512);
        let mut queue = pipeline.queue(room).unwrap();
        let ids = [1, 2].map(|last| queue.submit(prompt(last), &request));
        let mut said = BTreeMap::new();
        let ended = finish(&mut queue, &mut said);
        for (id, alone) in ids.iter().zip(&alone) {
            assert_same(&said[id], alone, FLOATS, file);
        }
        // All but the prefix and five tokens that each fed back.
        let rows = queue.scheduler().counts().rows as usize;
        let second = rows - 4040 - 2 * 5;
        assert!(second * 100 < 2 * 4040, "{file}: {second} rows");
        let seconds = ids.map(|id| ended[&id].statistics.prefill.as_secs_f64());
        println!("{file}: {second} rows; prompts took {:.3} s and {:.3} s", seconds[0], seconds[1]);
    }
}

/// One after the other, the next one coming when the answer before has moved every window on: those that part from the first one
/// near its end go on from a point before that, and compute the few rows between; of two that part from it further before, the
/// second one goes on from where the first one did. What they say is what each says alone.
#[test]
fn a_prefix_of_4000_tokens_is_found_after_its_sequence_has_ended() {
    for file in ["base/llama/model-f32.gguf", "zoo/mamba2/model-f16.gguf", "zoo/gemma3/model-f16.gguf"] {
        let options = options(Arithmetic::Fast).with_context(4608);
        let pipeline = ModelBuilder::new(fixtures().join(file)).with_options(&options).open_text().unwrap();
        let prefix = tokens(pipeline.vocabulary(), 3, 4000);
        let room = SchedulerOptions::default()
            .with_sequences(2)
            .with_prefixes(3)
            .with_capacity_tokens(5 * 4608)
            .with_step_tokens(512);
        let mut queue = pipeline.queue(room).unwrap();
        let mut before = 0;
        let mut rows_of = |index: usize, alike: usize| {
            let prompt = [&prefix[..alike], &tokens(pipeline.vocabulary(), index, 4040 - alike)].concat();
            let long = if index == 1 { 400 } else { 6 };
            let request = Request::greedy(long).with_logprobs(0).with_ignore_eos(true);
            let mut alone = Said::new();
            let mut session = pipeline.session().unwrap();
            session.generate(&prompt, &request, |event| note(&mut alone, event)).unwrap();
            let id = queue.submit(prompt, &request);
            let mut said = BTreeMap::new();
            finish(&mut queue, &mut said);
            assert_same(&said[&id], &alone, FLOATS, file);
            let rows = queue.scheduler().counts().rows as usize;
            rows - std::mem::replace(&mut before, rows) - (long - 1)
        };
        let near = [rows_of(1, 4000), rows_of(2, 4000), rows_of(3, 4000)];
        let far = [rows_of(4, 3900), rows_of(5, 3900)];
        // 3976 and 3784 tokens are borders: the prompt's end less 64 and 256. A recurrence knows no others; the windows of the
        // second answer, which is short, have not moved on.
        let (second, third, fourth) = match file {
            _ if file.contains("llama") => (40, 40, 140),
            _ if file.contains("gemma3") => (64, 40, 140),
            _ => (64, 64, 256),
        };
        assert_eq!(near, [4040, second, third], "{file}");
        assert!(near[1] * 100 < 2 * near[0]);
        assert_eq!(far, [fourth, 140], "{file}");
    }
}

/// Six sequences in room for two: some give way, to be computed again or to be put back, and say what each says alone. Attention,
/// a recurrence beside it, windows beside it; caches of two types.
#[test]
fn who_gives_way_says_the_same() {
    for (file, kv_type) in [
        ("quant/Q4_K_M.gguf", KvType::F16),
        ("quant/Q8_0.gguf", KvType::Q8_0),
        ("zoo/falcon-h1/model-f16.gguf", KvType::F16),
        ("zoo/gemma3/model-f16.gguf", KvType::F16),
        ("zoo/deepseek2-v3/model-f16.gguf", KvType::F32),
    ] {
        let options = options(Arithmetic::Fast).with_context(256).with_kv_type(kv_type);
        let pipeline = ModelBuilder::new(fixtures().join(file)).with_options(&options).open_text().unwrap();
        let prompts: Vec<Vec<u32>> =
            (0..6).map(|index| tokens(pipeline.vocabulary(), index, 10 + 3 * index)).collect();
        let request = |index: usize| request(index, AdapterChoice::Bare).with_max_tokens(140 + index);
        let alone = |index: usize| {
            let mut said = Said::new();
            let mut session = pipeline.session().unwrap();
            session.generate(&prompts[index], &request(index), |event| note(&mut said, event)).unwrap();
            said
        };
        let expected: Vec<Said> = (0..6).map(alone).collect();
        for aside in [0, 1 << 30] {
            let engine = pipeline.engine();
            // A page is no smaller than the blocks that attention reads.
            let room = engine.pool_options(6, 300).with_page_len(64);
            let scheduler = Scheduler::with_pool(Arc::clone(engine), Vec::new(), room, 64).unwrap();
            let tokenizer = Arc::clone(pipeline.tokenizer().unwrap());
            let mut queue = Queue::new(scheduler.with_swap_bytes(aside), Some(tokenizer));
            // They begin beside each other, and outgrow the room.
            let submit = |(index, prompt): (usize, &Vec<u32>)| {
                queue.submit(prompt, &request(index).with_priority(index as i32 % 3))
            };
            let ids: Vec<RequestId> = prompts.iter().enumerate().map(submit).collect();
            let mut said = BTreeMap::new();
            finish(&mut queue, &mut said);
            for (index, id) in ids.iter().enumerate() {
                let what = format!("{file}, {aside} bytes, sequence {index}");
                assert_same(&said[id], &expected[index], FLOATS, &what);
            }
            let counts = queue.scheduler().counts();
            println!("{file}, {aside} bytes: {counts:?}");
            assert!(counts.preemptions > 0, "{file}: {counts:?}");
            assert_eq!(counts.set_aside, if aside > 0 { counts.preemptions } else { 0 }, "{file}");
            assert_eq!(counts.preempted_tokens == 0, aside > 0, "{file}");
        }
    }
}

/// A known text with mistakes, as guesses of its next tokens.
#[derive(Clone, Debug)]
struct KnownText {
    tokens: Vec<u32>,
    seed: u64,
}

impl DraftSource for KnownText {
    fn start(&self, _: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(self.clone()))
    }
}

impl Drafter for KnownText {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        let rest = self.tokens.get(tokens.len()..).unwrap_or_default().iter().take(most);
        let guess = |&id: &u32| {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let is_wrong = self.seed >> 60 < 3;
            DraftToken { id: if is_wrong { id ^ 1 } else { id }, grade: 7 }
        };
        rest.map(guess).collect()
    }
}

/// Requests with and without drafts, alone and together in room for few of them. Returns drafted and accepted tokens.
fn drafts_change_nothing(file: &str, seeds: std::ops::Range<usize>, most: usize) -> [u64; 2] {
    let pipeline = open(file, Arithmetic::Fast);
    let (engine, tokenizer) = (pipeline.engine(), pipeline.tokenizer().unwrap());
    let vocabulary = pipeline.vocabulary();
    let mut session = Session::new(
        Scheduler::for_one(Arc::clone(engine), Vec::new()).unwrap().with_draft_pace(DraftPace::Always),
        Some(Arc::clone(tokenizer)),
    )
    .unwrap();
    let mut sums = [0, 0];
    for seed in seeds {
        // Greedy, hot, with penalties, with DRY, and the default.
        let prompts: Vec<Vec<u32>> = (0..5).map(|at| tokens(vocabulary, seed + at, 5 + 9 * at)).collect();
        let requests: Vec<Request> = (0..5)
            .map(|at| match at {
                4 => Request::default().with_sampling(SamplingOptions::default().with_seed(seed as u64)),
                at => request(4 * seed + at, AdapterChoice::Bare),
            })
            .map(|request| request.with_max_tokens(most).with_ignore_eos(true).with_logprobs(0))
            .collect();
        let mut answer = |at: usize, request: &Request| {
            let mut said = Said::new();
            let outcome = session.generate(&prompts[at], request, |event| note(&mut said, event)).unwrap();
            (said, outcome.statistics)
        };
        let plain: Vec<Said> = (0..5).map(|at| answer(at, &requests[at]).0).collect();
        let drafted = |at: usize| {
            let ids = plain[at].iter().map(|(id, _)| *id);
            let source =
                KnownText { tokens: prompts[at].iter().copied().chain(ids).collect(), seed: seed as u64 };
            requests[at].clone().with_draft(Arc::new(source) as Arc<dyn DraftSource>)
        };
        for (at, plain) in plain.iter().enumerate() {
            let (said, statistics) = answer(at, &drafted(at));
            assert_same(&said, plain, 0.0, &format!("{file}, seed {seed}, sampler {at}"));
            sums[0] += statistics.drafted_tokens as u64;
            sums[1] += statistics.accepted_tokens as u64;
        }
        let room = engine.pool_options(6, 64 + 2 * most).with_page_len(64);
        let scheduler = Scheduler::with_pool(Arc::clone(engine), Vec::new(), room, 64).unwrap();
        let mut queue = Queue::new(scheduler.with_draft_pace(DraftPace::Always), Some(Arc::clone(tokenizer)));
        let ids: Vec<RequestId> = (0..5).map(|at| queue.submit(&prompts[at], &drafted(at))).collect();
        let mut said = BTreeMap::new();
        finish(&mut queue, &mut said);
        for (at, id) in ids.iter().enumerate() {
            assert_same(&said[id], &plain[at], 0.0, &format!("{file}, seed {seed}, {at} of 5"));
        }
        assert!(queue.scheduler().counts().accepted > 0);
    }
    assert!(sums[1] > 0 && sums[1] < sums[0], "{file}: {sums:?}");
    sums
}

/// A state that takes no token back is put back after a wrong guess, and the accepted tokens are computed again.
#[test]
fn a_hundred_seeds_and_five_samplers_of_a_recurrent_model_answer_as_without_drafts() {
    let sums = drafts_change_nothing("zoo/mamba/model-f16.gguf", 0..100, 12);
    assert!(sums[1] > 2000, "{sums:?}");
}

/// Scans, short convolutions, linear attention and delta rules, beside attention and without it.
#[test]
fn drafts_of_hybrid_models_change_nothing() {
    for family in ["mamba2", "falcon-h1", "jamba", "nemotron_h", "kimi-linear", "qwen3next", "lfm2", "plamo2"]
    {
        drafts_change_nothing(&format!("zoo/{family}/model-f16.gguf"), 0..3, 40);
    }
}
