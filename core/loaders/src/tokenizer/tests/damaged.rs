//! Files with wrong bytes: an error or a tokenizer, never a panic.

use gguf_file::{GgufFile, OwnedValue};
use proptest::prelude::*;

use super::gguf::Keys;
use crate::{Special, Tokenizer, TokenizerOptions};

fn files() -> [Vec<u8>; 5] {
    let tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", "\u{2581}", "<0x0A>", "Ġ", "é"];
    let base =
        Keys::default().strings("tokenizer.ggml.tokens", &tokens).types(&[2, 3, 3, 1, 1, 1, 1, 6, 4, 5]);
    let spm = base.clone().text("tokenizer.ggml.model", "llama").scores(&[0.5; 10]);
    let bpe = base.clone().text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "llama-bpe");
    let model = |name: &str| base.clone().text("tokenizer.ggml.model", name);
    let small = |keys: Keys| {
        keys.with("tokenizer.ggml.unknown_token_id", OwnedValue::U32(0))
            .with("tokenizer.ggml.seperator_token_id", OwnedValue::U32(2))
            .with("tokenizer.ggml.bos_token_id", OwnedValue::U32(1))
    };
    // A trie of three nodes that replaces `a` by `b`.
    let map: Vec<u8> = [256u32 << 10, 0, 0].into_iter().flat_map(u32::to_le_bytes).chain(*b"b\0").collect();
    let map = (map.len() as u32 - 2).to_le_bytes().into_iter().chain(map).collect::<Vec<u8>>();
    let unigram =
        small(model("t5").scores(&[-0.5; 10])).with("tokenizer.ggml.precompiled_charsmap", map.into());
    [
        spm.bytes(),
        bpe.strings("tokenizer.ggml.merges", &["a b"]).bytes(),
        small(model("bert")).bytes(),
        unigram.bytes(),
        model("rwkv").bytes(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_panic(which in 0..5usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = files()[which].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let Ok(file) = GgufFile::from_bytes("damaged", bytes) else {
            return Ok(());
        };
        let Ok(tokenizer) = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions { pre: Some("gpt-2"), tables: None }) else {
            return Ok(());
        };
        for special in [Special::Parse, Special::Plain] {
            if let Ok(ids) = tokenizer.encode("ab <s>a\né", special) {
                prop_assert!(tokenizer.decode(&tokenizer.frame(ids), true).is_ok());
            }
        }
    }
}
