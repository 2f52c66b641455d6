//! Mixtures of feed-forwards (AnyMoE) against torch: logits and the expert of every row, of whole prompts and token by token;
//! and the training of their gates.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, KvType, PipelineHooks, Request, SchedulerOptions, TextPipeline};
use menagerie::measure::{
    self, GateExample, GateRows, GateTrainer, GateTrainingOptions, LogitsOptions, logits,
};
use menagerie::model::{HookInput, LayerHook};
use menagerie::open::{
    ExpertOption, GateFile, GateOption, LoadOptions, LoadQuantization, LoadedModel, MixtureOption,
    ModelBuilder,
};
use menagerie::quantize::Policy;
use menagerie::spec::MixtureChoice;
use menagerie_conformance::{Reference, distance, divergence, fixtures, on_candle, options, rows};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Rows of a reference's prompt, counted from the end.
const ROWS: usize = 6;
const GATE: f32 = 1e-4;

fn folder(base: &str) -> PathBuf {
    fixtures().join("mixture").join(base).canonicalize().unwrap()
}

/// The files are of f16: computed with exactly.
fn exact() -> LoadOptions {
    options(Arithmetic::Exact).with_kv_type(KvType::F32)
}

/// The lines of a recipe that say what the experts of a case are; layers are all where it gives none. `adapter` is the one that
/// stands in both formats.
fn experts(base: &str, case: &str, adapter: &str) -> String {
    let at = |name: &str| folder(base).join(name).display().to_string();
    let (tuned_a, tuned_b) =
        (format!("{{ from = {:?} }}", at("tuned-a")), format!("{{ from = {:?} }}", at("tuned-b.gguf")));
    let whole = format!("{{ adapter = {:?} }}", at("adapter-x"));
    // It changes layer 0 too, which is no mixture there: said, and left out.
    let modules = "[\"up_proj\", \"gate_proj\", \"down_proj\"]";
    let chosen = format!("{{ adapter = {:?}, modules = {modules} }}", at("adapter-x"));
    let part = format!("{{ adapter = {:?}, modules = [\"gate_proj\"] }}", at("adapter-y"));
    match (base, case) {
        (_, "dense") => format!("layers = [0, 2]\nexperts = [{tuned_a}, {tuned_b}]"),
        (_, "adapters") => format!("experts = [{}, {part}]", whole.replace("adapter-x", adapter)),
        ("llama", _) => format!("layers = [1, 2]\nexperts = [{tuned_b}, {chosen}]"),
        _ => format!("experts = [{tuned_b}, {whole}]"),
    }
}

/// A recipe of a case, over one of the base's two formats.
fn recipe(home: &Path, (base, model): (&str, &str), case: &str, choose: &str) -> PathBuf {
    let path = home.join(format!("{case}.recipe.toml"));
    let text = format!(
        "schema = 1\n[recipe]\nbase = {:?}\n[mixture]\ngate = {:?}\nchoose = \"{choose}\"\n{}\n",
        folder(base).join(model).display().to_string(),
        folder(base).join(format!("{case}.safetensors")).display().to_string(),
        experts(base, case, if model == "base" { "adapter-x" } else { "adapter-x.gguf" })
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn open(model: (&str, &str), case: &str, choose: &str, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    let home = tempfile::tempdir().unwrap();
    ModelBuilder::new(recipe(home.path(), model, case, choose))
        .with_options(options)
        .open_text()
        .unwrap_or_else(|error| panic!("{case}: {error}"))
}

/// Keeps the expert of every row.
#[derive(Default)]
struct Choices(Mutex<Vec<(usize, Vec<u32>)>>);

impl LayerHook for Choices {
    fn name(&self) -> &str {
        "choices"
    }

    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }

    fn chosen(&self, experts: &[u32], shown: &HookInput) -> Result<(), menagerie::model::ModelError> {
        self.0.lock().unwrap().push((shown.layer, experts.to_vec()));
        Ok(())
    }
}

/// Logits and, layer after layer, the expert of each row.
fn watched(pipeline: &TextPipeline, tokens: &[u32], how: &LogitsOptions) -> (Vec<Vec<f32>>, Vec<u32>) {
    let log = Arc::new(Choices::default());
    let watched = pipeline.clone().with_hooks(PipelineHooks::of_layers([Arc::clone(&log) as _]));
    let made = logits(&watched, tokens, how).unwrap();
    let seen = log.0.lock().unwrap().clone();
    let mut layers: Vec<usize> = seen.iter().map(|(layer, _)| *layer).collect();
    layers.sort_unstable();
    layers.dedup();
    let of = |layer: &usize| {
        seen.iter().filter(|(at, _)| at == layer).flat_map(|(_, experts)| experts.clone()).collect::<Vec<_>>()
    };
    let chosen = layers.iter().flat_map(of).collect();
    (made.values.chunks_exact(made.vocabulary).map(<[f32]>::to_vec).collect(), chosen)
}

/// Whether chunks give the bits of a whole prompt: candle's products do not promise it.
#[derive(Clone, Copy, PartialEq)]
enum Bits {
    Same,
    Near,
}

fn case_is_torchs(model: (&str, &str), case: &str, options: &LoadOptions) {
    case_is_torchs_to(model, case, options, Bits::Same);
}

fn case_is_torchs_to(model: (&str, &str), case: &str, options: &LoadOptions, bits: Bits) {
    let reference = Reference::open(&folder(model.0).join("reference.safetensors"));
    for choose in ["prompt", "token"] {
        let pipeline = open(model, case, choose, options);
        for prompt in 0..3 {
            let value = |name: &str| reference.values(&format!("{case}.{choose}.{name}_{prompt}"));
            let tokens = reference.ids(&format!("tokens_{prompt}"));
            let greedy = reference.ids(&format!("{case}.{choose}.tokens_greedy_{prompt}"));
            let all = [&tokens[..], &greedy].concat();
            let decoded = LogitsOptions::default().with_decode_from(tokens.len());
            let (rows, chosen) = watched(&pipeline, &all, &decoded);
            let experts = reference.ids(&format!("{case}.{choose}.chosen_{prompt}"));
            assert_eq!(chosen, experts, "{model:?} {case} {choose} {prompt}");
            let whole = distance(&rows[tokens.len() - ROWS..tokens.len()], &value("logits"));
            let after = distance(&rows[tokens.len()..], &value("logits_greedy"));
            println!("{model:?} {case} {choose} {prompt}: {whole:e}, token by token {after:e}");
            assert!(whole <= GATE && after <= GATE, "{case} {choose}: {whole:e} {after:e}");
            if choose == "token" {
                let chunks = LogitsOptions::default().with_chunk(5);
                let (cut, _) = watched(&pipeline, &tokens, &chunks);
                let found = distance(&cut[tokens.len() - ROWS..], &value("logits"));
                assert!(found <= GATE, "{case} in chunks: {found:e}");
                if bits == Bits::Same {
                    assert_eq!(cut, rows[..tokens.len()], "{case}: other bits in chunks");
                }
            }
        }
    }
}

#[test]
fn dense_experts_of_both_formats_are_torchs() {
    case_is_torchs(("llama", "base.gguf"), "dense", &exact());
    case_is_torchs(("llama", "base"), "dense", &exact());
}

#[test]
fn adapters_as_experts_are_torchs() {
    case_is_torchs(("llama", "base.gguf"), "adapters", &exact());
    case_is_torchs(("llama", "base"), "adapters", &exact());
}

#[test]
fn models_and_adapters_in_one_mixture_are_torchs() {
    case_is_torchs(("llama", "base.gguf"), "both", &exact());
    case_is_torchs(("llama", "base"), "both", &exact());
}

/// Without a gate of its own, with biases, beside attention instead of after it.
#[test]
fn plain_feed_forwards_are_torchs() {
    case_is_torchs(("phi2", "base.gguf"), "both", &exact());
}

#[test]
fn candle_is_torchs() {
    case_is_torchs_to(("llama", "base.gguf"), "both", &on_candle(exact()), Bits::Near);
    case_is_torchs_to(("llama", "base.gguf"), "adapters", &on_candle(exact()), Bits::Near);
}

/// A prompt that chooses as one cannot be cut; it is said what to do.
#[test]
fn a_prompt_that_chooses_as_one_is_not_cut() {
    let pipeline = open(("llama", "base.gguf"), "dense", "prompt", &exact());
    let cut = LogitsOptions::default().with_chunk(5);
    let error = logits(&pipeline, &[9; 12], &cut).unwrap_err().to_string();
    assert!(error.contains("--chunk 12") && error.contains("choose by token"), "{error}");
    let narrow = open(("llama", "base.gguf"), "dense", "prompt", &exact().with_chunk(5));
    let mut session = narrow.session().unwrap();
    assert!(session.generate(&[9; 12], &Request::greedy(2), &mut |_| {}).is_err());
    assert!(session.generate(&[9; 5], &Request::greedy(2), &mut |_| {}).is_ok());
}

/// Sequences in one step do not notice each other; what one holds is used again where rows choose for themselves.
#[test]
fn a_batch_is_each_alone_and_prefixes_are_kept_where_they_may() {
    let reference = Reference::open(&folder("llama").join("reference.safetensors"));
    let prompts: Vec<Vec<u32>> = (0..3).map(|at| reference.ids(&format!("tokens_{at}"))).collect();
    for choose in ["prompt", "token"] {
        let pipeline = open(("llama", "base.gguf"), "both", choose, &exact());
        let request = Request::greedy(5);
        let alone = |prompt: &Vec<u32>| {
            pipeline.session().unwrap().generate(prompt, &request, |_| {}).unwrap().tokens
        };
        let alone: Vec<Vec<u32>> = prompts.iter().map(alone).collect();
        let wanted = |at: usize| reference.ids(&format!("both.{choose}.tokens_greedy_{at}"));
        assert_eq!(alone, [wanted(0), wanted(1), wanted(2)]);
        let room = SchedulerOptions::default()
            .with_sequences(3)
            .with_prefixes(0)
            .with_capacity_tokens(128)
            .with_step_tokens(64);
        let mut queue = pipeline.queue(room).unwrap();
        for prompt in &prompts {
            queue.submit(prompt, &request);
        }
        let together = queue.run(|_, _| {}).into_iter();
        let together: Vec<Vec<u32>> = together.map(|(_, outcome)| outcome.unwrap().tokens).collect();
        assert_eq!(together, alone, "{choose}");
        let mut session = pipeline.session().unwrap();
        session.generate(&prompts[0], &request, |_| {}).unwrap();
        let again = session.generate(&prompts[0], &request, |_| {}).unwrap();
        assert_eq!(again.tokens, alone[0]);
        assert_eq!(session.sequence().cached() > 0, choose == "token", "{choose}");
    }
}

/// The mixture of a model with itself is the model, bit for bit, whatever kind its feed-forwards are.
#[test]
fn a_model_mixed_with_itself_is_itself() {
    for base in ["llama", "phi2", "phi3", "qwen2", "qwen3", "starcoder2", "mistral3"] {
        let path = fixtures().join("base").join(base).join("model-f32.gguf");
        let bare = ModelBuilder::new(&path).with_options(&options(Arithmetic::Fast)).open_text().unwrap();
        let tokens = Reference::open(&fixtures().join("base").join(base).join("reference.safetensors"))
            .ids("tokens_prompt");
        let whole = LogitsOptions::default();
        let mixture = |expert: usize| MixtureOption {
            layers: None,
            experts: vec![ExpertOption::Model(path.clone())],
            gate: GateOption::Always(expert),
            choose: MixtureChoice::Token,
        };
        for expert in [0, 1] {
            let given = options(Arithmetic::Fast).with_mixture(mixture(expert));
            let mixed = ModelBuilder::new(&path)
                .with_options(&given)
                .open_text()
                .unwrap_or_else(|error| panic!("{base}: {error}"));
            assert_eq!(rows(&mixed, &tokens, &whole), rows(&bare, &tokens, &whole), "{base} {expert}");
            let (own, more) = (bare.memory().weights, mixed.memory().weights);
            assert!(more > own + own / 10 && more < 2 * own, "{base}: {own} {more}");
        }
    }
}

/// Types asked for while loading reach the experts of every file.
#[test]
fn experts_are_quantized_as_the_model_is() {
    let policy = Policy::named("q8_0").unwrap();
    let quantization = LoadQuantization { policy, importance: None, requantize: false };
    let quantized = exact().with_quantization(quantization);
    let reference = Reference::open(&folder("llama").join("reference.safetensors"));
    for case in ["dense", "adapters", "both"] {
        let pipeline = open(("llama", "base.gguf"), case, "prompt", &quantized);
        let wide = open(("llama", "base.gguf"), case, "prompt", &exact());
        let made = rows(&pipeline, &reference.ids("tokens_0"), &LogitsOptions::default());
        let made = &made[made.len() - ROWS..];
        let wanted = reference.values(&format!("{case}.prompt.logits_0"));
        let (kl, apart) = (divergence(made, &wanted), distance(made, &wanted));
        println!("{case} in q8_0: KL {kl:e}, {apart:e}");
        assert!(kl < 0.03 && apart > 1e-3, "{case}: KL {kl:e}, {apart:e}");
        assert!(pipeline.memory().weights < wide.memory().weights, "{case}");
    }
}

/// Adapters act beside a mixture, and on its feed-forwards only as experts.
#[test]
fn adapters_act_beside_a_mixture_and_not_inside() {
    let home = tempfile::tempdir().unwrap();
    let pipeline = || open(("llama", "base.gguf"), "dense", "token", &exact());
    let tokens = [9, 20, 31, 77, 140, 8];
    let whole = LogitsOptions::default();
    let inside = pipeline();
    let said = inside.load_adapter("x", folder("llama").join("adapter-x")).unwrap_err().to_string();
    assert!(said.contains("layer 0, which is a mixture") && said.contains("[[mixture.experts]]"), "{said}");
    // The same without what touches the mixture's layers: attention alone.
    let source = folder("llama").join("adapter-y");
    let bytes = std::fs::read(source.join("adapter_model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let kept: Vec<_> = file.tensors().into_iter().filter(|(name, _)| name.contains("self_attn")).collect();
    assert!(kept.len() == 6, "{kept:?}");
    std::fs::write(
        home.path().join("adapter_model.safetensors"),
        safetensors::serialize(kept, None).unwrap(),
    )
    .unwrap();
    let config = std::fs::read_to_string(source.join("adapter_config.json")).unwrap();
    let config = config.replace("  \"gate_proj\",\n", "");
    std::fs::write(home.path().join("adapter_config.json"), config).unwrap();
    let mut beside = pipeline();
    let bare = rows(&beside, &tokens, &whole);
    beside.load_adapter("y", home.path()).unwrap_or_else(|error| panic!("{error}"));
    let set = beside.adapter_set(&[("y", 1.0)]).unwrap();
    beside.adapt(Some(set));
    let adapted = rows(&beside, &tokens, &whole);
    assert!(distance(&adapted, &bare.concat()) > 0.01);
    beside.adapt(None);
    assert_eq!(rows(&beside, &tokens, &whole), bare);
    let set = beside.adapter_set(&[("y", 1.0)]).unwrap();
    let said = beside.merge(&set).err().expect("it was merged").to_string();
    assert!(said.contains("the model is a mixture"), "{said}");
}

/// The prompts of a file of rows.
fn topics(file: &str) -> Vec<(String, usize)> {
    let text = std::fs::read_to_string(folder("llama").join(file)).unwrap();
    let row = |row: &serde_json::Value| {
        (row["prompt"].as_str().unwrap().to_owned(), row["expert"].as_u64().unwrap() as usize)
    };
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(whole) => whole["rows"].as_array().unwrap().iter().map(row).collect(),
        Err(_) => text.lines().map(|line| row(&serde_json::from_str(line).unwrap())).collect(),
    }
}

/// What the gates of the dense case read of prompts, with the expert that each names.
fn gate_rows(model: &str, file: &str) -> Vec<GateRows> {
    let topics = topics(file);
    let mut rows = vec![None; topics.len()];
    for expert in [0, 2] {
        let gate = GateOption::Always(expert);
        let models = ["tuned-a", "tuned-b.gguf"].map(|name| ExpertOption::Model(folder("llama").join(name)));
        let choose = MixtureChoice::Prompt;
        let mixture = MixtureOption { layers: Some(vec![0, 2]), experts: models.to_vec(), gate, choose };
        let given = exact().with_mixture(mixture);
        let pipeline =
            ModelBuilder::new(folder("llama").join(model)).with_options(&given).open_text().unwrap();
        let tokenizer = pipeline.tokenizer().unwrap();
        let own: Vec<usize> = (0..topics.len()).filter(|at| topics[*at].1 == expert).collect();
        let example = |at: &usize| GateExample { tokens: tokenizer.encode(&topics[*at].0).unwrap(), expert };
        let examples: Vec<GateExample> = own.iter().map(example).collect();
        let made =
            measure::gate_rows(&pipeline, &examples.iter().collect::<Vec<_>>(), None, &mut || ()).unwrap();
        own.into_iter().zip(made).for_each(|(at, made)| rows[at] = Some(made));
    }
    rows.into_iter().flatten().collect()
}

/// The same training in torch: loss, accuracy on prompts that were trained with and on others, the gates themselves; and as
/// accurate on those others as a training that runs what the gates choose, as mistral.rs does.
#[test]
fn trained_gates_are_torchs() {
    let reference = Reference::open(&folder("llama").join("reference.safetensors"));
    for model in ["base.gguf", "base"] {
        let (seen, unseen) = (gate_rows(model, "topics.json"), gate_rows(model, "topics-test.jsonl"));
        let batch = seen.len();
        let options = GateTrainingOptions::default()
            .with_epochs(100)
            .with_batch(batch)
            .with_learning_rate(1e-2)
            .with_seed(0);
        let mut trainer = GateTrainer::new(&seen, [3, 32], options).unwrap();
        (0..100).for_each(|_| trainer.epoch(2, None));
        let gates: GateFile = trainer.gates();
        for (seen, unseen) in trainer.scores(&seen).into_iter().zip(trainer.scores(&unseen)) {
            let layer = seen.layer;
            let of = |name: &str| reference.values(&format!("trained.{layer}.{name}"));
            let report = of("report");
            let close = |a: f64, b: f32| (a - f64::from(b)).abs() < 1e-5;
            println!("{model} layer {layer}: loss {} {report:?}", seen.loss);
            assert!(close(seen.loss, report[0]), "{layer}: {} {}", seen.loss, report[0]);
            assert!(close(seen.accuracy, report[1]) && close(unseen.accuracy, report[2]), "{layer}");
            let published = reference.values(&format!("published.{layer}.accuracy"))[0];
            assert!(unseen.accuracy >= f64::from(published) && unseen.accuracy > 0.99, "{layer}");
            let gate = &gates.layers[&layer];
            let apart = distance(std::slice::from_ref(&gate.weight), &of("weight"))
                .max(distance(std::slice::from_ref(&gate.bias), &of("bias")));
            println!("{model} layer {layer}: gates {apart:e}");
            assert!(apart <= GATE, "{layer}: {apart:e}");
        }
    }
}
