//! Whole specs: the project's own and the nineteen the language was written with.

use crate::model::{Fake, attention, built_in, nineteen, spec};
use menagerie_spec::{SpecLookup, stated_names};

#[test]
fn every_spec_parses() {
    for folder in [built_in(), nineteen()] {
        for id in folder.ids() {
            let spec = spec(&folder, &id);
            assert_eq!(spec.id(), id);
            let truth = spec.truth().unwrap_or_else(|| panic!("{id} has no [truth]"));
            assert!(!truth.source.is_empty() && !spec.summary().is_empty(), "{id}");
            assert!(!spec.gguf_names().is_empty(), "{id}");
            let text = folder.find(&id).unwrap().text;
            assert_eq!(stated_names(&text).unwrap(), spec.gguf_names(), "{id}");
            assert!(!spec.hf().tensors.is_empty() && !spec.hf_classes().is_empty(), "{id}");
        }
    }
}

#[test]
fn the_nineteen_and_the_built_in_ones_are_there() {
    assert_eq!(nineteen().ids().len(), 19);
    assert!(built_in().ids().len() > 70, "{:?}", built_in().ids());
}

#[test]
fn built_in_specs_repeat_nothing_of_their_base() {
    for id in built_in().ids() {
        let spec = spec(&built_in(), &id);
        assert!(spec.warnings().is_empty(), "{id}: {:?}", spec.warnings());
    }
}

#[test]
fn kinds_that_are_not_built_in_say_so() {
    let mut fake = Fake::small(4).with("attention.head_count_kv", [0, 0, 2, 0]);
    fake.name = "jamba".into();
    let message = fake.refused(&spec(&nineteen(), "jamba"));
    assert!(
        message.contains("mixer kind `mamba1` is not built in; built in are: attention, none"),
        "{message}"
    );
    assert!(message.contains("(layers 0-1, 3)"), "{message}");
    let message = Fake::small(2).refused(&spec(&nineteen(), "deepseek2"));
    assert!(message.contains("mixer kind `latent-attention` is not built in"), "{message}");
    let mut fake = Fake::small(2).with("attention.sliding_window", 32i64).with("rope.freq_base", 10000.0);
    fake = fake.with("expert_used_count", 2i64);
    let message = fake.refused(&spec(&nineteen(), "gpt-oss"));
    assert!(
        message.contains("activation `swiglu-oai` is not built in; built in are: silu, gelu-tanh"),
        "{message}"
    );
}

#[test]
fn a_dropped_in_spec_resolves() {
    let fake = Fake::small(8);
    let config = fake.config(&spec(&nineteen(), "smollm3"));
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
    assert_eq!(spec(&nineteen(), "jamba").not_built_in(), ["mixer kind `mamba1`"]);
    assert_eq!(spec(&nineteen(), "gpt-oss").not_built_in(), ["activation `swiglu-oai`"]);
}
