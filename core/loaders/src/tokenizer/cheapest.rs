//! The segmentation of a text into tokens with the smallest total cost, in integers; text without tokens becomes
//! bytes.
//!
//! PLaMo 2's tokenizer (tokenization_plamo.py; llama-vocab.cpp, `llm_tokenizer_plamo2`), which uses a table of
//! suffixes from the end of the text. Here every token at each character is looked up; the sums are the same.

use super::budget::Budget;
use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::prefixes::Prefixes;
use super::vocabulary::Vocabulary;

/// The cost of a character without a token.
const UNKNOWN: i64 = 10_000_000;
/// Tokens with this cost or more are never used.
const NEVER: i64 = 20_000_000;
/// Costs are scores times this, rounded.
const SCALE: f64 = 1e4;

/// Tokens with their costs, and the tokens of bytes.
#[derive(Debug)]
pub(crate) struct Cheapest {
    tokens: Prefixes,
    /// By id.
    costs: Vec<i64>,
    bytes: Vec<u32>,
}

/// The segmentation of the rest of the text from a byte on.
#[derive(Debug, Clone, Copy)]
struct Continuation {
    cost: i64,
    length: usize,
    /// Absent: the bytes of the character.
    id: Option<u32>,
}

impl Cheapest {
    /// Uses ordinary and user-defined tokens.
    ///
    /// # Errors
    /// A byte without a token.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let byte = |byte: u8| {
            vocabulary.id(&format!("<0x{byte:02X}>")).ok_or_else(|| TokenizerError::BadKey {
                key: keys::TOKENS.to_owned(),
                problem: format!("no token `<0x{byte:02X}>`, which text without a token of its own needs"),
            })
        };
        let bytes = (0..=u8::MAX).map(byte).collect::<Result<_, _>>()?;
        let cost = |id: u32| {
            let score = f64::from(vocabulary.score(id)) * SCALE;
            if score.is_finite() { (-score.round()) as i64 } else { NEVER }
        };
        let costs: Vec<i64> = vocabulary.iter().map(|(id, _, _)| cost(id)).collect();
        let cheap = |id: u32| costs.get(id as usize).is_some_and(|cost| *cost < NEVER);
        let text = |kind| matches!(kind, TokenKind::Normal | TokenKind::UserDefined);
        let used = vocabulary.iter().filter(|(id, _, kind)| text(*kind) && cheap(*id));
        let tokens = Prefixes::new(used.map(|(id, text, _)| (id, text)));
        Ok(Self { tokens, costs, bytes })
    }

    /// Appends the ids of a text without special tokens; a byte-order mark at its start is removed.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn encode(
        &self,
        text: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let ways = self.ways(text, budget)?;
        let mut at = 0;
        while let Some(way) = ways.get(at).filter(|way| way.length > 0) {
            match way.id {
                Some(id) => out.push(id),
                None => {
                    let bytes = text.as_bytes().get(at..at + way.length).unwrap_or_default();
                    out.extend(bytes.iter().filter_map(|byte| self.bytes.get(usize::from(*byte))));
                }
            }
            at += way.length;
        }
        Ok(())
    }

    /// For the first byte of each character the cheapest segmentation from there, found from the end; ties go to the
    /// longest first token.
    fn ways(&self, text: &str, budget: &Budget) -> Result<Vec<Continuation>, TokenizerError> {
        let none = Continuation { cost: 0, length: 0, id: None };
        let mut ways = vec![none; text.len() + 1];
        for (at, character) in text.char_indices().rev() {
            let mut best: Option<Continuation> = None;
            let cost_after = |length: usize| ways.get(at + length).map_or(0, |way| way.cost);
            self.tokens.of(text.as_bytes().get(at..).unwrap_or_default(), budget, |length, id| {
                let own = self.costs.get(id as usize).copied().unwrap_or(NEVER);
                let cost = cost_after(length).saturating_add(own);
                if best.is_none_or(|best| cost <= best.cost) {
                    best = Some(Continuation { cost, length, id: Some(id) });
                }
            })?;
            let length = character.len_utf8();
            let cost = cost_after(length).saturating_add(UNKNOWN);
            let bytes = Continuation { cost, length, id: None };
            let best = best.filter(|best| best.cost <= cost).unwrap_or(bytes);
            if let Some(way) = ways.get_mut(at) {
                *way = best;
            }
        }
        Ok(ways)
    }
}
