//! Whole vocabularies of released models, which llama.cpp's source has (models/ggml-vocab-*.gguf) and we do not.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;

use gguf_file::{GgufFile, OpenOptions};
use menagerie_loaders::{Special, Tokenizer, TokenizerOptions};

/// Run with `LLAMA_CPP=<source folder> cargo test -p menagerie-loaders --test vocabularies -- --ignored`.
#[test]
#[ignore = "needs llama.cpp's source folder in LLAMA_CPP"]
fn ids_are_those_of_released_tokenizers() {
    let folder = PathBuf::from(std::env::var_os("LLAMA_CPP").unwrap()).join("models");
    let mut checked = 0;
    let (mut wrong, mut unread) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (Ok(texts), Ok(ids)) = (
            std::fs::read_to_string(path.with_added_extension("inp")),
            std::fs::read_to_string(path.with_added_extension("out")),
        ) else {
            continue;
        };
        let file = GgufFile::open(&path, &OpenOptions::default()).unwrap();
        let tokenizer = match Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()) {
            Ok(tokenizer) => tokenizer,
            Err(error) => {
                unread.push(format!("{name}: {error}"));
                continue;
            }
        };
        let texts = texts.trim_end_matches("\n__ggml_vocab_test__\n").split("\n__ggml_vocab_test__\n");
        for (text, ids) in texts.zip(ids.lines()) {
            let expected: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.encode(text, Special::Plain);
            if got.as_ref().ok() != Some(&expected) {
                wrong.push(format!("{name} {text:?}\n  expected {expected:?}\n  got      {got:?}"));
            }
            checked += 1;
        }
    }
    println!("{checked} texts");
    assert_eq!(unread, Vec::<String>::new());
    assert!(checked > 500 && wrong.is_empty(), "{} of {checked} differ\n{}", wrong.len(), wrong.join("\n"));
}
