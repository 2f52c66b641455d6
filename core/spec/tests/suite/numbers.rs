//! Names with numbers of their own, and options of attention and feed-forwards that few models have.

use crate::model::{Fake, attention, minimal, moe, parse};
use menagerie_spec::config::*;
use menagerie_spec::{ArchSpec, MetadataValue};

fn spec_of(mixer: &str, feed_forward: &str) -> Result<ArchSpec, String> {
    let text = format!("[mixer]\nkind = \"attention\"\n{mixer}\n[feed_forward]\n{feed_forward}\n");
    parse(&minimal(&text)).map_err(|faults| faults.to_string())
}

fn with_mixer(mixer: &str) -> ArchSpec {
    spec_of(mixer, "kind = \"gated\"\nactivation = \"silu\"").unwrap()
}

fn with_activation(kind: &str, activation: &str) -> Result<ArchSpec, String> {
    spec_of("", &format!("kind = \"{kind}\"\nactivation = {activation}"))
}

fn numbers(values: [f64; 2]) -> MetadataValue {
    MetadataValue::List(values.map(MetadataValue::Number).to_vec())
}

#[test]
fn numbers_stand_beside_the_name_that_has_them() {
    for (activation, expected) in [
        (
            "\"swiglu-oai\"",
            "`swiglu-oai` takes numbers; write { kind = \"swiglu-oai\", alpha = .., limit = .. }",
        ),
        ("{ kind = \"silu\", alpha = 1 }", "`silu` takes no numbers; write \"silu\""),
        ("{ kind = \"swiglu-oai\", alpha = 1 }", "feed_forward.activation.limit\n  missing"),
        ("{ kind = \"swiglu-oai\", alpha = 1, limit = 7, beta = 2 }", "unknown"),
        ("{ kind = \"swiglu\", alpha = 1 }", "unknown name `swiglu`; the nearest is `silu`"),
        ("{ by = \"x\", 1 = \"swiglu-oai\" }", "`swiglu-oai` takes numbers"),
    ] {
        let found = with_activation("gated", activation).map(drop).unwrap_err();
        assert!(found.contains(expected), "{activation}\n{found}");
    }
    let oai = "{ kind = \"swiglu-oai\", alpha = \"x * 2\", limit = 7 }";
    let config = Fake::small(1).with("x", 0.5).config(&with_activation("gated", oai).unwrap());
    let gated: &GatedConfig = config.layers[0].feed_forward.as_ref().unwrap().downcast_ref().unwrap();
    assert_eq!(gated.activation, ActivationConfig::SwigluOai(SwigluOai { alpha: 1.0, limit: 7.0 }));
    let found = Fake::small(1).with("x", 0.5).refused(&with_activation("plain", oai).unwrap());
    assert!(found.contains("feed_forward.activation (layer 0)\n  `swiglu-oai` requires a gate"), "{found}");
}

/// Keys without the architecture's prefix, one value per layer; the stored alphas go through softplus.
#[test]
fn keys_without_a_prefix_are_read_where_the_spec_names_them() {
    let xielu =
        "{ kind = \"xielu\", alpha_p = \"xielu.alpha_p\", alpha_n = 0, beta = \"xielu.beta\", eps = -1e-6 }";
    let spec = with_activation("plain", xielu).unwrap();
    let mut fake = Fake::small(2);
    fake.keys.insert("xielu.alpha_p".into(), numbers([0.0, 1.0]));
    fake.keys.insert("xielu.beta".into(), numbers([0.5, 0.25]));
    fake.foreign = vec!["xielu.alpha_p".into(), "xielu.beta".into()];
    let report = fake.report(&spec).unwrap();
    assert!(report.coverage.read.contains(&"xielu.beta".to_string()), "{:?}", report.coverage.read);
    let found: Vec<f32> = (0..2)
        .flat_map(|layer| {
            let plain = report.config.layers[layer].feed_forward.as_ref().unwrap();
            match plain.downcast_ref::<PlainConfig>().unwrap().activation.clone() {
                ActivationConfig::Formula(Activation::Xielu(Xielu { alpha_p, alpha_n, beta, .. })) => {
                    [alpha_p, alpha_n - beta, beta]
                }
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let softplus = |x: f32| x.exp().ln_1p();
    let expected = [softplus(0.0), softplus(0.0), 0.5, softplus(1.0), softplus(0.0), 0.25];
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    let message = fake.refused(&with_activation("plain", "\"relu\"").unwrap());
    assert!(message.contains("key xielu.beta\n  nothing reads it"), "{message}");
}

#[test]
fn sinks_are_a_role_or_a_table() {
    let sinks = |text: &str, layer: usize| {
        let spec = with_mixer(text);
        attention(&Fake::small(2).config(&spec), layer).sinks.clone()
    };
    assert_eq!(sinks("sinks = \"attn_sinks\"", 0).as_deref(), Some("attn_sinks"));
    let some = "sinks = { role = \"attn_sinks\", when = \"layer == 1\" }";
    assert_eq!((sinks(some, 0), sinks(some, 1).as_deref()), (None, Some("attn_sinks")));
    let found = spec_of("sinks = \"attn_sinkz\"", "kind = \"gated\"\nactivation = \"silu\"").map(drop);
    assert!(found.unwrap_err().contains("the nearest is `attn_sinks`"));
}

#[test]
fn biases_by_bucket_of_distance() {
    let of = |more: &str| with_mixer(&format!("relative_bias = {{ role = \"attn_rel_b\", {more} }}"));
    let spec = of("buckets = \"x\", max_distance = 128");
    let found = Fake::small(2).with("x", 16i64).config(&spec);
    let bias = attention(&found, 1).relative_bias.clone().unwrap();
    assert_eq!((bias.role.as_str(), bias.buckets, bias.max_distance), ("attn_rel_b", 16, 128));
    let refused = |spec: &ArchSpec| Fake::small(1).with("x", 16i64).refused(spec);
    for (more, wanted) in [
        (
            "buckets = 1, max_distance = 128",
            "1 buckets cannot be shared; expected an even number of at least 2",
        ),
        (
            "buckets = 16, max_distance = 8",
            "8 is not between 9 (distances with a bucket of their own) and 65536",
        ),
        ("buckets = 16, max_distance = 1e9", "1000000000 is not between 9"),
    ] {
        let found = refused(&of(more));
        assert!(found.contains(wanted) && found.contains("mixer.relative_bias."), "{found}");
    }
    // A mask that looks ahead has half of them for each side.
    let both = |buckets: usize| {
        let bias =
            format!("relative_bias = {{ role = \"attn_rel_b\", buckets = {buckets}, max_distance = 9 }}");
        with_mixer(&format!("mask = \"bidirectional\"\n{bias}"))
    };
    assert!(attention(&Fake::small(1).config(&both(4)), 0).relative_bias.is_some());
    for buckets in [3, 2, 7] {
        let found = refused(&both(buckets));
        assert!(found.contains("cannot be shared; expected an even number of at least 4"), "{found}");
    }
    let found = refused(&with_mixer(
        "alibi = { max_bias = 8 }\nrelative_bias = { role = \"attn_rel_b\", buckets = 8, max_distance = 9 }",
    ));
    assert!(found.contains("remove this one or `alibi`"), "{found}");
}

#[test]
fn gates_and_biases_of_attention() {
    let spec =
        with_mixer("alibi = { max_bias = \"x\" }\ngate = { from = \"own\", activation = \"sigmoid\" }");
    let config = Fake::small(1).with("x", 8i64).config(&spec);
    let gate = attention(&config, 0).gate.unwrap();
    assert_eq!(
        (gate.from, gate.per, attention(&config, 0).alibi),
        (GateSource::Own, GatePer::AsStored, Some(8.0))
    );
    assert_eq!(attention(&Fake::small(1).with("x", 0i64).config(&spec), 0).alibi, None);
    let among = |more: &str| {
        with_mixer(&format!("gate = {{ from = \"interleaved-q\", activation = \"sigmoid\"{more} }}"))
    };
    let found = Fake::small(1).refused(&among(", per = \"head\""));
    assert!(found.contains("has one factor per element, not per head"), "{found}");
    let found = Fake::small(1).with("attention.value_length", 8i64).refused(&among(""));
    assert!(found.contains("16 elements and its gate 8"), "{found}");
}

#[test]
fn a_limit_is_of_a_silu_gate_and_zero_is_none() {
    let limited = |form: &str, activation: &str| {
        let limit = "limit = { value = \"x\", at = \"after-activation\" }";
        let experts = format!("experts = {{ kind = \"{form}\", activation = \"{activation}\", {limit} }}");
        let router = "router = { score = \"softmax\", weights = \"sum-to-one\", top_k = 1 }";
        spec_of("", &format!("kind = \"moe\"\n{experts}\n{router}")).unwrap()
    };
    let fake = Fake::small(2).with("x", [0, 7]);
    let config = fake.config(&limited("gated", "silu"));
    let limit = LimitConfig { value: 7.0, at: LimitPlace::AfterActivation };
    assert_eq!((moe(&config, 0).experts.limit, moe(&config, 1).experts.limit), (None, Some(limit)));
    for (form, activation) in [("gated", "relu"), ("plain", "silu")] {
        let found = fake.refused(&limited(form, activation));
        assert!(found.contains("feed_forward.experts.limit (layer 1)\n  a limit requires a gate"), "{found}");
    }
}

#[test]
fn a_router_that_chooses_by_itself_takes_no_other_choice() {
    let router = |more: &str| {
        let score = "score = { kind = \"sparse-mixer\", jitter = 0.01 }, weights = \"as-scored\"";
        let experts = "experts = { kind = \"gated\", activation = \"silu\" }";
        spec_of("", &format!("kind = \"moe\"\n{experts}\nrouter = {{ {score}, top_k = 2{more} }}")).unwrap()
    };
    let config = Fake::small(1).config(&router(""));
    assert_eq!(moe(&config, 0).router.score, RouterScore::SparseMixer(SparseMixer { jitter: 0.01 }));
    let found = Fake::small(1).refused(&router(", select = \"logits\""));
    assert!(found.contains("`sparse-mixer` selects experts itself"), "{found}");
}

#[test]
fn keys_may_be_normed_without_a_weight() {
    let spec = with_mixer("qk_norm = { over = \"head\", at = \"after-rope\", key_weight = \"none\" }");
    let config = Fake::small(1).config(&spec);
    let norm = attention(&config, 0).qk_norm.clone().unwrap();
    let weight = |norm: &menagerie_spec::kind::Component| norm.downcast_ref::<RmsConfig>().unwrap().weight;
    assert_eq!((weight(&norm.norm), weight(&norm.key_norm)), (NormWeight::Own, NormWeight::None));
    let wanted: Vec<String> = config.layers[0]
        .mixer
        .as_ref()
        .unwrap()
        .wanted(64)
        .iter()
        .flat_map(|it| it.stored())
        .map(|it| it.role)
        .collect();
    assert!(
        wanted.contains(&"attn_q_norm.weight".into()) && !wanted.contains(&"attn_k_norm.weight".into()),
        "{wanted:?}"
    );
}
