//! Registered tokenizers: cut and put together by somebody else's code, special tokens by the host.

use menagerie_entries::Entries;
use std::sync::Arc;

use gguf_file::OwnedValue;

use super::gguf::Keys;
use crate::Special;
use crate::tables::TokenizerTables;
use crate::tokenizer::{
    CodecEntry, CodecKind, CodecVocabulary, TextCodec, Tokenizer, TokenizerError, TokenizerOptions,
};

/// Every character is a token whose text is the character turned around a number of places in the alphabet.
struct Turned;

struct Turning {
    vocabulary: Arc<CodecVocabulary>,
    by: u32,
}

impl CodecKind for Turned {
    fn name(&self) -> &str {
        "test/codecs:turned"
    }

    fn registered_by(&self) -> &str {
        "these tests"
    }

    fn build(
        &self,
        vocabulary: Arc<CodecVocabulary>,
        options: &[(String, String)],
    ) -> Result<Box<dyn TextCodec>, String> {
        let [(key, by)] = options else { return Err("the option `by` is missing".to_owned()) };
        assert_eq!(key, "by");
        assert_eq!(
            (vocabulary.tokens[1].score, vocabulary.merges.as_slice()),
            (-2.5, &["a b".to_owned()][..])
        );
        Ok(Box::new(Turning { vocabulary, by: by.parse().map_err(|_| format!("by = {by}"))? }))
    }
}

impl TextCodec for Turning {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), String> {
        for character in text.chars() {
            let turned = char::from_u32(character as u32 + self.by).unwrap().to_string();
            let id = self.vocabulary.tokens.iter().position(|token| token.text == turned);
            match (id, character) {
                (Some(id), _) => out.push(id as u32),
                (None, '!') => out.push(99),
                (None, _) => return Err(format!("no token for {character:?}")),
            }
        }
        Ok(())
    }

    fn decode(&self, id: u32, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend(self.vocabulary.tokens[id as usize].text.bytes().map(|byte| byte - self.by as u8));
        Ok(())
    }
}

fn build(entry: &str, registered: bool) -> Result<Tokenizer, TokenizerError> {
    let mut tables = TokenizerTables::clone(&TokenizerTables::built_in().unwrap());
    if registered {
        tables.register(Arc::new(Turned));
    }
    let text =
        format!("[[vocabulary]]\nname = \"turned-vocab\"\nalgorithm = \"test/codecs:turned\"\n{entry}\n");
    tables.add("acme.toml", &text, false).unwrap();
    let keys = Keys::default()
        .text("tokenizer.ggml.model", "turned-vocab")
        .strings("tokenizer.ggml.tokens", &["b", "c", "d", "<|im_end|>"])
        .strings("tokenizer.ggml.merges", &["a b"])
        .scores(&[0.0, -2.5, 0.0, 0.0])
        .with("tokenizer.ggml.eos_token_id", OwnedValue::U32(3))
        .types(&[1, 1, 1, 3]);
    keys.with_options(&TokenizerOptions { pre: None, tables: Some(Arc::new(tables)) })
}

#[test]
fn ordinary_text_is_the_codecs_and_special_tokens_are_the_hosts() {
    let tokenizer = build("options = { by = 1 }", true).unwrap();
    assert_eq!(tokenizer.encode("cab<|im_end|>a", Special::Parse).unwrap(), [2, 0, 1, 3, 0]);
    assert_eq!(tokenizer.decode(&[2, 0, 1, 3, 0], true).unwrap(), "cab<|im_end|>a");
    assert_eq!(tokenizer.decode(&[2, 0, 3], false).unwrap(), "ca");
    assert_eq!((tokenizer.eos(), tokenizer.end_of_generation()), (Some(3), &[3][..]));
    let error = tokenizer.encode("a<|im_end|>", Special::Plain).unwrap_err().to_string();
    assert!(error.contains("`test/codecs:turned`: no token for '<'"), "{error}");
    // An id past the vocabulary is nothing that a model could be given.
    let error = tokenizer.encode("a!", Special::Parse).unwrap_err().to_string();
    assert!(error.contains("returned the token 99; the vocabulary has 4"), "{error}");
}

#[test]
fn a_codec_that_is_not_there_or_refuses_is_named() {
    let error = build("", false).unwrap_err().to_string();
    assert!(error.contains("`test/codecs:turned`") && error.contains("--plugin-dir"), "{error}");
    let error = build("", true).unwrap_err().to_string();
    assert!(error.contains("`test/codecs:turned`: the option `by` is missing"), "{error}");
    let error = build("options = { by = \"x\" }", true).unwrap_err().to_string();
    assert!(error.contains("by = x"), "{error}");
}

#[test]
fn two_tokenizers_of_one_name_are_refused() {
    struct Named(&'static str);
    impl CodecKind for Named {
        fn name(&self) -> &str {
            "test/codecs:twice"
        }

        fn registered_by(&self) -> &str {
            self.0
        }

        fn build(
            &self,
            _: Arc<CodecVocabulary>,
            _: &[(String, String)],
        ) -> Result<Box<dyn TextCodec>, String> {
            Err("none is made".to_owned())
        }
    }
    let mut entries = Entries::default();
    entries.add(CodecEntry(Arc::new(Named("the first")))).unwrap();
    let duplicate = entries.add(CodecEntry(Arc::new(Named("the second")))).unwrap_err().to_string();
    let expected = "tokenizer `test/codecs:twice` is registered twice, by the first and by the second;";
    assert!(duplicate.starts_with(expected), "{duplicate}");
    let own = entries.all::<CodecEntry>().iter().map(|codec| codec.0.registered_by());
    assert_eq!(own.collect::<Vec<_>>(), ["the first"]);
}
