//! Text of ids that come one at a time.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::gguf::{Keys, fixture_tokenizer};
use crate::tokenizer::decoder::TextDecoderOptions;
use crate::{Special, TextDecoder, Tokenizer};

fn stream(tokenizer: &Tokenizer, ids: &[u32], options: TextDecoderOptions) -> Vec<String> {
    let mut decoder = TextDecoder::with_options(tokenizer, options);
    let mut parts: Vec<String> = ids.iter().map(|id| decoder.push(*id).unwrap()).collect();
    parts.push(decoder.flush());
    parts
}

const START: TextDecoderOptions = TextDecoderOptions { show_special: false, at_start: true };

#[test]
fn incomplete_characters_are_held_back() {
    let tokenizer = fixture_tokenizer("base/phi2");
    let ids = tokenizer.encode("🦙é", Special::Plain).unwrap();
    let parts = stream(&tokenizer, &ids, START);
    assert_eq!(parts.concat(), "🦙é");
    assert!(parts.iter().all(|part| !part.contains('\u{FFFD}')));
    // Cut inside the animal: nothing until the end, then one replacement character.
    let cut = stream(&tokenizer, &ids[..2], START);
    assert_eq!(cut, ["", "", "\u{FFFD}"]);
}

#[test]
fn bytes_that_are_no_character_are_replaced_at_once() {
    let tokenizer = Keys::default()
        .text("tokenizer.ggml.model", "llama")
        .strings(
            "tokenizer.ggml.tokens",
            &["<unk>", "<s>", "</s>", "a", "<0xE2>", "<0x96>", "<0x81>", "<0xFF>"],
        )
        .scores(&[0.0; 8])
        .types(&[2, 3, 3, 1, 6, 6, 6, 6])
        .build(None)
        .unwrap();
    let parts = stream(&tokenizer, &[4, 5, 6, 4, 3, 7, 4, 5], TextDecoderOptions::default());
    // What String::from_utf8_lossy makes of E2 96 81 E2 61 FF E2 96.
    assert_eq!(parts, ["", "", "\u{2581}", "", "\u{FFFD}a", "\u{FFFD}", "", "", "\u{FFFD}"]);
}

#[test]
fn the_first_space_goes_only_at_a_start() {
    let tokenizer = fixture_tokenizer("base/mixtral");
    let ids = tokenizer.encode("The License", Special::Plain).unwrap();
    assert_eq!(stream(&tokenizer, &ids, START).concat(), "The License");
    assert_eq!(stream(&tokenizer, &ids, TextDecoderOptions::default()).concat(), " The License");
    let framed = tokenizer.frame(ids);
    assert_eq!(stream(&tokenizer, &framed, START).concat(), "The License");
    let shown = TextDecoderOptions { show_special: true, at_start: true };
    assert_eq!(stream(&tokenizer, &framed, shown).concat(), "<s>The License");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn byte_level_text_comes_back(text in "\\PC{0,40}|[ \\t\\r\\n a-z0-9'.,<|>_]{0,60}|(\\s|\\p{L}|🦙|e\u{301}){0,30}") {
        static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
            ["base/llama", "base/phi2", "base/qwen2", "base/starcoder2"].map(fixture_tokenizer).into()
        });
        for tokenizer in TOKENIZERS.iter() {
            let ids = tokenizer.encode(&text, Special::Plain).unwrap();
            prop_assert_eq!(stream(tokenizer, &ids, START).concat(), text.clone());
        }
    }
}
