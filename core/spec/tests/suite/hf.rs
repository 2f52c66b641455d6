//! config.json under specs: keys, faults, and names of roles in both directions.

use crate::model::{built_in, root, spec};
use menagerie_spec::{
    ArchSpec, HfConfig, HfOrigin, HfPart, KeySource, Layout, MetadataValue, NameUse, ResolveInput,
    RoleSource, SourceFormat,
};

/// Every tensor that is asked for is there, but for experts and biases.
struct Dense;

impl RoleSource for Dense {
    fn has(&self, role: &str, _layer: Option<usize>) -> bool {
        !role.contains("inp") && !role.contains("rope") && !role.contains("cls")
    }
}

/// What resolving a config says, with names changed.
fn faults(
    id: &str,
    change: impl Fn(&mut serde_json::Map<String, serde_json::Value>),
    accept: &[&str],
) -> String {
    let text = std::fs::read_to_string(root().join("tests/fixtures/base/llama/hf/config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    change(config.as_object_mut().unwrap());
    let spec = spec(&built_in(), id);
    let config = HfConfig::parse("config.json", &config.to_string()).unwrap();
    let keys = spec.hf_keys(&config).unwrap();
    let mut input = ResolveInput::new(SourceFormat::Hf, "config.json", "x", &keys, &Dense);
    input.accept_unread = accept.iter().map(|name| (*name).to_owned()).collect();
    match spec.resolve_report(&input) {
        Ok(resolution) => resolution.warnings.join("\n"),
        Err(faults) => faults.to_string(),
    }
}

#[test]
fn every_name_of_a_config_is_read_ignored_or_refused() {
    assert_eq!(faults("llama", |_| {}, &[]), "");
    let unread = faults("llama", |config| drop(config.insert("attn_softcap".into(), 30.into())), &[]);
    assert!(unread.contains("key attn_softcap") && unread.contains("[hf.ignore_keys]"), "{unread}");
    assert!(unread.contains("--accept-unread attn_softcap"), "{unread}");
    let near = faults("llama", |config| drop(config.insert("slidng_window".into(), 30.into())), &[]);
    assert!(near.contains("sliding_window"), "{near}");
    let inner =
        faults("llama", |config| drop(config.insert("odd".into(), serde_json::json!({"b": {"c": 1}}))), &[]);
    assert!(inner.contains("key odd.b.c"), "{inner}");
    let accepted =
        faults("llama", |config| drop(config.insert("attn_softcap".into(), 30.into())), &["attn_softcap"]);
    assert!(accepted.starts_with("key attn_softcap is accepted unread"), "{accepted}");
    assert_eq!(faults("llama", |config| drop(config.insert("attn_softcap".into(), ().into())), &[]), "");
    let other = faults("llama", |config| drop(config.insert("hidden_act".into(), "gelu".into())), &[]);
    assert!(
        other.contains("hidden_act")
            && other.contains("\"gelu\", and spec llama")
            && other.contains("\"silu\""),
        "{other}"
    );
    let twice = faults("llama", |config| drop(config.insert("n_layer".into(), 7.into())), &[]);
    assert!(twice.contains("n_layer") && twice.contains("which one is meant?"), "{twice}");
}

/// A broken file can have as many unknown names as it is long, and each search goes through all names.
#[test]
fn the_nearest_names_are_looked_for_a_few_times() {
    let text = std::fs::read_to_string(root().join("tests/fixtures/base/llama/hf/config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    for at in 0..300 {
        config[format!("sliding_win{at:03}")] = 1.into();
    }
    let keys = spec(&built_in(), "llama")
        .hf_keys(&HfConfig::parse("config.json", &config.to_string()).unwrap())
        .unwrap();
    let helps = keys.names().unwrap().iter().filter_map(|name| match &name.is {
        NameUse::Unknown(help) => Some(help.contains("sliding_window")),
        _ => None,
    });
    let helps: Vec<bool> = helps.collect();
    assert_eq!((helps.len(), helps.iter().filter(|helps| **helps).count()), (300, 200));
}

/// What is missing is called as the config would call it.
#[test]
fn missing_keys_have_the_names_of_the_config() {
    let said = faults("llama", |config| drop(config.remove("num_attention_heads")), &[]);
    assert!(said.contains("key num_attention_heads"), "{said}");
    let windowed = faults("llama", |config| drop(config.insert("sliding_window".into(), "wide".into())), &[]);
    assert!(windowed.contains("attention.sliding_window"), "{windowed}");
}

/// What other programs want in a file is computed of whole lists, and nothing of it is read.
#[test]
fn keys_for_files_are_nobody_elses() {
    let config = r#"{"architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 3, "num_key_value_heads": 2, "hybrid_override_pattern": "M*E",
        "intermediate_size": 8, "moe_intermediate_size": 6, "n_routed_experts": 4, "num_experts_per_tok": 2}"#;
    let keys = keys_of("nemotron_h_moe", config);
    let integers = |values: [i64; 3]| MetadataValue::List(values.map(MetadataValue::Integer).to_vec());
    let written = keys.for_files().unwrap();
    assert_eq!(written["attention.head_count_kv"], integers([0, 2, 0]));
    assert_eq!(written["feed_forward_length"], integers([0, 0, 6]));
    assert_eq!(written["general.architecture"], MetadataValue::Text("nemotron_h_moe".to_owned()));
    assert_eq!(written.get("expert_group_count"), None, "the config does not say it");
    assert_eq!(keys.get("attention.head_count_kv"), Some(MetadataValue::Integer(2)));
    let dense = keys_of("nemotron_h_moe", &config.replace("M*E", "M*-")).for_files().unwrap();
    assert_eq!(dense["general.architecture"], MetadataValue::Text("nemotron_h".to_owned()));
    assert_eq!(dense["expert_count"], MetadataValue::Integer(0));
    let wrong = keys_of("nemotron_h_moe", &config.replace("\"M*E\"", "7"));
    assert!(wrong.faults().is_empty(), "{:?}", wrong.faults());
    assert!(wrong.for_files().unwrap_err().contains("[hf.write]"));
}

#[test]
fn scores_have_the_names_of_the_config() {
    let written =
        |config: &str| keys_of("bert", config).for_files().unwrap().remove("classifier.output_labels");
    let class = r#""architectures": ["BertForSequenceClassification"]"#;
    let texts = |texts: [&str; 2]| {
        Some(MetadataValue::List(texts.map(|t| MetadataValue::Text(t.to_owned())).to_vec()))
    };
    let named = written(&format!(r#"{{{class}, "id2label": {{"0": "no", "1": "yes"}}}}"#));
    assert_eq!(named, texts(["no", "yes"]));
    assert_eq!(written(&format!("{{{class}}}")), texts(["LABEL_0", "LABEL_1"]));
    assert_eq!(written(r#"{"architectures": ["BertModel"], "id2label": {"0": "no"}}"#), None);
}

fn keys_of(id: &str, text: &str) -> menagerie_spec::HfKeys {
    spec(&built_in(), id).hf_keys(&HfConfig::parse("config.json", text).unwrap()).unwrap()
}

#[test]
fn lists_and_layers_become_values_per_layer() {
    let text = r#"{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"], "hidden_size": 64, "query_pre_attn_scalar": 16}}"#;
    let keys = keys_of("gemma3", text);
    let pattern = MetadataValue::List(vec![MetadataValue::Bool(true), MetadataValue::Bool(false)]);
    assert_eq!(keys.get("attention.sliding_window_pattern"), Some(pattern));
    assert_eq!(keys.get("attention.scale"), Some(MetadataValue::Number(0.25)));
    assert_eq!(keys.get("attention.sliding_window"), None, "what is undefined is absent");
    assert_eq!(keys.spelled("embedding_length").as_deref(), Some("hidden_size"));
}

/// The whole magnitude of transformers is what multiplies the usual one of a canonical key.
#[test]
fn a_whole_attention_factor_is_divided() {
    let text = r#"{"architectures": ["LlamaForCausalLM"], "rope_parameters": {"rope_type": "yarn", "factor": 8.0,
        "attention_factor": 1.2079441541679836, "mscale": 1.0}}"#;
    match keys_of("llama", text).get("rope.scaling.attn_factor") {
        Some(MetadataValue::Number(factor)) => assert!((factor - 1.0).abs() < 1e-9, "{factor}"),
        other => panic!("{other:?}"),
    }
}

fn places(spec: &ArchSpec, name: &str) -> Vec<(String, Option<usize>, Option<usize>, HfPart)> {
    let places = spec.hf_places(name).into_iter();
    places.map(|place| (place.role, place.layer, place.member, place.part)).collect()
}

#[test]
fn names_lead_back_to_roles() {
    let llama = spec(&built_in(), "llama");
    let role = |name: &str| places(&llama, name);
    let q = |part| vec![("attn_q".to_owned(), Some(11), None, part)];
    assert_eq!(role("model.layers.11.self_attn.q_proj"), q(HfPart::Module));
    assert_eq!(role("model.layers.11.self_attn.q_proj.weight"), q(HfPart::Weight));
    assert_eq!(role("model.layers.11.self_attn.q_proj.bias"), q(HfPart::Bias));
    let expert = ("ffn_down_exps".to_owned(), Some(2), Some(7), HfPart::Weight);
    assert_eq!(role("model.layers.2.block_sparse_moe.experts.7.w2.weight"), [expert]);
    assert_eq!(role("lm_head"), [("output".to_owned(), None, None, HfPart::Module)]);
    for none in ["model.layers.x.self_attn.q_proj", "model.layers.1.self_attn.q_proj.lora", "lm_headx", ""] {
        assert_eq!(role(none), [], "{none}");
    }
    let oss = spec(&built_in(), "gpt-oss");
    let turns: Vec<(String, Layout)> = oss
        .hf_places("model.layers.0.mlp.experts.gate_up_proj")
        .into_iter()
        .filter(|place| place.layout.first() == Some(&Layout::Transpose))
        .map(|place| (place.role, place.layout[1]))
        .collect();
    let [gate, up] = [("ffn_gate_exps", Layout::EvenRows), ("ffn_up_exps", Layout::OddRows)];
    assert_eq!(turns, [gate, up].map(|(role, layout)| (role.to_owned(), layout)));
    let bias = &oss.hf_places("model.layers.0.mlp.experts.gate_up_proj_bias")[0];
    assert_eq!((bias.part, &*bias.layout), (HfPart::Bias, &[Layout::EvenColumns][..]));
}

#[test]
fn roles_lead_to_names() {
    let llama = spec(&built_in(), "llama");
    let name = |role: &str, layer| match llama.hf_origins(role, layer).first() {
        Some(HfOrigin::Tensor { name, .. }) => name.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name("attn_k", Some(3)), "model.layers.3.self_attn.k_proj");
    assert_eq!(name("ffn_up_exps", Some(0)), "model.layers.0.block_sparse_moe.experts.{expert}.w3");
    assert!(
        llama.hf_origins("attn_k", None).is_empty() && llama.hf_origins("token_embd", Some(1)).is_empty()
    );
    let gemma = spec(&built_in(), "gemma3");
    let class = gemma.hf_class("Gemma3ForConditionalGeneration").unwrap();
    assert_eq!(class.renamed("language_model.model.norm.weight"), "model.norm.weight");
    assert_eq!(class.renamed("vision_tower.x"), "vision_tower.x");
}

#[test]
fn rows_of_queries_and_keys_are_paired_where_a_gguf_has_neighbors() {
    for (id, paired) in
        [("llama", true), ("mistral3", true), ("qwen3", false), ("phi2", false), ("deepseek2", false)]
    {
        let spec = spec(&built_in(), id);
        assert_eq!(spec.rows_are_paired("attn_q"), paired, "{id}");
        assert!(!spec.rows_are_paired("attn_v"), "{id}");
    }
}
