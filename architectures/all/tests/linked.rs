//! Everything under `specs/` and `architectures/` is linked in, once, as it is written.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_all as _;
use menagerie_registry::{Origin, Registry};
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
    let registry = Registry::built_in().unwrap();
    let mut files = names("specs");
    assert!(files.remove("models.toml"), "the catalogue of models lies beside the specs");
    let specs: BTreeSet<&str> = files.iter().filter_map(|name| name.strip_suffix(".toml")).collect();
    assert_eq!(specs, registry.entries().iter().map(|entry| entry.id.as_str()).collect());
    for entry in registry.entries() {
        let file = root().join(format!("specs/{}.toml", entry.id));
        assert_eq!(entry.text(), std::fs::read_to_string(file).unwrap(), "{}", entry.id);
        entry.spec().as_ref().unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_crate_of_the_folder_registers_something() {
    let registry = Registry::built_in().unwrap();
    let by = registry.entries().iter().filter_map(|entry| match &entry.origin {
        Origin::BuiltIn(by) => Some((*by).to_owned()),
        Origin::File { .. } => None,
    });
    let folders = names("architectures").into_iter().filter(|name| name != "all");
    assert_eq!(by.collect::<BTreeSet<_>>(), folders.map(|name| format!("menagerie-{name}")).collect());
}
