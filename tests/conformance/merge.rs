//! Models with adapters in their weights, against PEFT's logits with the adapters beside: files, folders, and files made of folders.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, KvType, TextPipeline};
use menagerie::gguf::{GgufFile, OpenOptions};
use menagerie::kernels::Cpu;
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie::quantize::{FileQuantizer, Policy};
use menagerie_conformance::suite::hf_folder;
use menagerie_conformance::{Reference, distance, divergence, fixtures, options, rows};
use menagerie_random::SplitMix64;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const GATE: f32 = 1e-4;

/// Adapters with their weights, and the case of the first one's reference.
type Case = (&'static str, &'static [(&'static str, f32)], &'static str);

const CASES: [Case; 10] = [
    ("llama", &[("d0", 0.6), ("d1", 1.3)], "weighted"),
    ("llama", &[("whole", 1.0)], "one"),
    ("llama", &[("embed", 1.0)], "one"),
    ("qwen2", &[("bias", 1.0)], "one"),
    ("phi3", &[("dora", 1.0)], "one"),
    ("mixtral", &[("modules", 1.0)], "one"),
    // A stack of heads that is stored turned.
    ("deepseek2-lite", &[("mla", 1.0)], "one"),
    // Gate and up in turn, turned; turned and fused; rows of key heads.
    ("gpt-oss", &[("experts", 1.0)], "one"),
    ("llama4", &[("experts", 1.0)], "one"),
    ("qwen3next", &[("delta", 1.0)], "one"),
];

fn exact() -> LoadOptions {
    options(Arithmetic::Exact).with_kv_type(KvType::F32)
}

/// A folder with the base `model` in f32, in one of the two formats.
fn base(name: &str, folder: bool, home: &Path) -> PathBuf {
    let (own, zoo) = (fixtures().join("base").join(name), fixtures().join("zoo").join(name));
    match (own.is_dir(), folder) {
        (true, false) => own.join("model-f32.gguf"),
        (true, true) => wide(&own.join("hf"), &home.join("base")),
        (false, false) => wide_file(&zoo.join("model-f16.gguf"), &home.join("base.gguf")),
        (false, true) => {
            let made = hf_folder::make(&zoo, &zoo.join("model-f16.gguf"), &zoo.join("hf/config.json"));
            wide(made.path(), &home.join("base"))
        }
    }
}

/// A file with all tensors in f32, so that nothing is rounded when it is written again.
fn wide_file(from: &Path, to: &Path) -> PathBuf {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap();
    let policy = Policy::named("f32").unwrap();
    let job = FileQuantizer::new(&file, &policy, None, true).unwrap();
    job.write(to, &Cpu::new(None).unwrap(), &mut |_| ControlFlow::Continue(())).unwrap();
    to.to_owned()
}

/// A tensor as it is stored: name, shape, bytes.
type Stored = (String, Vec<usize>, Vec<u8>);

/// The same of a folder, in two shards with an index.
fn wide(from: &Path, to: &Path) -> PathBuf {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "safetensors") {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    let bytes = std::fs::read(from.join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let mut shards: [Vec<Stored>; 2] = Default::default();
    let mut map = serde_json::Map::new();
    for (number, (name, tensor)) in stored.tensors().into_iter().enumerate() {
        let values = floats(tensor.dtype(), tensor.data());
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        map.insert(name.clone(), SHARDS[number % 2].into());
        shards[number % 2].push((name, tensor.shape().to_vec(), bytes));
    }
    for (file, tensors) in SHARDS.iter().zip(&shards) {
        let views = tensors.iter().map(|(name, shape, bytes)| {
            (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        let about = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize_to_file(views, Some(about), &to.join(file)).unwrap();
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map});
    std::fs::write(to.join("model.safetensors.index.json"), index.to_string()).unwrap();
    to.to_owned()
}

const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

fn floats(dtype: Dtype, data: &[u8]) -> Vec<f32> {
    let half = |bytes: &[u8]| u16::from_le_bytes(bytes.try_into().unwrap());
    match dtype {
        Dtype::F32 => data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
        Dtype::F16 => data.chunks_exact(2).map(|b| half::f16::from_bits(half(b)).to_f32()).collect(),
        Dtype::BF16 => data.chunks_exact(2).map(|b| half::bf16::from_bits(half(b)).to_f32()).collect(),
        other => panic!("{other:?}"),
    }
}

/// The model with its adapters loaded, and the set of them.
fn adapted(
    model: &Path,
    base: &str,
    members: &[(&str, f32)],
    options: &LoadOptions,
) -> LoadedModel<TextPipeline> {
    let mut pipeline =
        ModelBuilder::new(model).with_options(options).open_text().unwrap_or_else(|error| panic!("{error}"));
    for (name, _) in members {
        let folder = fixtures().join("lora").join(base).join(name);
        pipeline.load_adapter(name, &folder).unwrap_or_else(|error| panic!("{base} {name}: {error}"));
    }
    let set = pipeline.adapter_set(members).unwrap_or_else(|error| panic!("{error}"));
    pipeline.adapt(Some(set));
    pipeline
}

fn merge(pipeline: &LoadedModel<TextPipeline>, to: &Path) {
    let set = pipeline.engine().adapters.clone().unwrap();
    let merge = pipeline.merge(&set).unwrap_or_else(|error| panic!("{error}"));
    merge.write(to, &mut |_, _| ControlFlow::Continue(())).unwrap_or_else(|error| panic!("{error}"));
}

fn whole(pipeline: &TextPipeline, tokens: &[u32]) -> Vec<Vec<f32>> {
    rows(pipeline, tokens, &LogitsOptions::default())
}

/// Writes the merged model of a case in the format of its base, and compares its logits with PEFT's.
fn merged_case((name, members, case): Case, folder: bool) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let model = base(name, folder, home.path());
    let to = home.path().join(if folder { "merged" } else { "merged.gguf" });
    merge(&adapted(&model, name, members, &exact()), &to);
    let merged = ModelBuilder::new(&to)
        .with_options(&exact())
        .open_text()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let reference =
        Reference::open(&fixtures().join("lora").join(name).join(members[0].0).join("reference.safetensors"));
    let expected = reference.values(&format!("logits_prompt_{case}"));
    let found = distance(&whole(&merged, &reference.ids("tokens_prompt")), &expected);
    println!("merged {name} {members:?}, folder {folder}: {found:e}");
    assert!(found <= GATE, "{name} {members:?}, folder {folder}: {found:e}");
    home
}

#[test]
fn merged_files_give_pefts_logits() {
    for case in CASES {
        merged_case(case, false);
    }
}

#[test]
fn merged_folders_give_pefts_logits() {
    for case in CASES {
        let home = merged_case(case, true);
        let (base, merged) = (home.path().join("base"), home.path().join("merged"));
        assert_eq!(listed(&base), listed(&merged), "{}", case.0);
        for file in SHARDS {
            assert_eq!(header(&base.join(file)), header(&merged.join(file)), "{} {file}", case.0);
        }
    }
}

/// Files of a folder: those that hold no weights with their bytes.
fn listed(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let listed = entries.map(|path| {
        let weights = path.extension().is_some_and(|end| end == "safetensors");
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, (!weights).then(|| std::fs::read(&path).unwrap()))
    });
    listed.collect()
}

/// Names, types, shapes and places of a safetensors file.
fn header(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[..8 + length].to_vec()
}

/// Only what an adapter changes is written anew; what a type cannot hold is rounded to the nearest.
#[test]
fn a_folder_of_bf16_stays_one() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    std::fs::create_dir(&base).unwrap();
    let from = fixtures().join("base/qwen2/hf");
    for name in listed(&from).keys() {
        std::fs::copy(from.join(name), base.join(name)).unwrap();
    }
    let bytes = std::fs::read(from.join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let narrow: Vec<(String, Vec<usize>, Vec<u8>)> = stored
        .tensors()
        .into_iter()
        .map(|(name, tensor)| {
            let values = floats(tensor.dtype(), tensor.data());
            let bytes = values.iter().flat_map(|value| half::bf16::from_f32(*value).to_le_bytes()).collect();
            (name, tensor.shape().to_vec(), bytes)
        })
        .collect();
    let views = narrow.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::BF16, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize_to_file(views, None, &base.join("model.safetensors")).unwrap();
    let pipeline = adapted(&base, "qwen2", &[("bias", 1.0)], &exact());
    let to = home.path().join("merged");
    merge(&pipeline, &to);
    let written = std::fs::read(to.join("model.safetensors")).unwrap();
    let written = SafeTensors::deserialize(&written).unwrap();
    let mut changed = 0;
    for (name, _, bytes) in &narrow {
        let now = written.tensor(name).unwrap();
        assert_eq!(now.dtype(), Dtype::BF16, "{name}");
        let adapted = ["q_proj", "v_proj", "up_proj"].iter().any(|part| name.contains(part));
        let bias = name.ends_with("proj.bias");
        if now.data() != bytes {
            assert!(adapted || bias, "{name} was changed");
            changed += 1;
        }
    }
    assert!(changed >= 6, "{changed}");
    // What bf16 rounds away of a tiny model is far less than what the adapter changes.
    let reference = Reference::open(&fixtures().join("lora/qwen2/bias/reference.safetensors"));
    let merged = whole(
        &ModelBuilder::new(&to).with_options(&exact()).open_text().unwrap(),
        &reference.ids("tokens_prompt"),
    );
    let apart = divergence(&merged, &whole(&pipeline, &reference.ids("tokens_prompt")).concat());
    println!("bf16: KL {apart:e}");
    assert!(apart < 1e-3, "KL {apart:e}");
}

fn types(path: &Path) -> Vec<String> {
    let file = GgufFile::open(path, &OpenOptions::default()).unwrap();
    file.tensors().iter().map(|tensor| tensor.kind().to_string()).collect()
}

/// A quantized base: dequantized, changed and quantized again, it gives nearly what it gives with the adapters beside it,
/// and what PEFT gives in f32.
#[test]
fn a_file_in_8_bits_is_merged_within_the_bar() {
    let reference = Reference::open(&fixtures().join("lora/llama/lora_reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    let home = tempfile::tempdir().unwrap();
    let source =
        GgufFile::open(fixtures().join("base/llama/model-f32.gguf"), &OpenOptions::default()).unwrap();
    let base = home.path().join("q8_0.gguf");
    let policy = Policy::named("q8_0").unwrap();
    let job = FileQuantizer::new(&source, &policy, None, false).unwrap();
    job.write(&base, &Cpu::new(None).unwrap(), &mut |_| ControlFlow::Continue(())).unwrap();
    let pipeline = adapted(&base, "llama/adapters", &[("a0", 0.7), ("a1", 0.4)], &exact());
    let to = home.path().join("merged.gguf");
    merge(&pipeline, &to);
    assert_eq!(types(&base), types(&to));
    let merged = whole(&ModelBuilder::new(&to).with_options(&exact()).open_text().unwrap(), &prompt);
    let beside = divergence(&merged, &whole(&pipeline, &prompt).concat());
    let from_peft = divergence(&merged, &reference.values("weighted_a0_a1.logits_prompt"));
    println!("q8_0: KL {beside:e} from base and adapters, {from_peft:e} from PEFT's in f32");
    assert!(beside < 0.03 && from_peft < 0.03, "KL {beside:e}, {from_peft:e}");
}

/// An adapter of every linear of the fixtures in `quant`, whose product is a twentieth of the weights.
fn small_adapter(config: &[(&str, usize, usize)], layers: usize, folder: &Path) {
    let mut numbers = SplitMix64::new(7);
    let mut random = move || numbers.signed() * 1.73;
    let rank = 4;
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for layer in 0..layers {
        for (module, out, inputs) in config {
            let name = format!("base_model.model.model.layers.{layer}.{module}");
            // Weights of the fixtures have a deviation of 1.2 / sqrt(inputs).
            let size = 0.05 * 1.2 / (*inputs as f32).sqrt() / (rank as f32).sqrt();
            for (side, shape, size) in [("A", [rank, *inputs], 1.0), ("B", [*out, rank], size)] {
                let values = (0..shape[0] * shape[1]).flat_map(|_| (random() * size).to_le_bytes());
                tensors.push((format!("{name}.lora_{side}.weight"), shape.to_vec(), values.collect()));
            }
        }
    }
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize_to_file(views, None, &folder.join("adapter_model.safetensors")).unwrap();
    let targets: Vec<&str> = config.iter().filter_map(|(module, ..)| module.rsplit('.').next()).collect();
    let config = serde_json::json!({
        "peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": targets, "bias": "none",
    });
    std::fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
}

/// The bytes of a tensor of a file.
fn bytes_of(file: &GgufFile, name: &str) -> Vec<u8> {
    let info = file.tensors().iter().find(|tensor| tensor.name() == name).unwrap();
    file.data(info).unwrap().to_vec()
}

/// The K types have blocks of 256 values and round twice: what is merged is what `quantize` makes of the model that was
/// dequantized and merged in f32, bit for bit. (How far that is from base and adapter depends on the model: these random
/// ones are moved as far by the rounding as by the adapter.)
#[test]
fn files_of_the_k_types_are_merged_as_if_they_were_quantized_then() {
    let home = tempfile::tempdir().unwrap();
    let linears = [
        ("self_attn.q_proj", 256, 256),
        ("self_attn.v_proj", 32, 256),
        ("self_attn.o_proj", 256, 256),
        ("mlp.gate_proj", 512, 256),
        ("mlp.down_proj", 256, 512),
    ];
    small_adapter(&linears, 2, home.path());
    let cpu = Cpu::new(None).unwrap();
    for kind in ["Q4_K_M", "Q6_K"] {
        let base = fixtures().join("quant").join(format!("{kind}.gguf"));
        let wide = wide_file(&base, &home.path().join(format!("{kind}-wide.gguf")));
        let [merged, in_f32] = [&base, &wide].map(|model| {
            let pipeline = ModelBuilder::new(model)
                .with_options(&exact())
                .open_text()
                .unwrap_or_else(|error| panic!("{kind}: {error}"));
            pipeline.load_adapter("small", home.path()).unwrap_or_else(|error| panic!("{kind}: {error}"));
            let set = pipeline.adapter_set(&[("small", 1.0)]).unwrap();
            let to = model.with_extension("merged").file_name().map(|name| home.path().join(name)).unwrap();
            let merge = pipeline.merge(&set).unwrap();
            assert_eq!(merge.tensors(), 10, "{kind}");
            merge.write(&to, &mut |_, _| ControlFlow::Continue(())).unwrap();
            GgufFile::open(&to, &OpenOptions::default()).unwrap()
        });
        let mut policy = Policy::named(kind).unwrap();
        // Each tensor in the type that the base has it in.
        let source = GgufFile::open(&base, &OpenOptions::default()).unwrap();
        policy.tensors =
            source.tensors().iter().map(|tensor| (tensor.name().to_owned(), tensor.kind())).collect();
        let job = FileQuantizer::new(&in_f32, &policy, None, false).unwrap();
        let quantized = home.path().join("quantized.gguf");
        job.write(&quantized, &cpu, &mut |_| ControlFlow::Continue(())).unwrap();
        let quantized = GgufFile::open(&quantized, &OpenOptions::default()).unwrap();
        let mut changed = 0;
        for tensor in source.tensors() {
            let (name, made) = (tensor.name(), bytes_of(&merged, tensor.name()));
            let adapted = ["attn_q", "attn_v", "attn_output", "ffn_gate", "ffn_down"]
                .iter()
                .any(|role| name.contains(role));
            if adapted && name.ends_with(".weight") {
                assert!(made == bytes_of(&quantized, name), "{kind} {name}");
                assert!(made != bytes_of(&source, name), "{kind} {name} was not changed");
                changed += 1;
            } else {
                assert!(made == bytes_of(&source, name), "{kind} {name} was changed");
            }
        }
        assert_eq!(changed, 10);
    }
}

#[test]
fn what_has_no_place_in_a_merged_model_is_refused() {
    // Embedding and head are one tensor, and the adapter changes the embedding alone.
    let gguf = fixtures().join("base/qwen2/model-f32.gguf");
    for model in [gguf, fixtures().join("base/qwen2/hf")] {
        let tied = adapted(&model, "qwen2", &[("tied", 1.0)], &exact());
        let set = tied.engine().adapters.clone().unwrap();
        let said = tied.merge(&set).err().expect("it was merged").to_string();
        assert!(said.contains("embedding and head"), "{said}");
    }
    // What is no folder of a model is not replaced, nor the base.
    let home = tempfile::tempdir().unwrap();
    let model = base("llama", true, home.path());
    let pipeline = adapted(&model, "llama", &[("embed", 1.0)], &exact());
    let set = pipeline.engine().adapters.clone().unwrap();
    let merge = pipeline.merge(&set).unwrap();
    let mine = home.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("letter.txt"), "dear").unwrap();
    for (target, words) in
        [(&mine, "no folder of a model"), (&model, "holds it"), (&home.path().to_owned(), "holds it")]
    {
        let said = merge.write(target, &mut |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    let stopped = merge.write(home.path().join("new"), &mut |done, _| {
        if done < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(stopped.unwrap_err().to_string().contains("nothing was written"));
    let mut left: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["base", "mine"]);
    assert_eq!(std::fs::read(mine.join("letter.txt")).unwrap(), b"dear");
}
