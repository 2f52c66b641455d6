//! Where values come from.

use crate::fixtures::fixture;
use crate::model::{Fake, built_in, spec};
use menagerie_spec::{KeyValue, Provenance, Resolution, ValueOrigin};

fn entry<'a>(report: &'a Resolution, path: &str) -> &'a Provenance {
    let found: Vec<&Provenance> = report.provenance.iter().filter(|entry| entry.path == path).collect();
    assert_eq!(found.len(), 1, "{path}: {found:?}");
    found[0]
}

fn report(name: &str) -> Resolution {
    let (mut fake, _) = fixture(name);
    fake.all_layers(&["attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"]);
    fake.report(&spec(&built_in(), &fake.name)).unwrap()
}

#[test]
fn values_know_their_origin() {
    let report = report("qwen3");
    let file = |key: &str| ValueOrigin::File { keys: vec![key.into()] };
    assert_eq!(entry(&report, "mixer.rope.base").origin, file("rope.freq_base"));
    assert_eq!(entry(&report, "mixer.key_dim").origin, file("attention.key_length"));
    assert_eq!(entry(&report, "mixer.rope.dims").origin, file("attention.key_length"));
    assert_eq!(entry(&report, "mixer.rope.pairs").origin, ValueOrigin::Spec);
    assert_eq!(entry(&report, "mixer.rope.scaling").origin, ValueOrigin::Default);
    let window = ValueOrigin::SpecDefault { keys: vec!["attention.sliding_window".into()] };
    assert_eq!(entry(&report, "mixer.window.size").origin, window);
    assert_eq!(entry(&report, "mixer.heads").layers.len(), 3);
    assert_eq!(entry(&report, "mixer.rope.base").origin.to_string(), "from the file (rope.freq_base)");
}

#[test]
fn facts_only_logits_can_guard_are_listed() {
    let report = report("qwen3moe");
    let paths: Vec<&str> = report.from_spec_only().map(|entry| entry.path.as_str()).collect();
    for path in [
        "feed_forward.router.weights",
        "feed_forward.router.score",
        "feed_forward.router.apply",
        "feed_forward.experts.activation",
        "mixer.rope.pairs",
        "mixer.qk_norm.at",
        "mixer.qk_norm.over",
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
    assert!(!paths.contains(&"mixer.rope.base"), "the file states it");
}

#[test]
fn tensors_and_overrides_are_origins_too() {
    let mut fake = Fake::small(4);
    fake.roles.insert(("ffn_gate_inp".into(), Some(3)));
    fake.keys.insert("expert_used_count".into(), KeyValue::Integer(2));
    fake.overrides.insert("rope.freq_base".into(), KeyValue::Number(5e5));
    let report = fake.report(&spec(&built_in(), "llama")).unwrap();
    let dense: Vec<(&str, usize)> = report
        .provenance
        .iter()
        .filter(|entry| entry.path == "feed_forward.dense.when")
        .map(|entry| (entry.value.as_str(), entry.layers.len()))
        .collect();
    assert_eq!(dense, [("true", 3), ("false", 1)]);
    let when = report.provenance.iter().find(|entry| entry.path == "feed_forward.dense.when").unwrap();
    assert_eq!(when.origin, ValueOrigin::Tensors { roles: vec!["ffn_gate_inp".into()] });
    let base = entry(&report, "mixer.rope.base");
    assert_eq!(base.origin, ValueOrigin::Override { keys: vec!["rope.freq_base".into()] });
    assert_eq!(base.value, "500000");
}

#[test]
fn a_resolution_is_serialisable() {
    let report = report("llama");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["config"]["layers"][0]["mixer"]["kind"], "attention");
    assert_eq!(json["config"]["layers"][0]["mixer"]["rope"]["pairs"], "adjacent");
}
