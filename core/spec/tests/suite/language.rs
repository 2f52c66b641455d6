//! Expressions, per-layer arrays, choices, per-source values, patterns, presence, checks.

use crate::model::{Fake, PLAIN, attention, built_in, minimal, moe, parse, spec};
use menagerie_spec::config::*;
use menagerie_spec::{ArchSpec, MetadataValue, SourceFormat};

fn with_mixer(options: &str) -> ArchSpec {
    let text = format!(
        "[mixer]\nkind = \"attention\"\n{options}\n[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n"
    );
    parse(&minimal(&text)).unwrap()
}

fn refused(options: &str, fake: &Fake) -> String {
    fake.refused(&with_mixer(options))
}

#[test]
fn an_array_as_long_as_the_model_is_one_value_per_layer() {
    let spec = with_mixer("scale = \"x / attention.head_count_kv\"");
    let fake = Fake::small(3).with("attention.head_count_kv", [4, 2, 1]).with("x", 2i64);
    let config = fake.config(&spec);
    let found: Vec<(usize, f32)> =
        (0..3).map(|l| (attention(&config, l).kv_heads, attention(&config, l).scale)).collect();
    assert_eq!(found, [(4, 0.5), (2, 1.0), (1, 2.0)]);
}

#[test]
fn arrays_of_other_lengths_and_in_whole_model_fields_are_refused() {
    let fake = Fake::small(3).with("x", [1, 2]);
    let found = refused("scale = \"1 / x\"", &fake);
    assert!(found.contains("mixer.scale\n  `x` is a list of 2 values; a list of 3 (block_count)"), "{found}");
    let spec = parse(&minimal(&format!("{PLAIN}[embedding]\nscale = \"x\"\n"))).unwrap();
    let found = Fake::small(3).with("x", [1, 2, 3]).refused(&spec);
    assert!(found.contains("embedding.scale\n  `x` is a list of 3 values; expected a number"), "{found}");
    let spec = parse(&minimal(&format!("{PLAIN}[embedding]\nscale = \"layer + 1\"\n"))).unwrap();
    assert!(
        Fake::small(3)
            .refused(&spec)
            .contains("differs between layers; this is one value of the whole model")
    );
}

#[test]
fn head_sizes_follow_heads_per_layer() {
    let config = Fake::small(2).with("attention.head_count", [4, 8]).config(&with_mixer(""));
    let found: Vec<_> =
        (0..2).map(|l| (attention(&config, l).kv_heads, attention(&config, l).key_dim)).collect();
    assert_eq!(found, [(4, 16), (8, 8)]);
}

#[test]
fn lets_are_per_layer_and_use_each_other() {
    let text = format!("{PLAIN}[let]\nlate = \"layer >= half\"\nhalf = \"block_count // 2\"\n").replace(
        "kind = \"attention\"\n",
        "kind = \"attention\"\nwindow = { kind = \"sliding\", size = \"w\", when = \"late\" }\n",
    );
    let config = Fake::small(4).with("w", 7i64).config(&parse(&minimal(&text)).unwrap());
    let found: Vec<bool> = (0..4).map(|layer| attention(&config, layer).window.is_some()).collect();
    assert_eq!(found, [false, false, true, true]);
}

#[test]
fn patterns_are_arrays_or_periods() {
    let windows = |options: &str, fake: Fake| -> String {
        let size = format!("window = {{ kind = \"sliding\", size = 8, when = \"{options}\" }}");
        let config = fake.config(&with_mixer(&size));
        (0..6).map(|layer| if attention(&config, layer).window.is_some() { 'w' } else { '-' }).collect()
    };
    assert_eq!(windows("pattern('p', 3)", Fake::small(6)), "ww-ww-");
    assert_eq!(windows("pattern('p', 3, full='first')", Fake::small(6)), "-ww-ww");
    assert_eq!(windows("pattern('p', 3)", Fake::small(6).with("p", 2i64)), "w-w-w-");
    assert_eq!(windows("pattern('p', 3)", Fake::small(6).with("p", 0i64)), "wwwwww");
    assert_eq!(windows("pattern('p', 3)", Fake::small(6).with("p", 1i64)), "------");
    let array = Fake::small(6).with("p", [true, false, true, true, false, false]);
    assert_eq!(windows("pattern('p', 3)", array), "w-ww--");
    let found =
        refused("window = { kind = \"sliding\", size = 8, when = \"pattern('p')\" }", &Fake::small(2));
    assert!(found.contains("`p` is not in this file, and pattern has no default period"), "{found}");
    let found = refused(
        "window = { kind = \"sliding\", size = 8, when = \"pattern('p', 2)\" }",
        &Fake::small(2).with("p", [true]),
    );
    assert!(found.contains("`p` has 1 values; this is layer 1"), "{found}");
}

#[test]
fn presence_decides() {
    let spec =
        with_mixer("qk_norm = { over = \"head\", at = \"after-rope\", when = \"has('attn_q_norm')\" }");
    assert_eq!(attention(&Fake::small(1).config(&spec), 0).qk_norm, None);
    let mut fake = Fake::small(1);
    fake.all_layers(&["attn_q_norm"]);
    let found = attention(&fake.config(&spec), 0).qk_norm.clone().unwrap();
    let norm: &RmsConfig = found.norm.downcast_ref().unwrap();
    assert_eq!((found.at, norm.eps), (QkNormAt::AfterRope, 1e-5));
}

#[test]
fn choices_go_by_numbers_booleans_and_strings() {
    for (value, answers, expected) in [
        (MetadataValue::Integer(2), "1 = \"causal\", 2 = \"bidirectional\"", MaskKind::Bidirectional),
        (MetadataValue::Number(1.0), "1 = \"causal\", 2 = \"bidirectional\"", MaskKind::Causal),
        (MetadataValue::Bool(false), "true = \"causal\", false = \"bidirectional\"", MaskKind::Bidirectional),
        (
            MetadataValue::Text("both".into()),
            "one = \"causal\", both = \"bidirectional\"",
            MaskKind::Bidirectional,
        ),
    ] {
        let spec = with_mixer(&format!("mask = {{ by = \"x\", {answers} }}"));
        let mut fake = Fake::small(1);
        fake.keys.insert("x".into(), value);
        assert_eq!(attention(&fake.config(&spec), 0).mask, expected);
    }
    let found = refused("mask = { by = \"x\", 1 = \"causal\" }", &Fake::small(1).with("x", 3i64));
    assert!(found.contains("mixer.mask\n  `x` is 3; the choice has answers only for 1"), "{found}");
    let found = refused("mask = { by = \"x\", 1 = \"causal\" }", &Fake::small(1).with("x", 1.5));
    assert!(found.contains("a choice needs an integer"), "{found}");
}

#[test]
fn per_source_values_follow_the_format() {
    let text = PLAIN.replace("[mixer]", "[norm.offset]\ngguf = 0\nhf = \"1 + 0\"\n[mixer]");
    let spec = parse(&minimal(&text)).unwrap();
    let offset = |format| {
        let site = Fake::small(1).report_as(&spec, format).unwrap().config.output.norm.unwrap();
        site.norm.downcast_ref::<RmsConfig>().unwrap().offset
    };
    assert_eq!((offset(SourceFormat::Gguf), offset(SourceFormat::Hf)), (0.0, 1.0));
}

#[test]
fn counts_are_whole_and_reals_are_rounded_once() {
    let with = |x: i64| Fake::small(1).with("x", x);
    let found = refused("key_dim = \"x / 2\"", &with(7));
    assert!(found.contains("mixer.key_dim (layer 0)\n  3.5 is not a count"), "{found}");
    let found = refused("scale = \"1 / x\"", &with(0));
    assert!(found.contains("mixer.scale"), "{found}");
    let found = refused("scale = \"ln(x)\"", &with(0));
    assert!(found.contains("ln has no value here"), "{found}");
    let found = refused("scale = \"sqrt(x)\"", &with(-1));
    assert!(found.contains("sqrt has no value here"), "{found}");
    let found = refused("scale = 1e300", &Fake::small(1));
    assert!(found.contains("not a number an f32 can hold"), "{found}");
    // a GGUF's 0.1f32 and a JSON 0.1 agree
    let spec = with_mixer("scale = \"x\"");
    let scale = |x: f64| attention(&Fake::small(1).with("x", x).config(&spec), 0).scale;
    assert_eq!(scale(f64::from(0.1f32)), scale(0.1));
}

#[test]
fn strictness_names_the_key() {
    let found = refused("scale = \"1 if x < 3 else 2\"", &Fake::small(1));
    assert!(found.contains("`x`: neither a standard key nor in this file"), "{found}");
    let found = refused("scale = \"a.b.c\"", &Fake::small(1));
    assert!(found.contains("`a.b.c`: neither a standard key nor in this file"), "{found}");
    let found = refused("scale = \"1 if x\"", &Fake::small(1).with("x", false));
    assert!(found.contains("has no value here"), "{found}");
    // Inside functions, too, and in names of [let] that functions use.
    for scale in ["sqrt(embeding_length)", "min(embeding_length, 3)", "sqrt(1 + embeding_length)"] {
        let found = refused(&format!("scale = \"{scale}\""), &Fake::small(1));
        let expected =
            "`embeding_length`: neither a standard key nor in this file; the nearest is `embedding_length`";
        assert!(found.contains(expected), "{found}");
    }
    let found = refused("scale = \"context_length\"", &Fake::small(1));
    assert!(found.contains("`context_length` is not in this file"), "{found}");
    let found = refused("scale = \"x + 1\"", &Fake::small(1).with("x", "wide"));
    assert!(found.contains("`x + 1`"), "{found}");
    let found =
        refused("window = { kind = \"sliding\", size = 1, when = \"x\" }", &Fake::small(1).with("x", 7i64));
    assert!(found.contains("`x` is 7; expected true or false"), "{found}");
}

#[test]
fn checks_must_hold_in_every_layer() {
    let text = format!(
        "{PLAIN}[check]\n\"x | default(1) == 1\" = \"only ones\"\n\"layer < 2\" = \"two layers at most\"\n"
    );
    let spec = parse(&minimal(&text)).unwrap();
    assert_eq!(Fake::small(2).config(&spec).layers.len(), 2);
    let found = Fake::small(4).with("x", 5i64).refused(&spec);
    let expected = "\
error: model.gguf
  check `x | default(1) == 1` failed (my.x is 5): only ones
error: model.gguf (layers 2-3)
  check `layer < 2` failed: two layers at most";
    assert_eq!(found, expected);
}

#[test]
fn a_bidirectional_or_reranking_file_is_no_language_model() {
    let found = Fake::small(1).with("attention.causal", false).refused(&spec(&built_in(), "qwen3"));
    assert!(found.contains("the model attends in both directions"), "{found}");
    let mut fake = Fake::small(1);
    fake.keys.insert(
        "classifier.output_labels".into(),
        MetadataValue::List(vec![MetadataValue::Text("yes".into())]),
    );
    assert!(fake.refused(&spec(&built_in(), "qwen3")).contains("a reranker"));
}

#[test]
fn the_tail_is_not_run() {
    let text = format!(
        "{PLAIN}[layers]\ncount = \"block_count - nextn_predict_layers | default(0)\"\n[gguf.ignore_tensors]\n\"blk.{{tail}}.*\" = \"multi-token prediction\"\n"
    );
    let spec = parse(&minimal(&text)).unwrap();
    let config = Fake::small(4).with("nextn_predict_layers", 1i64).config(&spec);
    assert_eq!(config.layers.len(), 3);
    assert_eq!(spec.ignored_tensor("blk.3.attn_q.weight", 3), Some("multi-token prediction"));
    assert_eq!(spec.ignored_tensor("blk.2.attn_q.weight", 3), None);
    let found = Fake::small(4).with("nextn_predict_layers", 4i64).refused(&spec);
    assert!(found.contains("0 blocks to run; the file has 4"), "{found}");
}

/// A head for further tokens after the blocks of `PLAIN`.
const NEXTN: &str = r#"
[layers]
count = "block_count - nextn_predict_layers | default(0)"
[nextn]
embedding_norm = "nextn.enorm"
hidden_norm = "nextn.hnorm"
projection = "nextn.eh_proj"
order = "embedding-first"
hidden = "normed"
repeats = "stream"
embedding = "nextn.embed_tokens"
norm = "nextn.shared_head_norm"
head = "nextn.shared_head_head"
"#;

#[test]
fn a_head_for_further_tokens_is_resolved_on_request() {
    let spec = parse(&minimal(&format!("{PLAIN}{NEXTN}"))).unwrap();
    let mut fake = Fake::small(4).with("nextn_predict_layers", 1i64);
    for role in ["nextn.eh_proj", "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"] {
        fake.roles.insert((role.to_owned(), Some(3)));
    }
    assert_eq!(fake.config(&spec).nextn, []);
    fake.nextn = true;
    let config = fake.config(&spec);
    let [nextn] = <[_; 1]>::try_from(config.nextn.clone()).unwrap();
    assert_eq!((config.layers.len(), config.blocks(), nextn.block.index), (3, 3, 3));
    assert_eq!(nextn.block, LayerConfig { index: 3, ..config.layers[2].clone() });
    assert_eq!((nextn.order, nextn.hidden), (JoinOrder::EmbeddingFirst, HiddenRow::Normed));
    assert_eq!(nextn.repeats, HiddenRow::Stream);
    assert_eq!(nextn.projection, "nextn.eh_proj");
    // The file has a norm of its own, and neither an embedding nor a matrix for logits.
    assert_eq!(nextn.norm.map(|site| site.role), Some("nextn.shared_head_norm".to_owned()));
    assert_eq!((nextn.embedding, nextn.head), (None, None));
    for role in ["nextn.embed_tokens", "nextn.shared_head_head"] {
        fake.roles.insert((role.to_owned(), Some(3)));
    }
    let own = fake.config(&spec).nextn.remove(0);
    assert_eq!(own.embedding.as_deref(), Some("nextn.embed_tokens"));
    assert_eq!(own.head.as_deref(), Some("nextn.shared_head_head"));
}

/// As many as the keys state and as have their tensors.
#[test]
fn several_heads_for_further_tokens_are_resolved() {
    let spec = parse(&minimal(&format!("{PLAIN}{NEXTN}"))).unwrap();
    let heads = |stated: i64, there: &[usize]| -> Vec<usize> {
        let mut fake = Fake::small(6).with("nextn_predict_layers", stated);
        fake.nextn = true;
        fake.roles.extend(there.iter().map(|layer| ("nextn.eh_proj".to_owned(), Some(*layer))));
        fake.config(&spec).nextn.iter().map(|head| head.block.index).collect()
    };
    assert_eq!(heads(3, &[3, 4, 5]), [3, 4, 5]);
    assert_eq!(heads(3, &[3, 5]), [3]);
    assert_eq!(heads(2, &[4, 5, 6]), [4, 5]);
}

#[test]
fn a_head_that_is_not_there_is_refused_where_it_is_requested() {
    let spec = parse(&minimal(&format!("{PLAIN}{NEXTN}"))).unwrap();
    let mut fake = Fake::small(4).with("nextn_predict_layers", 1i64);
    fake.nextn = true;
    let found = fake.refused(&spec);
    assert!(
        found.contains("no head that predicts further tokens") && found.contains("nextn.eh_proj"),
        "{found}"
    );
    let mut none = Fake::small(4);
    none.nextn = true;
    assert!(none.refused(&spec).contains("there is no such tensor"), "{}", none.refused(&spec));
    none.roles.insert(("nextn.eh_proj".to_owned(), Some(4)));
    assert!(none.refused(&spec).contains("its keys state 0"), "{}", none.refused(&spec));
    let plain = parse(&minimal(PLAIN)).unwrap();
    let found = none.refused(&plain);
    assert!(found.contains("[nextn]") && found.contains("--draft heads"), "{found}");
}

#[test]
fn what_is_wrong_in_a_head_for_further_tokens_is_named() {
    for (from, to, words) in [
        ("hidden = ", "hiden = ", "hiden"),
        ("\"normed\"", "\"norm\"", "normed, stream"),
        ("order = \"embedding-first\"\n", "", "order"),
        ("projection = \"nextn.eh_proj\"\n", "", "projection"),
        ("\"nextn.hnorm\"", "\"nextn.hnrom\"", "nextn.hnorm"),
    ] {
        let text = format!("{PLAIN}{}", NEXTN.replace(from, to));
        let found = parse(&minimal(&text)).unwrap_err().to_string();
        assert!(found.contains("nextn") && found.contains(words), "{to}: {found}");
    }
}

#[test]
fn roles_have_their_stored_names() {
    let oss = spec(&built_in(), "gpt-oss");
    assert_eq!(oss.role_to_gguf_name("ffn_norm", Some(3)), "blk.3.post_attention_norm");
    assert_eq!(oss.role_to_gguf_name("ffn_norm.bias", Some(3)), "blk.3.post_attention_norm.bias");
    assert_eq!(oss.role_to_gguf_name("attn_q", Some(0)), "blk.0.attn_q");
    assert_eq!(oss.role_to_gguf_name("exp_probs_b.bias", Some(1)), "blk.1.exp_probs_b.bias");
    assert_eq!(oss.role_to_gguf_name("output", None), "output");
}

/// Tensors of a block may lie under another prefix.
#[test]
fn blocks_have_their_prefix() {
    let plain = parse(&minimal(PLAIN)).unwrap();
    assert_eq!(plain.gguf_block("blk.12.attn_q.weight"), Some(12));
    for other in [
        "enc.blk.1.attn_q.weight",
        "blk.x.attn_q",
        "blk.1",
        "token_embd.weight",
        "blk.99999999999999999999999.a",
    ] {
        assert_eq!(plain.gguf_block(other), None, "{other}");
    }
    let text = format!("{PLAIN}[gguf]\nlayer = \"enc.blk.{{layer}}\"\n");
    let spec = parse(&minimal(&text)).unwrap();
    assert_eq!(spec.role_to_gguf_name("attn_q", Some(3)), "enc.blk.3.attn_q");
    assert_eq!(spec.role_to_gguf_name("output_norm", None), "output_norm");
    assert_eq!(spec.gguf_block("enc.blk.3.attn_q.weight"), Some(3));
    assert_eq!(spec.gguf_block("blk.3.attn_q.weight"), None);
    for wrong in ["blk", "{layer}.{layer}"] {
        let text = format!("{PLAIN}[gguf]\nlayer = \"{wrong}\"\n");
        let found = parse(&minimal(&text)).unwrap_err().to_string();
        assert!(found.contains("gguf.layer") && found.contains("`{layer}` exactly once"), "{found}");
    }
}

/// Options that only one of the two kinds of model has are not passed over in the other.
#[test]
fn an_encoder_has_no_logits() {
    let output = |own: &str| parse(&minimal(PLAIN).replace("head = \"own-or-tied\"", own)).unwrap();
    assert_eq!(Fake::small(1).config(&output("head = \"none\"\npooling = \"mean\"")).output.scale, 1.0);
    for (own, expected) in [
        ("head = \"none\"\nscale = 2", "output.scale\n  a model without a head"),
        ("head = \"none\"\nsoftcap = 30", "output.softcap\n  a model without a head"),
        ("head = \"none\"\nbias = \"if-present\"", "output.bias\n  a model without a head"),
    ] {
        let refused = Fake::small(1).refused(&output(own));
        assert!(refused.contains(expected), "{own}: {refused}");
    }
}

#[test]
fn overrides_win_and_must_be_read() {
    let llama = spec(&built_in(), "llama");
    let mut fake = Fake::small(1);
    fake.overrides.insert("attention.sliding_window".into(), MetadataValue::Integer(4096));
    let report = fake.report(&llama).unwrap();
    let window = Some(WindowConfig { kind: WindowKind::Sliding, size: 4096 });
    assert_eq!(attention(&report.config, 0).window, window);
    assert_eq!(
        report.warnings,
        ["attention.sliding_window = 4096 was set by the user; the file has no such key"]
    );
    fake.overrides.insert("attention.slidng_window".into(), MetadataValue::Integer(4096));
    let found = fake.refused(&llama);
    assert!(
        found.contains("nothing in spec llama reads it; the nearest is `attention.sliding_window`"),
        "{found}"
    );
}

#[test]
fn the_router_takes_its_variants() {
    let text = "[mixer]\nkind = \"attention\"\n[feed_forward]\nkind = \"moe\"\n\
        experts = { kind = \"gated\", activation = \"silu\" }\n\
        shared = { kind = \"gated\", activation = \"silu\", gate = \"sigmoid\", when = \"has('ffn_up_shexp')\" }\n\
        [feed_forward.router]\nscore = \"sigmoid\"\nselect = \"logits\"\nselect_bias = \"if-present\"\n\
        weights = { by = \"norm | default(false)\", true = \"sum-to-one\", false = \"as-scored\" }\n\
        scale = \"ws | default(1)\"\napply = \"to-input\"\ninput = \"block-input\"\n\
        groups = { count = \"groups | default(1)\", keep = 2, score = \"sum-of-best-two\" }\n";
    let spec = parse(&minimal(text)).unwrap();
    let mut fake = Fake::small(1)
        .with("expert_used_count", 4i64)
        .with("norm", true)
        .with("ws", 2.5)
        .with("groups", 8i64);
    fake.all_layers(&["exp_probs_b.bias", "ffn_up_shexp"]);
    let config = fake.config(&spec);
    let expected = RouterConfig {
        score: RouterScore::Sigmoid,
        bias: BiasRule::None,
        input: RouterInput::BlockInput,
        norm: None,
        input_scale: 1.0,
        select: RouterSelect::Logits,
        select_bias: Some("exp_probs_b.bias".into()),
        groups: Some(RouterGroups { count: 8, keep: 2, score: GroupScore::SumOfBestTwo }),
        weights: RouterWeights::SumToOne,
        scale: 2.5,
        apply: RouterApply::ToInput,
        top_k: 4,
    };
    assert_eq!(moe(&config, 0).router, expected);
    assert_eq!(moe(&config, 0).shared.as_ref().unwrap().gate, SharedGate::Sigmoid);
    let bare = Fake::small(1).with("expert_used_count", 4i64);
    let config = bare.config(&spec);
    let moe = moe(&config, 0);
    assert_eq!((&moe.shared, &moe.router.select_bias, moe.router.groups), (&None, &None, None));
    assert!(bare.clone().with("ws", 0.0).refused(&spec).contains("0 would disable the experts"));
    assert!(Fake::small(1).refused(&spec).contains("key my.expert_used_count\n  missing"));
    assert!(bare.with("groups", 1.5).refused(&spec).contains("1.5 is not a count"));
}

#[test]
fn renormalization_has_no_default() {
    let text = "[mixer]\nkind = \"none\"\n[feed_forward]\nkind = \"moe\"\nrouter = { score = \"softmax\" }\n\
        experts = { kind = \"gated\", activation = \"silu\" }\n";
    let found = parse(&minimal(text)).unwrap_err().to_string();
    assert!(found.contains("feed_forward.router.weights\n  missing; it has no default"), "{found}");
}

#[test]
fn norm_sites_may_differ_from_the_common_norm() {
    let text = PLAIN.replace(
        "[mixer]",
        "[embedding]\nnorm = { role = [\"token_embd_norm\", \"output_norm\"], kind = \"layer\", eps = 0.5, bias = \"if-present\" }\n[mixer]",
    );
    let fake = Fake::small(1).with_role("token_embd_norm").with_role("token_embd_norm.bias");
    let site = fake.config(&parse(&minimal(&text)).unwrap()).embedding.norm.unwrap();
    let norm = LayerNormConfig { eps: 0.5, weight: NormWeight::Own, bias: NormBias::Own, offset: 0.0 };
    assert_eq!(site, NormSite { role: "token_embd_norm".into(), norm: norm.into() });
}

#[test]
fn a_norm_takes_over_what_both_kinds_mean_the_same_by() {
    let spec = |norm: &str, site: &str| {
        let text = minimal(PLAIN).replace("kind = \"rms\"", norm);
        parse(
            &text.replace("norm = \"output_norm\"", &format!("norm = {{ role = \"output_norm\", {site} }}")),
        )
    };
    let norm = |norm: &str, site: &str| {
        let config = Fake::small(1).config(&spec(norm, site).unwrap());
        config.output.norm.unwrap().norm
    };
    // Another kind: eps, weight and offset, but not the bias.
    let found = norm("kind = \"rms\"\nweight = \"none\"\noffset = 2", "kind = \"layer\"");
    let expected = LayerNormConfig { eps: 1e-5, weight: NormWeight::None, bias: NormBias::None, offset: 2.0 };
    assert_eq!(found, expected.into());
    let found = norm("kind = \"layer\"\nbias = \"none\"", "kind = \"rms\", eps = 0.5");
    assert_eq!(found, RmsConfig { eps: 0.5, weight: NormWeight::Own, offset: 0.0 }.into());
    // The same kind: everything.
    let found = norm("kind = \"layer\"\nbias = \"none\"", "kind = \"layer\", offset = 1");
    let expected = LayerNormConfig { eps: 1e-5, weight: NormWeight::Own, bias: NormBias::None, offset: 1.0 };
    assert_eq!(found, expected.into());
    // Options of the kind that holds there are allowed, and no others.
    let refused = spec("kind = \"rms\"", "bias = \"none\"").unwrap_err().to_string();
    assert!(
        refused
            .contains("output.norm.bias\n  unknown key; allowed here: role, when, kind, eps, weight, offset"),
        "{refused}"
    );
}

#[test]
fn a_norm_without_a_common_one_needs_kind_and_eps() {
    let text =
        minimal(PLAIN).replace("[norm]\nkind = \"rms\"\neps = \"attention.layer_norm_rms_epsilon\"\n", "");
    let found = parse(&text).unwrap_err().to_string();
    assert!(
        found.contains("block.mixer.pre\n  no `kind` for this norm: give it here or in [norm]"),
        "{found}"
    );
    let text = text.replace("norm = \"output_norm\"", "norm = { role = \"output_norm\", kind = \"rms\" }");
    let found = parse(&text).unwrap_err().to_string();
    assert!(found.contains("output.norm\n  no `eps` for this norm: give it here or in [norm]"), "{found}");
}

/// A value of another type than the spec needs is a fault of the setting: the spec is right for every file.
#[test]
fn a_wrong_override_is_not_a_fault_of_the_spec() {
    let llama = spec(&built_in(), "llama");
    let mut fake = Fake::small(1);
    fake.overrides.insert("rope.freq_base".into(), MetadataValue::Text("abc".into()));
    let found = fake.refused(&llama);
    assert!(found.contains("--set rope.freq_base=abc\n") && found.contains("expected a number"), "{found}");
    assert!(found.contains("of spec llama depends on it") && !found.contains(".toml:"), "{found}");
}
