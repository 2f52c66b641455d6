//! BERT's tokenizer: normalizes text, splits it into words, and covers each word from the left with the longest
//! tokens (WordPiece; tokenization_bert.py of transformers, `BertNormalizer` and `WordPiece` of the tokenizers
//! crate).
//!
//! The file spells tokens that begin a word with U+2581, and tokens that continue one without `##`.

use unicode_normalization::UnicodeNormalization;

use super::budget::Budget;
use super::char_class::CharClass;
use super::error::TokenizerError;
use super::kind::TokenKind;
use super::prefixes::Prefixes;
use super::spm::SPACE;
use super::vocabulary::Vocabulary;

/// A word with more characters becomes the unknown token.
const LONGEST_WORD: usize = 100;

/// The treatment of letter case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterCase {
    /// Unchanged.
    Kept,
    /// Lower-cased.
    Lowered,
}

/// The treatment of accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accents {
    /// Unchanged.
    Kept,
    /// Characters are decomposed (NFD) and marks removed.
    Stripped,
}

/// The tokens and the normalization.
#[derive(Debug)]
pub(crate) struct WordPiece {
    tokens: Prefixes,
    unknown: u32,
    case: LetterCase,
    accents: Accents,
}

impl WordPiece {
    /// Uses the ordinary tokens; `unknown` replaces a word that they do not cover.
    pub(crate) fn new(vocabulary: &Vocabulary, unknown: u32, case: LetterCase, accents: Accents) -> Self {
        let normal = vocabulary.iter().filter(|(_, text, kind)| *kind == TokenKind::Normal && *text != SPACE);
        Self { tokens: Prefixes::new(normal.map(|(id, text, _)| (id, text))), unknown, case, accents }
    }

    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn encode(
        &self,
        text: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let text = self.normalized(text);
        let mut word = String::from(SPACE);
        for character in text.chars() {
            let alone = stands_alone(character);
            if alone || is_white(character) {
                self.finish(&mut word, budget, out)?;
            }
            if !is_white(character) {
                word.push(character);
            }
            if alone {
                self.finish(&mut word, budget, out)?;
            }
        }
        self.finish(&mut word, budget, out)
    }

    /// Appends the ids of a word, which begins with U+2581, and begins the next one.
    fn finish(&self, word: &mut String, budget: &Budget, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if word.len() > SPACE.len() {
            let start = out.len();
            let short = word.chars().count() <= LONGEST_WORD + 1;
            if !short || !self.cover(word.as_bytes(), budget, out)? {
                out.truncate(start);
                out.push(self.unknown);
            }
        }
        word.truncate(SPACE.len());
        Ok(())
    }

    /// Whether tokens cover the word.
    fn cover(&self, word: &[u8], budget: &Budget, out: &mut Vec<u32>) -> Result<bool, TokenizerError> {
        let mut rest = word;
        while !rest.is_empty() {
            let Some((length, id)) = self.tokens.longest(rest, budget)? else {
                return Ok(false);
            };
            out.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(true)
    }

    fn normalized(&self, text: &str) -> String {
        let clean = text.chars().filter(|character| !is_dropped(*character));
        let bare: String = match self.accents {
            Accents::Kept => clean.collect(),
            Accents::Stripped => clean.nfd().filter(|character| !CharClass::Mark.has(*character)).collect(),
        };
        match self.case {
            LetterCase::Kept => bare,
            LetterCase::Lowered => bare.chars().flat_map(char::to_lowercase).collect(),
        }
    }
}

/// Whether a character is not text: control characters and the replacement character.
fn is_dropped(character: char) -> bool {
    let white = matches!(character, '\t' | '\n' | '\r');
    matches!(character, '\0' | '\u{FFFD}') || (!white && CharClass::Other.has(character))
}

fn is_white(character: char) -> bool {
    character.is_whitespace()
}

/// Whether a character is a word of its own: punctuation, ASCII symbols and Chinese characters.
fn stands_alone(character: char) -> bool {
    character.is_ascii_punctuation() || is_chinese(character) || CharClass::Punctuation.has(character)
}

/// CJK ideographs; the fifth range is that of the tokenizers crate, Unicode's begins at 2B820.
pub(crate) fn is_chinese(character: char) -> bool {
    matches!(
        u32::from(character),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x2_0000..=0x2_A6DF | 0x2_A700..=0x2_B73F | 0x2_B740..=0x2_B81F
            | 0x2_B920..=0x2_CEAF | 0xF900..=0xFAFF | 0x2_F800..=0x2_FA1F
    )
}
