//! All faults at once, each with file, line, column, dotted key, what is allowed and the nearest name.

use crate::model::{Fake, PLAIN, minimal, parse};

fn faults(text: &str) -> String {
    match parse(text) {
        Ok(_) => panic!("taken:\n{text}"),
        Err(faults) => faults.to_string(),
    }
}

#[test]
fn three_faults_are_three_lines_with_places() {
    let text = "\
schema = 1
[architecture]
id = \"my\"
[norm]
kind = \"rsm\"
eps = 1e-5
[block]
mixer = { pre = \"attn_nrom\" }
feed_forward = { pre = \"ffn_norm\" }
[mixer]
kind = \"attention\"
bais = \"none\"
[feed_forward]
kind = \"gated\"
activation = \"silu\"
[output]
head = \"own\"
";
    let expected = "\
error: my.toml:5:9: norm.kind
  unknown kind `rsm`; the nearest is `rms`; allowed: rms, layer
error: my.toml:8:18: block.mixer.pre
  unknown role `attn_nrom`; the nearest is `attn_norm`
error: my.toml:12:1: mixer.bais
  unknown key; the nearest is `bias`; allowed here: kind, when, heads, kv_heads, key_dim, value_dim, bias, scale, mask, softcap, clamp, alibi, relative_bias, sinks, qk_norm, v_norm, window, temperature, gate, inner_norm, rope, values, keys_of";
    assert_eq!(faults(text), expected);
    assert_eq!(parse(text).unwrap_err().faults().len(), 3);
}

/// A fault of one added line, in a spec that is otherwise whole.
#[test]
fn each_fault_says_what_is_wrong() {
    for (more, expected) in [
        (
            "[mixer]\nkind = \"atention\"\n",
            "unknown kind `atention`; the nearest is `attention`; allowed: attention, none, latent-attention",
        ),
        ("[mixer]\nbias = \"none\"\n", "mixer.kind\n  missing; expected one of attention, none"),
        ("[mixer]\nkind = \"attention\"\nheads = \"8 +\"\n", "mixer.heads\n  `+` in `8 +`: unexpected end"),
        (
            "[mixer]\nkind = \"attention\"\nheads = true\n",
            "expected a number or an expression in quotes, found true",
        ),
        (
            "[mixer]\nkind = \"attention\"\nscale = \"squrt(2)\"\n",
            "unknown function `squrt`; the nearest is `sqrt`",
        ),
        ("[mixer]\nkind = \"attention\"\nscale = \"x | int\"\n", "unknown filter `int`"),
        ("[mixer]\nkind = \"attention\"\nscale = \"-2 ** 2\"\n", "(-x) ** y"),
        (
            "[mixer]\nkind = \"attention\"\nwhen = \"layer > 1\"\n",
            "only a named case or an optional component may have `when`",
        ),
        ("[mixer]\nkind = \"attention\"\nwindow = { kind = \"sliding\" }\n", "mixer.window.size\n  missing"),
        (
            "[mixer]\nkind = \"attention\"\nqk_norm = { at = \"before-rope\" }\n",
            "mixer.qk_norm.over\n  missing",
        ),
        (
            "[mixer]\nkind = \"attention\"\nmask = { by = \"x\", 1 = \"causall\" }\n",
            "mixer.mask.1\n  unknown name `causall`; the nearest is `causal`",
        ),
        ("[mixer]\nkind = \"attention\"\nmask = { by = \"x\" }\n", "a choice without answers"),
        (
            "[mixer]\nkind = \"attention\"\nscale = \"has('atn_q')\"\n",
            "unknown role `atn_q`; the nearest is `attn_q`",
        ),
        (
            "[mixer]\nkind = \"attention\"\nrope = { kind = \"rotary\", pairs = \"halves\" }\n",
            "mixer.rope.base\n  missing",
        ),
        (
            "[mixer.a]\nkind = \"attention\"\n[mixer.b]\nkind = \"none\"\nwhen = \"layer > 2\"\n",
            "mixer.a\n  a named case needs `when`",
        ),
    ] {
        let text = minimal(&format!("{more}[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n"));
        let found = faults(&text);
        assert!(found.contains(expected), "{more}\n{found}");
        assert_eq!(found.matches("error:").count(), 1, "{more}\n{found}");
    }
}

/// What no file can make right is a fault of the spec, found without a file.
#[test]
fn values_that_are_wrong_in_every_file_are_faults() {
    for (option, expected) in [
        ("heads = 3.5", "mixer.heads\n  3.5 is not a count"),
        ("heads = -4", "mixer.heads\n  -4 is not a count"),
        ("heads = \"7 / 2\"", "mixer.heads\n  3.5 is not a count"),
        ("scale = \"sqrt('x')\"", "sqrt takes numbers; 'x' in quotes is a string"),
        ("scale = \"sqrt(-1)\"", "sqrt has no value here"),
        ("scale = \"1 / 0\"", "mixer.scale"),
        ("scale = \"1 if false\"", "`1 if false` has no value"),
        ("scale = \"true\"", "`true` is true, a boolean; expected a number"),
        ("softcap = { hf = 1 }", "mixer.softcap\n  only `hf` is set; write both"),
        ("mask = { gguf = \"causal\" }", "mixer.mask\n  only `gguf` is set; write both"),
        (
            "window = { kind = \"sliding\", size = 4, when = \"1 + 1\" }",
            "`1 + 1` is 2; expected true or false",
        ),
    ] {
        let rest = "[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n";
        let found = faults(&minimal(&format!("[mixer]\nkind = \"attention\"\n{option}\n{rest}")));
        assert!(found.contains(expected), "{option}\n{found}");
        assert_eq!(found.matches("error:").count(), 1, "{option}\n{found}");
    }
}

/// A fault does not hide others: a missing `schema`, a value that cannot be, a key that is not there.
#[test]
fn faults_do_not_hide_one_another() {
    let text = minimal(PLAIN).replace("schema = 1\n", "").replace("\"silu\"", "\"sliu\"");
    let found = faults(&text);
    assert!(found.contains("schema\n  missing") && found.contains("the nearest is `silu`"), "{found}");
    let spec = parse(&minimal(
        "[mixer]\nkind = \"attention\"\nheads = \"x / 3\"\n[mixer.rope]\nkind = \"rotary\"\npairs = \"halves\"\n\
         base = \"rope.freq_bse\"\n[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n",
    ))
    .unwrap();
    let found = Fake::small(1).with("x", 4i64).refused(&spec);
    assert!(
        found.contains("mixer.heads (layer 0)\n  1.33") && found.contains("`rope.freq_bse`: neither"),
        "{found}"
    );
}

#[test]
fn faults_are_told_in_the_order_of_lines() {
    let text = minimal(PLAIN)
        .replace("[output]", "[outptu]\nx = 1\n[output]")
        .replace("kind = \"attention\"", "kind = \"attention\"\nbais = 1")
        .replace("ffn_norm", "ffn_nrom")
        .replace("kind = \"rms\"", "kind = \"rsm\"");
    let lines: Vec<usize> =
        parse(&text).unwrap_err().faults().iter().map(|fault| fault.position.unwrap().0).collect();
    assert!(lines.len() > 3 && lines.is_sorted(), "{lines:?}");
}

#[test]
fn a_role_that_nobody_knows_has_a_neighbor_or_a_place_to_look() {
    let role = |name: &str| faults(&minimal(PLAIN).replace("\"ffn_norm\"", &format!("\"{name}\"")));
    assert!(role("attn_post_norm").contains("the nearest is `post_attention_norm`"));
    assert!(role("quux").contains("unknown role `quux`; `menagerie guide spec-reference` lists the roles"));
}

#[test]
fn each_fault_outside_the_mixer_too() {
    for (more, expected) in [
        ("[outptu]\n", "outptu\n  unknown key; the nearest is `output`"),
        ("[let]\nrope = \"1\"\n", "`rope` is the name of a key or the first part of one"),
        ("[let]\na = \"b\"\nb = \"a + 1\"\n", "let.a\n  a cycle: a -> b -> a"),
        ("[let]\nlayer = \"1\"\n", "the language reserves"),
        ("[check]\n\"layer >\" = \"x\"\n", "`layer >`"),
        ("[gguf.ignore_keys]\nfoo = \"\"\n", "expected a reason"),
        (
            "[gguf.tensors]\nffn_norm = \"x\"\nattn_norm = \"x\"\n",
            "`x` is already the tensor of role `ffn_norm`",
        ),
        ("[hf]\nlayer = \"model.layers\"\n", "must contain `{layer}`"),
        (
            "[hf.tensors]\nattn_q = \".q.{exprt}\"\n",
            "unknown placeholder `{exprt}`; the nearest is `{expert}`",
        ),
        ("[hf.tensors]\nattn_q = { from = \".q\", layout = \"transposed\" }\n", "the nearest is `transpose`"),
        ("[hf.config]\n\"attention.scal\" = \"x\"\n", "nothing in the spec reads this key"),
        ("[hf.config]\n\"context_length\" = \"x ~ y\"\n", "`~` may not be used"),
        ("[hf.write]\n\"attention.scal\" = 1\n", "a file that has it would be refused"),
        ("[adapter]\norder = [\"attn_z\"]\n", "unknown role `attn_z`"),
        (
            "[truth]\nreference = \"hf\"\nsource = \"x\"\n",
            "`[truth]` is called `[provenance]` now; rename the table",
        ),
        ("[provenance]\nreference = \"huggingface\"\nsource = \"x\"\n", "allowed: hf, llama.cpp, paper"),
        ("[tokenizer]\nend = \"x\"\n", "expected a list of strings"),
        ("[chat]\nfallback = \"{{ gemma }}\"\n", "chat.fallback\n  the template never mentions `messages`"),
    ] {
        let found = faults(&minimal(&format!("{PLAIN}{more}")));
        assert!(found.contains(expected), "{more}\n{found}");
        assert_eq!(found.matches("error:").count(), 1, "{more}\n{found}");
    }
}

#[test]
fn text_that_is_no_toml_names_the_line() {
    let found = faults("schema = 1\n[architecture]\nid = \"my\nx = 2\n");
    assert!(found.starts_with("error: my.toml:3:"), "{found}");
    let found = faults("schema = 1\n[architecture]\nid = \"a\"\nid = \"b\"\n");
    assert!(found.contains("duplicate key") && found.contains("first set in line 3"), "{found}");
    assert!(faults("schema = 9\n").contains("needs a newer menagerie"));
    assert!(faults("").contains("schema = 1"));
}

#[test]
fn an_unknown_key_has_a_nearest_name() {
    let text = minimal(
        "[mixer]\nkind = \"attention\"\nwindow = { kind = \"sliding\", size = \"attention.slidng_window\" }\n\
         [feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n",
    );
    let spec = parse(&text).unwrap();
    let found = Fake::small(2).with("attention.sliding_window", 16i64).refused(&spec);
    let expected = "\
error: my.toml:15:38: mixer.window.size
  `attention.slidng_window`: neither a standard key nor in this file; the nearest is `attention.sliding_window`
error: model.gguf: key my.attention.sliding_window
  not read by spec my (my.toml); the nearest is `attention.slidng_window`
  read it there, or list it under [gguf.ignore_keys] with a reason; to run without understanding it: --accept-unread my.attention.sliding_window";
    assert_eq!(found, expected);
}

#[test]
fn exactly_one_case_must_hold() {
    let cases = "[mixer]\nkind = \"attention\"\n\
        [feed_forward.dense]\nwhen = \"layer < 2\"\nkind = \"gated\"\nactivation = \"silu\"\n\
        [feed_forward.plain]\nwhen = \"layer > SECOND\"\nkind = \"plain\"\nactivation = \"relu\"\n";
    let spec = parse(&minimal(&cases.replace("SECOND", "3"))).unwrap();
    let found = Fake::small(6).refused(&spec);
    assert!(found.contains("feed_forward (layers 2-3)\n  no case of [feed_forward] holds (dense: layer < 2; plain: layer > 3); exactly one must hold in every layer"), "{found}");
    let spec = parse(&minimal(&cases.replace("SECOND", "0"))).unwrap();
    let found = Fake::small(6).refused(&spec);
    assert!(
        found.contains("feed_forward (layer 1)\n  2 cases of [feed_forward] hold, dense and plain"),
        "{found}"
    );
    let spec = parse(&minimal(&cases.replace("SECOND", "1"))).unwrap();
    assert_eq!(Fake::small(6).config(&spec).layers.len(), 6);
}

#[test]
fn faults_of_a_file_are_all_reported_and_layers_are_merged() {
    let spec = parse(&minimal(PLAIN)).unwrap();
    let mut fake =
        Fake::small(32).with("attention.head_count_kv", 3i64).with("logit_scale", 2.0).with("rope.foo", 1i64);
    fake.keys.remove("attention.layer_norm_rms_epsilon");
    fake.foreign = vec!["general.name".into(), "xielu.alpha_p".into()];
    let found = fake.refused(&spec);
    for part in [
        "norm.eps\n  `attention.layer_norm_rms_epsilon`: neither a standard key nor in this file",
        "key my.attention.head_count_kv (layers 0-31)\n  3 key-value heads do not divide 4 heads",
        "key my.logit_scale\n  not read by spec my",
        "key my.rope.foo\n  not read",
        "key xielu.alpha_p\n  nothing reads it",
    ] {
        assert!(found.contains(part), "{part}\n---\n{found}");
    }
    assert!(!found.contains("general.name"));
}

#[test]
fn an_unread_key_is_accepted_by_name_only_and_reported() {
    let spec = parse(&minimal(PLAIN)).unwrap();
    for accepted in ["logit_scale", "my.logit_scale"] {
        let mut fake = Fake::small(2).with("logit_scale", 2.0);
        fake.accept = vec![accepted.into()];
        let report = fake.report(&spec).unwrap();
        assert_eq!(report.coverage.accepted_unread, ["logit_scale"]);
        assert_eq!(report.warnings, ["key logit_scale is accepted unread: its effect is unknown"]);
    }
    let mut fake = Fake::small(2);
    fake.accept = vec!["logit_scal".into()];
    assert!(fake.report(&spec).unwrap().warnings[0].contains("had nothing to accept"));
}

#[test]
fn a_broken_count_is_refused_before_anything_is_built() {
    let spec = parse(&minimal(PLAIN)).unwrap();
    for (key, value, part) in [
        ("block_count", 1i64 << 60, "is not a count"),
        ("block_count", 1 << 30, "expected 1 to 4096 blocks"),
        ("block_count", 0, "expected 1 to 4096 blocks"),
        ("block_count", -3, "is not a count"),
        ("attention.head_count", 0, "heads is 0"),
        ("attention.key_length", 0, "key_dim is 0"),
        ("embedding_length", -1, "is not a count"),
    ] {
        let found = Fake::small(2).with(key, value).refused(&spec);
        assert!(found.contains(part), "{key} = {value}: {found}");
    }
    let found = Fake::small(2).with("embedding_length", "wide").refused(&spec);
    assert!(found.contains("`embedding_length` is the string \"wide\"; expected a number"), "{found}");
    let mut fake = Fake::small(2);
    fake.keys.remove("attention.head_count");
    assert!(fake.refused(&spec).contains("key my.attention.head_count\n  missing; spec my needs it"));
}

/// A file that is broken on purpose must not make resolving slow.
#[test]
fn many_keys_and_many_layers_are_no_long_wait() {
    let spec = parse(&minimal(PLAIN)).unwrap();
    let mut fake = Fake::small(4096);
    for index in 0..20_000 {
        fake.keys.insert(
            format!("attention.sliding_windov{index}"),
            menagerie_spec::MetadataValue::Integer(index),
        );
        fake.foreign.push(format!("generic.name{index}"));
    }
    let start = std::time::Instant::now();
    let found = fake.refused(&spec);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(found.contains("and 19960 more keys that nothing reads"), "{}", &found[..2000]);
    // A key that no layer finds is looked for among all of them once.
    let scale = "kind = \"attention\"\nscale = \"layer + attention.sliding_wndow\"";
    let spec = parse(&minimal(&PLAIN.replace("kind = \"attention\"", scale))).unwrap();
    let start = std::time::Instant::now();
    let found = fake.refused(&spec);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(
        found.contains("mixer.scale (layers 0-4095)\n  `attention.sliding_wndow`: neither"),
        "{}",
        &found[..2000]
    );
    let start = std::time::Instant::now();
    let llama = crate::model::spec(&crate::model::built_in(), "llama");
    let report = Fake::small(128).report(&llama).unwrap();
    assert_eq!(report.config.layers.len(), 128);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    println!("128 layers of llama: {:?}", start.elapsed());
}
