//! [`Ranked`]: a byte-level vocabulary with ranks, converted to the equivalent `tokenizer.json` (tiktoken,
//! `_byte_pair_merge`; mistral-common, `tokens/tokenizers/tekken.py`).

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::byte_letters;
use super::super::error::TokenizerError;
use super::file::{AddedToken, File, ModelTable};
use super::lists::{MergeList, TokenList};
use super::part::bad;

/// The parts of a byte-level vocabulary.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    /// Tokens in the order of their ranks.
    pub(crate) tokens: Vec<Vec<u8>>,
    /// The id of the first of them.
    pub(crate) first: u64,
    /// Special tokens with their ids.
    pub(crate) specials: Vec<(u64, String)>,
    /// Regexes that split a text one after the other.
    pub(crate) regexes: Vec<String>,
    /// Special tokens that are added before each text.
    pub(crate) opening: Vec<String>,
    /// Whether text is normalized to NFC first.
    pub(crate) composed: bool,
}

impl Ranked {
    /// The stages of a `tokenizer.json`.
    ///
    /// # Errors
    /// A byte without a token, duplicate bytes, or an opening that is not a token.
    pub(crate) fn into_file(self) -> Result<File, TokenizerError> {
        let mut ranks: HashMap<&[u8], usize> = HashMap::with_capacity(self.tokens.len());
        for (rank, token) in self.tokens.iter().enumerate() {
            if let Some(first) = ranks.insert(token, rank) {
                return Err(bad("vocab", format!("the ranks {rank} and {first} have the same bytes")));
            }
        }
        if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key([*byte].as_slice())) {
            return Err(bad("vocab", format!("the byte 0x{byte:02X} has no token")));
        }
        let letters = |bytes: &[u8]| bytes.iter().map(|byte| byte_letters::letter(*byte)).collect::<String>();
        let merges = self.tokens.iter().enumerate().filter_map(|(rank, token)| {
            let [left, right] = parts(token, rank, &ranks)?;
            Some([letters(left), letters(right)])
        });
        let texts: Vec<String> = self.tokens.iter().map(|token| letters(token)).collect();
        let added = self.specials.iter().map(|(id, text)| AddedToken {
            id: *id,
            content: text.clone(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        });
        let cuts: Vec<Value> = (self.regexes.iter())
            .map(|regex| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}))
            .chain([json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})])
            .collect();
        Ok(File {
            added_tokens: added.collect(),
            normalizer: if self.composed { json!({"type": "NFC"}) } else { Value::Null },
            pre_tokenizer: json!({"type": "Sequence", "pretokenizers": cuts}),
            post_processor: self.template()?,
            decoder: json!({"type": "ByteLevel"}),
            model: ModelTable {
                kind: Some("BPE".to_owned()),
                merges: Some(MergeList::of(merges)),
                // A piece that is a token becomes that token, whether merges lead to it or not.
                ignore_merges: Some(true),
                vocab: TokenList::of(self.first, texts.iter().map(String::as_str)),
                ..ModelTable::default()
            },
            ..File::default()
        })
    }

    /// The tokens that are added before each text.
    fn template(&self) -> Result<Value, TokenizerError> {
        if self.opening.is_empty() {
            return Ok(Value::Null);
        }
        let mut ids = serde_json::Map::new();
        for text in &self.opening {
            let known = self.specials.iter().find(|(_, special)| special == text);
            let (id, _) = known.ok_or_else(|| {
                bad(
                    "special_tokens",
                    format!("missing token {text:?}, which this vocabulary adds before each text"),
                )
            })?;
            ids.insert(text.clone(), json!({"id": text, "ids": [id], "tokens": [text]}));
        }
        let opening = self.opening.iter().map(|text| json!({"SpecialToken": {"id": text, "type_id": 0}}));
        let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
        let single: Vec<Value> = opening.chain([text("A")]).collect();
        let pair: Vec<Value> = single.iter().cloned().chain([text("B")]).collect();
        Ok(json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": ids}))
    }
}

/// The two tokens that merging a token's bytes stops at before the token itself; `None` if it stops at more, or the
/// token is a byte. Merging always joins the two neighbors whose bytes have the lowest rank, so in every text the
/// token is made from these two.
fn parts<'t>(token: &'t [u8], rank: usize, ranks: &HashMap<&[u8], usize>) -> Option<[&'t [u8]; 2]> {
    let mut borders: Vec<usize> = (0..=token.len()).collect();
    while borders.len() > 3 {
        let merged = borders.windows(3).enumerate().filter_map(|(at, ends)| {
            let [start, _, end] = ends else { return None };
            let rank = ranks.get(token.get(*start..*end)?).filter(|found| **found < rank)?;
            Some((*rank, at + 1))
        });
        let (_, at) = merged.min()?;
        borders.remove(at);
    }
    match borders.as_slice() {
        [start, middle, end] => Some([token.get(*start..*middle)?, token.get(*middle..*end)?]),
        _ => None,
    }
}
