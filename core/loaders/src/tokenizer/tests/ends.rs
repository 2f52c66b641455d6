//! Which tokens end a generation.

use gguf_file::OwnedValue;

use super::gguf::Keys;
use crate::Special;
use crate::tokenizer::{InfillPart, TokenKind};

/// A vocabulary with these tokens, all normal or user-defined.
fn vocabulary(tokens: &[&str], kind: i32) -> Keys {
    Keys::default()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", tokens)
        .strings::<&str>("tokenizer.ggml.merges", &[])
        .types(&vec![kind; tokens.len()])
}

#[test]
fn keys_and_texts_both_count() {
    let tokens = ["a", "x", "y", "z", "<|im_end|>", "<|fim_pad|>", "<|file_sep|>", "<|fim_prefix|>", "</s>"];
    let keys = vocabulary(&tokens, 4)
        .with("tokenizer.ggml.eos_token_id", OwnedValue::U32(1))
        .with("tokenizer.ggml.eot_token_id", OwnedValue::U32(2))
        .with("tokenizer.ggml.eom_token_id", OwnedValue::I32(3));
    let tokenizer = keys.build(None).unwrap();
    assert_eq!(tokenizer.end_of_generation(), [1, 2, 3, 4, 5, 6, 8]);
    assert_eq!((tokenizer.eos(), tokenizer.bos()), (Some(1), None));
    // What looks like a control token is one, whatever the file says.
    assert_eq!(tokenizer.token_kind(7).unwrap(), TokenKind::Control);
    assert_eq!(tokenizer.token_kind(8).unwrap(), TokenKind::Control);
    assert!(tokenizer.encode("</s>", Special::Plain).is_err(), "no token for its letters");
    let list =
        keys.clone().with("tokenizer.ggml.eos_token_ids", vec![0i32, 2, 99].into()).build(None).unwrap();
    assert_eq!(list.end_of_generation(), [0, 1, 2, 3, 4, 5, 6, 8]);
    // An id past the vocabulary counts for nothing.
    let past = keys.with("tokenizer.ggml.eos_token_id", OwnedValue::U32(99)).build(None).unwrap();
    assert_eq!(past.eos(), None);
}

#[test]
fn a_message_end_does_not_end_the_turn_of_gpt_oss() {
    let gpt_oss = vocabulary(&["a", "<|end|>", "<|return|>", "<|call|>"], 3).build(None).unwrap();
    assert_eq!(gpt_oss.end_of_generation(), [2, 3]);
    let phi = vocabulary(&["a", "<|end|>", "<|return|>"], 3).build(None).unwrap();
    assert_eq!(phi.end_of_generation(), [1, 2]);
}

#[test]
fn an_end_is_text_in_gemma_4() {
    let gemma = vocabulary(&["a", "</s>", "<turn|>", "<|tool_response>"], 3).build(None).unwrap();
    assert_eq!(gemma.end_of_generation(), [2, 3]);
    assert_eq!(gemma.token_kind(1).unwrap(), TokenKind::Normal);
}

/// A key comes before the texts, and what has the text of a part is a control token.
#[test]
fn parts_of_a_text_with_a_gap_have_tokens() {
    let tokens = ["a", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "x"];
    let keys = vocabulary(&tokens, 1).with("tokenizer.ggml.fim_mid_token_id", OwnedValue::U32(4));
    let tokenizer = keys.build(None).unwrap();
    let parts = [InfillPart::Prefix, InfillPart::Suffix, InfillPart::Middle, InfillPart::File];
    assert_eq!(parts.map(|part| tokenizer.infill_token(part)), [Some(1), Some(2), Some(4), None]);
    assert_eq!(tokenizer.token_kind(1).unwrap(), TokenKind::Control);
}
