//! Everything under `specs/` and `architectures/` is linked once, with unchanged text.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_all as _;
use menagerie_registry::spec::RecipeBase;
use menagerie_registry::{Environment, Origin};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names in a folder.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_spec_of_the_folder_is_built_in_as_it_is_written() {
    let environment = Environment::linked().unwrap();
    let mut files = names("specs");
    assert!(files.remove("models.toml"), "the catalog of models is next to the specs");
    let specs: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".toml")).collect();
    assert_eq!(specs, environment.architectures().iter().map(|entry| entry.id.as_str()).collect());
    for entry in environment.architectures() {
        let file = root().join(format!("specs/{}.toml", entry.id));
        assert_eq!(entry.text(), std::fs::read_to_string(file).unwrap(), "{}", entry.id);
        entry.spec().as_ref().unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_crate_of_the_folder_registers_something() {
    let environment = Environment::linked().unwrap();
    let specs = environment.architectures().iter().map(|entry| &entry.origin);
    let recipes = environment.recipes().iter().map(|entry| &entry.origin);
    let by = specs.chain(recipes).filter_map(|origin| match origin {
        Origin::BuiltIn(by) => Some((*by).to_owned()),
        Origin::File { .. } | Origin::Plugin(_) => None,
    });
    let folders = names("architectures").into_iter().filter(|name| name != "all");
    assert_eq!(by.collect::<BTreeSet<_>>(), folders.map(|name| format!("menagerie-{name}")).collect());
}

/// What a form is made over is built in, and says in which order adapters' layers are numbered.
#[test]
fn every_recipe_of_the_crates_is_a_form_of_an_architecture() {
    let environment = Environment::linked().unwrap();
    let files = names("architectures/xlora/recipes");
    let ids: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".recipe.toml")).collect();
    assert_eq!(ids, environment.recipes().iter().map(|entry| entry.id.as_str()).collect());
    for entry in environment.recipes() {
        let recipe = entry.recipe().unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(recipe.id, entry.id);
        let RecipeBase::Architecture(architecture) = &recipe.base else { panic!("{} is a model", entry.id) };
        let spec = environment.architecture(architecture).unwrap().spec().clone().unwrap();
        assert!(spec.document().pointer("/adapter/order").is_some(), "{architecture} has no [adapter] order");
    }
}
