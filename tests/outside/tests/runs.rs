//! A model whose norms and mixers are of this crate runs from a dropped spec: right, in chunks, and refused by name.
#![allow(missing_docs, clippy::unwrap_used)]

use gguf_file::{GgmlType, GgufWriter};
use menagerie::engine::{Arithmetic, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie_testkit::{SplitMix64, assert_close};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

// The kinds of this crate, and the built-in architectures beside which they run.
use menagerie_outside as _;

const WIDTH: usize = 12;
const CHANNELS: usize = 5;
const INNER: usize = 20;
const VOCABULARY: usize = 30;
const LAYERS: usize = 2;
const ALPHA: f64 = 0.7;
const DECAY: f64 = 0.25;

const SPEC: &str = r#"
schema = 1

[architecture]
id = "outside"

[provenance]
reference = "paper"
source    = "this test"
covers    = "this test"

[norm]
kind  = "dynamic-tanh"
alpha = "norm_alpha"

[block.mixer]
pre = "attn_norm"

[block.feed_forward]
pre = "ffn_norm"

[mixer]
kind  = "decaying-mean"
decay = 0.25

[feed_forward]
kind       = "gated"
activation = "silu"

[output]
norm = "output_norm"
head = "own"
"#;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn tensors() -> Tensors {
    let mut random = SplitMix64::new(11);
    let mut tensors = Tensors::new();
    let mut add = |name: String, dims: Vec<usize>, center: f32| {
        let values = random.values(dims.iter().product(), center, 0.6);
        tensors.insert(name, (dims, values));
    };
    add("token_embd.weight".into(), vec![WIDTH, VOCABULARY], 0.0);
    add("output.weight".into(), vec![WIDTH, VOCABULARY], 0.0);
    let sites =
        (0..LAYERS).flat_map(|layer| ["attn_norm", "ffn_norm"].map(|role| format!("blk.{layer}.{role}")));
    for site in sites.chain(["output_norm".to_owned()]) {
        add(format!("{site}.weight"), vec![WIDTH], 1.0);
        add(format!("{site}.bias"), vec![WIDTH], 0.0);
    }
    for layer in 0..LAYERS {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        add(name("mean_value"), vec![WIDTH, CHANNELS], 0.0);
        add(name("mean_output"), vec![CHANNELS, WIDTH], 0.0);
        add(name("ffn_gate"), vec![WIDTH, INNER], 0.0);
        add(name("ffn_up"), vec![WIDTH, INNER], 0.0);
        add(name("ffn_down"), vec![INNER, WIDTH], 0.0);
    }
    tensors
}

fn write_model(folder: &Path, tensors: &Tensors, keys: &[(&str, f32)]) -> PathBuf {
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", "outside").unwrap();
    writer.metadata("outside.block_count", LAYERS as u32).unwrap();
    writer.metadata("outside.embedding_length", WIDTH as u32).unwrap();
    writer.metadata("outside.attention.head_count", 1u32).unwrap();
    writer.metadata("outside.context_length", 64u32).unwrap();
    writer.metadata("outside.norm_alpha", ALPHA as f32).unwrap();
    writer.metadata("outside.mean.channels", CHANNELS as u32).unwrap();
    for (key, value) in keys {
        writer.metadata(key, *value).unwrap();
    }
    for (name, (dims, values)) in tensors {
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        writer.tensor(name, &dims, GgmlType::F32, bytes).unwrap();
    }
    let path = folder.join("outside.gguf");
    std::fs::write(&path, writer.to_bytes().unwrap()).unwrap();
    path
}

fn open(folder: &Path, spec: &str, tensors: &Tensors) -> Result<LoadedModel<TextPipeline>, String> {
    std::fs::write(folder.join("outside.toml"), spec).unwrap();
    let path = write_model(folder, tensors, &[]);
    ModelBuilder::new(&path).with_options(&options(folder)).open_text().map_err(|error| error.to_string())
}

fn options(folder: &Path) -> LoadOptions {
    LoadOptions::default()
        .with_spec_dirs(vec![folder.to_owned()])
        .with_threads(1)
        .with_arithmetic(Arithmetic::Exact)
}

/// `W x`, in f64.
fn product(tensors: &Tensors, name: &str, x: &[f64]) -> Vec<f64> {
    let rows = tensors[name].1.chunks_exact(x.len());
    rows.map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

fn norm(tensors: &Tensors, site: &str, x: &[f64]) -> Vec<f64> {
    let (weight, bias) = (&tensors[&format!("{site}.weight")].1, &tensors[&format!("{site}.bias")].1);
    let value =
        |(x, (w, b)): (&f64, (&f32, &f32))| (ALPHA as f32 as f64 * x).tanh() * f64::from(*w) + f64::from(*b);
    x.iter().zip(weight.iter().zip(bias)).map(value).collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn mish(x: f64) -> f64 {
    x * (1.3 * x).exp().ln_1p().tanh()
}

/// The whole model in plain f64 loops.
fn naive(tensors: &Tensors, tokens: &[u32], activation: fn(f64) -> f64) -> Vec<f32> {
    let mut sums = vec![vec![0.0; CHANNELS]; LAYERS];
    let mut logits = Vec::new();
    for &token in tokens {
        let row = &tensors["token_embd.weight"].1[token as usize * WIDTH..][..WIDTH];
        let mut x: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
        for (layer, sums) in sums.iter_mut().enumerate() {
            let name = |role: &str| format!("blk.{layer}.{role}.weight");
            let value =
                product(tensors, &name("mean_value"), &norm(tensors, &format!("blk.{layer}.attn_norm"), &x));
            sums.iter_mut().zip(value).for_each(|(sum, value)| *sum = *sum * DECAY + value);
            let mixed = product(tensors, &name("mean_output"), sums);
            x.iter_mut().zip(mixed).for_each(|(x, y)| *x += y);
            let normed = norm(tensors, &format!("blk.{layer}.ffn_norm"), &x);
            let gate = product(tensors, &name("ffn_gate"), &normed);
            let up = product(tensors, &name("ffn_up"), &normed);
            let inner: Vec<f64> = gate.iter().zip(up).map(|(g, u)| activation(*g) * u).collect();
            let out = product(tensors, &name("ffn_down"), &inner);
            x.iter_mut().zip(out).for_each(|(x, y)| *x += y);
        }
        let normed = norm(tensors, "output_norm", &x);
        logits.extend(product(tensors, "output.weight", &normed).iter().map(|logit| *logit as f32));
    }
    logits
}

#[test]
fn a_spec_of_foreign_kinds_runs_right_whole_in_chunks_and_decoded() {
    let (folder, tensors) = (tempfile::tempdir().unwrap(), tensors());
    let tokens: Vec<u32> = (0..17).map(|i| i * 7 % VOCABULARY as u32).collect();
    let of_component = SPEC.replace("\"silu\"", "{ kind = \"mish\", beta = 1.3 }");
    for (spec, activation) in [(SPEC, silu as fn(f64) -> f64), (&of_component, mish)] {
        let pipeline = open(folder.path(), spec, &tensors).unwrap();
        let expected = naive(&tensors, &tokens, activation);
        for (chunk, decode_from) in [(64, None), (5, None), (1, None), (64, Some(6))] {
            let options = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
            let logits = logits(&pipeline, &tokens, &options).unwrap();
            assert_close(
                &format!("chunks of {chunk}, decoded from {decode_from:?}"),
                &logits.values,
                &expected,
                1e-4,
            );
        }
    }
}

#[test]
fn faults_of_foreign_kinds_are_named_like_others() {
    let (folder, mut tensors) = (tempfile::tempdir().unwrap(), tensors());
    let told = |spec: &str, tensors: &Tensors| match open(folder.path(), spec, tensors) {
        Ok(_) => panic!("nothing was refused"),
        Err(error) => error,
    };
    let error = told(&SPEC.replace("alpha =", "alhpa ="), &tensors);
    assert!(error.contains("norm.alhpa") && error.contains("alpha"), "{error}");
    let error = told(&SPEC.replace("decay = 0.25", "decay = 1.5"), &tensors);
    assert!(error.contains("mixer.decay") && error.contains("from 0 up to 1"), "{error}");
    let error = told(&SPEC.replace("decaying-mean", "decaying-mode"), &tensors);
    assert!(error.contains("decaying-mean"), "{error}");
    let error = told(&SPEC.replace("\"silu\"", "\"acme/shapes:bump\""), &tensors);
    let hint = "unknown kind `acme/shapes:bump`; it belongs to the plugin `acme/shapes`";
    assert!(
        error.contains("feed_forward.activation") && error.contains(hint) && error.contains("--plugin-dir"),
        "{error}"
    );
    let error = told(&SPEC.replace("\"silu\"", "{ kind = \"mish\", bet = 2 }"), &tensors);
    assert!(error.contains("feed_forward.activation.bet"), "{error}");
    let value = tensors.get_mut("blk.1.mean_value.weight").unwrap();
    value.0 = vec![WIDTH, CHANNELS - 1];
    value.1.truncate(WIDTH * (CHANNELS - 1));
    let error = told(SPEC, &tensors);
    assert!(error.contains("layer 1") && error.contains("[D=12, channels=5], found [12, 4]"), "{error}");
}

const TURNING: &str = r#"
[mixer]
kind       = "attention"
heads      = 2
kv_heads   = 2
key_dim    = 6
value_dim  = 6

[mixer.rope]
kind  = "rotary"
pairs = "halves"
dims  = 6
base  = 100
"#;

/// Logits of the model with attention in place of its mixer; `rope` is added to its rope, `keys` to the file.
fn turning(folder: &Path, rope: &str, keys: &[(&str, f32)]) -> Vec<f32> {
    let mut random = SplitMix64::new(12);
    let mut tensors = tensors();
    tensors.retain(|name, _| !name.contains("mean_"));
    for layer in 0..LAYERS {
        for role in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            let values = random.values(WIDTH * WIDTH, 0.0, 0.6);
            tensors.insert(format!("blk.{layer}.{role}.weight"), (vec![WIDTH, WIDTH], values));
        }
    }
    let mixer = SPEC.find("[mixer]\n").unwrap()..SPEC.find("[feed_forward]\n").unwrap();
    let mut spec = SPEC.to_owned();
    spec.replace_range(mixer, &format!("{TURNING}{rope}\n"));
    spec.push_str("[gguf.ignore_keys]\n\"mean.channels\" = \"of another mixer\"\n");
    std::fs::write(folder.join("outside.toml"), spec).unwrap();
    let path = write_model(folder, &tensors, keys);
    let tokens: Vec<u32> = (0..17).map(|i| i * 7 % VOCABULARY as u32).collect();
    let pipeline = ModelBuilder::new(&path).with_options(&options(folder)).open_text().unwrap();
    logits(&pipeline, &tokens, &LogitsOptions::default().with_chunk(5)).unwrap().values
}

#[test]
fn a_foreign_rope_gives_the_frequencies_in_both_regimes() {
    let folder = tempfile::tempdir().unwrap();
    let plain = turning(folder.path(), "", &[]);
    let accepted = "scaling = { accept = [\"linear\"] }";
    let divided = turning(folder.path(), accepted, &[("outside.rope.scaling.factor", 4.0)]);
    let foreign = |more: &str| {
        let rope = format!("frequencies = {{ kind = \"stretched\", factor = 4, first_context = 20 }}{more}");
        turning(folder.path(), &rope, &[])
    };
    // The context of the model is 64 tokens: the component divides for it.
    assert_eq!(foreign(""), divided);
    // Seventeen tokens are in the short regime of 20, and past that of 16.
    assert_eq!(foreign("\nlong_after = 20"), plain);
    assert_eq!(foreign("\nlong_after = 16"), divided);
    assert_ne!(plain, divided);
}
