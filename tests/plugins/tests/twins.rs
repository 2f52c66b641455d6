//! Plugins with the same symbols and short names live side by side; one source runs the same linked in and opened.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::Arithmetic;
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie::registry::Environment;
use menagerie_plugin::StaticPlugin;
use menagerie_plugin_host::{LoadedPlugin, PluginLoadOptions, PluginLocation, load, with_linked_plugins};
use menagerie_plugin_tests::{Model, Probe};

menagerie_plugin::inventory::submit! {
    StaticPlugin {
        manifest: &menagerie_probe::MENAGERIE_PLUGIN_MANIFEST_V1,
        init: menagerie_probe::menagerie_plugin_init_v1,
    }
}

#[test]
fn twins_and_the_same_source_linked_in_give_the_same_logits() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = |environment: &Environment| environment.all::<&'static LoadedPlugin>().to_vec();
    let (mut environment, refused) = with_linked_plugins(&Environment::linked().unwrap());
    assert_eq!((plugins(&environment).len(), refused.len()), (1, 0));
    let linked = plugins(&environment)[0];
    assert_eq!((&*linked.inspected.id, &linked.location), ("probe/parts", &PluginLocation::Static));
    let (again, refused) = with_linked_plugins(&environment);
    assert_eq!((plugins(&again).len(), refused.len()), (1, 0), "they are installed once");
    for author in ["first", "other"] {
        let file = Probe::named(author).save(folder.path(), &format!("{author}.so"));
        let (with_it, plugin) = load(&environment, &file, PluginLoadOptions::default()).unwrap();
        assert_eq!(plugin.inspected.id, format!("{author}/parts"));
        // A file that is loaded stays the same plugin in other environments.
        let (other, same) =
            load(&Environment::linked().unwrap(), &file, PluginLoadOptions::default()).unwrap();
        assert!(std::ptr::eq(plugin, same) && plugins(&other).len() == 1);
        environment = with_it;
    }
    assert_eq!(plugins(&environment).len(), 3);
    let again = load(&environment, folder.path().join("first.so"), PluginLoadOptions::default());
    assert!(again.unwrap_err().to_string().contains("`first/parts`"), "an id is installed once");
    let model = Model::default();
    let tokens: Vec<u32> = (0..20).collect();
    let logits = ["probe", "first", "other"].map(|author| {
        let path = model.save(folder.path(), &format!("{author}-model"));
        let options = LoadOptions::default().with_threads(2).with_arithmetic(Arithmetic::Fast);
        let pipeline = ModelBuilder::new(&path)
            .with_environment(&environment)
            .with_options(&options)
            .open_text()
            .unwrap();
        let asked = LogitsOptions::default().with_chunk(7).with_decode_from(15);
        logits(&pipeline, &tokens, &asked).unwrap().values
    });
    assert!(logits[0] == logits[1] && logits[1] == logits[2]);
    assert!(logits[0].iter().any(|logit| logit.abs() > 0.1));
}
