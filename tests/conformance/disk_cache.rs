//! The cache on disk with real models: a prompt that starts with stored state has the bits of one that is computed, for
//! states of every kind, and nothing that was computed otherwise is used.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{
    AdapterChoice, Arithmetic, DiskCache, DiskCacheOptions, Event, KvType, Queue, Request, SamplingOptions,
    SchedulerOptions, Session, TextPipeline,
};
use menagerie::measure::{ControlVectorOption, SteeringOptions, steering};
use menagerie::open::{AdapterOption, LoadOptions, LoadedModel, ModelBuilder, StageOptions, StageProbe};
use menagerie::spec::AdapterKind;
use menagerie_conformance::{fixtures, options, rewrite};
use menagerie_random::SplitMix64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: usize = 16;

fn fast() -> LoadOptions {
    options(Arithmetic::Fast).with_context(1024)
}

fn open(model: &Path, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    ModelBuilder::new(model)
        .with_options(options)
        .open_text()
        .unwrap_or_else(|error| panic!("{}: {error}", model.display()))
}

fn llama() -> PathBuf {
    fixtures().join("base/llama/model-f32.gguf")
}

fn zoo(name: &str) -> PathBuf {
    fixtures().join("zoo").join(name).join("model-f16.gguf")
}

/// Tokens that tell positions apart, of any vocabulary.
fn text(pipeline: &TextPipeline, seed: u32, count: u32) -> Vec<u32> {
    let most = (pipeline.vocabulary() as u32).min(200) - 8;
    (0..count).map(|at| 5 + (at * at + seed * 31 + at * 7) % most).collect()
}

fn cached(pipeline: &mut LoadedModel<TextPipeline>, folder: &Path) -> Arc<DiskCache> {
    let options = DiskCacheOptions::default().with_block_tokens(BLOCK);
    let cache =
        DiskCache::open(folder, options, pipeline, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let cache = Arc::new(cache);
    pipeline.cache_on_disk(Some(Arc::clone(&cache)));
    cache
}

/// An answer, the bits of all log probabilities, and the tokens from the disk.
#[derive(Debug)]
struct Answered {
    tokens: Vec<u32>,
    bits: Vec<u32>,
    from_disk: usize,
}

impl Answered {
    fn assert_same(&self, other: &Self, what: &str) {
        assert_eq!(self.tokens, other.tokens, "{what}");
        assert_eq!(self.bits, other.bits, "{what}: bits");
    }
}

fn bits_of(event: &Event, bits: &mut Vec<u32>) {
    if let Event::Token { logprob: Some(own), top, .. } = event {
        bits.push(own.to_bits());
        bits.extend(top.iter().map(|one| one.logprob.to_bits()));
    }
}

fn request() -> Request {
    Request::greedy(6).with_logprobs(3).with_ignore_eos(true)
}

fn answer(session: &mut Session, prompt: &[u32], request: &Request) -> Answered {
    let mut bits = Vec::new();
    let outcome = session.generate(prompt, request, |event| bits_of(&event, &mut bits));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    Answered { tokens: outcome.tokens, bits, from_disk: outcome.statistics.disk_tokens }
}

/// Cold, off and warm in a model that was opened anew, and warm with a longer prompt.
fn starts(model: &Path, written: &LoadOptions, read: &LoadOptions) {
    let (folder, name) = (tempfile::tempdir().unwrap(), model.display().to_string());
    let mut first = open(model, written);
    let prompt = text(&first, 1, 75);
    let off = answer(&mut first.session().unwrap(), &prompt, &request());
    let longer = [&prompt[..], &off.tokens, &text(&first, 2, 20)].concat();
    let off_longer = answer(&mut first.session().unwrap(), &longer, &request());
    let cache = cached(&mut first, folder.path());
    let cold = answer(&mut first.session().unwrap(), &prompt, &request());
    cold.assert_same(&off, &name);
    assert_eq!(cold.from_disk, 0, "{name}");
    drop((first, cache));
    let mut second = open(model, read);
    let cache = cached(&mut second, folder.path());
    let warm = answer(&mut second.session().unwrap(), &prompt, &request());
    warm.assert_same(&off, &name);
    assert_eq!(warm.from_disk, 64, "{name}");
    let mut session = second.session().unwrap();
    let warm = answer(&mut session, &longer, &request());
    warm.assert_same(&off_longer, &name);
    assert!(warm.from_disk >= 64, "{name}: {}", warm.from_disk);
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.damaged, counts.faults), (2, 0, 0), "{name}: {counts:?}");
}

#[test]
fn states_of_every_kind_start_from_disk() {
    for name in ["llama", "qwen2", "qwen3", "phi3", "mixtral", "starcoder2"] {
        let model = fixtures().join("base").join(name).join("model-f32.gguf");
        starts(&model, &fast(), &fast().with_chunk(16));
    }
    for name in [
        "mamba",
        "mamba2",
        "jamba",
        "falcon-h1",
        "lfm2",
        "qwen3next",
        "kimi-linear",
        "plamo2",
        "gemma3",
        "gpt-oss",
        "llama-window",
        "llama4",
        "deepseek2-v3",
        "minicpm3",
        "gemma4-kv",
    ] {
        starts(&zoo(name), &fast(), &fast());
        starts(&zoo(name), &fast().with_chunk(16), &fast().with_chunk(40));
    }
}

#[test]
fn every_cache_type_adapters_and_stages_start_from_disk() {
    for kv_type in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let options = fast().with_kv_type(kv_type);
        starts(&fixtures().join("quant/Q4_K_M.gguf"), &options, &options);
    }
    let lora = fast().with_adapters(vec![lora(0.7)]);
    starts(&llama(), &lora, &lora);
    let variant = std::fs::read_dir(fixtures().join("lora/llama/xlora")).unwrap().next().unwrap().unwrap();
    let xlora = AdapterOption { kind: AdapterKind::XLora, path: variant.path(), weight: 1.0 };
    let xlora = fast().with_adapters(vec![xlora]);
    starts(&llama(), &xlora, &xlora);
    let two = StageOptions::count(2).with_probe(StageProbe::Never);
    for model in [llama(), zoo("gemma3"), zoo("jamba")] {
        starts(&model, &fast().with_stages(two.clone()), &fast());
        starts(&model, &fast(), &fast().with_stages(two.clone()));
    }
}

fn lora(weight: f32) -> AdapterOption {
    let path = fixtures().join("lora/llama/adapters/a0");
    AdapterOption { kind: AdapterKind::Lora, path, weight }
}

/// The tokens that an answer takes from a folder.
fn from_disk(pipeline: &mut LoadedModel<TextPipeline>, folder: &Path, request: &Request) -> usize {
    pipeline.cache_on_disk(None);
    let prompt = text(pipeline, 1, 75);
    let off = answer(&mut pipeline.session().unwrap(), &prompt, request);
    let _cache = cached(pipeline, folder);
    let on = answer(&mut pipeline.session().unwrap(), &prompt, request);
    on.assert_same(&off, "with and without the cache");
    on.from_disk
}

/// Each of these computes other states, or was computed by something else: the first time nothing is found, the second time
/// its own blocks.
#[test]
fn what_was_computed_otherwise_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = folder.join("norm.gguf");
    let changed = std::cell::Cell::new(false);
    rewrite(&llama(), &other, &|name, data| {
        if name == "blk.1.attn_norm.weight" {
            data[41] ^= 1;
            changed.set(true);
        }
    });
    assert!(changed.get());
    let steered = || {
        let mut pipeline = open(&llama(), &fast());
        let given = [ControlVectorOption { path: fixtures().join("control/a.gguf"), scale: 1.0 }];
        let options = SteeringOptions::default().with_layers(None).with_hint(None);
        let hook = steering(&pipeline, &given, &options).unwrap();
        pipeline.add_hook(Arc::new(hook));
        pipeline
    };
    let of = |options: LoadOptions| open(&llama(), &options);
    let mut all = vec![
        ("usual", of(fast())),
        ("norm", open(&other, &fast())),
        ("f16", of(fast().with_kv_type(KvType::F16))),
        ("exact", of(fast().with_arithmetic(Arithmetic::Exact))),
        ("lora", of(fast().with_adapters(vec![lora(1.0)]))),
        ("half of it", of(fast().with_adapters(vec![lora(0.5)]))),
        ("steered", steered()),
    ];
    for expected in [0, 64] {
        for (name, pipeline) in &mut all {
            assert_eq!(from_disk(pipeline, folder, &request()), expected, "{name}");
        }
    }
    let salted = request().with_cache_salt(Arc::from("a"));
    assert_eq!([0, 1].map(|_| from_disk(&mut all[0].1, folder, &salted)), [0, 64]);
    // Adapters of a request: the bare model of one that was opened with an adapter is the usual one.
    let bare = request().with_adapters(AdapterChoice::Bare);
    assert_eq!(from_disk(&mut all[4].1, folder, &bare), 64);
    all[0].1.load_adapter("a0", fixtures().join("lora/llama/adapters/a0")).unwrap();
    let chosen = request().with_adapters(AdapterChoice::Set(all[0].1.adapter_set(&[("a0", 1.0)]).unwrap()));
    assert_eq!(from_disk(&mut all[0].1, folder, &chosen), 64, "what the model with this adapter computed");
    let third = request().with_adapters(AdapterChoice::Set(all[0].1.adapter_set(&[("a0", 0.25)]).unwrap()));
    assert_eq!([0, 1].map(|_| from_disk(&mut all[0].1, folder, &third)), [0, 64]);
}

/// Requests of several kinds in one queue, with adapters of their own; the same in a second process.
#[test]
fn a_queue_starts_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    for model in [llama(), zoo("gemma3"), zoo("mamba2")] {
        let run = |on: bool| {
            let mut pipeline = open(&model, &fast());
            let cache = on.then(|| cached(&mut pipeline, folder.path()));
            let options = SchedulerOptions::default().with_sequences(3).with_step_tokens(48);
            let mut queue: Queue = pipeline.queue(options).unwrap();
            let mut bits = std::collections::BTreeMap::<_, Vec<u32>>::new();
            for number in 0..12u32 {
                let mut prompt = text(&pipeline, number % 3, 60);
                prompt.extend(text(&pipeline, 10 + number, 5 + 7 * number));
                let scored = (number % 4 == 3).then_some(20);
                queue.submit(&prompt, &request().with_prompt_logprobs(scored));
            }
            let answers = queue.run(|id, event| bits_of(&event, bits.entry(id).or_default()));
            let tokens: Vec<Vec<u32>> =
                answers.into_iter().map(|(_, result)| result.unwrap().tokens).collect();
            let bits: Vec<Vec<u32>> = bits.into_values().collect();
            (tokens, bits, cache.map_or(0, |cache| cache.counts().hits))
        };
        let (off, cold, warm) = (run(false), run(true), run(true));
        assert_eq!((&off.0, &off.1), (&cold.0, &cold.1), "{}", model.display());
        assert_eq!((&off.0, &off.1), (&warm.0, &warm.1), "{}", model.display());
        assert!(warm.2 > 3, "{}: {} hits", model.display(), warm.2);
    }
}

/// The number of random requests of the next test: this variable, or 100.
const REQUESTS: &str = "MENAGERIE_TEST_CACHED_REQUESTS";

/// Set in a child process: the folder that it fills.
const WRITER: &str = "MENAGERIE_TEST_CACHE_WRITER";

/// Attention, and a recurrence beside it.
const RANDOM: [&str; 2] = ["olmo2", "falcon-h1"];

/// Requests with prompts that often begin alike, and samplers of several kinds.
fn random_requests(pipeline: &TextPipeline) -> Vec<(Vec<u32>, Request)> {
    let count: usize = std::env::var(REQUESTS).ok().and_then(|count| count.parse().ok()).unwrap_or(100);
    let mut random = SplitMix64::new(7);
    let most = (pipeline.vocabulary()).min(200);
    let mut all: Vec<(Vec<u32>, Request)> = Vec::new();
    for number in 0..count / RANDOM.len() {
        let mut prompt = match number {
            0 => Vec::new(),
            _ => {
                let (known, _) = &all[random.below(number)];
                known[..random.below(known.len() + 1)].to_vec()
            }
        };
        prompt.extend((0..1 + random.below(60)).map(|_| random.below(most) as u32));
        prompt.truncate(200);
        let sampling = match random.below(3) {
            0 => SamplingOptions::greedy(),
            1 => SamplingOptions::default().with_seed(number as u64),
            _ => SamplingOptions::default()
                .with_seed(number as u64)
                .with_temperature(2.0)
                .with_repeat_penalty(1.2),
        };
        let request = Request::greedy(1 + random.below(8)).with_sampling(sampling).with_logprobs(2);
        all.push((prompt, request.with_ignore_eos(true)));
    }
    all
}

/// The answers to the random requests, each in a new session; with a folder, opened again now and then.
fn random_answers(model: &Path, folder: Option<&Path>) -> (Vec<Answered>, usize) {
    let mut pipeline = open(model, &fast());
    let requests = random_requests(&pipeline);
    let (mut answers, mut cache) = (Vec::new(), None);
    for (number, (prompt, request)) in requests.iter().enumerate() {
        if number % 20 == 0 {
            drop(cache.take());
            cache = folder.map(|folder| cached(&mut pipeline, folder));
        }
        answers.push(answer(&mut pipeline.session().unwrap(), prompt, request));
        // The next one finds what this one has computed.
        cache.iter().for_each(|cache| cache.flush());
        let counts = cache.as_ref().map(|cache| cache.counts()).unwrap_or_default();
        assert_eq!((counts.damaged, counts.faults), (0, 0), "{counts:?}");
    }
    let from_disk = answers.iter().filter(|answer| answer.from_disk > 0).count();
    (answers, from_disk)
}

/// The child of the next test; by itself it does nothing.
#[test]
fn fills_a_folder_with_other_kernels() {
    let Ok(folder) = std::env::var(WRITER) else { return };
    for name in RANDOM {
        random_answers(&zoo(name), Some(Path::new(&folder)));
    }
}

/// Tokens and log probabilities, byte for byte: without the cache, while it fills, when it is full, and when a process
/// with kernels for another processor filled it.
#[test]
fn random_requests_have_the_same_bytes_with_the_cache_off_on_and_of_other_kernels() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fills_a_folder_with_other_kernels"])
        .env(WRITER, folders[1].path())
        .env("MENAGERIE_ISA", "portable")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    for name in RANDOM {
        let (off, none) = random_answers(&zoo(name), None);
        let mut hits = Vec::new();
        for folder in [&folders[0], &folders[0], &folders[1]] {
            let (found, from_disk) = random_answers(&zoo(name), Some(folder.path()));
            assert_eq!(off.len(), found.len());
            off.iter().zip(&found).for_each(|(off, found)| found.assert_same(off, name));
            hits.push(from_disk);
        }
        assert_eq!((none, hits[1]), (0, hits[2]), "{name}");
        assert!(hits[0] > 5 && hits[0] < hits[1], "{name}: {hits:?} of {}", off.len());
    }
}
