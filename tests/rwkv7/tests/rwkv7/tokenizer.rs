//! The plugin's tokenizer gives the ids of the reference, as the built-in way of cutting does.

use crate::way::environment;
use gguf_file::{GgufFile, OpenOptions};
use menagerie::loaders::{CodecEntry, Special, Tokenizer, TokenizerOptions, TokenizerTables};
use menagerie_conformance::fixtures;
use serde_json::Value;
use std::sync::Arc;

/// A longest match in Python gave the ids (`make_vocabularies.py`).
fn cases() -> Vec<(String, Vec<u32>)> {
    let text = std::fs::read_to_string(fixtures().join("tok/vocabularies.json")).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let texts: Vec<String> = serde_json::from_value(cases["texts"].clone()).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(cases["kinds"]["longest"]["ids"].clone()).unwrap();
    assert!(texts.len() > 20 && texts.len() == ids.len());
    texts.into_iter().zip(ids).collect()
}

/// The tokenizer of a vocabulary of RWKV's kind, with what a table says of the kind.
fn tokenizer(table: Option<&str>) -> Tokenizer {
    let mut tables = TokenizerTables::clone(&*TokenizerTables::built_in().unwrap());
    environment().all::<CodecEntry>().iter().for_each(|codec| tables.register(Arc::clone(&codec.0)));
    if let Some(table) = table {
        tables.add("mine.toml", table, true).unwrap();
    }
    let file = fixtures().join("tok/longest/vocab.gguf");
    let file = GgufFile::open(&file, &OpenOptions::default()).unwrap();
    let options = TokenizerOptions::default().with_tables(Arc::new(tables));
    Tokenizer::from_gguf(file.metadata(), &options).unwrap()
}

#[test]
fn ids_are_those_of_the_reference_and_of_the_built_in_way() {
    let built_in = tokenizer(None);
    for id in ["menagerie/rwkv7", "menagerie/rwkv7-library"] {
        let table = format!("[[vocabulary]]\nname = \"rwkv\"\nalgorithm = \"{id}:world\"\n");
        let own = tokenizer(Some(&table));
        for (text, ids) in cases() {
            assert_eq!(own.encode(&text, Special::Plain).unwrap(), ids, "{id}: {text:?}");
            assert_eq!(built_in.encode(&text, Special::Plain).unwrap(), ids, "built in: {text:?}");
            assert_eq!(own.decode(&ids, false).unwrap(), text, "{id}");
        }
        let size = u32::try_from(own.vocab_size()).unwrap();
        for token in 0..size {
            assert_eq!(
                own.token_bytes(token).unwrap(),
                built_in.token_bytes(token).unwrap(),
                "{id}: {token}"
            );
        }
    }
}
