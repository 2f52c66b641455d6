//! Adapters whose factors are stored in 16 bits: the products are computed in f32, so that nothing but the factors is rounded.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, KvType, TextPipeline};
use menagerie::gguf::{GgufFile, OpenOptions};
use menagerie::kernels::Cpu;
use menagerie::measure::LogitsOptions;
use menagerie::open::{AdapterOption, LoadOptions, LoadedModel, ModelBuilder};
use menagerie::quantize::{FileQuantizer, Policy};
use menagerie::spec::AdapterKind;
use menagerie_conformance::{Reference, distance, fixtures, on_candle, options, rows};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const GATE: f32 = 1e-4;

/// A base, an adapter on it, and a reference that has a prompt: factors of linears, of a table and the head, of experts as
/// parameters, of experts as modules, of heads.
const CASES: [(&str, &str, &str); 5] = [
    ("llama", "adapters/a1", "lora_reference.safetensors"),
    ("llama", "embed", "embed/reference.safetensors"),
    ("mixtral", "parameters", "parameters/reference.safetensors"),
    ("mixtral", "modules", "modules/reference.safetensors"),
    ("deepseek2-lite", "mla", "mla/reference.safetensors"),
];

fn lora(base: &str) -> PathBuf {
    fixtures().join("lora").join(base)
}

/// The base in f32, so that its own products round nothing.
fn base(name: &str, home: &Path) -> PathBuf {
    let own = fixtures().join("base").join(name).join("model-f32.gguf");
    if own.is_file() {
        return own;
    }
    let half = fixtures().join("zoo").join(name).join("model-f16.gguf");
    let (file, wide) = (GgufFile::open(&half, &OpenOptions::default()).unwrap(), home.join("base.gguf"));
    let policy = Policy::named("f32").unwrap();
    let job = FileQuantizer::new(&file, &policy, None, true).unwrap();
    job.write(&wide, &Cpu::new(None).unwrap(), &mut |_| ControlFlow::Continue(())).unwrap();
    wide
}

/// A copy of an adapter's folder with the numbers rounded to `rounded` and stored as `stored`.
fn copy(from: &Path, to: &Path, rounded: Dtype, stored: Dtype) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join("adapter_config.json"), to.join("adapter_config.json")).unwrap();
    let bytes = std::fs::read(from.join("adapter_model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, tensor)| {
            assert_eq!(tensor.dtype(), Dtype::F32);
            let floats = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            let bytes = floats.flat_map(|value| number(value, rounded, stored)).collect();
            (name, tensor.shape().to_vec(), bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(stored, shape.clone(), bytes).unwrap()));
    let about = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views, Some(about), &to.join("adapter_model.safetensors")).unwrap();
}

/// A number rounded to one of the two types of 16 bits, as bytes of that type or of f32.
fn number(value: f32, rounded: Dtype, stored: Dtype) -> Vec<u8> {
    let (bits, near) = match rounded {
        Dtype::BF16 => (half::bf16::from_f32(value).to_bits(), half::bf16::from_f32(value).to_f32()),
        _ => (half::f16::from_f32(value).to_bits(), half::f16::from_f32(value).to_f32()),
    };
    if stored == Dtype::F32 { near.to_le_bytes().to_vec() } else { bits.to_le_bytes().to_vec() }
}

/// The base with an adapter beside it.
fn adapted(model: &Path, adapter: &Path, options: &LoadOptions) -> LoadedModel<TextPipeline> {
    let mut pipeline =
        ModelBuilder::new(model).with_options(options).open_text().unwrap_or_else(|error| panic!("{error}"));
    pipeline.load_adapter("one", adapter).unwrap_or_else(|error| panic!("{error}"));
    let set = pipeline.adapter_set(&[("one", 1.0)]).unwrap_or_else(|error| panic!("{error}"));
    pipeline.adapt(Some(set));
    pipeline
}

/// The base with an adapter in its weights: `W + s B A`, which `merge` computes without products of low rank.
fn merged(
    adapted: &LoadedModel<TextPipeline>,
    to: &Path,
    options: &LoadOptions,
) -> LoadedModel<TextPipeline> {
    let set = adapted.engine().adapters.clone().unwrap();
    let merge = adapted.merge(&set).unwrap_or_else(|error| panic!("{error}"));
    merge.write(to, &mut |_, _| ControlFlow::Continue(())).unwrap_or_else(|error| panic!("{error}"));
    ModelBuilder::new(to).with_options(options).open_text().unwrap_or_else(|error| panic!("{error}"))
}

/// Every case with factors of both types: whole prompts and token by token, beside the base and in its weights.
fn every_case(cases: &[(&str, &str, &str)], options: &LoadOptions) {
    let options = options.clone().with_kv_type(KvType::F32);
    for &(name, adapter, reference) in cases {
        let home = TempDir::new().unwrap();
        let model = base(name, home.path());
        let prompt = Reference::open(&lora(name).join(reference)).ids("tokens_prompt");
        for stored in [Dtype::BF16, Dtype::F16] {
            let folder = home.path().join(format!("{stored:?}"));
            copy(&lora(name).join(adapter), &folder, stored, stored);
            let beside = adapted(&model, &folder, &options);
            let inside = merged(&beside, &home.path().join(format!("{stored:?}.gguf")), &options);
            for decode_from in [None, Some(9)] {
                let how = LogitsOptions::default().with_decode_from(decode_from);
                let found = distance(&rows(&beside, &prompt, &how), &rows(&inside, &prompt, &how).concat());
                println!("{name} {adapter} {stored:?} {decode_from:?}: {found:e}");
                assert!(found <= GATE, "{name}, {adapter}, {stored:?}, {decode_from:?}: {found:e}");
            }
        }
    }
}

#[test]
fn factors_of_16_bits_are_multiplied_in_f32() {
    every_case(&CASES, &options(Arithmetic::Fast));
}

/// `merge` needs the CPU for experts.
#[test]
fn candle_multiplies_factors_of_16_bits_in_f32() {
    every_case(&CASES[..2], &on_candle(options(Arithmetic::Fast)));
}

/// An X-LoRA over adapters in bf16 gives what it gives over the same numbers stored in f32, whose products are held against
/// PEFT's elsewhere.
#[test]
fn an_xlora_of_factors_in_bf16_is_multiplied_in_f32() {
    let home = TempDir::new().unwrap();
    let model = base("llama", home.path());
    let variant = "xlora/depth2_softmax";
    let prompt =
        Reference::open(&lora("llama").join(variant).join("reference.safetensors")).ids("tokens_prompt");
    let given = |stored: Dtype| {
        let root = home.path().join(format!("{stored:?}"));
        for name in ["a0", "a1", "a2", "a3", "a4"] {
            let adapter = Path::new("adapters").join(name);
            copy(&lora("llama").join(&adapter), &root.join(&adapter), Dtype::BF16, stored);
        }
        let (from, to) = (lora("llama").join(variant), root.join(variant));
        std::fs::create_dir_all(&to).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        let adapters = vec![AdapterOption { kind: AdapterKind::XLora, path: to, weight: 1.0 }];
        let options = options(Arithmetic::Fast).with_adapters(adapters);
        let pipeline = ModelBuilder::new(&model)
            .with_options(&options)
            .open_text()
            .unwrap_or_else(|error| panic!("{error}"));
        rows(&pipeline, &prompt, &LogitsOptions::default())
    };
    assert_eq!(given(Dtype::BF16), given(Dtype::F32));
}
