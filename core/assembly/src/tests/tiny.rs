//! A tiny GGUF file assembled by hand-written configs: stages, claims, and what is refused.

use super::config::tiny_config;
use super::whole_model;
use crate::formats::gguf_source::{GgufSource, PlainNames, TensorNaming};
use crate::{
    AssembleOptions, AssembledModel, Assembly, AssemblyFaults, WeightSource, assemble, assemble_feed_forwards,
};
use gguf_file::{GgmlType, GgufFile, GgufWriter};
use menagerie_model::components::{ChooseBy, LayerMixture, MixtureGate, Mixtures};
use menagerie_model::{
    Arithmetic, Compute, DenseLinear, FeedForwardWrapper, InferenceStep, KvType, PoolOptions, RopeRegime,
    Rows, SequenceId, SequenceLayout, SequenceRows, StagePosition, StatePool, StepGoal, StepInput,
    TransformContext, Weight, WeightShape,
};
use menagerie_registry::{Components, Entries};
use menagerie_spec::ModelConfig;
use menagerie_spec::RoleSource;
use menagerie_spec::config::{AttentionConfig, BiasRule, GatedConfig};
use menagerie_spec::kind::Component;
use menagerie_testkit::{
    Session, SplitMix64, TinyModel, TinyShape, assert_close, assert_equal_bits, cpu_backend, naive,
};
use std::ops::Range;
use std::sync::Arc;

/// A stage and its layers; none: the whole model.
type Part = Option<(StagePosition, Range<usize>)>;

fn compute() -> Compute {
    Compute::new(cpu_backend(1).unwrap(), Arithmetic::Exact)
}

fn tiny() -> TinyModel {
    TinyModel::new(TinyShape::default(), 7)
}

fn tokens(count: usize) -> Vec<u32> {
    SplitMix64::new(5).tokens(count, TinyShape::default().vocabulary)
}

fn assembled(model: &TinyModel, config: &ModelConfig, part: Part) -> Result<Assembly, AssemblyFaults> {
    assembled_around(model, config, part, None)
}

fn assembled_around(
    model: &TinyModel,
    config: &ModelConfig,
    part: Part,
    around: Option<&dyn FeedForwardWrapper>,
) -> Result<Assembly, AssemblyFaults> {
    let file = GgufFile::from_bytes("tiny.gguf", model.to_gguf().unwrap()).unwrap();
    assemble_part(config, &GgufSource::new(Arc::new(file), PlainNames), part, around)
}

fn assemble_part(
    config: &ModelConfig,
    source: &dyn WeightSource,
    part: Part,
    around: Option<&dyn FeedForwardWrapper>,
) -> Result<Assembly, AssemblyFaults> {
    let (compute, components) = (compute(), Components::of(&Entries::linked().unwrap()).unwrap());
    let mut options = AssembleOptions::whole(&compute, &components);
    options.feed_forwards = around;
    let options = match part {
        Some((position, layers)) => options.stage(position, layers),
        None => options,
    };
    assemble(config, source, &options)
}

/// The config of every layer's component `C` changed.
fn change<C: menagerie_spec::kind::Definition>(
    component: &mut Option<Component>,
    change: impl FnOnce(&mut C),
) {
    *component = Some(component.as_ref().unwrap().map::<C>(change).unwrap());
}

fn whole(model: &TinyModel, config: &ModelConfig) -> Assembly {
    assembled(model, config, None).unwrap_or_else(|error| panic!("{error}"))
}

fn faults(model: &TinyModel, config: &ModelConfig) -> String {
    match assembled(model, config, None) {
        Ok(_) => panic!("nothing was refused"),
        Err(faults) => faults.to_string(),
    }
}

fn logits(assembly: Assembly, tokens: &[u32]) -> Vec<f32> {
    let model = whole_model(assembly);
    let mut session = Session::exact(&model, 2, 64, 64).unwrap();
    let sequence = session.states.create().unwrap();
    session.feed(sequence, tokens).unwrap().concat()
}

#[test]
fn the_whole_model_is_the_naive_one() {
    let (model, tokens) = (tiny(), tokens(17));
    let assembly = whole(&model, &tiny_config(&model));
    assert_eq!(assembly.claims.len(), model.tensors.len());
    assert_eq!(assembly.parameters() * 4, assembly.weight_bytes());
    assert_close("logits", &logits(assembly, &tokens), &naive::logits(&model, &tokens).concat(), 2e-5);
}

/// One stage's store and what it needs to run a step.
struct Stage {
    assembly: Assembly,
    states: StatePool,
    sequence: SequenceId,
}

impl Stage {
    fn new(
        model: &TinyModel,
        position: StagePosition,
        layers: std::ops::Range<usize>,
        around: Option<&dyn FeedForwardWrapper>,
    ) -> Self {
        let part = Some((position, layers));
        let assembly = assembled_around(model, &tiny_config(model), part, around);
        let assembly = assembly.unwrap_or_else(|error| panic!("{error}"));
        let specs = assembly.body().stack.states().to_vec();
        let options = PoolOptions::one_sequence(KvType::F32, 64);
        let mut states = StatePool::new(&*compute().backend, specs, options).unwrap();
        let sequence = states.create().unwrap();
        Self { assembly, states, sequence }
    }

    fn step(&mut self, hidden: Option<Rows>, tokens: &[u32]) -> Rows {
        let compute = compute();
        let first_position = self.states.len(self.sequence).unwrap();
        let rows = SequenceRows {
            sequence: self.sequence,
            rows: 0..tokens.len(),
            first_position,
            step: InferenceStep::Decode { current_position: first_position },
            regime: RopeRegime::Short,
            logits: 0..tokens.len(),
            adapters: None,
        };
        let layout = SequenceLayout::new(vec![rows]).unwrap();
        let mut context =
            TransformContext::new(&compute, &layout, StepInput::Tokens(tokens), &mut self.states);
        let out = match (&self.assembly.model, hidden) {
            (AssembledModel::First(stage), None) => stage.forward(&mut context).unwrap(),
            (AssembledModel::Middle(stage), Some(hidden)) => stage.forward(hidden, &mut context).unwrap(),
            (AssembledModel::Last(stage), Some(hidden)) => {
                stage.forward(hidden, StepGoal::Logits, &mut context).unwrap()
            }
            _ => panic!("a stage without its input"),
        };
        self.states.advance(self.sequence, tokens.len()).unwrap();
        out
    }
}

/// The logits of stages, computed in two steps, are bit for bit those of the whole model.
fn expect_stages_to_be_the_whole(around: Option<&dyn FeedForwardWrapper>) -> Vec<f32> {
    let (model, tokens) = (tiny(), tokens(12));
    let mut stages = [
        Stage::new(&model, StagePosition::First, 0..1, around),
        Stage::new(&model, StagePosition::Middle, 1..2, around),
        Stage::new(&model, StagePosition::Last, 2..3, around),
    ];
    let mut found = Vec::new();
    for part in [&tokens[..7], &tokens[7..]] {
        let mut hidden = None;
        for stage in &mut stages {
            hidden = Some(stage.step(hidden, part));
        }
        found.extend_from_slice(&compute().backend.read(&hidden.unwrap()).unwrap());
    }
    let built = whole_model(assembled_around(&model, &tiny_config(&model), None, around).unwrap());
    let mut session = Session::exact(&built, 1, 64, 64).unwrap();
    let sequence = session.states.create().unwrap();
    let mut expected = session.feed(sequence, &tokens[..7]).unwrap();
    expected.extend(session.feed(sequence, &tokens[7..]).unwrap());
    assert_equal_bits("stages", &found, &expected.concat());
    found
}

#[test]
fn stages_are_the_whole() {
    let bare = expect_stages_to_be_the_whole(None);
    let mixed = expect_stages_to_be_the_whole(Some(&mixtures(&[0, 2])));
    assert_ne!(bare, mixed);
}

/// In these layers the feed-forwards of another model beside the own ones; rows choose by two directions.
fn mixtures(layers: &[usize]) -> Mixtures {
    let other = TinyModel::new(TinyShape::default(), 8);
    let file = GgufFile::from_bytes("other.gguf", other.to_gguf().unwrap()).unwrap();
    let (compute, components) = (compute(), Components::of(&Entries::linked().unwrap()).unwrap());
    let options = AssembleOptions::whole(&compute, &components);
    let source = GgufSource::new(Arc::new(file), PlainNames);
    let made = assemble_feed_forwards(&tiny_config(&other), &source, &options, layers);
    let made = made.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made.claims.len(), 3 * layers.len());
    let cols = tiny_config(&other).embedding_length;
    let shape = WeightShape { count: 1, rows: 2, cols };
    let values: Vec<f32> = (0..2 * cols).map(|at| if at % 2 == at / cols { 1.0 } else { -1.0 }).collect();
    let weight = Weight::from_f32("gate", &values, shape).unwrap();
    let product =
        DenseLinear::new(compute.backend.matrix(&weight, compute.arithmetic).unwrap(), None).unwrap();
    let joined = made.parts.into_iter().map(|(layer, part)| {
        let gate = MixtureGate::Learned { product: product.clone(), by: ChooseBy::Token };
        (layer, LayerMixture { others: vec![Arc::from(part)], gate })
    });
    Mixtures::new(joined.collect())
}

/// A layer that the other model does not have, and one whose tensor is not there.
#[test]
fn feed_forwards_that_are_not_there_are_named() {
    let mut other = tiny();
    other.tensors.remove("blk.1.ffn_up.weight").unwrap();
    let file = GgufFile::from_bytes("other.gguf", other.to_gguf().unwrap()).unwrap();
    let (compute, components) = (compute(), Components::of(&Entries::linked().unwrap()).unwrap());
    let options = AssembleOptions::whole(&compute, &components);
    let source = GgufSource::new(Arc::new(file), PlainNames);
    let made = assemble_feed_forwards(&tiny_config(&tiny()), &source, &options, &[0, 1, 5]);
    let error = made.err().expect("it was made").to_string();
    assert!(error.contains("other.gguf") && error.contains("layer 5, it has no feed-forward"), "{error}");
    assert!(error.contains("layer 1, tensor \"blk.1.ffn_up.weight\": missing"), "{error}");
}

#[test]
fn a_stage_that_is_none_is_refused() {
    let model = tiny();
    for (position, layers) in [
        (StagePosition::First, 1..2),
        (StagePosition::Middle, 0..1),
        (StagePosition::Last, 1..2),
        (StagePosition::Only, 0..2),
    ] {
        let error =
            assembled(&model, &tiny_config(&model), Some((position, layers))).err().unwrap().to_string();
        assert!(error.contains("of a model of 3 layers"), "{error}");
    }
}

/// `attn_qkv` holds the rows of q, k and v; `ffn_up` of double width those of gate and up.
#[test]
fn fused_tensors_are_the_split_ones() {
    let (model, tokens) = (tiny(), tokens(11));
    let mut fused = model.clone();
    for layer in 0..model.shape.layers {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        for (into, parts) in
            [("attn_qkv", vec!["attn_q", "attn_k", "attn_v"]), ("ffn_up", vec!["ffn_gate", "ffn_up"])]
        {
            let parts: Vec<_> = parts.iter().map(|part| fused.tensors.remove(&name(part)).unwrap()).collect();
            let rows = parts.iter().map(|(dims, _)| dims[1]).sum();
            let values = parts.iter().flat_map(|(_, values)| values.clone()).collect();
            fused.tensors.insert(name(into), (vec![model.shape.width, rows], values));
        }
    }
    let config = tiny_config(&model);
    let expected = logits(whole(&model, &config), &tokens);
    assert_equal_bits("fused", &logits(whole(&fused, &config), &tokens), &expected);
}

#[test]
fn a_tied_head_is_the_embedding() {
    let mut model = tiny();
    model.tensors.remove("output.weight");
    let assembly = whole(&model, &tiny_config(&model));
    let mut untied = model.clone();
    untied.tensors.insert("output.weight".to_owned(), model.tensors["token_embd.weight"].clone());
    let expected = naive::logits(&untied, &tokens(5)).concat();
    assert_close("tied", &logits(assembly, &tokens(5)), &expected, 2e-5);
}

#[test]
fn all_faults_are_reported_at_once_and_repeated_ones_in_one_line() {
    let mut model = tiny();
    let config = tiny_config(&model);
    for layer in 0..3 {
        model.tensors.remove(&format!("blk.{layer}.attn_norm.weight"));
        model.tensors.insert(format!("blk.{layer}.attn_q.bias"), (vec![40], vec![0.0; 40]));
    }
    let down = model.tensors.remove("blk.1.ffn_down.weight").unwrap();
    model.tensors.insert("blk.1.ffn_down_.weight".to_owned(), down);
    model.tensors.insert("blk.2.attn_k.weight".to_owned(), (vec![24, 19], vec![0.0; 24 * 19]));
    model.tensors.insert("extra.weight".to_owned(), (vec![3], vec![0.0; 3]));
    let text = faults(&model, &config);
    let expected = [
        "error: tiny.gguf: tiny, layer 2, tensor \"blk.2.attn_k.weight\": expected [D=24, kv_heads*key_dim=20], found \
         [24, 19]",
        "error: tiny.gguf: tiny, layers 0-2, tensor \"blk.*.attn_norm.weight\": missing; ",
        "error: tiny.gguf: tiny, layer 1, tensor \"blk.1.ffn_down.weight\": missing; the nearest in the file is \
         \"blk.1.ffn_down_.weight\"",
        "error: tiny.gguf: tiny, layers 0-2, tensor \"blk.*.attn_q.bias\" (F32 [40]): no component of the model uses it; \
         the spec has",
        "error: tiny.gguf: tiny, layer 1, tensor \"blk.1.ffn_down_.weight\" (F32 [36, 24]): no component",
        "error: tiny.gguf: tiny, tensor \"extra.weight\" (F32 [3]): no component of the model uses it",
    ];
    for line in expected {
        assert!(text.lines().any(|found| found.starts_with(line)), "no line begins with\n{line}\nin\n{text}");
    }
    assert_eq!(text.lines().count(), expected.len(), "{text}");
}

/// Ignores what begins with `extra`.
struct IgnoresExtra;

impl TensorNaming for IgnoresExtra {
    fn stored_name(&self, role: &str, layer: Option<usize>) -> String {
        PlainNames.stored_name(role, layer)
    }

    fn ignored(&self, name: &str, _layers: usize) -> Option<String> {
        name.starts_with("extra").then(|| "not needed".to_owned())
    }
}

#[test]
fn ignored_tensors_are_listed_with_their_reason() {
    let mut model = tiny();
    model.tensors.insert("extra.weight".to_owned(), (vec![3], vec![0.0; 3]));
    let file = Arc::new(GgufFile::from_bytes("tiny.gguf", model.to_gguf().unwrap()).unwrap());
    let source = GgufSource::new(file, IgnoresExtra);
    let assembly = assemble_part(&tiny_config(&model), &source, None, None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(assembly.ignored.len(), 1);
    assert_eq!(
        (&*assembly.ignored[0].tensor.name, &*assembly.ignored[0].reason),
        ("extra.weight", "not needed")
    );
    assert!(
        source.has("attn_q", Some(2)) && source.has("output", None) && source.has("attn_q.weight", Some(2))
    );
    assert!(!source.has("attn_q", Some(3)) && !source.has("attn_q.bias", Some(2)));
}

#[test]
fn types_that_cannot_be_computed_with_are_refused() {
    let model = tiny();
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", "tiny").unwrap();
    for (name, (dims, values)) in &model.tensors {
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        if name == "blk.0.ffn_up.weight" {
            writer.tensor(name, &dims, GgmlType::I8, vec![0; values.len()]).unwrap();
        } else {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name, &dims, GgmlType::F32, bytes).unwrap();
        }
    }
    let file = GgufFile::from_bytes("tiny.gguf", writer.to_bytes().unwrap()).unwrap();
    let source = GgufSource::new(Arc::new(file), PlainNames);
    let error = assemble_part(&tiny_config(&model), &source, None, None).err().unwrap().to_string();
    assert!(error.contains("\"blk.0.ffn_up.weight\": type I8 is not supported"), "{error}");
}

#[test]
fn impossible_heads_are_refused() {
    let model = tiny();
    for (heads, kv_heads, key_dim) in [(4, 3, 10), (4, 0, 10), (usize::MAX, 1, usize::MAX), (4, 2, 0)] {
        let mut config = tiny_config(&model);
        for layer in &mut config.layers {
            change::<AttentionConfig>(&mut layer.mixer, |attention| {
                (attention.heads, attention.kv_heads, attention.key_dim) = (heads, kv_heads, key_dim);
            });
        }
        let text = faults(&model, &config);
        assert!(text.contains("layers 0-2, attention: "), "{text}");
    }
}

#[test]
fn biases_follow_their_rule() {
    let mut model = tiny();
    let mut config = tiny_config(&model);
    for layer in &mut config.layers {
        change::<AttentionConfig>(&mut layer.mixer, |attention| attention.qkv_bias = BiasRule::Required);
        change::<GatedConfig>(&mut layer.feed_forward, |gated| gated.bias = BiasRule::IfPresent);
    }
    let text = faults(&model, &config);
    assert!(text.contains("layers 0-2, tensor \"blk.*.attn_q.bias\": missing"), "{text}");
    for layer in 0..3 {
        for (role, rows) in [("attn_q", 40), ("attn_k", 20), ("attn_v", 20), ("ffn_down", 24)] {
            model.tensors.insert(format!("blk.{layer}.{role}.bias"), (vec![rows], vec![0.5; rows]));
        }
    }
    let biased = logits(whole(&model, &config), &tokens(4));
    let plain = naive::logits(&model, &tokens(4)).concat();
    assert!(menagerie_testkit::max_difference(&biased, &plain) > 1e-2);
}

/// Experts in two stacks or one: `ffn_gate_up_exps` holds per expert the gate rows, then the up rows.
#[test]
fn fused_experts_are_the_split_ones() {
    let mut model = tiny();
    let mut config = tiny_config(&model);
    let (width, inner, experts) = (model.shape.width, 8, 5);
    let mut random = SplitMix64::new(21);
    let mut fused = model.clone();
    for layer in 0..model.shape.layers {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        for role in ["ffn_gate", "ffn_up", "ffn_down"] {
            model.tensors.remove(&name(role));
            fused.tensors.remove(&name(role));
        }
        let gate = random.values(experts * inner * width, 0.0, 0.4);
        let up = random.values(experts * inner * width, 0.0, 0.4);
        let both = gate
            .chunks(inner * width)
            .zip(up.chunks(inner * width))
            .flat_map(|(g, u)| [g, u].concat())
            .collect();
        let shared = [
            (name("ffn_gate_inp"), (vec![width, experts], random.values(width * experts, 0.0, 0.4))),
            (
                name("ffn_down_exps"),
                (vec![inner, width, experts], random.values(experts * width * inner, 0.0, 0.4)),
            ),
        ];
        model.tensors.extend(shared.clone());
        fused.tensors.extend(shared);
        model.tensors.insert(name("ffn_gate_exps"), (vec![width, inner, experts], gate));
        model.tensors.insert(name("ffn_up_exps"), (vec![width, inner, experts], up));
        fused.tensors.insert(name("ffn_gate_up_exps"), (vec![width, 2 * inner, experts], both));
    }
    for layer in &mut config.layers {
        layer.feed_forward = Some(super::config::softmax_of_two().into());
    }
    let expected = logits(whole(&model, &config), &tokens(9));
    assert_equal_bits("fused experts", &logits(whole(&fused, &config), &tokens(9)), &expected);
    let down = model.tensors.get_mut("blk.1.ffn_down_exps.weight").unwrap();
    down.0 = vec![inner, width - 1, experts];
    down.1.truncate(inner * (width - 1) * experts);
    let text = faults(&model, &config);
    let expected =
        "layer 1, tensor \"blk.1.ffn_down_exps.weight\": expected [EF=8, D=24, E=5], found [8, 23, 5]";
    assert!(text.contains(expected), "{text}");
}
