//! `spec`: new, check, show, diff, explain, kinds and schema; and ids and files wherever either is.

use super::{Changed, fixture, menagerie};
use serde_json::Value;
use std::path::Path;

const TALKER: &str = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"talker\"\n\n[feed_forward.dense]\nactivation = \"gelu-erf\"\n";

/// A model of an architecture that nothing knows, as `changed.gguf`, made from a fixture of another.
fn unheard(home: &Path, from: &str, architecture: &str, id: &str) -> String {
    let mut changed = Changed::of(from);
    for (key, value) in &mut changed.keys {
        if key == "general.architecture" {
            *value = id.into();
        } else if let Some(rest) = key.strip_prefix(&format!("{architecture}.")) {
            *key = format!("{id}.{rest}");
        }
    }
    changed.write(home)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The tiny model is run: once whole, in chunks, and from its cache.
#[test]
fn a_spec_is_checked_and_run() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("talker.toml"), TALKER).unwrap();
    let out = menagerie(home.path(), &["spec", "check", "talker.toml"]).good();
    assert!(out.contains("4 layers, width 64) ran 40 tokens in one step, in chunks"), "{out}");
    assert!(out.contains("talker.toml: ok"), "{out}");
    // A19: a slip in a standard key is seen without a model.
    assert!(!out.contains("did you mean"), "{out}");
    let slip = TALKER.replace("id = \"talker\"", "id = \"slip\"")
        + "\n[embedding]\nscale = \"sqrt(embeding_length)\"\n";
    std::fs::write(home.path().join("slip.toml"), slip).unwrap();
    let out = menagerie(home.path(), &["spec", "check", "slip.toml"]);
    assert!(
        format!("{out:?}")
            .contains("`embeding_length`, which is not a standard key; did you mean `embedding_length`?"),
        "{out:?}"
    );
    for id in ["gemma3", "qwen3moe", "gpt2", "lfm2"] {
        let report = json(&menagerie(home.path(), &["spec", "check", id, "--json"]).good());
        assert_eq!((&report["good"], &report["tiny"]["layers"]), (&true.into(), &4.into()), "{report}");
    }
    // Layers that are not all alike: of lfm2 those without keys and values are short convolutions.
    let list = ["spec", "check", "lfm2", "--key", "attention.head_count_kv=[0,2,0,2]", "--json"];
    let report = json(&menagerie(home.path(), &list).good());
    assert!(report["tiny"]["difference"].as_f64().unwrap() < 1e-4, "{report}");
    menagerie(home.path(), &["spec", "check", "lfm2", "--key", "x"]).refused_with(&["KEY=VALUE"]);
}

/// A spec that multiplies everything by 0 is sound as a text, and no model.
#[test]
fn a_spec_whose_model_says_nothing_is_a_fault() {
    let home = tempfile::tempdir().unwrap();
    let spec = format!("{TALKER}\n[output]\nscale = 0\n");
    std::fs::write(home.path().join("talker.toml"), spec).unwrap();
    let call = menagerie(home.path(), &["spec", "check", "talker.toml"]);
    call.fails_with(&["all its outputs are equal", "1 error"]);
}

#[test]
fn faults_come_by_line_with_a_caret() {
    let home = tempfile::tempdir().unwrap();
    let spec = TALKER.replace("gelu-erf", "gelu-arf").replace("\"llama\"", "\"llama\"\nunsett = []");
    std::fs::write(home.path().join("talker.toml"), spec).unwrap();
    let call = menagerie(home.path(), &["spec", "check", "talker.toml"]);
    let (first, second) =
        (call.err.find("talker.toml:3:1").unwrap(), call.err.find("talker.toml:9:15").unwrap());
    assert!(first < second && call.err.contains("^^^^^^^^"), "{}", call.err);
    call.fails_with(&["unsett", "gelu-erf", "2 errors"]);
    let report = json(&menagerie(home.path(), &["spec", "check", "talker.toml", "--json"]).out);
    assert_eq!(report["faults"][0]["line"], 3, "{report}");
    menagerie(home.path(), &["spec", "check", "lama"]).fails_with(&["`lama`", "`llama`"]);
    menagerie(home.path(), &["spec", "check", "absent.toml"]).fails_with(&["absent.toml"]);
}

#[test]
fn two_specs_are_compared() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("talker.toml"), TALKER).unwrap();
    let out = menagerie(home.path(), &["spec", "diff", "llama", "talker.toml"]).good();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].starts_with("- feed_forward.dense.activation = \"silu\"  # specs/llama.toml:"), "{out}");
    assert_eq!(lines[1], "+ feed_forward.dense.activation = \"gelu-erf\"  # talker.toml:8");
    assert!(menagerie(home.path(), &["spec", "diff", "llama", "llama"]).good().contains("do not differ"));
    let report = json(&menagerie(home.path(), &["spec", "diff", "llama", "talker.toml", "--json"]).good());
    assert_eq!(report["differences"][0]["second"]["value"], "\"gelu-erf\"", "{report}");
}

#[test]
fn a_spec_is_explained_in_words_and_drawn() {
    let home = tempfile::tempdir().unwrap();
    let out = menagerie(home.path(), &["spec", "explain", "gemma3", "--svg", "gemma3.svg"]).good();
    for part in [
        "gemma3: Gemma 3",
        "times sqrt(embedding_length)",
        "rms norm post_attention_norm",
        "added to the stream",
        "mixer.rope.pairs = halves",
        "requires attention.causal | default(true)",
    ] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    let svg = std::fs::read_to_string(home.path().join("gemma3.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("rms norm post_ffw_norm") && svg.matches("<rect").count() > 8, "{svg}");
    let parallel = json(&menagerie(home.path(), &["spec", "explain", "phi2", "--json"]).good());
    assert_eq!(parallel["steps"]["branches"][1]["parallel"], true, "{parallel}");
    menagerie(home.path(), &["spec", "explain", "gemma3", "--svg", "gemma3.svg"]).fails_with(&["--force"]);
}

#[test]
fn kinds_and_schema_are_told() {
    let home = tempfile::tempdir().unwrap();
    let all = menagerie(home.path(), &["spec", "kinds"]).good();
    assert!(all.contains("attention") && all.contains("feed-forward"), "{all}");
    let out = menagerie(home.path(), &["spec", "kinds", "attention"]).good();
    for part in ["  rope.pairs: adjacent | halves; required", "(logits)", "attn_q [D, heads*key_dim]"] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    let report = json(&menagerie(home.path(), &["spec", "kinds", "moe", "--json"]).good());
    assert_eq!(report["kinds"][0]["family"], "feed-forward", "{report}");
    menagerie(home.path(), &["spec", "kinds", "atention"]).fails_with(&["`attention`"]);
    let schema = json(&menagerie(home.path(), &["spec", "schema"]).good());
    assert!(schema["$defs"]["mixer-attention"].is_object());
    let merged = menagerie(home.path(), &["spec", "show", "smollm3", "--merged"]).good();
    assert!(merged.contains("head = \"own-or-tied\"  # specs/llama.toml:"), "{merged}");
}

/// The draft of a model that nobody knows runs it right, and marks what no file says.
#[test]
fn a_spec_is_drafted() {
    let home = tempfile::tempdir().unwrap();
    let model = unheard(home.path(), "base/qwen3/model-f32.gguf", "qwen3", "qwen3talker");
    let call = menagerie(home.path(), &["spec", "new", &model, "--out", "qwen3talker.toml"]);
    assert!(
        call.err.contains("the nearest architecture is ") && call.err.contains("questions to answer"),
        "{}",
        call.err
    );
    call.good();
    let text = std::fs::read_to_string(home.path().join("qwen3talker.toml")).unwrap();
    assert!(
        text.contains("# ? mixer.rope.pairs = \"halves\"") && text.contains("id = \"qwen3talker\""),
        "{text}"
    );
    let reference = fixture("base/qwen3/reference.safetensors");
    let check = ["check", &model, "--spec", "qwen3talker.toml", "--reference", reference.to_str().unwrap()];
    let out = menagerie(home.path(), &check).good();
    assert!(out.contains("logits_prompt: 48 rows") && !out.contains("DIFFERS"), "{out}");
    menagerie(home.path(), &["spec", "new", &model, "--out", "other.toml"])
        .refused_with(&["qwen3talker.toml"]);
    // The first command of the guide works in a fresh folder, and the draft is found there.
    menagerie(home.path(), &["spec", "new", &model, "--out", "menagerie.d/qwen3talker.toml"]).good();
    menagerie(home.path(), &["check", &model]).good();
    let hide = ["spec", "new", &model, "--hide", "qwen3", "--json"];
    let report = json(&menagerie(home.path(), &hide).good());
    assert_ne!(report["nearest"], "qwen3", "{report}");
    assert!(report["questions"].as_array().unwrap().len() > 5);
    menagerie(home.path(), &["spec", "new", &model, "--hide", "qwen33"]).refused_with(&["qwen33"]);
}

/// An id and a file are good wherever either is.
#[test]
fn ids_and_files_stand_for_each_other() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("talker.toml"), TALKER).unwrap();
    assert!(menagerie(home.path(), &["show", "talker.toml"]).good().starts_with("talker\n"));
    assert!(menagerie(home.path(), &["check", "talker.toml"]).good().contains("talker.toml: ok"));
    let shape = ["--shape", "llama-3.2-1b", "--shape", "block_count=1", "--quant", "Q4_0"];
    let sizes =
        ["--shape", "vocab_size=64", "--shape", "embedding_length=64", "--shape", "feed_forward_length=64"];
    let synth = [&["synth", "talker.toml", "t.gguf"][..], &shape, &sizes].concat();
    menagerie(home.path(), &synth).good();
    assert!(home.path().join("t.gguf").exists());
}

/// A reference is compared pair by pair: what cannot be is said, and the worst place of what can.
#[test]
fn every_pair_of_a_reference_is_compared_or_said() {
    let home = tempfile::tempdir().unwrap();
    let (model, reference) =
        (fixture("base/phi3/model-f32.gguf"), fixture("base/phi3/reference.safetensors"));
    let check = ["check", model.to_str().unwrap(), "--reference", reference.to_str().unwrap()];
    let out = menagerie(home.path(), &check).good();
    for part in [
        "logits_prompt: 48 rows, largest difference ",
        "(limit 1.0e-4) at row ",
        "logits_greedy: 16 rows",
        "logits_long: 8 rows",
        "logits_cross_greedy: 10 rows",
        "llamacpp_logits_long: not compared: its name does not begin with `logits`",
        "logits_long_nosw: not compared: tokens_long_nosw is missing",
    ] {
        assert!(out.contains(part), "`{part}` is not in:\n{out}");
    }
    // Of another model every pair differs, and the place is told.
    let other = fixture("base/llama/model-f32.gguf");
    let wrong = ["check", other.to_str().unwrap(), "--reference", reference.to_str().unwrap()];
    let call = menagerie(home.path(), &wrong);
    assert!(call.out.contains("DIFFERS"), "{}", call.out);
    call.fails_with(&["logits differ from the reference"]);
}

/// Values of layers name the first that differs.
#[test]
fn the_first_layer_that_differs_is_named() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let given = fixture("base/llama/reference.safetensors");
    let bytes = std::fs::read(&given).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    // Right logits, and streams that nothing has: those of layer 0 differ first.
    let width = 64;
    let wrong = vec![0u8; 48 * width * 4];
    let zeros =
        || safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![48, width], &wrong).unwrap();
    let views = vec![
        ("tokens_prompt", file.tensor("tokens_prompt").unwrap()),
        ("logits_prompt", file.tensor("logits_prompt").unwrap()),
        ("l_out-1_prompt", zeros()),
        ("l_out-0_prompt", zeros()),
        ("l_out-99_prompt", zeros()),
    ];
    let path = home.path().join("layers.safetensors");
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    let call =
        menagerie(home.path(), &["check", model.to_str().unwrap(), "--reference", "layers.safetensors"]);
    assert_eq!(call.code, Some(1), "{call:?}");
    assert!(call.out.contains("the first layer values that differ: l_out-0_prompt"), "{}", call.out);
    assert!(call.out.contains("l_out-99_prompt: not compared: the model has no such layer"), "{}", call.out);
}

/// Two specs on one file.
#[test]
fn two_specs_are_held_against_one_file() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("talker.toml"), TALKER).unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let call = menagerie(home.path(), &["check", model.to_str().unwrap(), "--against", "talker.toml"]);
    assert_eq!(call.code, Some(1), "{call:?}");
    assert!(
        call.out.contains("gelu-erf") && call.out.contains("the logits of 64 tokens differ by"),
        "{}",
        call.out
    );
    let same = menagerie(home.path(), &["check", model.to_str().unwrap(), "--against", "llama"]).good();
    assert!(same.contains("the same values, and the same logits"), "{same}");
}
