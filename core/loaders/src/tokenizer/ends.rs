//! Which tokens end a generation (llama-vocab.cpp, `special_eog_ids`).

use std::collections::BTreeSet;

use gguf_file::Metadata;

use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;

/// Texts that end a generation wherever a vocabulary has them.
const END_TEXTS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Fill-in-the-middle tokens that end a generation: keys, and texts where the key is absent (the first that is there).
const FIM: [(&str, &[&str]); 3] = [
    (keys::FIM_PAD, &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (keys::FIM_REP, &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    (keys::FIM_SEP, &["<|file_sep|>"]),
];

/// Fill-in-the-middle tokens that do not end a generation, but steer the model.
const STEERING_TEXTS: [&str; 24] = [
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];

/// All end-of-generation ids, sorted. Tokens that end a generation or steer the model by their text become control
/// tokens, whatever the file calls them.
pub(crate) fn find(
    metadata: &Metadata,
    vocabulary: &mut Vocabulary,
    eos: Option<u32>,
) -> Result<BTreeSet<u32>, TokenizerError> {
    let size = vocabulary.len();
    let mut ends: BTreeSet<u32> = eos.into_iter().collect();
    for key in [keys::EOT, keys::EOM] {
        ends.extend(keys::token_id(metadata, key, size)?);
    }
    for (key, texts) in FIM {
        let by_key = keys::token_id(metadata, key, size)?;
        let id = by_key.or_else(|| texts.iter().find_map(|text| vocabulary.id(text)));
        ends.extend(id);
        if by_key.is_none()
            && let Some(id) = id
        {
            vocabulary.set_kind(id, TokenKind::Control);
        }
    }
    for text in END_TEXTS {
        if let Some(id) = vocabulary.id(text) {
            ends.insert(id);
            vocabulary.set_kind(id, TokenKind::Control);
        }
    }
    for id in STEERING_TEXTS.iter().filter_map(|text| vocabulary.id(text)).collect::<Vec<_>>() {
        vocabulary.set_kind(id, TokenKind::Control);
    }
    take_back(vocabulary, &mut ends);
    Ok(ends)
}

/// Two texts that mean something else beside certain others: `<|end|>` closes a message, not the turn, where there are
/// `<|return|>` and `<|call|>` (gpt-oss) or `<|flush|>` (Solar); `</s>` is text in Gemma 4 and PLaMo.
fn take_back(vocabulary: &mut Vocabulary, ends: &mut BTreeSet<u32>) {
    let end = |text: &str| vocabulary.id(text).filter(|id| ends.contains(id));
    let calls = end("<|call|>").is_some() || end("<|calls|>").is_some();
    let closes = calls && (end("<|return|>").is_some() || end("<|flush|>").is_some());
    let message_end = end("<|end|>").filter(|_| closes);
    let text_end =
        end("</s>").filter(|_| end("<|tool_response>").is_some() || end("<|plamo:eos|>").is_some());
    if let Some(id) = message_end {
        ends.remove(&id);
    }
    if let Some(id) = text_end {
        ends.remove(&id);
        vocabulary.set_kind(id, TokenKind::Normal);
    }
}
