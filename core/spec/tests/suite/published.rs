//! Whole specs: the project's own.

use crate::model::{Fake, attention, built_in, minimal, parse, spec};
use menagerie_spec::{Heading, SpecLookup};

#[test]
fn every_spec_parses() {
    let folder = built_in();
    for id in folder.ids() {
        let spec = spec(&folder, &id);
        assert_eq!(spec.id(), id);
        let provenance = spec.provenance.as_ref().unwrap_or_else(|| panic!("{id} has no [provenance]"));
        assert!(!provenance.source.is_empty() && !spec.summary.is_empty(), "{id}");
        assert!(!spec.gguf_names.is_empty(), "{id}");
        let text = folder.find(&id).unwrap().text;
        let heading = Heading::of(&text).unwrap();
        assert_eq!(heading.gguf, spec.gguf_names, "{id}");
        assert_eq!((&*heading.id, &*heading.summary), (spec.id(), &*spec.summary));
        assert_eq!(heading.extends.as_ref(), spec.extends.first());
        let provenance = spec.provenance.as_ref().map(|by| (by.reference.clone(), by.source.clone()));
        assert_eq!(heading.provenance, provenance);
        assert!(!spec.hf.tensors.is_empty(), "{id}");
        // A class of two specs belongs to one of them.
        let shared = ["nemotron_h", "nomic-bert-moe"].contains(&id.as_str());
        assert_eq!(spec.hf_classes.is_empty(), shared, "{id}");
    }
}

#[test]
fn the_built_in_ones_are_there() {
    assert!(built_in().ids().len() > 120, "{:?}", built_in().ids());
}

#[test]
fn built_in_specs_repeat_nothing_of_their_base() {
    for id in built_in().ids() {
        let spec = spec(&built_in(), &id);
        assert!(spec.warnings.is_empty(), "{id}: {:?}", spec.warnings);
    }
}

#[test]
fn kinds_that_are_not_built_in_say_so() {
    let text = minimal(
        "[mixer.a]\nwhen = \"layer != 2\"\nkind = \"rwkv7\"\n[mixer.b]\nwhen = \"layer == 2\"\nkind = \"attention\"\n\
         [feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n",
    );
    let message = Fake::small(4).refused(&parse(&text).unwrap());
    assert!(
        message.contains("mixer kind `rwkv7` is not built in; built in are: attention, none"),
        "{message}"
    );
    assert!(message.contains("(layers 0-1, 3)"), "{message}");
}

#[test]
fn a_dropped_in_spec_resolves() {
    let fake = Fake::small(8);
    let config = fake.config(&spec(&built_in(), "smollm3"));
    let roped: Vec<bool> = (0..8).map(|layer| attention(&config, layer).rope.is_some()).collect();
    assert_eq!(roped, [true, true, true, false, true, true, true, false]);
}

#[test]
fn specs_say_what_they_use() {
    let moe = spec(&built_in(), "qwen3moe");
    assert_eq!(moe.features(), ["attention", "qk-norm", "window", "rope", "yarn", "moe"]);
    assert_eq!(spec(&built_in(), "phi2").features(), ["attention", "rope", "plain gelu-tanh"]);
    for id in built_in().ids() {
        assert!(spec(&built_in(), &id).not_built_in().is_empty(), "{id}");
    }
    assert!(spec(&built_in(), "jamba").not_built_in().is_empty());
    assert!(spec(&built_in(), "gpt-oss").not_built_in().is_empty());
}
