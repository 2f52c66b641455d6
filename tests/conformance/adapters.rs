//! LoRA adapters of PEFT on GGUF bases, against PEFT's logits: single, summed and weighted, and different ones in one step.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{AdapterChoice, Arithmetic, KvType, Request, SchedulerOptions, TextPipeline};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, LoadQuantization, LoadedModel, ModelBuilder};
use menagerie::quantize::Policy;
use menagerie_conformance::suite::hf_folder::{self, has_hf};
use menagerie_conformance::{Reference, distance, divergence, fixtures, on_candle, options, rows};
use std::path::{Path, PathBuf};

/// The cases of a reference: adapters and weights.
const CASES: [(&str, &[(&str, f32)]); 7] = [
    ("a0", &[("a0", 1.0)]),
    ("a1", &[("a1", 1.0)]),
    ("a3", &[("a3", 1.0)]),
    ("a4", &[("a4", 1.0)]),
    ("sum_a0_a1", &[("a0", 1.0), ("a1", 1.0)]),
    ("sum_a0_a3", &[("a0", 1.0), ("a3", 1.0)]),
    ("weighted_a0_a1", &[("a0", 0.7), ("a1", 0.4)]),
];

/// A base model in one of its two formats.
fn model(base: &str, format: &str) -> PathBuf {
    let folder = fixtures().join("base").join(base);
    match (base, format) {
        (_, "hf") => folder.join("hf"),
        _ if folder.is_dir() => folder.join("model-f32.gguf"),
        _ => fixtures().join("zoo").join(base).join("model-f16.gguf"),
    }
}

/// A base model with all its adapters loaded.
fn with_adapters(base: &str, options: &LoadOptions) -> (LoadedModel<TextPipeline>, Reference) {
    with_adapters_on(&model(base, "gguf"), base, options)
}

fn with_adapters_on(
    model: &Path,
    base: &str,
    options: &LoadOptions,
) -> (LoadedModel<TextPipeline>, Reference) {
    let pipeline =
        ModelBuilder::new(model).with_options(options).open_text().unwrap_or_else(|error| panic!("{error}"));
    let folder = fixtures().join("lora").join(base);
    for name in ["a0", "a1", "a2", "a3", "a4"] {
        let path = folder.join("adapters").join(name);
        pipeline.load_adapter(name, &path).unwrap_or_else(|error| panic!("{error}"));
    }
    (pipeline, Reference::open(&folder.join("lora_reference.safetensors")))
}

/// PEFT rotates by angles in f32. With exact ones its own logits at the end of the long text move by up to 3.8e-5, and by
/// 8.3e-5 where both adapters sharpen the attention: hence twice the tolerance there.
fn tolerance(base: f32, case: &str, what: &str) -> f32 {
    if (case, what) == ("sum_a0_a1", "long") { base.max(2e-4) } else { base }
}

/// Every case of a base within a tolerance.
fn all_cases(base: &str, options: &LoadOptions, tolerance: f32) {
    all_cases_on(&model(base, "gguf"), base, options, tolerance);
}

fn all_cases_on(model: &Path, base: &str, options: &LoadOptions, tolerance: f32) {
    let (mut pipeline, reference) = with_adapters_on(model, base, options);
    let whole = LogitsOptions::default();
    let prompt = reference.ids("tokens_prompt");
    let bare = rows(&pipeline, &prompt, &whole);
    assert!(distance(&bare, &reference.values("base.logits_prompt")) <= tolerance);
    for (case, members) in CASES {
        let set = pipeline.adapter_set(members).unwrap_or_else(|error| panic!("{error}"));
        pipeline.adapt(Some(set));
        let check = |what: &str, rows: &[Vec<f32>]| {
            let found = distance(rows, &reference.values(&format!("{case}.logits_{what}")));
            println!("{base} {case} {what}: {found:e}");
            assert!(found <= self::tolerance(tolerance, case, what), "{base}, {case}, {what}: {found:e}");
        };
        let adapted = rows(&pipeline, &prompt, &whole);
        assert!(distance(&adapted, &bare.concat()) > 0.1, "{base}, {case}: nothing was adapted");
        check("prompt", &adapted);
        let long = rows(&pipeline, &reference.ids("tokens_long"), &whole);
        check("long", &long[long.len() - 8..]);
        let greedy = reference.ids(&format!("{case}.tokens_greedy"));
        let all = [&prompt[..], &greedy[..greedy.len() - 1]].concat();
        let decoded = LogitsOptions::default().with_chunk(512).with_decode_from(prompt.len());
        check("greedy", &rows(&pipeline, &all, &decoded)[prompt.len() - 1..]);
    }
    pipeline.adapt(None);
    assert_eq!(rows(&pipeline, &prompt, &whole), bare, "an adapter left a trace");
}

#[test]
fn llama_with_adapters_is_pefts() {
    all_cases("llama", &options(Arithmetic::Fast), 1e-4);
}

/// The folders of Hugging Face that the GGUFs were made from: nothing is reordered there.
#[test]
fn folders_of_hugging_face_with_adapters_are_pefts() {
    let exact = options(Arithmetic::Exact).with_kv_type(KvType::F32);
    all_cases_on(&model("llama", "hf"), "llama", &exact, 1e-4);
    all_cases_on(&model("phi3", "hf"), "phi3", &exact, 3e-4);
}

/// 3e-4 as for the base: the long factors of longrope.
#[test]
fn phi3_with_adapters_is_pefts() {
    all_cases("phi3", &options(Arithmetic::Fast), 3e-4);
}

/// Loads adapters of `lora/<base>/<name>` together, and gives the largest difference from a case of the reference of the first.
/// On a GGUF and on a folder of Hugging Face.
fn others(base: &str, members: &[(&str, f32)], case: &str) -> f32 {
    // The folders hold bf16, which the fast products would round activations to.
    let exact = options(Arithmetic::Exact).with_kv_type(KvType::F32);
    let gguf = others_with(base, members, case, ("gguf", &options(Arithmetic::Fast)));
    gguf.max(others_with(base, members, case, ("hf", &exact)))
}

fn others_with(
    base: &str,
    members: &[(&str, f32)],
    case: &str,
    (format, options): (&str, &LoadOptions),
) -> f32 {
    let fixture = fixtures().join("zoo").join(base);
    let gguf = fixture.join("model-f16.gguf");
    // The zoo's folders are made again from its files.
    let made = (format == "hf" && has_hf(&fixture))
        .then(|| hf_folder::make(&fixture, &gguf, &fixture.join("hf/config.json")));
    let model = match &made {
        Some(folder) => folder.path().to_owned(),
        None => model(base, format),
    };
    let mut pipeline =
        ModelBuilder::new(&model).with_options(options).open_text().unwrap_or_else(|error| panic!("{error}"));
    let folder = fixtures().join("lora").join(base);
    for (name, _) in members {
        pipeline.load_adapter(name, folder.join(name)).unwrap_or_else(|error| panic!("{error}"));
    }
    let set = pipeline.adapter_set(members).unwrap_or_else(|error| panic!("{error}"));
    pipeline.adapt(Some(set));
    let reference = Reference::open(&folder.join(members[0].0).join("reference.safetensors"));
    let (prompt, expected) =
        (reference.ids("tokens_prompt"), reference.values(&format!("logits_prompt_{case}")));
    let whole = rows(&pipeline, &prompt, &LogitsOptions::default());
    let decoded = rows(&pipeline, &prompt, &LogitsOptions::default().with_chunk(7).with_decode_from(9));
    let found = distance(&whole, &expected).max(distance(&decoded, &expected));
    println!("{base} {format} {members:?} {case}: {found:e}");
    found
}

/// The gate of all that follows; gpt2's GGUF holds f16, so that it is computed exactly with a cache in f32.
const GATE: f32 = 1e-4;

#[test]
fn dora_alone_together_and_weighted_is_pefts() {
    for (members, case) in [
        (&[("d0", 1.0)][..], "d0"),
        (&[("d0", 1.0), ("d1", 1.0)], "both"),
        (&[("d0", 0.6), ("d1", 1.3)], "weighted"),
    ] {
        assert!(others("llama", members, case) <= GATE, "{case}");
    }
    // It would be seen: another order of the two, another weight.
    assert!(others("llama", &[("d0", 1.0), ("d1", 1.0)], "weighted") > 0.1);
    // With biases, tied, and on fused rows.
    assert!(others("qwen2", &[("dora", 1.0)], "one") <= GATE);
    assert!(others("phi3", &[("dora", 1.0)], "one") <= GATE);
}

#[test]
fn embeddings_heads_and_whole_weights_are_pefts() {
    assert!(others("llama", &[("embed", 1.0)], "one") <= GATE);
    assert!(others("llama", &[("whole", 1.0)], "one") <= GATE);
    assert!(others("qwen2", &[("tied", 1.0)], "one") <= GATE);
}

#[test]
fn patterns_biases_and_other_modules_are_pefts() {
    assert!(others("llama", &[("patterns", 1.0)], "one") <= GATE);
    assert!(others("qwen2", &[("bias", 1.0)], "one") <= GATE);
    assert!(others("starcoder2", &[("bias", 1.0)], "one") <= GATE);
    assert!(others("phi2", &[("all", 1.0)], "one") <= GATE);
}

/// Parameters of all experts, and each expert a module of its own; one has none.
#[test]
fn experts_are_pefts() {
    assert!(others("mixtral", &[("parameters", 1.0)], "one") <= GATE);
    assert!(others("mixtral", &[("modules", 1.0)], "one") <= GATE);
}

/// GPT-2 keeps its weights turned (Conv1D, `fan_in_fan_out`).
#[test]
fn conv1d_is_pefts() {
    let exact = options(Arithmetic::Exact).with_kv_type(KvType::F32);
    assert!(others_with("gpt2", &[("conv1d", 1.0)], "one", ("gguf", &exact)) <= GATE);
    assert!(others_with("gpt2", &[("dora", 1.0)], "one", ("gguf", &exact)) <= GATE);
}

/// Of models of the zoo, whose files hold f16: computed exactly on a file and on the folder it was made of.
fn in_the_zoo(base: &str, name: &str) {
    let exact = options(Arithmetic::Exact).with_kv_type(KvType::F32);
    for format in ["gguf", "hf"] {
        let found = others_with(base, &[(name, 1.0)], "one", (format, &exact));
        assert!(found <= GATE, "{base} {name} on {format}: {found:e}");
    }
}

/// `kv_b_proj` is two stacks of heads in a GGUF and one matrix in a folder.
#[test]
fn latent_attention_is_pefts() {
    in_the_zoo("deepseek2-lite", "mla");
    in_the_zoo("deepseek2-v3", "mla");
}

/// gpt-oss: gate and up lie in turn, all stored turned. Llama 4: stored turned, and PEFT's A meets the outputs.
#[test]
fn experts_stored_otherwise_are_pefts() {
    in_the_zoo("gpt-oss", "experts");
    in_the_zoo("llama4", "experts");
}

/// Qwen3-Next: queries, keys, values and gates of a key head are rows of one module.
#[test]
fn projections_of_a_delta_net_are_pefts() {
    in_the_zoo("qwen3next", "delta");
}

/// The base in 8 bits: adapters act on it as on the unquantized one, whose logits PEFT gave.
#[test]
fn a_quantized_base_with_adapters_stays_near() {
    let quantization =
        LoadQuantization { policy: Policy::named("q8_0").unwrap(), importance: None, requantize: false };
    let quantized = options(Arithmetic::Fast).with_quantization(quantization);
    let (mut pipeline, reference) = with_adapters_on(&model("llama", "gguf"), "llama", &quantized);
    let prompt = reference.ids("tokens_prompt");
    for (case, members) in CASES {
        let set = pipeline.adapter_set(members).unwrap();
        pipeline.adapt(Some(set));
        let adapted = rows(&pipeline, &prompt, &LogitsOptions::default());
        let found = divergence(&adapted, &reference.values(&format!("{case}.logits_prompt")));
        println!("q8_0 {case}: KL {found:e}");
        assert!(found < 0.03, "{case}: KL {found:e}");
    }
}

/// llama.cpp's adapters of the same PEFT adapters: the same logits.
#[test]
fn gguf_adapters_are_the_peft_ones() {
    for (base, name, peft, reference, key) in [
        ("llama", "a0", "adapters/a0", "lora_reference.safetensors", "a0.logits_prompt"),
        ("llama", "a1", "adapters/a1", "lora_reference.safetensors", "a1.logits_prompt"),
        ("phi3", "a1", "adapters/a1", "lora_reference.safetensors", "a1.logits_prompt"),
        ("qwen2", "tied", "tied", "tied/reference.safetensors", "logits_prompt_one"),
    ] {
        for format in ["gguf", "hf"] {
            let exact = options(Arithmetic::Exact).with_kv_type(KvType::F32);
            let mut pipeline =
                ModelBuilder::new(model(base, format)).with_options(&exact).open_text().unwrap();
            let folder = fixtures().join("lora").join(base);
            let reference = Reference::open(&folder.join(reference));
            let prompt = reference.ids("tokens_prompt");
            let mut found = Vec::new();
            for path in [folder.join("gguf").join(format!("{name}.gguf")), folder.join(peft)] {
                pipeline.load_adapter("one", &path).unwrap_or_else(|error| panic!("{error}"));
                let set = pipeline.adapter_set(&[("one", 1.0)]).unwrap();
                pipeline.adapt(Some(set));
                let whole = rows(&pipeline, &prompt, &LogitsOptions::default());
                assert!(distance(&whole, &reference.values(key)) <= GATE, "{base} {}", path.display());
                found.push(whole);
            }
            assert_eq!(found[0], found[1], "{base} {name} {format}");
        }
    }
}

/// Three sequences in one batch, bare and with two sets: the tokens of each are those it has alone.
#[test]
fn sets_of_sequences_in_one_step_do_not_mix() {
    let (pipeline, reference) = with_adapters("llama", &options(Arithmetic::Fast));
    let set = |members: &[(&str, f32)]| AdapterChoice::Set(pipeline.adapter_set(members).unwrap());
    let chosen = [AdapterChoice::Bare, set(&[("a0", 1.0)]), set(&[("a1", 1.0), ("a3", 0.5)])];
    let prompt = reference.ids("tokens_prompt");
    let requests: Vec<Request> =
        chosen.into_iter().map(|adapters| Request::greedy(12).with_adapters(adapters)).collect();
    let alone: Vec<Vec<u32>> = requests
        .iter()
        .map(|request| {
            let mut session = pipeline.session().unwrap();
            session.generate(&prompt, request, |_| {}).unwrap().tokens
        })
        .collect();
    assert!(alone[0] != alone[1] && alone[1] != alone[2], "{alone:?}");
    assert_eq!(alone[1], reference.ids("a0.tokens_greedy")[..12]);
    let room = SchedulerOptions::default()
        .with_sequences(3)
        .with_prefixes(0)
        .with_capacity_tokens(256)
        .with_step_tokens(100);
    let mut queue = pipeline.queue(room).unwrap();
    for request in &requests {
        queue.submit(&prompt, request);
    }
    let together = queue.run(|_, _| {}).into_iter();
    let together: Vec<Vec<u32>> = together.map(|(_, outcome)| outcome.unwrap().tokens).collect();
    assert_eq!(together, alone);
}

/// What a sequence holds was computed with its adapters: other ones begin anew, the same ones go on.
#[test]
fn a_prefix_is_not_shared_between_sets() {
    let (pipeline, reference) = with_adapters("llama", &options(Arithmetic::Fast));
    let prompt = reference.ids("tokens_prompt");
    let request = |adapters: AdapterChoice| Request::greedy(4).with_adapters(adapters);
    let a0 = || AdapterChoice::Set(pipeline.adapter_set(&[("a0", 1.0)]).unwrap());
    let mut session = pipeline.session().unwrap();
    let bare = session.generate(&prompt, &request(AdapterChoice::Bare), |_| {}).unwrap();
    let adapted = session.generate(&prompt, &request(a0()), |_| {}).unwrap();
    assert_eq!(session.sequence().cached(), 0, "the bare model's state was used");
    assert_eq!(adapted.tokens, reference.ids("a0.tokens_greedy")[..4]);
    // Another handle to the same adapters with the same weights computes the same: what the prompt's last row said is kept too.
    let again = session.generate(&prompt, &request(a0()), |_| {}).unwrap();
    assert_eq!((again.tokens, session.sequence().cached()), (adapted.tokens, prompt.len()));
    let back = session.generate(&prompt, &request(AdapterChoice::Bare), |_| {}).unwrap();
    assert_eq!((back.tokens, session.sequence().cached()), (bare.tokens, 0));
}

#[test]
fn candle_with_adapters_is_pefts() {
    all_cases("llama", &on_candle(options(Arithmetic::Fast)), 1e-4);
}
