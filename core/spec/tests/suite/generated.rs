//! The files under `specs/` that are made from the tables. To make them anew after a change:
//! `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-spec generated`.

use crate::model::{Fake, parse, root};
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

/// A spec with two faults, and without them a fault of the file.
const FAULTY: &str = "\
schema  = 1
extends = \"llama\"

[architecture]
id = \"my\"

[mixer]
window  = { kind = \"sliding\", size = \"attention.slidng_window\" }
qk_norm = { over = \"haed\", at = \"before-rope\" }
mask    = \"causl\"
";

/// The errors that the language page shows are those of the spec beside them.
#[test]
fn the_errors_of_the_language_page_are_generated() {
    let faults = parse(FAULTY).unwrap_err();
    let mended = FAULTY.replace("haed", "head").replace("causl", "causal");
    let refused = Fake::small(4).with("attention.sliding_window", 128i64).refused(&parse(&mended).unwrap());
    let made = format!(
        "```toml\n# my.toml\n{FAULTY}```\n\n```\n{faults}\n```\n\nWith these two corrected, a file reports:\n\n\
         ```\n{refused}\n```\n"
    );
    let path = root().join("specs/README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (open, close) = ("<!-- generated: errors -->\n", "<!-- end -->");
    let (before, rest) = page.split_once(open).unwrap();
    let (stored, after) = rest.split_once(close).unwrap();
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&path, format!("{before}{open}{made}{close}{after}")).unwrap();
        return;
    }
    assert_eq!(stored, made, "specs/README.md: make it anew with MENAGERIE_WRITE_GENERATED=1");
}
