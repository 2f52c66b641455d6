//! What the table of harmless keys says of a key is so: what is said to be read is read.

use crate::model::root;
use menagerie_spec::harmless::outside_prefix;
use std::path::Path;
use toml_span::Value;

/// The sources that read keys outside the architecture prefix, without their tests.
fn sources() -> String {
    let mut text = String::new();
    for folder in [
        "core/loaders/src",
        "core/engine/src",
        "core/open/src",
        "core/measure/src",
        "core/gguf/src",
        "core/assembly/src",
    ] {
        gather(&root().join(folder), &mut text);
    }
    for entry in std::fs::read_dir(root().join("specs/tokenizers")).unwrap() {
        text += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    text
}

fn gather(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let tests = path.file_stem().is_some_and(|stem| stem == "tests");
        match path.is_dir() {
            true if !tests => gather(&path, text),
            false if !tests && path.extension().is_some_and(|extension| extension == "rs") => {
                *text += &std::fs::read_to_string(&path).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn keys_that_are_said_to_be_read_are_read() {
    let table = std::fs::read_to_string(root().join("core/spec/src/language/harmless.toml")).unwrap();
    let table = toml_span::parse(&table).unwrap();
    let outside = table.pointer("/outside").and_then(Value::as_table).unwrap();
    let sources = sources();
    let mut unread = Vec::new();
    let mut read = 0;
    for (key, reason) in outside {
        let key = key.name.trim_end_matches(['*', '.']);
        if reason.as_str().unwrap().starts_with("read by") {
            read += 1;
            if !sources.contains(&format!("\"{key}")) {
                unread.push(key.to_owned());
            }
        }
    }
    assert!(read > 25 && unread.is_empty(), "{read} keys, of which nothing reads {unread:?}");
}

/// A key that is read and not on the list would make every file that has it fail.
#[test]
fn keys_that_are_read_are_on_the_list() {
    let sources = sources();
    let mut found = 0;
    for start in ["\"tokenizer.", "\"general."] {
        for (at, _) in sources.match_indices(start) {
            let key = sources[at + 1..].split('"').next().unwrap();
            let is_key = key.len() < 60 && key.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
            let is_file = matches!(key, "tokenizer.json" | "tokenizer.model");
            if is_key && !is_file && !key.ends_with('.') {
                found += 1;
                assert!(outside_prefix(key).is_some(), "{key}");
            }
        }
    }
    assert!(found > 40, "{found}");
}
