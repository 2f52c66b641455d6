//! The files under `specs/` that are made from the tables. To make them anew after a change:
//! `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-spec generated`.

use crate::model::root;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{json_schema, reference_page};

fn same(name: &str, made: &str) {
    let path = root().join("specs").join(name);
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let line = stored.lines().zip(made.lines()).position(|(a, b)| a != b);
    assert!(
        stored == made,
        "specs/{name} differs from the tables at line {:?}; make it anew: \
         MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-spec generated",
        line.map(|line| line + 1)
    );
}

#[test]
fn the_schema_is_that_of_the_tables() {
    let schema = serde_json::to_string_pretty(&json_schema(&Kinds::built_in())).unwrap();
    same("schema.json", &format!("{schema}\n"));
}

#[test]
fn the_reference_page_is_that_of_the_tables() {
    same("reference.md", &reference_page(&Kinds::built_in()));
}
