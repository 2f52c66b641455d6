//! States that outlast a process: what is taken up from a file goes on bit for bit as what was never put down, for caches of
//! every kind, and nothing that does not fit is taken up.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{
    Arithmetic, ChatMessage, Event, KvType, Outcome, Request, SavedConversation, Session, StateFile,
    StateFileError, TextPipeline,
};
use menagerie::measure::{ControlVectorOption, SteeringOptions, steering};
use menagerie::open::{AdapterOption, LoadOptions, LoadedModel, ModelBuilder, StageOptions, StageProbe};
use menagerie::spec::{AdapterKind, MetadataValue};
use menagerie_conformance::{fixtures, on_candle, options, rewrite};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    fixtures().join(name)
}

fn fast() -> LoadOptions {
    options(Arithmetic::Fast).with_context(1024)
}

fn open(model: &Path, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    ModelBuilder::new(model)
        .with_options(options)
        .open_text()
        .unwrap_or_else(|error| panic!("{}: {error}", model.display()))
}

/// Tokens that tell positions apart, of any vocabulary.
fn text(pipeline: &TextPipeline, seed: u32, count: u32) -> Vec<u32> {
    let most = (pipeline.vocabulary() as u32).min(200) - 8;
    (0..count).map(|at| 5 + (at * at + seed * 31 + at * 7) % most).collect()
}

/// An answer of `count` tokens, and the bits of the log probabilities of each and of the three likeliest.
fn answer(session: &mut Session, prompt: &[u32], count: usize) -> (Outcome, Vec<u32>) {
    let request = Request::greedy(count).with_logprobs(3).with_ignore_eos(true);
    let mut bits = Vec::new();
    let mut sink = |event: Event| {
        if let Event::Token { logprob: Some(own), top, .. } = event {
            bits.push(own.to_bits());
            bits.extend(top.iter().map(|one| one.logprob.to_bits()));
        }
    };
    let outcome = session.generate(prompt, &request, &mut sink).unwrap_or_else(|error| panic!("{error}"));
    (outcome, bits)
}

fn file_of(path: &Path, pipeline: &LoadedModel<TextPipeline>) -> StateFile {
    StateFile::open(path, pipeline, Vec::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// A text, an answer, and more text: put down after the answer and taken up by a model that was opened anew it gives what the
/// session gives that goes on, and the same text as one that begins with all of it.
fn goes_on(model: &Path, options: &LoadOptions) {
    goes_on_in_chunks(model, options, options.context.chunk);
}

fn goes_on_in_chunks(model: &Path, options: &LoadOptions, chunk: usize) {
    goes_on_as(model, options, &options.clone().with_chunk(chunk));
}

/// Put down by a model that was opened so, and taken up by one that was opened so; gives the file.
fn goes_on_as(model: &Path, put_down: &LoadOptions, taken_up: &LoadOptions) -> Vec<u8> {
    let name = model.display();
    let Taken { uninterrupted, resumed, anew, file } = answers(model, put_down, taken_up);
    assert_eq!(resumed.0.tokens, uninterrupted.0.tokens, "{name}");
    assert_eq!(resumed.1, uninterrupted.1, "{name}: bits");
    let [kept, here] = [&resumed, &uninterrupted].map(|(outcome, _)| outcome.statistics.cached_tokens);
    assert_eq!(kept, here, "{name}: tokens that were not computed again");
    assert!(kept >= 45, "{name}: {kept} tokens were kept");
    assert_eq!((anew.tokens, anew.statistics.cached_tokens), (resumed.0.tokens, 0), "{name}: begun anew");
    file
}

/// Answers with the bits of their log probabilities, and the file between them.
struct Taken {
    uninterrupted: (Outcome, Vec<u32>),
    resumed: (Outcome, Vec<u32>),
    anew: Outcome,
    file: Vec<u8>,
}

/// The answers of a session that goes on, of one that takes up its state, and of one that begins with all of it.
fn answers(model: &Path, put_down: &LoadOptions, taken_up: &LoadOptions) -> Taken {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let first = open(model, put_down);
    let mut session = first.session().unwrap();
    let prompt = text(&first, 1, 45);
    let (begun, _) = answer(&mut session, &prompt, 6);
    let file = file_of(&path, &first);
    let bytes = file.save(&mut session, None).unwrap();
    assert!(path.metadata().unwrap().len() >= bytes);
    drop(file);
    let more = [&prompt[..], &begun.tokens, &text(&first, 2, 20)].concat();
    let uninterrupted = answer(&mut session, &more, 8);
    let file = std::fs::read(&path).unwrap();
    let second = open(model, taken_up);
    let mut resumed = second.session().unwrap();
    let taken = file_of(&path, &second).load(&mut resumed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(taken.unwrap().tokens, 45 + 5, "{}", model.display());
    let resumed = answer(&mut resumed, &more, 8);
    let (anew, _) = answer(&mut second.session().unwrap(), &more, 8);
    Taken { uninterrupted, resumed, anew, file }
}

fn zoo(name: &str) -> PathBuf {
    fixture("zoo").join(name).join("model-f16.gguf")
}

#[test]
fn every_base_architecture_goes_on() {
    for name in ["llama", "mistral3", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"] {
        goes_on_in_chunks(&fixture("base").join(name).join("model-f32.gguf"), &fast(), 16);
    }
}

/// Recurrent ones, alone and beside attention; windows; latent attention; shared keys and values; short convolutions.
#[test]
fn caches_of_every_kind_go_on() {
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
        "phimoe",
    ] {
        goes_on(&zoo(name), &fast());
        goes_on_in_chunks(&zoo(name), &fast(), 16);
    }
}

#[test]
fn every_cache_type_and_quantized_weights_go_on() {
    for kv_type in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let options = fast().with_kv_type(kv_type);
        goes_on(&fixture("quant/Q4_K_M.gguf"), &options);
        goes_on(&fixture("base/qwen3/model-f32.gguf"), &options);
    }
    goes_on(&fixture("quant/Q8_0.gguf"), &fast().with_arithmetic(Arithmetic::Exact));
}

fn adapter(kind: AdapterKind, path: &str, weight: f32) -> AdapterOption {
    AdapterOption { kind, path: fixture(path), weight }
}

/// X-LoRA keeps two sets of states.
#[test]
fn adapters_go_on() {
    let with = |adapters| fast().with_adapters(adapters);
    let llama = fixture("base/llama/model-f32.gguf");
    goes_on(&llama, &with(vec![adapter(AdapterKind::Lora, "lora/llama/adapters/a0", 0.7)]));
    goes_on_in_chunks(&llama, &with(vec![xlora()]), 16);
}

fn xlora() -> AdapterOption {
    let variant = std::fs::read_dir(fixture("lora/llama/xlora")).unwrap().next().unwrap().unwrap();
    AdapterOption { kind: AdapterKind::XLora, path: variant.path(), weight: 1.0 }
}

/// The file holds layers, wherever they are computed: what stages put down another split takes up, or the whole model, and the
/// other way round; the file is the same, byte by byte.
#[test]
fn stages_put_down_and_take_up_what_the_whole_model_does() {
    let split = |options: &LoadOptions, stages: usize| {
        let stages = StageOptions::count(stages).with_probe(StageProbe::Never);
        options.clone().with_stages(stages)
    };
    let adapted = fast().with_adapters(vec![adapter(AdapterKind::Lora, "lora/llama/adapters/a0", 0.7)]);
    let of_q8 = fast().with_kv_type(KvType::Q8_0);
    let mixed = fast().with_adapters(vec![xlora()]);
    for (model, whole) in [
        (fixture("base/llama/model-f32.gguf"), fast()),
        (fixture("base/llama/model-f32.gguf"), adapted),
        (fixture("base/llama/model-f32.gguf"), mixed),
        (fixture("base/qwen3/model-f32.gguf"), of_q8),
        (fixture("quant/Q4_K_M.gguf"), fast()),
        (zoo("gemma3"), fast()),
        (zoo("mamba2"), fast()),
        (zoo("jamba"), fast()),
        (zoo("deepseek2-v3"), fast()),
        (zoo("lfm2"), fast()),
    ] {
        let (two, name) = (split(&whole, 2), model.display());
        let layers = open(&model, &whole).engine().model.shape().n_layers;
        let more = split(&whole, layers.min(3));
        let file = goes_on_as(&model, &whole, &two);
        assert!(goes_on_as(&model, &two, &whole) == file, "{name}");
        assert!(goes_on_as(&model, &two, &more) == file, "{name}");
    }
}

#[test]
fn another_device_goes_on() {
    for model in [fixture("base/qwen2/model-f32.gguf"), zoo("lfm2"), zoo("gemma3")] {
        goes_on(&model, &on_candle(fast()));
        goes_on(&model, &on_candle(fast().with_kv_type(KvType::F16)));
    }
}

/// There the same chunks give the same bits. Other chunks are products of another shape, which candle adds up in another order:
/// the same tokens, and log probabilities that differ by up to NEAR.
#[test]
fn another_device_goes_on_nearly_in_other_chunks() {
    const NEAR: f32 = 1e-5;
    for (model, arithmetic) in [
        (fixture("base/qwen2/model-f32.gguf"), Arithmetic::Fast),
        (fixture("base/mixtral/model-f32.gguf"), Arithmetic::Fast),
        (fixture("quant/Q4_K_M.gguf"), Arithmetic::Fast),
        (fixture("quant/Q8_0.gguf"), Arithmetic::Exact),
        (zoo("lfm2"), Arithmetic::Exact),
        (zoo("gemma3"), Arithmetic::Exact),
    ] {
        let options = on_candle(fast().with_arithmetic(arithmetic).with_kv_type(KvType::F32));
        let chunks = options.clone().with_chunk(16);
        let Taken { uninterrupted, resumed, .. } = answers(&model, &options, &chunks);
        assert_eq!(resumed.0.tokens, uninterrupted.0.tokens, "{}", model.display());
        let pairs = resumed.1.iter().zip(&uninterrupted.1);
        let far = pairs.map(|(a, b)| (f32::from_bits(*a) - f32::from_bits(*b)).abs()).fold(0.0, f32::max);
        println!("{}: {far:e}", model.display());
        assert!(far <= NEAR, "{}: {far:e}", model.display());
    }
}

/// A session with something in it, kept at `path`.
fn keep(path: &Path, model: &Path, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    let pipeline = open(model, options);
    let mut session = pipeline.session().unwrap();
    answer(&mut session, &text(&pipeline, 1, 20), 4);
    file_of(path, &pipeline).save(&mut session, None).unwrap();
    pipeline
}

/// What taking it up under other circumstances reports.
fn refused(path: &Path, model: &Path, options: &LoadOptions) -> String {
    let pipeline = open(model, options);
    let mut session = pipeline.session().unwrap();
    let error = file_of(path, &pipeline).load(&mut session).expect_err("something differs");
    assert!(session.sequence().tokens().is_empty());
    answer(&mut session, &text(&pipeline, 3, 12), 2);
    error.to_string()
}

#[test]
fn what_was_computed_otherwise_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let llama = fixture("base/llama/model-f32.gguf");
    let lora = |weight| adapter(AdapterKind::Lora, "lora/llama/adapters/a0", weight);
    let usual = fast().with_adapters(vec![lora(1.0)]);
    keep(&path, &llama, &usual);
    let cases: [(LoadOptions, &[&str]); 6] = [
        (usual.clone().with_kv_type(KvType::F16), &["cache type was f32 and is f16"]),
        (usual.clone().with_arithmetic(Arithmetic::Exact), &["arithmetic was fast and is exact"]),
        (usual.clone().with_adapters(vec![lora(0.5)]), &["adapters was a0 and is a0=0.5"]),
        (usual.clone().with_adapters(vec![]), &["adapters was a0 and is none"]),
        (
            usual.clone().with_set(
                [("rope.freq_base".to_owned(), MetadataValue::Number(777.0))].into_iter().collect(),
            ),
            &["the model's numbers have changed"],
        ),
        (usual.clone().with_context(16), &["23 tokens", "room for 16", "-c 256"]),
    ];
    for (options, words) in cases {
        let said = refused(&path, &llama, &options);
        assert!(words.iter().all(|word| said.contains(word)), "{said} instead of {words:?}");
        assert!(said.contains("kept.state") && said.contains("open the model"), "{said}");
    }
    let said = refused(&path, &fixture("base/qwen2/model-f32.gguf"), &fast());
    assert!(
        said.contains("architecture was llama and is qwen2") && said.contains("weights have changed"),
        "{said}"
    );
}

/// State that was computed with a control vector is no other's.
#[test]
fn what_acts_between_the_layers_must_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let steered = |scale: Option<f32>| {
        let mut pipeline = open(&fixture("base/llama/model-f32.gguf"), &fast());
        if let Some(scale) = scale {
            let given = [ControlVectorOption { path: fixture("control/a.gguf"), scale }];
            let options = SteeringOptions::default().with_layers(None).with_hint(None);
            let steering = steering(&pipeline, &given, &options).unwrap();
            pipeline.add_hook(Arc::new(steering));
        }
        pipeline
    };
    let pipeline = steered(Some(1.0));
    let mut session = pipeline.session().unwrap();
    answer(&mut session, &text(&pipeline, 1, 20), 4);
    file_of(&path, &pipeline).save(&mut session, None).unwrap();
    let load = |pipeline: &LoadedModel<TextPipeline>| {
        let mut session = pipeline.session().unwrap();
        file_of(&path, pipeline).load(&mut session)
    };
    assert_eq!(load(&steered(Some(1.0))).unwrap().unwrap().tokens, 23);
    for other in [Some(0.5), None] {
        let said = load(&steered(other)).unwrap_err().to_string();
        assert!(said.contains("the effect of hooks was"), "{said}");
    }
}

#[test]
fn a_model_with_other_weights_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("kept.state"), folder.path().join("other.gguf"));
    let llama = fixture("base/llama/model-f32.gguf");
    keep(&path, &llama, &fast());
    // One bit of one weight.
    rewrite(&llama, &other, &|name, data| {
        if name == "blk.1.ffn_up.weight" {
            data[401] ^= 1;
        }
    });
    let said = refused(&path, &other, &fast());
    assert!(said.contains("the model's weights have changed"), "{said}");
    // The same bytes elsewhere are the same model.
    std::fs::copy(&llama, &other).unwrap();
    let pipeline = open(&other, &fast());
    let mut session = pipeline.session().unwrap();
    assert_eq!(file_of(&path, &pipeline).load(&mut session).unwrap().unwrap().tokens, 23);
}

/// A recurrent model with a window has every kind of section.
#[test]
fn a_flipped_byte_is_refused_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let pipeline = keep(&path, &zoo("lfm2"), &fast());
    let good = std::fs::read(&path).unwrap();
    let mut session = pipeline.session().unwrap();
    // All of the header, and places all over the rest; each bit comes in turn.
    let places = (0..2000.min(good.len())).step_by(7).chain((0..good.len()).step_by(good.len() / 200));
    let places = places.chain(good.len() - 40..good.len());
    let mut tried = 0;
    for at in places {
        let mut bad = good.clone();
        bad[at] ^= 1 << (tried % 8);
        std::fs::write(&path, bad).unwrap();
        let result = file_of(&path, &pipeline).load(&mut session);
        assert!(matches!(result, Err(StateFileError::Unreadable { .. })), "byte {at}: {result:?}");
        assert!(session.sequence().tokens().is_empty());
        tried += 1;
    }
    for length in [0, 1, 12, 60, good.len() / 2, good.len() - 1] {
        std::fs::write(&path, &good[..length]).unwrap();
        let error = file_of(&path, &pipeline).load(&mut session).unwrap_err();
        assert!(matches!(error, StateFileError::Unreadable { .. }), "{length} bytes: {error}");
    }
    std::fs::write(&path, [&good[..], b"more"].concat()).unwrap();
    assert!(file_of(&path, &pipeline).load(&mut session).is_err());
    std::fs::write(&path, good).unwrap();
    assert_eq!(file_of(&path, &pipeline).load(&mut session).unwrap().unwrap().tokens, 23);
    assert!(tried > 400);
}

#[test]
fn a_file_is_of_one_process_at_a_time_and_of_one_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let pipeline = open(&fixture("base/llama/model-f32.gguf"), &fast());
    let file = file_of(&path, &pipeline);
    let again = StateFile::open(&path, &pipeline, Vec::new()).map(drop).unwrap_err();
    assert!(matches!(again, StateFileError::InUse(_)), "{again}");
    let mut session = pipeline.session().unwrap();
    assert_eq!(file.load(&mut session).unwrap(), None);
    let other = open(&fixture("base/qwen2/model-f32.gguf"), &fast());
    let error = file.save(&mut other.session().unwrap(), None).unwrap_err();
    assert!(matches!(error, StateFileError::OtherSession(_)), "{error}");
    drop(file);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    for no_file in [folder.path(), &folder.path().join("absent/kept.state")] {
        assert!(StateFile::open(no_file, &pipeline, Vec::new()).is_err(), "{}", no_file.display());
    }
}

#[test]
fn a_conversation_is_kept_beside_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.state");
    let pipeline = open(&fixture("base/llama/model-f32.gguf"), &fast());
    let mut session = pipeline.session().unwrap();
    answer(&mut session, &text(&pipeline, 1, 20), 4);
    let conversation = SavedConversation {
        messages: vec![ChatMessage::user("one"), ChatMessage::assistant("two \u{1f600}")],
        dropped: 1,
    };
    file_of(&path, &pipeline).save(&mut session, Some(conversation.clone())).unwrap();
    let resumed = file_of(&path, &pipeline).load(&mut pipeline.session().unwrap()).unwrap().unwrap();
    assert_eq!(resumed.conversation, Some(conversation));
    // Saved over itself it is the same file: nothing is lost by going round.
    let first = std::fs::read(&path).unwrap();
    let mut session = pipeline.session().unwrap();
    let file = file_of(&path, &pipeline);
    let resumed = file.load(&mut session).unwrap().unwrap();
    file.save(&mut session, resumed.conversation).unwrap();
    assert!(first == std::fs::read(&path).unwrap());
}
