//! Plugins with the same symbols and short names live side by side; one source runs the same linked in and opened.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::pipeline::{Arithmetic, LoadOptions, LogitsOptions, TextPipeline};
use menagerie::registry::inventory;
use menagerie_all as _;
use menagerie_plugin::StaticPlugin;
use menagerie_plugin_host::{LoadOptions as PluginOptions, Location, load, load_static};
use menagerie_plugin_tests::{Model, Probe};

inventory::submit! {
    StaticPlugin {
        manifest: &menagerie_probe::MENAGERIE_PLUGIN_MANIFEST_V1,
        init: menagerie_probe::menagerie_plugin_init_v1,
    }
}

#[test]
fn twins_and_the_same_source_linked_in_give_the_same_logits() {
    let folder = tempfile::tempdir().unwrap();
    let linked: Vec<_> = load_static().into_iter().map(Result::unwrap).collect();
    assert_eq!(linked.len(), 1);
    assert_eq!((&*linked[0].inspected.id, &linked[0].location), ("probe/parts", &Location::Static));
    assert!(load_static().is_empty(), "they are registered once");
    for author in ["first", "other"] {
        let file = Probe::named(author).save(folder.path(), &format!("{author}.so"));
        assert_eq!(load(&file, PluginOptions::default()).unwrap().inspected.id, format!("{author}/parts"));
    }
    let model = Model::default();
    let tokens: Vec<u32> = (0..20).collect();
    let logits = ["probe", "first", "other"].map(|author| {
        let path = model.save(folder.path(), &format!("{author}-model"));
        let options = LoadOptions::default().with_threads(2).with_arithmetic(Arithmetic::Fast);
        let pipeline = TextPipeline::open(&path, &options).unwrap();
        let asked = LogitsOptions::default().with_chunk(7).with_decode_from(15);
        pipeline.logits(&tokens, &asked).unwrap().values
    });
    assert!(logits[0] == logits[1] && logits[1] == logits[2]);
    assert!(logits[0].iter().any(|logit| logit.abs() > 0.1));
}
