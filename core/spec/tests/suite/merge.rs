//! `extends`, `unset`, replacement on `kind`, circles, depth.

use crate::model::{Fake, attention, built_in, minimal, parse, spec};
use menagerie_spec::config::*;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, SpecFaults, SpecSource};
use std::collections::BTreeMap;

fn source(name: &str, text: &str) -> SpecSource {
    SpecSource { name: format!("{name}.toml"), text: text.into() }
}

fn over(specs: &[(&str, &str)], top: &str) -> Result<ArchSpec, SpecFaults> {
    let lookup: BTreeMap<String, SpecSource> =
        specs.iter().map(|(id, text)| (id.to_string(), source(id, text))).collect();
    ArchSpec::parse(&lookup[top], &lookup, &Kinds::built_in())
}

fn faults(specs: &[(&str, &str)], top: &str) -> String {
    match over(specs, top) {
        Ok(_) => panic!("taken"),
        Err(faults) => faults.to_string(),
    }
}

const HEAD: &str = "schema = 1\n[architecture]\nid = \"child\"\n";

fn child(extends: &str, rest: &str) -> String {
    format!("schema = 1\nextends = \"{extends}\"\n[architecture]\nid = \"child\"\n{rest}")
}

#[test]
fn a_child_changes_what_it_states_and_keeps_the_rest() {
    let olmo = spec(&built_in(), "olmo2");
    assert_eq!(olmo.extends, ["llama"]);
    let config = Fake::small(8).config(&olmo);
    let layer = &config.layers[0];
    assert_eq!(layer.mixer_branch.pre, None);
    assert_eq!(layer.mixer_branch.post.as_ref().unwrap().role, "post_attention_norm");
    let gated = GatedConfig {
        activation: Activation::Silu.into(),
        bias: BiasRule::None,
        inner_norm: None,
        limit: None,
    };
    assert_eq!(layer.feed_forward, Some(gated.into()));
    // [architecture] and [provenance] are never inherited
    let bare = over(
        &[("llama", include_str!("../../../../specs/llama.toml")), ("child", &child("llama", ""))],
        "child",
    )
    .unwrap();
    assert!(bare.provenance.is_none() && bare.hf_classes.is_empty());
    assert_eq!(bare.gguf_names, ["child"]);
}

#[test]
fn a_table_with_kind_replaces_the_base_whole() {
    let spec = parse(&child("llama", "[mixer]\nkind = \"attention\"\n")).unwrap();
    let config = Fake::small(1).config(&spec);
    assert_eq!((&attention(&config, 0).rope, attention(&config, 0).qkv_bias), (&None, BiasRule::None));
    let spec = parse(&child("llama", "[mixer]\nbias = \"none\"\n")).unwrap();
    assert!(attention(&Fake::small(1).config(&spec), 0).rope.is_some());
}

#[test]
fn a_choice_replaces_a_choice_whole() {
    let base = minimal(
        "[mixer]\nkind = \"attention\"\nmask = { by = \"x\", 1 = \"causal\", 2 = \"bidirectional\" }\n\
         [feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n",
    );
    let child = child("base", "[mixer]\nmask = { by = \"y\", true = \"causal\" }\n");
    let spec = over(&[("base", &base), ("child", &child)], "child").unwrap();
    let found = Fake::small(1).with("y", false).refused(&spec);
    assert!(found.contains("`y` is false; the choice has answers only for true"), "{found}");
}

#[test]
fn unset_removes_what_the_base_has_and_nothing_else() {
    let text =
        child("llama", "").replace("[arch", "unset = [\"block.mixer.pre\", \"hf.tensors.attn_norm\"]\n[arch");
    let spec = parse(&text).unwrap();
    assert_eq!(Fake::small(1).config(&spec).layers[0].mixer_branch.pre, None);
    let text = child("llama", "").replace("[arch", "unset = [\"hf.config.attention.sliding_window\"]\n[arch");
    parse(&text).unwrap();
    let text = child("llama", "").replace("[arch", "unset = [\"block.mixre.pre\"]\n[arch");
    let found = parse(&text).unwrap_err().to_string();
    let expected = "error: my.toml:3:11: unset\n  the base has no `block.mixre.pre`; the nearest is `mixer`";
    assert_eq!(found, expected);
    let found = faults(&[("child", &HEAD.replace("[arch", "unset = [\"norm\"]\n[arch"))], "child");
    assert!(found.contains("nothing to remove from"), "{found}");
}

#[test]
fn circles_and_depth_and_unknown_bases_are_named() {
    let specs = [
        ("a", "schema = 1\nextends = \"b\"\n[architecture]\nid = \"a\"\n"),
        ("b", "schema = 1\nextends = \"a\"\n"),
    ];
    assert!(faults(&specs, "a").contains("b.toml:2:12: extends\n  a cycle: a -> b -> a"));
    let deep = |next: &str| format!("schema = 1\nextends = \"{next}\"\n");
    let base = minimal(crate::model::PLAIN);
    let three = [("child", child("a", "")), ("a", deep("b")), ("b", deep("c")), ("c", base.clone())];
    let three: Vec<(&str, &str)> = three.iter().map(|(id, text)| (*id, text.as_str())).collect();
    assert_eq!(over(&three, "child").unwrap().extends, ["a", "b", "c"]);
    let four = [("child", child("a", "")), ("a", deep("b")), ("b", deep("c")), ("c", deep("d")), ("d", base)];
    let four: Vec<(&str, &str)> = four.iter().map(|(id, text)| (*id, text.as_str())).collect();
    assert!(faults(&four, "child").contains("a spec may extend at most 3 others"));
    let found = parse(&child("lama", "")).unwrap_err().to_string();
    assert_eq!(found, "error: my.toml:2:12: extends\n  unknown spec `lama`; the nearest is `llama`");
}

#[test]
fn a_fault_names_the_file_it_was_written_in() {
    let base = minimal("[mixer]\nkind = \"attention\"\nmask = \"casual\"\n[feed_forward]\nkind = \"none\"\n");
    let found = faults(&[("base", &base), ("child", &child("base", "[output]\nhead = \"onw\"\n"))], "child");
    assert!(found.contains("base.toml:15:9: mixer.mask"), "{found}");
    assert!(found.contains("child.toml:6:9: output.head"), "{found}");
}

#[test]
fn a_child_that_repeats_its_base_is_warned_about() {
    let spec = parse(&child("llama", "[mixer]\nbias = \"if-present\"\n")).unwrap();
    let warnings: Vec<String> = spec.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("my.toml:6:9: mixer.bias\n  the base already has this value (llama.toml:"),
        "{warnings:?}"
    );
    assert!(spec.source_name == "my.toml" && built_in_has("llama"));
}

fn built_in_has(id: &str) -> bool {
    use menagerie_spec::SpecLookup;
    built_in().find(id).is_some()
}

/// A lookup in which `child` stands in the place of another spec of its id.
struct Replacing<'a>(&'a str);

impl menagerie_spec::SpecLookup for Replacing<'_> {
    fn find(&self, id: &str) -> Option<SpecSource> {
        (id == "child").then(|| source("child", self.0))
    }

    fn find_replaced(&self, id: &str, replacing: &SpecSource) -> Option<SpecSource> {
        let below = minimal(crate::model::PLAIN);
        (id == "child" && replacing.text == self.0).then(|| source("below", &below))
    }
}

#[test]
fn a_spec_extends_the_one_that_it_replaces() {
    let text = child("child", "[mixer]\nsoftcap = 7\n");
    let spec = ArchSpec::parse(&source("child", &text), &Replacing(&text), &Kinds::built_in()).unwrap();
    assert_eq!(spec.extends, ["child"]);
    assert_eq!(attention(&Fake::small(1).config(&spec), 0).softcap, Some(7.0));
    // A third spec gets the replacement, and with it what that stands on.
    let third = child("child", "").replace("id = \"child\"", "id = \"third\"");
    let spec = ArchSpec::parse(&source("third", &third), &Replacing(&text), &Kinds::built_in()).unwrap();
    assert_eq!(spec.extends, ["child", "child"]);
    assert_eq!(attention(&Fake::small(1).config(&spec), 0).softcap, Some(7.0));
    // Without one below it is a circle, told once.
    let found = faults(&[("child", &child("child", ""))], "child");
    assert_eq!(found, "error: child.toml:2:12: extends\n  a cycle: child -> child");
}

/// The merged text is a whole spec that says the same, and says where each line is from.
#[test]
fn a_merged_spec_stands_alone() {
    let olmo = spec(&built_in(), "olmo2").merged();
    assert!(olmo.contains("head = \"own-or-tied\"  # llama.toml:"), "{olmo}");
    assert!(olmo.contains("id = \"olmo2\"\n"), "{olmo}");
    let folder = built_in();
    for id in menagerie_spec::SpecLookup::ids(&folder) {
        let written = spec(&folder, &id);
        let again = source(&id, &written.merged());
        let again = ArchSpec::parse(&again, &menagerie_spec::NoLookup, &Kinds::built_in());
        let again = again.unwrap_or_else(|faults| panic!("{id}:\n{faults}\n{}", written.merged()));
        assert_eq!((written.features(), 0), (again.features(), again.extends.len()), "{id}");
        for name in ["llama", "phi2", "qwen2", "qwen3", "qwen3moe", "starcoder2", "mistral3"] {
            let (mut fake, _) = crate::fixtures::fixture(name);
            if fake.name == id && written.provenance == again.provenance {
                fake.all_layers(&["attn_norm", "attn_q_norm", "attn_k_norm"]);
                assert_eq!(fake.report(&written).unwrap().config, fake.report(&again).unwrap().config);
            }
        }
    }
}
