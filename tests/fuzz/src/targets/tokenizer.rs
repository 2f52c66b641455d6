//! Folders with a `tokenizer.json`, and a `tokenizer_config.json` behind a zero byte in the input.

use super::file;
use crate::Target;
use menagerie_loaders::{HfTexts, Segment, Special, TokenizerOptions, TokenizerTables};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

pub(super) const TARGET: Target = Target {
    name: "tokenizer",
    run,
    seeds,
    words: &[
        "\"type\":",
        "\"BPE\"",
        "\"Unigram\"",
        "\"WordPiece\"",
        "\"WordLevel\"",
        "\"Sequence\"",
        "\"Split\"",
        "\"Regex\"",
        "\"ByteLevel\"",
        "\"Metaspace\"",
        "\"Digits\"",
        "\"Replace\"",
        "\"NFC\"",
        "\"NFKD\"",
        "\"Lowercase\"",
        "\"Precompiled\"",
        "\"TemplateProcessing\"",
        "\"ByteFallback\"",
        "\"added_tokens\"",
        "\"merges\"",
        "\"vocab\"",
        "\"byte_fallback\"",
        "\"unk_token\"",
        "\"ignore_merges\"",
        "\"special\"",
        "\"(a+)+$\"",
        "\"\\\\w{100}\"",
        "(?<=",
    ],
};

/// Texts that tokenizers cut in different ways.
const TEXTS: [&str; 3] = ["Hello  world 123\r\n", "é́ﬁ 東京 <s>a</s>", "    x_y.z"];

fn run(input: &[u8]) -> bool {
    static TABLES: OnceLock<Option<Arc<TokenizerTables>>> = OnceLock::new();
    let Some(tables) = TABLES.get_or_init(|| TokenizerTables::built_in().ok()) else { return false };
    let mut files = input.splitn(2, |byte| *byte == 0);
    let (text, config) = (files.next().unwrap_or_default(), files.next());
    let Ok(folder) = tempfile::tempdir() else { return false };
    let written = std::fs::write(folder.path().join("tokenizer.json"), text);
    let config =
        config.map_or(Ok(()), |text| std::fs::write(folder.path().join("tokenizer_config.json"), text));
    if written.and(config).is_err() {
        return false;
    }
    let Ok(texts) = HfTexts::open(folder.path()) else { return false };
    let options = TokenizerOptions::default().with_tables(Arc::clone(tables));
    let Ok(tokenizer) = texts.tokenizer(&options) else { return false };
    for text in TEXTS {
        let Ok(ids) = tokenizer.encode(text, Special::Parse) else { continue };
        assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()), "an id past the vocabulary");
        drop((tokenizer.decode(&ids, true), tokenizer.frame(ids)));
        let segments = [true, false].map(|trusted| Segment { text: text.to_owned(), trusted });
        drop(tokenizer.encode_segments(&segments));
    }
    for id in 0..(tokenizer.vocab_size() as u32).min(300) {
        drop((tokenizer.token_bytes(id), tokenizer.token_piece(id)));
    }
    true
}

/// Small tokenizers of each model.
fn seeds() -> Vec<Vec<u8>> {
    let added = json!([{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    let whole = |model: Value, normalizer: Value, cut: Value, decoder: Value| {
        json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": cut, "post_processor": null, "decoder": decoder, "model": model})
        .to_string()
        .into_bytes()
    };
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let split = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\d"}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
    let pairs = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
        "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "l": 5, "o": 6, "lo": 7}, "merges": [["a", "b"], ["l", "o"]]});
    let unigram = json!({"type": "Unigram", "unk_id": 1, "byte_fallback": false,
        "vocab": [["<s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["▁a", -1.5], ["b", -3.0]]});
    let spaces = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let words = json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": {"<s>": 0, "[UNK]": 1, "hello": 2, "##s": 3}});
    let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true});
    let sequence = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace",
        "pattern": {"String": " "}, "content": "▁"}]});
    let mut seeds = vec![
        whole(pairs.clone(), Value::Null, bytes.clone(), bytes.clone()),
        whole(pairs, json!({"type": "NFC"}), split, bytes),
        whole(unigram, sequence, Value::Null, spaces.clone()),
        whole(
            words,
            bert,
            json!({"type": "BertPreTokenizer"}),
            json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ),
    ];
    for name in ["glm", "llama3", "wordpiece"] {
        let files = ["tokenizer.json", "tokenizer_config.json"]
            .map(|kind| file(&format!("tests/fixtures/tok/{name}/{kind}")));
        seeds.push(files.join(&0));
    }
    seeds
}
