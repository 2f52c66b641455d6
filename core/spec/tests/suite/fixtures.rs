//! The eight ids against the metadata of the fixtures. Expected values are from the fixtures' `dims` (the HF config) and
//! from the formulas of transformers, not from this crate.

use crate::model::{Fake, attention, built_in, moe, root, spec};
use menagerie_spec::config::*;
use menagerie_spec::kind::Component;
use menagerie_spec::{MetadataValue, SourceFormat};

/// Roles of the blocks of each fixture, as its GGUF has them.
const SPLIT: &[&str] =
    &["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_down", "ffn_up"];
const BIASED: &[&str] = &[
    "attn_norm.bias",
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_output.bias",
    "ffn_up.bias",
    "ffn_down.bias",
];

pub(crate) fn fixture(name: &str) -> (Fake, serde_json::Value) {
    let path = root().join("tests/fixtures/base").join(name).join("fixture.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let fixture: serde_json::Value = serde_json::from_str(&text).unwrap();
    let arch = fixture["arch"].as_str().unwrap().to_string();
    let mut fake = Fake { name: arch.clone(), ..Fake::default() };
    for (key, value) in fixture["gguf_kv"].as_object().unwrap() {
        let value = match value {
            serde_json::Value::String(text) => MetadataValue::Text(text.clone()),
            serde_json::Value::Bool(value) => MetadataValue::Bool(*value),
            serde_json::Value::Number(number) if number.is_i64() => {
                MetadataValue::Integer(number.as_i64().unwrap())
            }
            serde_json::Value::Number(number) => MetadataValue::Number(number.as_f64().unwrap()),
            other => panic!("{key}: {other}"),
        };
        match key.strip_prefix(&format!("{arch}.")) {
            Some(short) => drop(fake.keys.insert(short.into(), value)),
            None => fake.foreign.push(key.clone()),
        }
    }
    for role in ["token_embd", "output_norm"] {
        fake.roles.insert((role.into(), None));
    }
    (fake, fixture)
}

/// A fixture resolved, with the roles its blocks have.
fn resolved(name: &str, roles: &[&[&str]], whole: &[&str]) -> (ModelConfig, serde_json::Value) {
    let (mut fake, fixture) = fixture(name);
    roles.iter().for_each(|roles| fake.all_layers(roles));
    fake.roles.extend(whole.iter().map(|role| (role.to_string(), None)));
    let spec = spec(&built_in(), &fake.name);
    let config = fake.config(&spec);
    assert_eq!(config.layers.len(), fixture["dims"]["num_hidden_layers"].as_u64().unwrap() as usize);
    assert_eq!(config.embedding_length, fixture["dims"]["hidden_size"].as_u64().unwrap() as usize);
    assert_eq!(
        config.context_length,
        fixture["dims"]["max_position_embeddings"].as_u64().map(|n| n as usize)
    );
    (config, fixture)
}

fn rms(eps: f32) -> Component {
    RmsConfig { eps, weight: NormWeight::Own, offset: 0.0 }.into()
}

fn layer_norm(eps: f32) -> Component {
    LayerNormConfig { eps, weight: NormWeight::Own, bias: NormBias::Own, offset: 0.0 }.into()
}

fn site(role: &str, norm: &Component) -> Option<NormSite> {
    Some(NormSite { role: role.into(), norm: norm.clone() })
}

fn sequential(config: &ModelConfig, norm: &Component) {
    for layer in &config.layers {
        assert_eq!(layer.mixer_branch.pre, site("attn_norm", norm));
        assert_eq!(layer.feed_forward_branch.pre, site("ffn_norm", norm));
        assert_eq!(
            (layer.mixer_branch.reads, layer.feed_forward_branch.reads),
            (BranchInput::Stream, BranchInput::Stream)
        );
        assert_eq!((&layer.mixer_branch.post, &layer.mixer_branch.after), (&None, &None));
    }
    assert_eq!(config.output.norm, site("output_norm", norm));
}

fn heads(attention: &AttentionConfig) -> (usize, usize, usize, usize) {
    (attention.heads, attention.kv_heads, attention.key_dim, attention.value_dim)
}

fn rope(pairs: RopePairs, dims: usize, base: f32, scaling: RopeScaling) -> Option<RopeConfig> {
    Some(RopeConfig { pairs, dims, base, scaling })
}

fn silu(bias: BiasRule) -> Option<Component> {
    Some(GatedConfig { activation: Activation::Silu.into(), bias, inner_norm: None, limit: None }.into())
}

#[test]
fn llama() {
    let (config, _) = resolved("llama", &[SPLIT, &["ffn_gate"]], &["output"]);
    sequential(&config, &rms(1e-5));
    let first = attention(&config, 0);
    assert_eq!(heads(first), (4, 2, 16, 16));
    assert_eq!(first.scale, 0.25);
    assert_eq!(first.rope, rope(RopePairs::Adjacent, 16, 10000.0, RopeScaling::None));
    assert_eq!((&first.window, &first.qk_norm, &first.temperature), (&None, &None, &None));
    assert_eq!(config.layers[2].feed_forward, silu(BiasRule::IfPresent));
    assert_eq!(config.hints["vocab_size"], 384.0);
    assert_eq!(config.adapter_order.len(), 7);
}

#[test]
fn mixtral_is_llama_with_experts() {
    let roles = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    let (config, _) = resolved("mixtral", &[&SPLIT[..6], &roles], &[]);
    let moe = moe(&config, 1);
    let experts = ExpertConfig {
        kind: ExpertForm::Gated,
        activation: Activation::Silu.into(),
        bias: BiasRule::None,
        limit: None,
    };
    assert_eq!((&moe.experts, &moe.shared), (&experts, &None));
    assert_eq!(
        (moe.router.score, moe.router.weights, moe.router.top_k),
        (RouterScore::Softmax, RouterWeights::SumToOne, 2)
    );
    assert_eq!((moe.router.scale, moe.router.apply), (1.0, RouterApply::ToOutput));
    assert_eq!(attention(&config, 0).rope, rope(RopePairs::Adjacent, 16, 1e6, RopeScaling::None));
}

#[test]
fn mistral3_has_yarn_of_magnitude_one_and_a_temperature() {
    let (config, _) = resolved("mistral3", &[SPLIT, &["ffn_gate"]], &["output"]);
    for layer in 0..3 {
        let attention = attention(&config, layer);
        assert_eq!(heads(attention), (4, 2, 32, 32));
        assert_eq!(attention.scale, (1.0 / 32f64.sqrt()) as f32);
        let yarn = RopeScaling::Yarn {
            factor: 16.0,
            original_context: 32.0,
            beta_fast: 2.0,
            beta_slow: 0.5,
            magnitude: 1.0,
            rounding: Rounding::WholeDims,
        };
        assert_eq!(attention.rope, rope(RopePairs::Adjacent, 32, 10000.0, yarn));
        let temperature = TemperatureConfig { scale: 0.1, length: 32.0, offset: 0.0 };
        assert_eq!(attention.temperature, Some(temperature));
    }
}

#[test]
fn mistral3_without_yarn_and_temperature_is_llama() {
    let (mut fake, _) = fixture("mistral3");
    fake.keys.retain(|key, _| !key.starts_with("rope.scaling.") && key != "attention.temperature_scale");
    fake.all_layers(SPLIT);
    let config = fake.config(&spec(&built_in(), "mistral3"));
    assert_eq!(attention(&config, 0).temperature, None);
    assert_eq!(attention(&config, 0).rope, rope(RopePairs::Adjacent, 32, 10000.0, RopeScaling::None));
}

#[test]
fn phi2_is_parallel_on_one_norm_with_biases_everywhere() {
    let (config, fixture) =
        resolved("phi2", &[SPLIT, BIASED], &["output", "output.bias", "output_norm.bias"]);
    for layer in &config.layers {
        let norm = site("attn_norm", &layer_norm(1e-5));
        assert_eq!((&layer.mixer_branch.pre, &layer.feed_forward_branch.pre), (&norm, &norm));
        assert_eq!(
            (layer.mixer_branch.reads, layer.feed_forward_branch.reads),
            (BranchInput::Stream, BranchInput::BlockInput)
        );
        let plain = PlainConfig {
            activation: Activation::GeluTanh.into(),
            bias: BiasRule::Required,
            inner_norm: None,
        };
        assert_eq!(layer.feed_forward, Some(plain.into()));
    }
    let first = attention(&config, 0);
    let dims = &fixture["dims"];
    assert_eq!(heads(first), (4, dims["num_key_value_heads"].as_u64().unwrap() as usize, 16, 16));
    assert_eq!((first.qkv_bias, first.output_bias), (BiasRule::Required, BiasRule::Required));
    assert_eq!(first.rope, rope(RopePairs::Halves, 8, 10000.0, RopeScaling::None));
    assert_eq!((config.output.head, config.output.bias), (HeadKind::Own, BiasRule::Required));
}

#[test]
fn phi3_has_longrope_and_honors_its_window() {
    let roles = ["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down"];
    let (config, _) = resolved("phi3", &[&roles], &["output", "rope_factors_long", "rope_factors_short"]);
    let first = attention(&config, 0);
    assert_eq!(first.window, Some(WindowConfig { kind: WindowKind::Sliding, size: 64 }));
    // sqrt(1 + ln(1024 / 256) / ln(256)), transformers' _compute_longrope_parameters
    let magnitude = (1.0 + 4f64.ln() / 256f64.ln()).sqrt() as f32;
    let longrope = RopeScaling::LongRope {
        short: "rope_factors_short".into(),
        long: "rope_factors_long".into(),
        original_context: 256,
        magnitude,
    };
    assert_eq!(first.rope, rope(RopePairs::Halves, 16, 10000.0, longrope));
    assert_eq!(first.scale, 0.25);
    assert_eq!((first.qkv_bias, first.output_bias), (BiasRule::None, BiasRule::None));
    assert_eq!(config.layers[0].feed_forward, silu(BiasRule::None));
    assert_eq!(config.adapter_order, ["attn_output", "attn_qkv", "ffn_up", "ffn_down"]);
    assert_eq!(config.tokenizer.end, ["<|end|>"]);
}

#[test]
fn qwen2_has_biases_on_q_k_v() {
    let roles = ["ffn_gate", "attn_q.bias", "attn_k.bias", "attn_v.bias"];
    let (config, _) = resolved("qwen2", &[SPLIT, &roles], &[]);
    sequential(&config, &rms(1e-6));
    let first = attention(&config, 0);
    assert_eq!(heads(first), (4, 2, 16, 16));
    assert_eq!(first.qkv_bias, BiasRule::Required);
    assert_eq!(first.rope, rope(RopePairs::Halves, 16, 1e6, RopeScaling::None));
    assert_eq!(config.layers[0].feed_forward, silu(BiasRule::None));
}

#[test]
fn qwen3_norms_queries_and_keys_before_rope() {
    let (config, _) = resolved("qwen3", &[SPLIT, &["ffn_gate", "attn_q_norm", "attn_k_norm"]], &[]);
    let first = attention(&config, 0);
    assert_eq!(heads(first), (4, 2, 32, 32));
    assert_eq!(first.scale, (1.0 / 32f64.sqrt()) as f32);
    let norm = rms(1e-6);
    let key_norm = norm.clone();
    let wanted = QkNormConfig { over: QkNormOver::Head, at: QkNormAt::BeforeRope, norm, key_norm };
    assert_eq!(first.qk_norm, Some(wanted));
    assert_eq!(first.rope, rope(RopePairs::Halves, 32, 1e6, RopeScaling::None));
    assert_eq!(config.layers[0].feed_forward, silu(BiasRule::None));
}

#[test]
fn qwen3moe_renormalizes() {
    let roles =
        ["attn_q_norm", "attn_k_norm", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];
    let (config, _) = resolved("qwen3moe", &[&SPLIT[..6], &roles], &[]);
    let moe = moe(&config, 0);
    assert_eq!(
        (moe.router.score, moe.router.weights, moe.router.top_k),
        (RouterScore::Softmax, RouterWeights::SumToOne, 2)
    );
    assert!(attention(&config, 0).qk_norm.is_some());
    assert_eq!(config.hints["feed_forward_length"], 128.0);
}

#[test]
fn starcoder2_has_layer_norms_and_biases() {
    let roles = ["ffn_norm.bias"];
    let (config, _) = resolved("starcoder2", &[SPLIT, BIASED, &roles], &["output_norm.bias"]);
    sequential(&config, &layer_norm(1e-5));
    let first = attention(&config, 0);
    assert_eq!(heads(first), (4, 2, 16, 16));
    assert_eq!((first.qkv_bias, first.output_bias), (BiasRule::Required, BiasRule::Required));
    assert_eq!(first.window, None);
    assert_eq!(first.rope, rope(RopePairs::Halves, 16, 1e5, RopeScaling::None));
    let plain =
        PlainConfig { activation: Activation::GeluTanh.into(), bias: BiasRule::Required, inner_norm: None };
    assert_eq!(config.layers[0].feed_forward, Some(plain.into()));
    assert_eq!(config.output.head, HeadKind::OwnOrTied);
}

#[test]
fn the_pairing_follows_the_source_format() {
    let (mut fake, _) = fixture("llama");
    fake.all_layers(SPLIT);
    let spec = spec(&built_in(), "llama");
    let config = fake.report_as(&spec, SourceFormat::Hf).unwrap().config;
    assert_eq!(attention(&config, 0).rope.as_ref().unwrap().pairs, RopePairs::Halves);
}

#[test]
fn nothing_of_a_fixture_is_left_unread() {
    for name in ["llama", "mistral3", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"] {
        let (mut fake, _) = fixture(name);
        fake.all_layers(SPLIT);
        if name == "phi3" {
            fake = fake.with_role("rope_factors_long").with_role("rope_factors_short");
        }
        let report =
            fake.report(&spec(&built_in(), &fake.name)).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        assert_eq!(report.coverage.read.len(), fake.keys.len(), "{name}");
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }
}
