//! Where values come from.

use crate::fixtures::fixture;
use crate::model::{Fake, PLAIN, built_in, minimal, parse, spec};
use menagerie_spec::{MetadataValue, Resolution, ResolvedValue, SpecLookup, ValueOrigin};

fn entry<'a>(report: &'a Resolution, path: &str) -> &'a ResolvedValue {
    let found: Vec<&ResolvedValue> = report.values.iter().filter(|entry| entry.path == path).collect();
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
    let facts = report.from_spec_only();
    let paths: Vec<&str> = facts.iter().map(|entry| entry.path.as_str()).collect();
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

/// A15: a list that a person goes through has nothing of parts that the model lacks, and nothing twice.
#[test]
fn facts_are_of_parts_that_the_model_has_and_each_is_listed_once() {
    for name in ["qwen3", "qwen3moe", "llama"] {
        let report = report(name);
        let facts = report.from_spec_only();
        let absent = facts
            .iter()
            .find(|fact| ["block.beside.", "block.last."].iter().any(|part| fact.path.starts_with(part)));
        assert!(absent.is_none(), "{name}: {absent:?}");
        for (at, fact) in facts.iter().enumerate() {
            let again =
                facts[..at].iter().find(|known| (&known.path, &known.value) == (&fact.path, &fact.value));
            assert!(again.is_none(), "{name}: {fact:?}");
        }
        assert!(facts.iter().any(|fact| fact.path == "norm.weight"), "{name}");
    }
    // Where there is such a part it is listed.
    let text = format!("{PLAIN}[beside]\nkind = \"gated\"\nactivation = \"silu\"\n");
    let with = Fake::small(2).report(&parse(&minimal(&text)).unwrap()).unwrap();
    assert!(with.from_spec_only().iter().any(|fact| fact.path == "block.beside.reads"));
}

#[test]
fn tensors_and_overrides_are_origins_too() {
    let mut fake = Fake::small(4);
    fake.roles.insert(("ffn_gate_inp".into(), Some(3)));
    fake.keys.insert("expert_used_count".into(), MetadataValue::Integer(2));
    fake.overrides.insert("rope.freq_base".into(), MetadataValue::Number(5e5));
    let report = fake.report(&spec(&built_in(), "llama")).unwrap();
    let dense: Vec<(&str, usize)> = report
        .values
        .iter()
        .filter(|entry| entry.path == "feed_forward.dense.when")
        .map(|entry| (entry.value.as_str(), entry.layers.len()))
        .collect();
    assert_eq!(dense, [("true", 3), ("false", 1)]);
    let when = report.values.iter().find(|entry| entry.path == "feed_forward.dense.when").unwrap();
    assert_eq!(when.origin, ValueOrigin::Tensors { roles: vec!["ffn_gate_inp".into()] });
    let base = entry(&report, "mixer.rope.base");
    assert_eq!(base.origin, ValueOrigin::Override { keys: vec!["rope.freq_base".into()] });
    assert_eq!(base.value, "500000");
}

/// A value is from the file only if no constant and no formula of the spec stands in it.
#[test]
fn constants_and_formulas_are_the_spec_s() {
    let rope =
        "[mixer.rope]\nkind = \"rotary\"\npairs = \"halves\"\nbase = \"10000 if even else rope.freq_base\"\n";
    let more = format!(
        "{PLAIN}{rope}[let]\neven = \"layer % 2 == 0\"\n[embedding]\nscale = \"sqrt(embedding_length)\"\n[layers]\ncount = \"(block_count)\"\n"
    );
    let more = more.replace(
        "kind = \"attention\"",
        "kind = \"attention\"\nscale = \"given | default(other | default(2))\"",
    );
    let spec = parse(&minimal(&more)).unwrap();
    let file = Fake::small(2).with("rope.freq_base", 5e5);
    let report = file.report(&spec).unwrap();
    let origins = |report: &Resolution, path: &str| -> Vec<(Vec<usize>, ValueOrigin)> {
        let entries = report.values.iter().filter(|entry| entry.path == path);
        entries.map(|entry| (entry.layers.iter().copied().collect(), entry.origin.clone())).collect()
    };
    let keys = |key: &str| vec![key.to_owned()];
    let base = [(vec![0], ValueOrigin::Spec), (vec![1], ValueOrigin::File { keys: keys("rope.freq_base") })];
    assert_eq!(origins(&report, "mixer.rope.base"), base);
    let formula = ValueOrigin::Formula { keys: keys("embedding_length") };
    assert_eq!(origins(&report, "embedding.scale"), [(vec![], formula.clone())]);
    assert!(report.from_spec_only().iter().any(|entry| entry.path == "embedding.scale"));
    assert_eq!(formula.to_string(), "formula of the spec over embedding_length");
    assert_eq!(origins(&report, "layers.count"), [(vec![], ValueOrigin::File { keys: keys("block_count") })]);
    let asked = ValueOrigin::SpecDefault { keys: vec!["given".into(), "other".into()] };
    assert_eq!(origins(&report, "mixer.scale"), [(vec![0, 1], asked)]);
    // What the default of a key says is the file's too, where it is a key itself.
    let report = file.with("other", 3.0).report(&spec).unwrap();
    assert_eq!(origins(&report, "mixer.scale"), [(vec![0, 1], ValueOrigin::File { keys: keys("other") })]);
}

/// What a spec reads only for something that this model does not have is told apart from what counts.
#[test]
fn keys_without_effect_are_told() {
    let llama = spec(&built_in(), "llama");
    let without_effect = |fake: &Fake| fake.report(&llama).unwrap().coverage.without_effect;
    let yarn = |kind: &str| {
        Fake::small(2)
            .with("rope.scaling.type", kind)
            .with("rope.scaling.factor", 4.0)
            .with("rope.scaling.original_context_length", 32i64)
            .with("rope.scaling.yarn_beta_fast", 16.0)
            .with("rope.scaling.yarn_log_multiplier", 0.5)
    };
    assert_eq!(without_effect(&yarn("yarn")), [""; 0]);
    let idle = [
        "rope.scaling.original_context_length",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_log_multiplier",
    ];
    assert_eq!(without_effect(&yarn("none")), idle);
    assert_eq!(without_effect(&Fake::small(2)), [""; 0]);
    for name in ["llama", "mixtral", "phi2", "qwen2", "qwen3", "qwen3moe", "starcoder2", "mistral3"] {
        assert_eq!(report(name).coverage.without_effect, [""; 0], "{name}");
    }
    let unmatched = Fake::small(2).with("tensor_data_layout", "x").report(&llama).unwrap().coverage.unmatched;
    assert_eq!(
        unmatched,
        ["expert_group_used_count", "rope.dimension_sections", "attention.layer_norm_epsilon"]
    );
}

#[test]
fn a_resolution_is_serializable() {
    let report = report("llama");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["config"]["layers"][0]["mixer"]["kind"], "attention");
    assert_eq!(json["config"]["layers"][0]["mixer"]["rope"]["pairs"], "adjacent");
}

/// F11: llama.cpp reads YaRN's betas for two architectures only; whoever compares with it is told where a file has them.
#[test]
fn specs_that_accept_yarn_say_who_reads_its_betas() {
    let keys = ["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"];
    let mut told = 0;
    for id in built_in().ids() {
        let spec = spec(&built_in(), &id);
        let accepts = spec.features().iter().any(|feature| feature == "yarn");
        // mistral3.cpp and grok.cpp of llama.cpp read them.
        let read = ["mistral3", "grok"].contains(&id.as_str());
        for key in keys {
            let notes = spec.notes_about(&|own| own == key);
            let says = notes.iter().any(|note| note.contains(key) && note.contains("llama.cpp ignores"));
            assert_eq!(says, accepts && !read, "{id}: {notes:?}");
            told += usize::from(says);
        }
        assert!(!spec.notes_about(&|_| false).iter().any(|note| note.contains(keys[0])), "{id}");
    }
    assert!(told > 140, "{told} notes");
}

/// U7: a note that names keys is about files that have one of them; one that names none is about all.
#[test]
fn notes_are_shown_where_the_file_has_what_they_are_about() {
    let llama = spec(&built_in(), "llama");
    let window = |notes: &[&str]| notes.iter().any(|note| note.contains("Mistral-7B"));
    assert!(window(&llama.notes_about(&|key| key == "attention.sliding_window")));
    assert!(llama.notes_about(&|_| false).is_empty());
    let gemma = spec(&built_in(), "gemma3");
    assert_eq!(gemma.notes_about(&|_| false).len(), 2, "what holds for every file");
}

/// U7: reasons that a spec's base gives for keys are about the files of the base.
#[test]
fn only_its_own_reasons_are_looked_for_in_a_file() {
    let child = |more: &str| {
        let text = format!("schema = 1\nextends = \"llama\"\n[architecture]\nid = \"my\"\n{more}");
        Fake::small(2).report(&parse(&text).unwrap()).unwrap().coverage.unmatched
    };
    assert_eq!(child(""), Vec::<String>::new());
    assert_eq!(child("[gguf.ignore_keys]\n\"nothing.*\" = \"a slip\"\n"), ["nothing.*"]);
}

/// A19: a key that is one letter away from a standard one is a slip, which no file is needed for to see.
#[test]
fn keys_one_letter_away_from_standard_ones_are_told() {
    let with = |scale: &str| parse(&minimal(&format!("{PLAIN}[embedding]\nscale = \"{scale}\"\n"))).unwrap();
    let misspelt = with("sqrt(embeding_length)");
    assert_eq!(misspelt.misspelt_keys(), [("embeding_length", "embedding_length")]);
    assert_eq!(with("sqrt(embedding_length)").misspelt_keys(), []);
    for id in built_in().ids() {
        assert_eq!(spec(&built_in(), &id).misspelt_keys(), [], "{id}");
    }
}
